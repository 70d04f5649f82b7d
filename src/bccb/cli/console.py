"""Where the command line writes: tables to standard output, everything else to standard error."""

from __future__ import annotations

from rich.console import Console

out, notes = Console(), Console(stderr=True)
