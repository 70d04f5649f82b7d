"""The fingerprint: what changes which part of it."""

from __future__ import annotations

import shutil
from importlib.metadata import version as installed
from pathlib import Path

import pytest

import bccb
from bccb import fingerprint as module
from bccb.fingerprint import BELONGS, LIBRARIES, PACKAGE, Part

KERNELS, CAMPAIGN, FIGURES = Part.KERNELS, Part.CAMPAIGN, Part.FIGURES


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package's sources that may be edited."""
    copy = tmp_path / "bccb"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def fingerprints(package: Path) -> dict[Part, str]:
    """Computed anew: in a process the sources never change."""
    module.fingerprint.cache_clear()
    return {part: module.fingerprint(part, package) for part in Part}


def changed(before: dict[Part, str], after: dict[Part, str]) -> set[Part]:
    return {part for part in Part if before[part] != after[part]}


@pytest.mark.parametrize(
    ("source", "parts"),
    [
        ("__init__.py", set(Part)),
        ("drivers.py", set(Part)),
        ("kernels/linalg.py", set(Part)),
        ("kernels/jit.py", set(Part)),
        ("estimators/two_model.py", set(Part)),
        ("explorers/beta_difference.py", set(Part)),
        ("pacers/pace_ratio.py", set(Part)),
        ("evaluate/replay.py", {KERNELS, FIGURES}),
        ("data/readers.py", {FIGURES}),
        ("data/criteo.json", {FIGURES}),
        ("experiments/plan.py", {FIGURES}),
        ("serve/campaign.py", {CAMPAIGN}),
        ("serve/standing.py", {CAMPAIGN}),
        ("serve/tally.py", {CAMPAIGN}),
        ("serve/terms.py", {CAMPAIGN}),
        ("ledger/event.py", {CAMPAIGN}),
        ("serve/routes.py", set()),
        ("ledger/sqlite/ledger.py", set()),
        ("explanation.py", set()),
        ("segments.py", set()),
        ("cli/console.py", set()),
        ("report/html.py", set()),
    ],
)
def test_one_byte_of_a_source_changes_the_parts_it_belongs_to(
    source: str, parts: set[Part], package: Path
) -> None:
    before = fingerprints(package)
    edited = package / source
    edited.write_bytes(edited.read_bytes() + b"\n")
    assert changed(before, fingerprints(package)) == parts


def test_a_new_folder_belongs_to_all_parts_until_the_table_says_otherwise(package: Path) -> None:
    before = fingerprints(package)
    (package / "new").mkdir()
    (package / "new" / "__init__.py").write_text("")
    assert changed(before, fingerprints(package)) == set(Part)


def test_new_and_renamed_sources_change_the_fingerprint(package: Path) -> None:
    first = fingerprints(package)
    (package / "pacers" / "new.py").write_text("")
    second = fingerprints(package)
    (package / "pacers" / "new.py").rename(package / "pacers" / "newer.py")
    third = fingerprints(package)
    assert changed(first, second) == changed(second, third) == set(Part)


def test_same_sources_in_another_place_have_the_same_fingerprint(package: Path) -> None:
    assert Path(bccb.__file__).parent == PACKAGE
    assert fingerprints(package) == fingerprints(PACKAGE)


@pytest.mark.parametrize("library", ["numba", "numpy", "scikit-learn", "scipy"])
def test_another_version_of_a_library_is_other_code(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = fingerprints(PACKAGE)

    def newer(name: str) -> str:
        return installed(name) + (".1" if name == library else "")

    with monkeypatch.context() as patch:
        patch.setattr(module, "version", newer)
        after = fingerprints(PACKAGE)
    module.fingerprint.cache_clear()
    assert changed(before, after) == {part for part in Part if library in LIBRARIES[part]}
    assert FIGURES in changed(before, after)


def test_the_table_names_what_is_there() -> None:
    assert [path for path in BELONGS if not (PACKAGE / path).exists()] == []
