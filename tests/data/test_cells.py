"""Cells that are wrong are named by their column and row."""

from __future__ import annotations

from pathlib import Path

import pytest

from bccb.data import Columns, read_log
from bccb.errors import InputError

COLUMNS = Columns("arm", "none", "sale", cost="price")


def written(folder: Path, **changes: dict[int, str]) -> Path:
    """A file of 3,000 rows, some cells of which are changed; rows are counted from 1."""
    cells = {
        "age": [str(18 + i * 0.25) for i in range(3_000)],
        "arm": ["none", "mail"] * 1_500,
        "sale": ["0", "0", "1", "0", "1"] * 600,
        "price": ["0.5"] * 3_000,
    }
    for name, values in changes.items():
        for row, text in values.items():
            cells[name][row - 1] = text
    path = folder / "mine.csv"
    rows = zip(*cells.values(), strict=True)
    path.write_text("\n".join([",".join(cells), *(",".join(row) for row in rows)]))
    return path


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"age": {6: "old"}},
            "column 'age' in row 6 is 'old', but must be a number, as in all other rows: correct "
            "it, or remove the row",
        ),
        (
            {"age": {2_500: "old", 2_600: "young"}},
            "column 'age' in row 2,500 is 'old', but must be a number, as in most rows: correct "
            "the 2 rows with text, or remove them",
        ),
        ({"price": {7: "free"}}, "column 'price' in row 7 is 'free', but must be a number, as in"),
        ({"sale": {8: "maybe"}}, "column 'sale' in row 8 is 'maybe', but must be a number, as in"),
        ({"sale": {9: "2"}}, "outcome column 'sale' in row 9 is 2.0, but must be from 0 to 1"),
        ({"price": {10: "-1"}}, "cost column 'price' in row 10 is -1.0, but must be at least"),
    ],
)
def test_a_cell_that_does_not_fit_is_named(
    changes: dict[str, dict[int, str]], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        read_log(written(tmp_path, **changes), COLUMNS)


def test_a_third_text_among_outcomes_is_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("age,arm,sale\n" + "20,none,no\n30,mail,yes\n" * 4 + "25,mail,Perhaps\n")
    message = (
        "outcome column 'sale' in row 9 is 'Perhaps', but must be '(no|yes)' or '(no|yes)', as in "
        "the other rows, because an outcome has two values at most; or the column must hold "
        "numbers"
    )
    with pytest.raises(InputError, match=message):
        read_log(path, Columns("arm", "none", "sale", cost=1.0))


def test_rows_are_counted_among_those_that_are_used(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("age,arm,sale\n20,call,0\n30,none,1\n40,mail,0\n50,mail,7\n")
    columns = Columns("arm", "none", "sale", treatments=("mail",), cost=1.0)
    with pytest.raises(InputError, match="'sale' in row 3 of the 3 used is 7.0, but must be"):
        read_log(path, columns)


def test_words_stay_words(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("zone,arm,sale\n" + "1,none,0\n2,mail,1\nother,mail,0\n" * 3)
    log = read_log(path, Columns("arm", "none", "sale", cost=1.0))
    assert log.feature_names == ("zone=2", "zone=other")
