"""Files appear whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from bccb import InputError
from bccb.files import written_whole


def test_a_file_takes_its_place_when_the_block_ends_well(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("old")
    with written_whole(target) as draft:
        draft.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


def test_an_error_leaves_the_old_file_and_no_draft(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("old")
    with pytest.raises(ZeroDivisionError), written_whole(target) as draft:
        draft.write_text("half")
        raise ZeroDivisionError
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "absent" / "file"
    with pytest.raises(InputError, match="a file that can be written"), written_whole(missing) as d:
        d.write_text("x")


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    link, target = tmp_path / "link", tmp_path / "target"
    target.write_text("old")
    link.symlink_to(target)
    with written_whole(link) as draft:
        draft.write_text("new")
    assert link.is_symlink()
    assert target.read_text() == "new"


@pytest.mark.parametrize("path", ["/dev/null", "/", "", ".", "\0"])
def test_what_is_not_a_file_is_left_alone(path: str) -> None:
    with pytest.raises(InputError, match="path is "), written_whole(path) as draft:
        draft.write_text("x")
