"""Experiments: many replays, planned as data, run in parallel, stored as they finish.

From a notebook, on simulated users or on one's own trial::

    from bccb import experiments

    report = experiments.run("paper", "mine.parquet", only=["online"], seeds=range(5), jobs=2)
    report.tables["online"]  # rows, as pandas.DataFrame or polars.DataFrame takes them
    report.claims            # each with its verdict
    report.html()            # or report.markdown(), or report.write(folder)

>>> report = run("trust", sizes=(200, 400), seeds=2, history=1_000, repetitions=2, comparisons=2)
>>> [row["policy"] for row in report.tables["values"]][:2]
['oracle', 'thompson']
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from bccb.errors import InputError
from bccb.experiments.paper_study import run_paper
from bccb.experiments.report import Report
from bccb.experiments.trust_study import run_trust

STUDIES: dict[str, Callable[..., Report]] = {"paper": run_paper, "trust": run_trust}


def run(study: Literal["paper", "trust"], *arguments: Any, **options: Any) -> Report:
    """Run a study; the arguments are those of `run_paper` or `run_trust`."""
    if study not in STUDIES:
        raise InputError("study", study, f"one of {', '.join(STUDIES)}")
    return STUDIES[study](*arguments, **options)


__all__ = ["Report", "run", "run_paper", "run_trust"]
