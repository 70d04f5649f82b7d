"""Documents, and sections of them, that a link or a message names: all of them exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("deploy/**/*.md")]
KINDS = ("py", "js", "html", "md", "sql", "toml", "yaml")  # of sources whose messages are read
SOURCES = [each for kind in KINDS for each in ROOT.glob(f"src/**/*.{kind}")]
LINK = re.compile(r"\]\(([^)\s#]*)(?:#([^)\s]+))?\)")  # [text](file#section) in a document
NAMED = re.compile(r"\b((?:docs/)?[\w/-]+\.md)(?:#([\w-]+))?")  # docs/file.md#section in a message
IN_WORDS = re.compile(r"\b[Ss]ee ([A-Z][\w ,]*?) in ((?:docs/)?[\w/-]+\.md)")


@cache
def sections(document: Path) -> set[str]:
    """The anchors of a document's headings, as they are made from their words."""
    text = re.sub(r"^```.*?^```", "", document.read_text(encoding="utf-8"), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.+?)\s*$", text, flags=re.M)
    return {anchor(heading) for heading in headings}


def anchor(heading: str) -> str:
    plain = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")


def fault(document: Path, section: str | None) -> str | None:
    """What is missing; None if nothing is."""
    if not document.exists():
        return f"there is no {document.name}"
    if section is not None and section not in sections(document):
        return f"{document.name} has no section {section}"
    return None


def linked(document: Path) -> Iterator[tuple[Path, str | None]]:
    """What the links of a document lead to, except to other places."""
    for name, section in LINK.findall(document.read_text(encoding="utf-8")):
        if "://" not in name and not name.startswith("mailto:"):
            yield (document.parent / name if name else document), section or None


def named(text: str) -> Iterator[tuple[Path, str | None]]:
    """What messages and comments of a source name."""
    for name, section in NAMED.findall(text):
        if name.startswith("docs/") or (ROOT / name).exists():
            yield ROOT / name, section or None
    for words, name in IN_WORDS.findall(text):
        yield ROOT / name, anchor(words)


def test_every_link_of_a_document_leads_somewhere() -> None:
    places = [(each.name, *place) for each in DOCUMENTS for place in linked(each)]
    assert len(places) > 20
    faults = [(name, said) for name, file, part in places if (said := fault(file, part))]
    assert not faults


def test_every_section_that_a_message_names_exists() -> None:
    places = [(each.name, *place) for each in SOURCES for place in named(each.read_text())]
    assert ("quarantine.py", ROOT / "docs" / "service.md", "quarantine") in places
    faults = [(name, said) for name, file, part in places if (said := fault(file, part))]
    assert not faults


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see docs/service.md#quarantine", None),
        ("(see Quarantine in docs/service.md)", None),
        ("see docs/service.md#what-holds-whatever-happens", None),
        ("see docs/service.md#isolation", "service.md has no section isolation"),
        ("see Isolation in docs/service.md", "service.md has no section isolation"),
        ("see docs/nothing.md", "there is no nothing.md"),
    ],
)
def test_what_is_missing_is_found(text: str, expected: str | None) -> None:
    said = [fault(*place) for place in named(text)]
    assert [each for each in said if each] == ([expected] if expected else [])
