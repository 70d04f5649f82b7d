"""``bccb trust``: regret, estimators and tests where the truth is known."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table

from bccb.cli.compare import progress_bar
from bccb.cli.console import notes, out
from bccb.errors import InputError
from bccb.experiments.store import Store
from bccb.experiments.trust import MONEY, QUICK, Piece, Setup, execute, gather, plan
from bccb.experiments.trust_claims import claims
from bccb.experiments.trust_tables import short, tables
from bccb.files import written_whole
from bccb.report import markdown, trust

HIDDEN = ("treated", "truth", "width")  # in the files, but too wide for a terminal
WORDS = ("policy", "method", "test", "figure", "text", "verdict")  # columns of text


def command(
    folder: Annotated[Path, typer.Option("--out", help="Folder for results.")] = Path("trust"),
    users: Annotated[
        list[int] | None,
        typer.Option("--users", help="Users in a stream; may be repeated. [default: 1000 to 1e6]"),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option("--seeds", help="Streams of up to 20,000 users; fewer beyond. [default: 100]"),
    ] = None,
    repetitions: Annotated[
        int | None, typer.Option("--repetitions", help="Of the estimates. [default: 1000]")
    ] = None,
    comparisons: Annotated[
        int | None,
        typer.Option("--comparisons", help="Of each policy with its copy. [default: 1000]"),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small part of it, to try out.")] = False,
    jobs: Annotated[
        int | None, typer.Option("--jobs", help="Processes; default all cores.")
    ] = None,
) -> None:
    """Measure, where the truth is known, what policies cause and whether our figures are right.

    Simulated users are decided on live, and every policy's true value is set against the oracle's,
    over streams of growing length; estimates from simulated logs are checked for bias and
    coverage; and two copies of one policy are compared, which should seldom differ. What is stored
    in the folder is not run again.

    **Examples**

    `bccb trust --quick`

    `bccb trust --out results --jobs 2`

    `bccb trust --users 1000 --users 10000 --users 100000 --seeds 50`
    """
    if jobs is not None and jobs < 1:
        raise InputError("--jobs", jobs, "1 or above")
    sizes = tuple(sorted(set(users))) if users else None
    given: dict[str, Any] = {"sizes": sizes, "seeds": seeds}
    given |= {"repetitions": repetitions, "comparisons": comparisons}
    changed = {name: value for name, value in given.items() if value is not None}
    setup = replace(QUICK if quick else Setup(), **changed)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError("--out", str(folder), f"a folder to write to ({error})") from None
    store, pieces = Store(folder / "trust.jsonl"), plan(setup)
    _run(pieces, store, jobs or os.cpu_count() or 1)
    rows = gather(pieces, store)
    found = tables(setup, rows)
    judged = [asdict(claim) for claim in claims(setup, rows, found)]
    told = {"setup": {**asdict(setup), "middle": setup.middle, "money": MONEY}}
    _write(folder, {**told, "claims": judged, "tables": found})
    hidden = [*HIDDEN, *(short(users) for users in setup.sizes[1::2])]
    for name, lines in found.items():
        if name != "curves":  # too long for a terminal, and drawn
            out.print(_table(trust.TITLES[name], lines, hidden))
    out.print(_verdicts(judged))
    notes.print(f"wrote {folder / 'report.html'}, trust.md, trust.json and figures beside it")


def _run(pieces: list[Piece], store: Store, jobs: int) -> None:
    with progress_bar() as bar:
        task = bar.add_task("running (compiling first)", total=len(pieces))
        for made in execute(pieces, store, jobs):
            bar.update(task, advance=1, description=f"running {made.kind}")


def _write(folder: Path, results: dict[str, Any]) -> None:
    drawn = trust.draw(results["tables"])
    files = {
        "trust.json": json.dumps(results, indent=1) + "\n",
        "trust.md": trust.render(results),
        "report.html": trust.page(results, drawn),
        **{f"{name}.svg": figure + "\n" for name, figure in drawn.items()},
    }
    for name, text in files.items():
        with written_whole(folder / name) as draft:
            draft.write_text(text, encoding="utf-8")


def _table(title: str, rows: list[dict[str, Any]], hidden: list[str]) -> Table:
    table = Table(title=f"\n{title}", box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    shown = [{key: value for key, value in row.items() if key not in hidden} for row in rows]
    headings, lines = markdown.cells(shown)
    for heading in headings:
        table.add_column(heading, justify="left" if heading in WORDS else "right", no_wrap=True)
    for line in lines:
        table.add_row(*line)
    return table


def _verdicts(judged: list[dict[str, Any]]) -> Table:
    table = Table(title="\nWhat held", box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    table.add_column("verdict", no_wrap=True)
    table.add_column("claim")
    for claim in judged:
        table.add_row(claim["verdict"], f"{claim['text']}: {claim['figure']}")
    return table
