"""What ``bccb paper`` and ``bccb trust`` share: how a report is written and printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from bccb.cli.console import notes, out, table
from bccb.experiments import Report
from bccb.report.markdown import cells


def show_report(
    report: Report, folder: Path, setup: Any = None, only: Sequence[str] | None = None
) -> None:
    """Write the report, and print its tables, or some of them, and verdicts."""
    report.write(folder)
    for name, rows in report.tables.items():
        one = report.study[name]
        if one.printed and (not only or name in only):
            hidden = one.unprinted_columns(setup)
            shown = [{key: row[key] for key in row if key not in hidden} for row in rows]
            headings, lines = cells(shown)
            text = [dict(zip(headings, line, strict=True)) for line in lines]
            out.print(table(text, f"\n{one.title}"))
    claims = [claim for claim in report.claims if not only or claim["experiment"] in only]
    if claims:
        out.print(_verdicts(claims))
    notes.print(f"wrote {folder / 'report.html'} and the tables, figures and runs beside it")


def _verdicts(claims: Sequence[Mapping[str, str]]) -> Table:
    """The claims, which may take several lines each."""
    verdicts = Table(title="\nWhat held", box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    verdicts.add_column("verdict", no_wrap=True)
    verdicts.add_column("claim")
    for claim in claims:
        verdicts.add_row(claim["verdict"], f"{claim['text']}: {claim['figure']}")
    return verdicts
