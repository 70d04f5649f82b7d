"""``bccb trust``: regret, estimators and tests where the truth is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from bccb.cli.console import progress_bar
from bccb.cli.options import CORES, Jobs, ResultsFolder
from bccb.cli.studies import show_report
from bccb.experiments import run_trust
from bccb.experiments.trust import QUICK, Setup
from bccb.experiments.trust_study import TRUST


def command(
    only: Annotated[
        list[str] | None,
        typer.Option("--only", help=f"One of {', '.join(TRUST.names)}; may be repeated."),
    ] = None,
    folder: ResultsFolder = Path("trust"),
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
    jobs: Jobs = CORES,
) -> None:
    """Measure, where the truth is known, what policies cause and whether our figures are right.

    Simulated users are decided on live, and every policy's true value is set against the oracle's,
    over streams of growing length, in worlds of sixteen kinds, where outcomes come late, where
    costs are charged on conversion, with a cost cap, and where outcomes are amounts of money;
    estimates from simulated logs are checked for bias and coverage, and so is what a policy says
    that it caused; and two copies of one policy are compared, which should seldom differ. What is
    stored in the folder is not run again. With --only, the other tables of a report in the folder
    stay in it.

    **Examples**

    `bccb trust --quick`

    `bccb trust --out results --jobs 2`

    `bccb trust --only worlds`

    `bccb trust --only late --only delays`

    `bccb trust --only charged --only capped --quick`

    `bccb trust --only amounts --only amounts-caused --jobs 2`

    `bccb trust --users 1000 --users 10000 --users 100000 --seeds 50`
    """
    sizes = tuple(sorted(set(users))) if users else None
    given: dict[str, Any] = {"sizes": sizes, "seeds": seeds}
    given |= {"repetitions": repetitions, "comparisons": comparisons}
    changed = {name: value for name, value in given.items() if value is not None}
    setup = replace(QUICK if quick else Setup(), **changed)
    with progress_bar("running") as show:
        report = run_trust(setup, only=only, jobs=jobs, folder=folder, progress=show)
    show_report(report, folder, setup, only)
