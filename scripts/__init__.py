"""Tools for maintainers, run with ``python -m``."""
