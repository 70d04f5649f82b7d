"""docs/cli.md says what ``--help`` says."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from bccb.cli import COMMANDS
from scripts.cli_reference import FILE, commands, help_of, reference


def test_the_reference_is_up_to_date() -> None:
    fresh = FILE.read_text(encoding="utf-8") == reference()
    assert fresh, "docs/cli.md is out of date: run python -m scripts.cli_reference"


def test_every_command_is_in_it() -> None:
    listed = list(commands())
    assert {words[0] for words in listed if words} == set(COMMANDS)
    assert {("data", "describe"), ("keys", "create"), ("ledger", "verify")} <= set(listed)


def test_a_flag_shows_no_type_and_an_option_does() -> None:
    for words in commands():
        assert "<bool>" not in help_of(words), words
    assert "--users                <int>" in help_of(("compare",))


def test_the_reference_fits_80_columns() -> None:
    assert max(map(len, reference().splitlines())) <= 100  # of prose, as in all documents
    assert all(len(line) <= 80 for words in commands() for line in help_of(words).splitlines())
