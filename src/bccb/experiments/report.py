"""The report of a study: its figures as plain types, as Markdown, as a page, and as files."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bccb.experiments.experiment import Study
from bccb.files import written_whole
from bccb.report import markdown
from bccb.report.html import Section, page


@dataclass(frozen=True, slots=True)
class Report:
    """The results of a study.

    ``figures`` has plain types alone: what was run, ``claims`` and ``tables``.
    """

    study: Study
    figures: Mapping[str, Any]
    as_published: bool = False  # whether published figures are about the same users
    runs: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)  # behind tables
    extra: Sequence[Section] = ()

    @property
    def tables(self) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """The rows of each experiment's table, by its name."""
        tables: Mapping[str, Sequence[Mapping[str, Any]]] = self.figures["tables"]
        return tables

    @property
    def claims(self) -> Sequence[Mapping[str, str]]:
        """Each claim's text, verdict and figure."""
        claims: Sequence[Mapping[str, str]] = self.figures["claims"]
        return claims

    def sections(self) -> list[Section]:
        """A section for each experiment, with its figure drawn, and whatever the study adds."""
        sections = []
        for plain in self._plain_sections():
            one = self.study[plain.name]
            drawn = one.figure(plain.rows) if one.figure is not None else None
            published = one.published if self.as_published else None
            sections.append(replace(plain, published_rows=published, figure_svg=drawn))
        return [*sections, *self.extra]

    def _plain_sections(self) -> list[Section]:
        """A section for each experiment, with its text and table alone."""
        sections = []
        for name, rows in self.tables.items():
            one = self.study[name]
            section = Section(name, one.title, one.text, rows, ours=self.study.ours)
            sections.append(replace(section, split_by=one.split_by, ranked=one.ranked))
        return sections

    def markdown(self) -> str:
        """One document: what was run, the verdicts, and every table."""
        written = "Written by the command itself; do not edit."
        intro = [*self.study.intro(self.figures), written]
        rules = self.study.rules
        claims = [
            {key: claim[key] for key in ("text", "verdict", "figure")} for claim in self.claims
        ]
        return markdown.page(self.study.title, intro, rules, claims, self._plain_sections())

    def html(self, sections: Sequence[Section] | None = None) -> str:
        """One page that needs nothing beside it."""
        intro = [*self.study.intro(self.figures), self.study.rules]
        claims = [
            {"claim": claim["text"], "verdict": claim["verdict"], "figure": claim["figure"]}
            for claim in self.claims
        ]
        plain = [text.replace("`", "") for text in intro if text]
        return page(self.study.title, plain, claims, sections or self.sections())

    def write(self, folder: Path) -> None:
        """Every file of the report, each of them whole or not at all."""
        name, sections = self.study.name, self.sections()
        files = {
            f"{name}.json": json.dumps(self.figures, indent=1) + "\n",
            f"{name}.md": self.markdown(),
            "report.html": self.html(sections),
        }
        for section in sections:
            if section.figure_svg is not None:
                files[f"{section.name}.svg"] = section.figure_svg + "\n"
        for kind, contents in (("table", self.tables), ("runs", self.runs)):
            for stem, rows in contents.items():
                files[f"{stem}-{kind}.json"] = json.dumps(rows, indent=1) + "\n"
                files[f"{stem}-{kind}.csv"] = as_csv(rows)
        for path, text in files.items():
            with written_whole(folder / path) as draft:
                draft.write_text(text, encoding="utf-8")


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as CSV, with the columns of all of them.

    >>> print(as_csv([{"n": 1}, {"n": 2, "p": 0.5}]), end="")
    n,p
    1,
    2,0.5
    """
    text = io.StringIO()
    headings = list(dict.fromkeys(key for row in rows for key in row))
    writer = csv.DictWriter(text, headings, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
