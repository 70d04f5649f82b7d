"""Write docs/cli.md from the help of every command: ``python -m scripts.cli_reference``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command
from typer.testing import CliRunner

from bccb.cli import app

FILE = Path(__file__).parents[1] / "docs" / "cli.md"
COLUMNS = "80"
OPENING = """\
# The command line

What `--help` prints for every command. `python -m scripts.cli_reference` writes this file, and a
test fails when it is out of date.
"""


def commands(group: Any = None, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of every command, ``()`` for ``bccb`` itself, each group before its commands.

    >>> ("ledger", "verify") in commands()
    True
    """
    group = group or get_command(app)
    yield above
    for name in group.list_commands(None) if hasattr(group, "list_commands") else ():
        yield from commands(group.get_command(None, name), (*above, name))


def help_of(words: tuple[str, ...]) -> str:
    """What a command prints when asked for help in a terminal of 80 columns."""
    environment = {"COLUMNS": COLUMNS, "TERMINAL_WIDTH": COLUMNS, "NO_COLOR": "1"}
    result = CliRunner().invoke(app, [*words, "--help"], env=environment, prog_name="bccb")
    assert result.exit_code == 0, result.output
    plain = re.sub(r"\x1b\[[0-9;]*m", "", result.output)
    return "\n".join(line.rstrip() for line in plain.splitlines()).strip("\n")


def reference() -> str:
    """The whole document."""
    parts = [OPENING]
    for words in commands():
        title = " ".join(("bccb", *words))
        parts.append(
            f"\n{'##' if len(words) < 2 else '###'} {title}\n\n```\n{help_of(words)}\n```\n"
        )
    return "".join(parts)


if __name__ == "__main__":
    FILE.write_text(reference(), encoding="utf-8")
    print(f"wrote {FILE}")
