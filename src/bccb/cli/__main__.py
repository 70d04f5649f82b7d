"""``python -m bccb.cli``."""

from bccb.cli import main

main()
