"""Where the command line writes: tables to standard output, everything else to standard error;
and how its applications look.
"""

from __future__ import annotations

from typing import Any

from rich.console import Console

# No markup: names of features and files may hold brackets.
out, notes = Console(markup=False), Console(stderr=True, markup=False)

SETTINGS: dict[str, Any] = {
    "no_args_is_help": True,
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": "markdown",
    "context_settings": {"help_option_names": ["-h", "--help"]},
}
