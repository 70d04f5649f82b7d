"""Where the command line writes: tables to standard output, everything else to standard error."""

from __future__ import annotations

from rich.console import Console

# No markup: names of features and files may hold brackets.
out, notes = Console(markup=False), Console(stderr=True, markup=False)
