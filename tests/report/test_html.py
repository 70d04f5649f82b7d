from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest

from bccb.errors import InputError
from bccb.report import html
from bccb.report.html import VERDICTS, Section, exact, number, probability

VOID = {"meta", "br", "hr", "img", "link", "input"}
ROWS: list[dict[str, Any]] = [
    {"budget": 1000.0, "policy": "bccb", "mean": 15.85, "deviation": 6.97, "p": None},
    {"budget": 1000.0, "policy": "treat-all", "mean": 26058.7, "deviation": 0.0773, "p": 1e-9},
]
PUBLISHED = [
    {"budget": "1000", "policy": "treat-all", "mean": "4.20", "deviation": "1.7"},
    {"budget": "8000", "policy": "unknown-here", "mean": "63.5", "deviation": "13.7"},
]
CLAIM = {
    "claim": "Best at every budget",
    "verdict": "holds",
    "section": "online",
    "found": "5 of 5",
}


class Reader(HTMLParser):
    """Checks that tags are balanced, and gathers the cells of tables and all attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.lines: list[list[str]] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.lines.append([])
        if tag in ("td", "th"):
            self.lines[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if {"td", "th"} & set(self.open):
            self.lines[-1][-1] += data


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert not reader.open
    return reader


def page_of(published: list[dict[str, str]] | None = None, **changed: Any) -> str:
    section = Section("online", "Online comparison", "Prose.", ROWS, published, "<svg></svg>")
    given: dict[str, Any] = {
        "title": "The paper, reproduced",
        "intro": ["What was run."],
        "claims": [CLAIM],
        "sections": [section],
    }
    return html.page(**{**given, **changed})


def test_every_value_of_a_table_is_in_the_page() -> None:
    lines = read(page_of()).lines
    assert ["budget", "policy", "mean ± deviation", "p"] in lines
    assert ["1,000", "bccb", "15.8 ± 6.97", "–"] in lines
    assert ["1,000", "treat-all", "26,059 ± 0.0773", "< 0.001"] in lines


def test_published_figures_stand_in_the_row_of_the_same_budget_and_policy() -> None:
    lines = read(page_of(PUBLISHED)).lines
    assert ["", "Ours", "Published"] in lines
    assert ["1,000", "bccb", "15.8 ± 6.97", "–", "–"] in lines
    assert ["1,000", "treat-all", "26,059 ± 0.0773", "< 0.001", "4.20 ± 1.7"] in lines


def test_a_published_row_without_a_counterpart_is_kept() -> None:
    assert ["8,000", "unknown-here", "–", "–", "63.5 ± 13.7"] in read(page_of(PUBLISHED)).lines


def test_without_published_rows_there_is_no_published_column() -> None:
    assert "Published" not in page_of()


def test_published_figures_keep_the_digits_they_were_printed_with() -> None:
    printed = [{"n": "500", "mean": "7.0", "difference": "-44.60", "p": ">0.999"}]
    section = Section("x", "X", "", [{"n": 500, "ratio": 1.5}], printed)
    assert ["500", "1.50", "7.0", "−44.60", ">0.999"] in read(page_of(sections=[section])).lines


def test_an_interval_is_one_column() -> None:
    section = Section("x", "X", "", [{"n": 500, "low": -49.4, "high": 9.05}])
    lines = read(page_of(sections=[section])).lines
    assert ["n", "low to high"] in lines
    assert ["500", "−49.4 to 9.05"] in lines


def test_rows_of_different_fields_share_a_table() -> None:
    section = Section("x", "X", "", [{"n": 1, "mean": 2.0}, {"n": 2, "ratio": 3.0}])
    assert ["2", "–", "3.00"] in read(page_of(sections=[section])).lines


def test_a_section_may_be_a_figure_alone() -> None:
    page = page_of(sections=[Section("paths", "Paths", "", [], None, "<svg></svg>")])
    assert 'aria-label="Figure: Paths"' in page
    assert page.count("<table") == 1  # that of the claims


def test_text_is_escaped() -> None:
    evil = '<script>alert("&")</script>'
    section = Section("x", evil, evil, [{"policy": evil, evil: evil}], [{"policy": evil}])
    claims = [{"claim": evil, "verdict": "holds", "section": '"><script>', "found": evil}]
    page = html.page(evil, [evil], claims, [section])
    assert "<script" not in page
    read(page)


def test_the_page_refers_to_nothing_outside() -> None:
    page = page_of(PUBLISHED)
    assert not re.search(r"https?://|@import|url\(", page)
    for name, value in read(page).attributes:
        assert name not in ("src", "srcset", "data")
        assert name != "href" or (value or "").startswith("#")


def test_links_lead_to_parts_of_the_page() -> None:
    attributes = read(page_of()).attributes
    ids = [value for name, value in attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert {f"#{place}" for place in ids} >= {value for name, value in attributes if name == "href"}


@pytest.mark.parametrize("verdict", VERDICTS)
def test_a_verdict_is_reported_in_words_and_by_a_sign(verdict: str) -> None:
    lines = read(page_of(claims=[{**CLAIM, "verdict": verdict}])).lines
    badge = f"{VERDICTS[verdict][1]} {verdict}"
    assert ["Best at every budget", badge, "online", "5 of 5"] in lines


def test_an_unknown_verdict_is_refused() -> None:
    with pytest.raises(InputError, match="verdict is 'perhaps', but must be one of holds"):
        page_of(claims=[{**CLAIM, "verdict": "perhaps"}])


def test_what_may_be_wider_than_the_screen_is_reached_by_keyboard() -> None:
    page = page_of()
    assert page.count('class="wide"') == page.count('tabindex="0"') == 3


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.0, "0"),
        (19, "19"),
        (7.0, "7.00"),
        (99.96, "100"),
        (1234567.8, "1,234,568"),
        (-36.0, "−36.0"),
        (0.00012345, "0.000123"),
    ],
)
def test_numbers_have_three_digits(value: float, text: str) -> None:
    assert number(value) == text


def test_what_is_not_a_number_is_a_dash() -> None:
    section = Section("x", "X", "", [{"n": 1, "ratio": float("inf"), "p": float("nan")}])
    assert ["1", "–", "–"] in read(page_of(sections=[section])).lines


def test_settings_are_not_rounded() -> None:
    assert [exact(value) for value in (0.0005, 7500, -1.5)] == ["0.0005", "7,500", "−1.5"]


def test_small_and_large_probabilities_are_bounds() -> None:
    values = (0.0, 0.00099, 0.001, 0.5, 0.9995)
    answers = ["p < 0.001", "p < 0.001", "p = 0.001", "p = 0.500", "p > 0.999"]
    assert [probability(value) for value in values] == answers


def test_a_value_with_an_error_is_a_figure_and_without_one_a_key() -> None:
    rows = [{"policy": "bccb", "value": 99.62633580734952, "value_se": 0.4431}]
    page = html.page("Title", [], [], [Section("values", "Values", "", rows)])
    assert "99.6 ± 0.443" in page
    assert "99.62" not in page
    rows = [{"parameter": "eta", "value": 0.00123456, "mean": 1.0}]
    page = html.page("Title", [], [], [Section("sweep", "Sweep", "", rows)])
    assert "0.00123456" in page


def test_the_policy_of_a_section_stands_out() -> None:
    rows = [{"policy": "bccb", "mean": 1.0}, {"policy": "pooled-bayes", "mean": 2.0}]
    page = html.page("Title", [], [], [Section("a", "A", "", rows, ours="pooled-bayes")])
    (line,) = [line for line in page.splitlines() if 'class="ours"' in line]
    assert "pooled-bayes" in line


def test_a_section_may_have_a_table_for_each_size_with_best_and_worst_marked() -> None:
    rows = [
        {"users": 900, "world": "bump", "bccb": 0.25, "hybrid": 0.75, "error": 9.0},
        {"users": 100, "world": "bump", "bccb": 0.5, "hybrid": -0.5, "error": 9.0},
    ]
    section = Section("a", "A", "", rows, split_by="users", ranked=("bccb", "hybrid"))
    page = html.page("Title", [], [], [section])
    assert [text for text in ("<h3>users: 900</h3>", "<h3>users: 100</h3>") if text in page]
    assert page.count("<table>") == 2  # one for each size; there are no claims
    assert '<td class="figures best">0.750</td>' in page
    assert '<td class="figures worst">−0.500 ▾</td>' in page
    assert page.count(" best") == page.count(" worst") == 2
