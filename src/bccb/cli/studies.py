"""What ``bccb paper`` and ``bccb trust`` share: a progress bar, tables, and files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from bccb.cli.compare import progress_bar
from bccb.cli.console import notes, out
from bccb.experiments import Report
from bccb.report import markdown
from bccb.report.columns import is_text


def with_progress(work: Callable[[Callable[[int, int, str], None]], Report]) -> Report:
    """Do the work under a progress bar."""
    with progress_bar() as bar:
        task = bar.add_task("running (compiling first)", total=None)

        def progress(done: int, total: int, what: str) -> None:
            bar.update(task, completed=done, total=total, description=f"running {what}")

        return work(progress)


def show(report: Report, folder: Path, setup: Any = None) -> None:
    """Write the report, and print its tables and verdicts."""
    report.write(folder)
    for name, rows in report.tables.items():
        one = report.study[name]
        if one.printed:
            out.print(_table(one.title, rows, one.unprinted_columns(setup)))
    if report.claims:
        out.print(_verdicts(report.claims))
    notes.print(f"wrote {folder / 'report.html'} and the tables, figures and runs beside it")


def _table(title: str, rows: Sequence[Mapping[str, Any]], hidden: Sequence[str]) -> Table:
    table = Table(title=f"\n{title}", box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    shown = [{key: value for key, value in row.items() if key not in hidden} for row in rows]
    headings, lines = markdown.cells(shown)
    for heading in headings:
        table.add_column(heading, justify="left" if is_text(heading) else "right", no_wrap=True)
    for line in lines:
        table.add_row(*line)
    return table


def _verdicts(claims: Sequence[Mapping[str, str]]) -> Table:
    table = Table(title="\nWhat held", box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    table.add_column("verdict", no_wrap=True)
    table.add_column("claim")
    for claim in claims:
        table.add_row(claim["verdict"], f"{claim['text']}: {claim['figure']}")
    return table
