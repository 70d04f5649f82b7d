"""The paper's study: one record for each experiment, and how all of them are run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from bccb.data import Columns, preset, read_log
from bccb.errors import InputError
from bccb.evaluate.parallel import Engine, OnProgress
from bccb.evaluate.statistics import crossover as crossing
from bccb.evaluate.trials import FileTrials, SimulatedTrials, Trial
from bccb.experiments import claims, paper, published, tables
from bccb.experiments.experiment import Claim, Experiment, Findings, Study
from bccb.experiments.paper import SEEDS, Setup
from bccb.experiments.plan import Run, file_digest, source_of
from bccb.experiments.report import Report
from bccb.experiments.runner import execute
from bccb.experiments.store import open_store
from bccb.policies import DEFAULT
from bccb.report import figures
from bccb.report.html import Section
from bccb.report.looks import OFFLINE, OURS
from bccb.report.markdown import span


def online_claims(findings: Findings) -> list[Claim]:
    """Ours against the other online methods."""
    rows = findings.tables["online"]
    return [claims.best_at_every_budget(rows), claims.beyond_doubt(rows)]


def crossover_claims(findings: Findings) -> list[Claim]:
    """Where the offline pipeline overtakes, and where it fails."""
    offline: dict[int, list[float]] = {n: [] for n in findings.setup.sizes}
    ours: list[float] = []
    for run in paper.crossover(findings.setup):
        figure = findings.results(run)["conversions"]
        (offline[run.history] if run.policy == OFFLINE else ours).append(figure)
    rows = findings.tables["crossover"]
    return [
        claims.crossover_point(rows, crossing(offline, ours)),
        claims.failure_on_little_history(rows, len(findings.setup.seeds)),
    ]


def ranking_claims(findings: Findings) -> list[Claim]:
    """Whether both figures rank the methods alike; without the table of one nobody knows."""
    both = findings.tables
    return [claims.same_ranking(both["online"], both["incremental"])] if "online" in both else []


def paths(findings: Findings) -> list[Section]:
    """One run for each policy, where all of them were made."""
    if not {"online", "diagnostics"} & set(findings.tables):
        return []
    setup = findings.setup
    runs = [paper.at(setup, name, setup.middle, setup.seeds[0]) for name in setup.policies]
    drawn = figures.paths([dict(findings.results(run)) for run in runs])
    text = (
        "Spend and price over time, for the first seed at the middle budget. The price of "
        "cheapest-first is on a scale of its own, because its effect is a constant."
    )
    return [Section("paths", "Spend and price over time", text, [], None, drawn)]


def intro(facts: Mapping[str, Any]) -> list[str]:
    """What was run."""
    return [
        f"`bccb paper` on {facts['data']}: a stream of {facts['users']:,} users for each of the "
        f"seeds {span(facts['seeds'])}.",
        *facts["differences"],
    ]


PAPER = Study(
    "paper",
    "The paper, run again",
    (
        Experiment(
            "online",
            "Online comparison (section 5.1)",
            "Treated conversions; p compares bccb with each policy.",
            plan=paper.online,
            table=tables.online,
            figure=figures.conversions_by_budget,
            published=published.ONLINE,
            claims=online_claims,
        ),
        Experiment(
            "crossover",
            "Crossover (section 5.2)",
            "The offline pipeline after n rows of history against bccb after none, on the same "
            "streams. Bars in the figure are 95 % intervals of the difference, drawn from bccb's "
            "mean; they may reach below zero. Fits that failed treat nobody and are counted.",
            plan=paper.crossover,
            table=tables.crossover,
            figure=figures.crossover_curve,
            published=published.CROSSOVER,
            claims=crossover_claims,
        ),
        Experiment(
            "sensitivity",
            "Sensitivity (section 5.3)",
            "One parameter of bccb at a time.",
            plan=paper.sensitivity,
            table=tables.sensitivity,
            figure=figures.sensitivity_curves,
            published=published.SENSITIVITY,
            claims=lambda findings: [claims.robust(findings.tables["sensitivity"])],
        ),
        Experiment(
            "diagnostics",
            "Replay diagnostics (section 5.4)",
            "How many decisions survived matching, and the shares of treatment.",
            plan=paper.diagnostics,
            table=tables.diagnostics,
            figure=figures.sample_sizes,
            published=published.DIAGNOSTICS,
            claims=lambda findings: [claims.sample_order(findings.tables["diagnostics"])],
        ),
        Experiment(
            "stability",
            "Stability (section 5.5)",
            "Standard deviations over seeds, and their ratio.",
            plan=paper.crossover,
            table=tables.stability,
            published=published.STABILITY,
            claims=lambda findings: [
                claims.steadier(findings.tables["stability"], len(findings.setup.seeds))
            ],
        ),
        Experiment(
            "ablation",
            "Ours: every combination of components",
            "Every sensible estimator x explorer x pacer at the middle budget, so that each "
            "component's worth is a number; the best by incremental conversions first. two-model "
            "reads features as they come, as in the paper, two-model-standardised those that are "
            "standardised by the users seen so far.",
            plan=paper.ablation,
            table=tables.ablation,
        ),
        Experiment(
            "history",
            "Ours: what history is worth",
            f"Treated conversions after n rows of history, on the same streams. {OURS} and "
            f"{DEFAULT} begin cold, whatever n is.",
            plan=paper.history,
            table=tables.history,
            figure=figures.history_curves,
        ),
        Experiment(
            "advantage",
            "Ours: how far one method is ahead of another after n rows of history",
            "The mean difference in treated conversions of one method to another on the same "
            "streams, with its bootstrap interval.",
            plan=paper.history,
            table=tables.advantage,
        ),
        Experiment(
            "incremental",
            "Ours: incremental conversions",
            "Conversions that the treatments caused, with bootstrap intervals over seeds, and the "
            "ranks of the methods by treated and by incremental conversions.",
            plan=paper.online,
            table=tables.incremental,
            figure=lambda rows: figures.conversions_by_budget(rows, "Incremental conversions"),
            claims=ranking_claims,
        ),
        Experiment(
            "naive",
            "Ours: against policies that ignore effects",
            "The difference in incremental conversions to cheapest-first, which looks at the cost "
            "alone, and to response-first, which ranks by the predicted conversion per cost, as if "
            "every treatment had the same lift. What a policy causes more than the better of them "
            "is what learning effects is worth on this trial.",
            plan=paper.online,
            table=tables.naive,
            claims=lambda findings: [claims.beyond_naive(findings.tables["naive"])],
        ),
    ),
    intro=intro,
    ours=OURS,
    extra=paths,
)


def run_paper(
    data: str | Path | None = None,
    *,
    columns: Columns | None = None,
    only: Sequence[str] | None = None,
    seeds: Sequence[int] = SEEDS,
    jobs: int = 1,
    engine: Engine = "local",
    folder: str | Path | None = None,
    progress: OnProgress | None = None,
) -> Report:
    """Run the paper's experiments on a log, or on simulated users without one.

    Runs are stored in ``folder``, where there is one, and not made again. ``progress`` is called
    with the runs that are done, all of them, and what they are.
    """
    names = PAPER.chosen(only)
    if len(seeds) < 2:
        raise InputError("seeds", list(seeds), "at least 2, to be compared in pairs")
    path = None if data is None else Path(data)
    setup = _setup(path, columns, tuple(seeds))
    trials, source = _trials(path, columns, setup)
    with open_store(folder, "runs.jsonl") as store:
        runs = PAPER.tasks(setup, names)
        done = sum(store.get(run.key(source)) is not None for run in runs)
        for made in execute(runs, trials, source, store, jobs, engine):
            done += made
            if progress is not None:
                progress(done, len(runs), "replays")
        return _report(setup, names, path, columns, lambda run: store[run.key(source)])


def _report(
    setup: Setup,
    names: Sequence[str],
    data: Path | None,
    columns: Columns | None,
    results: Callable[[Run], Mapping[str, Any]],
) -> Report:
    findings = PAPER.conclude(setup, names, results)
    enough = len(setup.seeds) >= claims.LEAST_SEEDS  # with fewer, chance decides
    facts = {
        "data": "simulated users" if data is None else data.name,
        "users": setup.users,
        "seeds": list(setup.seeds),
        "differences": _differences(data, columns),
        "claims": [asdict(claim) for claim in PAPER.judge(findings)] if enough else [],
        "tables": findings.tables,
    }
    runs = {
        name: [
            {key: value for key, value in results(run).items() if key != "trajectory"}
            for run in PAPER[name].plan(setup)
        ]
        for name in names
    }
    as_published = data is None or _is_criteo(columns)
    return Report(PAPER, facts, as_published, runs, PAPER.extra(findings))


def _is_criteo(columns: Columns | None) -> bool:
    """Whether these are the columns of the paper's own trial, whatever its outcome and costs."""
    if columns is None:
        return False
    criteo = preset("criteo")
    return (columns.treatment, columns.features) == (criteo.treatment, criteo.features)


def _setup(data: Path | None, columns: Columns | None, seeds: tuple[int, ...]) -> Setup:
    """The paper's sizes on its own trial and on simulated users; scaled on any other."""
    setup = Setup(seeds=seeds)
    if data is not None:
        rows = read_log(data, columns).users
        if not _is_criteo(columns):
            return Setup.scaled(rows, seeds)
        setup.check(rows)
    return setup


def _differences(data: Path | None, columns: Columns | None) -> list[str]:
    """What to know before comparing these figures with the paper's."""
    if data is None:
        return ["The users are simulated, like those of the Criteo trial."]
    if not _is_criteo(columns):
        return ["This is not the paper's trial; budgets are in proportion to its users."]
    rows = read_log(data, columns).users
    return [
        f"Differences from the paper's set-up: {rows:,} rows of the trial instead of 1,397,959; "
        "costs and streams drawn with our own seeds; open points read as docs/decisions says."
    ]


def _trials(
    data: Path | None, columns: Columns | None, setup: Setup
) -> tuple[Callable[[int], Trial], str]:
    """What each seed runs on, and a hash of the data and code behind its results."""
    largest = max(setup.sizes)
    if data is None:
        if columns is not None:
            raise InputError("data", None, "given, because options name columns of a file")
        simulated = SimulatedTrials(setup.users, largest)
        return simulated, source_of(simulated)
    trials = FileTrials(str(data.resolve()), columns, setup.users, largest)
    return trials, source_of((file_digest(data), replace(trials, path="")))
