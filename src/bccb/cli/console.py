"""What the command line writes: tables to standard output, everything else to standard error."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from bccb.evaluate.parallel import OnProgress
from bccb.files import written_whole
from bccb.report.columns import is_text


class Remembering(Console):
    """A console that remembers its sentences, so that a page can say the same."""

    said: list[str] | None = None

    def print(self, *objects: Any, **look: Any) -> None:
        """Print, and remember what is text. No figure of a table is cut, however wide it is."""
        if self.said is not None:
            self.said += [each for each in objects if isinstance(each, str)]
        for each in objects:
            if isinstance(each, Table) and self._width_of(each) > self.width:
                each.width = self._width_of(each)
                look["crop"] = False
        super().print(*objects, **look)

    def _width_of(self, table: Table) -> int:
        """The width of a table whose cells are not folded; 0 of others."""
        if not all(column.no_wrap for column in table.columns):
            return 0
        return self.measure(table, options=self.options.update(width=WIDEST)).maximum

    @contextmanager
    def remembering(self) -> Iterator[list[str]]:
        """The sentences that are printed meanwhile."""
        said: list[str] = []
        self.said = said
        try:
            yield said
        finally:
            self.said = None


# No markup: names of features and files may hold brackets.
out, notes = Remembering(markup=False), Console(stderr=True, markup=False)

WIDEST = 10_000  # characters of a table
FIRST_LINE = 2.0  # seconds until the first line of progress without a terminal,
BETWEEN_LINES = 10.0  # and between two of them

SETTINGS: dict[str, Any] = {
    "no_args_is_help": True,
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": "markdown",
    "context_settings": {"help_option_names": ["-h", "--help"]},
}


@contextmanager
def progress_bar(
    doing: str, at_first: str = " (the first use compiles, once)"
) -> Iterator[OnProgress]:
    """A bar with the time left, on standard error, which disappears when done; where that is no
    terminal, a line now and then.

    Yields a function that takes how much is done, how much there is, and what it is.
    """
    if not notes.is_terminal:
        with _progress_lines(doing, at_first) as show_line:
            yield show_line
        return
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
        console=notes,
        transient=True,
    )
    with bar:
        task = bar.add_task(f"{doing}{at_first}", total=None)

        def show(done: int, total: int, what: str) -> None:
            bar.update(task, completed=done, total=total, description=f"{doing} {what}".strip())

        yield show


@contextmanager
def _progress_lines(doing: str, at_first: str) -> Iterator[OnProgress]:
    """Plain lines from a thread, so that they also come while the work says nothing.

    While there is nothing new to say, they come less and less often.
    """
    latest, ended, began = [f"nothing finished{{}}{at_first}"], Event(), time.monotonic()

    def show(done: int, total: int, what: str) -> None:
        latest[0] = f"{done:,} of {total:,}{{}}"

    def print_lines() -> None:
        wait, said = FIRST_LINE, ""
        while not ended.wait(wait):
            elapsed = f" after {time.monotonic() - began:.0f} s"
            notes.print(f"{doing}: {latest[0].format(elapsed)}", highlight=False, soft_wrap=True)
            wait = max(BETWEEN_LINES, wait * 2.0 if latest[0] == said else 0.0)
            said = latest[0]

    printer = Thread(target=print_lines, daemon=True)
    printer.start()
    try:
        yield show
    finally:
        ended.set()
        printer.join()


def table(
    rows: Sequence[Mapping[str, str]],
    title: str | None = None,
    groups: Sequence[object] | None = None,
) -> Table:
    """Rows of text as a table: words to the left, figures to the right.

    ``groups`` has an element for each row; a new section begins where it changes.
    """
    result = Table(title=title, box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    for heading in rows[0] if rows else ():  # no run gave this table a row
        result.add_column(heading, justify="left" if is_text(heading) else "right", no_wrap=True)
    groups = groups or [None] * len(rows)
    for row, group, following in zip(rows, groups, [*groups[1:], *groups[-1:]], strict=True):
        result.add_row(*row.values(), end_section=group != following)
    return result


def write_html(path: Path | None, page: Callable[[], str]) -> None:
    """Write a page to the file of ``--html``, if one is given."""
    if path is not None:
        with written_whole(path) as draft:
            draft.write_text(page(), encoding="utf-8")
        notes.print(f"wrote {path}")


def write_json(path: Path | None, figures: object) -> None:
    """Write figures to the file of ``--json``, if one is given."""
    if path is not None:
        with written_whole(path) as draft:
            draft.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
        notes.print(f"wrote {path}")
