"""``python -m bccb`` is the command line."""

from bccb.cli import main

main()
