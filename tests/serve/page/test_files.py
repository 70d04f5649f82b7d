"""The files of the page."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "src" / "bccb" / "serve" / "page"


def test_the_page_has_nothing_inline_and_nothing_from_elsewhere() -> None:
    html = (PAGE / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=", html)
    for path in PAGE.glob("*.*"):
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "//" not in re.sub(r"^\s*//.*|\s// .*", "", text, flags=re.MULTILINE), path.name
    for address in re.findall(r'(?:src|href)="(/page/[^"]+)"', html):
        assert (PAGE / address.removeprefix("/page/")).is_file(), address


def test_the_page_writes_text_and_never_markup() -> None:
    for path in PAGE.glob("*.js"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write", text)


def test_what_others_wrote_has_its_licence_and_version() -> None:
    vendor = PAGE / "vendor"
    version = re.search(r"uPlot (\S+)", (vendor / "VERSION").read_text(encoding="utf-8"))
    assert version is not None
    assert f"(v{version[1]})" in (vendor / "uPlot.iife.min.js").read_text(encoding="utf-8")
    assert "MIT License" in (vendor / "LICENSE").read_text(encoding="utf-8")
