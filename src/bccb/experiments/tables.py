"""The paper's tables, computed from runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bccb.evaluate.statistics import holm, paired_bootstrap, paired_t
from bccb.experiments import paper
from bccb.experiments.experiment import Record, Results
from bccb.experiments.paper import Setup
from bccb.experiments.plan import Run
from bccb.policies import NAIVE
from bccb.report.looks import OFFLINE, OURS
from bccb.types import Floats


def online(setup: Setup, results: Results, figure: str = "conversions") -> list[Record]:
    """Mean and deviation of each policy at each budget; p of ours against it, Holm-corrected."""
    rows: list[Record] = []
    for name in setup.policies:
        for budget in setup.budgets:
            values = _over_seeds(setup, results, name, budget, figure)
            ours = _over_seeds(setup, results, OURS, budget, figure)
            p = None if name == OURS else paired_t(ours, values)
            rows.append({"budget": budget, "policy": name, **_spread(values), "p": p})
    _correct([row for row in rows if row["p"] is not None])
    return sorted(rows, key=lambda row: row["budget"])


def crossover(setup: Setup, results: Results) -> list[Record]:
    """Offline against ours at each size of history, and the fits that failed."""
    ours = _over_seeds(setup, results, OURS, setup.middle)
    rows = []
    for n in setup.sizes:
        runs = [results(paper.after(setup, OFFLINE, n, seed)) for seed in setup.seeds]
        offline = np.array([run["conversions"] for run in runs])
        p = paired_t(offline, ours, alternative="greater")
        failed = sum(bool(run["note"]) for run in runs)
        spreads = {**_spread(offline, "offline_"), **_spread(ours, "ours_")}
        difference = _difference(offline, ours)
        rows.append({"n": n, **spreads, **difference, "p": p, "failed_fits": failed})
    return rows


def history(setup: Setup, results: Results) -> list[Record]:
    """Mean and deviation of each method at each size of history; cold ones make no use of it."""
    rows = []
    for n in setup.sizes:
        row: Record = {"n": n}
        for name in paper.known((*paper.WITH_HISTORY, *paper.COLD)):
            row |= _spread(_after(setup, results, name, n), f"{name}_")
        rows.append(row)
    return rows


def advantage(setup: Setup, results: Results) -> list[Record]:
    """How far one method is ahead of another at each size of history, Holm-corrected in all."""
    rows: list[Record] = []
    for n in setup.sizes:
        for name, rival in paper.ADVANTAGES:
            if len(paper.known((name, rival))) < 2:
                continue
            ones, others = (_after(setup, results, who, n) for who in (name, rival))
            row = {"n": n, "policy": name, "against": rival, **_difference(ones, others)}
            rows.append({**row, "p": paired_t(ones, others)})
    _correct(rows)
    return rows


def sensitivity(setup: Setup, results: Results) -> list[Record]:
    """The mean at each value of each parameter, and the variation of these means."""
    rows = []
    for parameter, values in paper.SWEEPS.items():
        runs = {
            value: [results(paper.swept(setup, parameter, value, s)) for s in setup.few_seeds]
            for value in values
        }
        means = [float(np.mean([run["conversions"] for run in of])) for of in runs.values()]
        variation = float(np.std(means, ddof=1) / np.mean(means)) if any(means) else None
        for value, mean in zip(values, means, strict=True):
            rows.append({"parameter": parameter, "value": value, "mean": mean, "cv": variation})
    return rows


def diagnostics(setup: Setup, results: Results) -> list[Record]:
    """Effective sample size, proposed and realised shares of treatment."""
    rows = []
    for name in setup.policies:
        matched = _over_seeds(setup, results, name, setup.middle, "matched")
        shares = {
            field: float(_over_seeds(setup, results, name, setup.middle, field).mean())
            for field in ("proposed", "realised")
        }
        share = float(matched.mean()) / setup.users
        rows.append({"policy": name, **_spread(matched), **shares, "share": share})
    return rows


def stability(setup: Setup, results: Results) -> list[Record]:
    """How much more the offline pipeline varies from run to run."""
    rows = []
    for row in crossover(setup, results):
        if row["n"] in paper.STABILITY_SIZES:
            offline, ours = row["offline_deviation"], row["ours_deviation"]
            ratio = offline / ours if ours else None
            rows.append({"n": row["n"], "offline": offline, "ours": ours, "ratio": ratio})
    return rows


def ablation(setup: Setup, results: Results) -> list[Record]:
    """Each combination of components: treated and incremental conversions, and the spend."""
    rows = []
    for spec in paper.combinations():
        runs = [results(Run.of(spec, setup.middle, seed, max(setup.sizes))) for seed in setup.seeds]
        figures = {
            field: np.array([run[field] for run in runs])
            for field in ("conversions", "incremental", "spend")
        }
        estimator, explorer, pacer = spec.name.split(" x ")
        row: Record = {"estimator": estimator, "explorer": explorer, "pacer": pacer}
        for field, values in figures.items():
            row |= {field: float(values.mean()), f"{field}_deviation": float(values.std(ddof=1))}
        rows.append(row)
    return sorted(rows, key=lambda row: -row["incremental"])


def incremental(setup: Setup, results: Results) -> list[Record]:
    """Table 1 in incremental conversions, with intervals, and both ranks at each budget."""
    treated, rows = online(setup, results), online(setup, results, "incremental")
    for budget in setup.budgets:
        for column, table in (("rank_treated", treated), ("rank_incremental", rows)):
            group = [row for row in table if row["budget"] == budget]
            order = sorted(group, key=lambda row: -row["mean"])
            rank = {row["policy"]: place for place, row in enumerate(order, 1)}
            for row in rows:
                if row["budget"] == budget:
                    row[column] = rank[row["policy"]]
    for row in rows:
        values = _over_seeds(setup, results, row["policy"], row["budget"], "incremental")
        row["low"], row["high"] = paired_bootstrap(values, np.zeros_like(values))
    return rows


def naive(setup: Setup, results: Results) -> list[Record]:
    """Every policy against each of those that ignore effects, in incremental conversions."""
    rows = []
    for budget in setup.budgets:
        for rival in (name for name in NAIVE if name in setup.policies):
            others = _over_seeds(setup, results, rival, budget, "incremental")
            for name in setup.policies:
                if name == rival:
                    continue
                ones = _over_seeds(setup, results, name, budget, "incremental")
                row = {"budget": budget, "policy": name, "against": rival}
                rows.append({**row, **_difference(ones, others), "p": paired_t(ones, others)})
    return rows


def _over_seeds(
    setup: Setup, results: Results, name: str, budget: float, figure: str = "conversions"
) -> Floats:
    values = [results(paper.at(setup, name, budget, seed))[figure] for seed in setup.seeds]
    return np.array(values, np.float64)


def _after(setup: Setup, results: Results, name: str, n: int) -> Floats:
    runs = [results(paper.after(setup, name, n, seed)) for seed in setup.seeds]
    return np.array([run["conversions"] for run in runs], np.float64)


def _spread(values: Floats, prefix: str = "") -> Record:
    deviation = float(values.std(ddof=1))
    return {f"{prefix}mean": float(values.mean()), f"{prefix}deviation": deviation}


def _difference(ones: Floats, others: Floats) -> Record:
    """The mean difference of pairs, with its bootstrap interval."""
    low, high = paired_bootstrap(ones, others)
    return {"difference": float((ones - others).mean()), "low": low, "high": high}


def _correct(rows: Sequence[Record]) -> None:
    """Add Holm's correction of p over all these rows."""
    for row, corrected in zip(rows, holm([row["p"] for row in rows]), strict=True):
        row["p_holm"] = corrected
