"""The tables of ``bccb trust``, computed from the rows that its pieces made."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from bccb.evaluate.coverage import Finding, summarise
from bccb.evaluate.estimates import Estimate
from bccb.evaluate.statistics import LEVEL, load_stats, share_interval
from bccb.experiments.experiment import Record
from bccb.experiments.trust import ENTRANTS, ORACLE, Setup
from bccb.report.rows import Row
from bccb.types import Floats

ESTIMATOR_COLUMNS = [
    "policy",
    "method",
    "truth",
    "bias",
    "bias_se",
    "width",
    "covered",
    "low",
    "high",
]
WAYS = ("at_once", "earlier", "ageing")  # to learn where outcomes are late
NAMES = (ORACLE, *(entrant.name for entrant in ENTRANTS))


def over_seeds(rows: Sequence[Row], users: int, policy: str, figure: str = "value") -> Floats:
    """A figure of one policy at one size, a number for each seed."""
    return np.array([row[figure] for row in _at(rows, users, policy)], np.float64)


def regret(rows: Sequence[Row], users: int, policy: str) -> Floats:
    """The oracle's value less the policy's on the same users, a number for each seed."""
    return over_seeds(rows, users, ORACLE) - over_seeds(rows, users, policy)


def values(setup: Setup, rows: Sequence[Row]) -> list[Record]:
    """What every policy causes at the middle size, and what it spends for that."""
    return [
        {
            **_value(rows, setup.middle, name),
            **{
                figure: float(over_seeds(rows, setup.middle, name, figure).mean())
                for figure in ("conversions", "spend", "treated")
            },
        }
        for name in NAMES
    ]


def curves(setup: Setup, rows: Sequence[Row]) -> list[Record]:
    """Value and regret of every policy at every size."""
    return [
        {"users": users, "seeds": setup.seeds_at(users), **_value(rows, users, name)}
        for users in setup.sizes
        for name in NAMES
        if name != ORACLE
    ]


def exponents(setup: Setup, rows: Sequence[Row]) -> list[Record]:
    """How fast regret grows: over all sizes, over the last decade of them, and mean regrets."""
    made = []
    for name in NAMES:
        if name != ORACLE:
            lost = {users: regret(rows, users, name) for users in setup.sizes}
            means = [float(one.mean()) for one in lost.values()]
            slope, error = fit_exponent(setup.sizes, means)
            late, late_error = late_exponent(lost)
            row = {"policy": name, "exponent": slope, "exponent_se": error}
            row |= {"late": late, "late_se": late_error}
            shown = {short(users): mean for users, mean in zip(setup.sizes, means, strict=True)}
            made.append({**row, **shown})
    return made


def late_exponent(lost: Mapping[int, Floats]) -> tuple[float | None, float | None]:
    """The same from the two sizes that are nearest to a decade apart, the larger the largest.

    Its standard error is what the spread over seeds leaves, d log r = dr / r.

    >>> late, error = late_exponent({10: np.array([1.9, 2.1]), 100: np.array([19.0, 21.0])})
    >>> round(late, 6), round(error, 4)
    (1.0, 0.0307)
    """
    last = max(lost)
    first = min(lost, key=lambda users: (abs(math.log(last / users / 10)), users))
    means = [float(lost[users].mean()) for users in (first, last)]
    if first == last or min(means) <= 0:
        return None, None
    parts = [_error(lost[users]) / mean for users, mean in zip((first, last), means, strict=True)]
    width = math.log(last / first)
    return math.log(means[1] / means[0]) / width, math.hypot(*parts) / width


def short(users: int) -> str:
    """A number of users for the head of a narrow column.

    >>> short(300), short(1_200), short(1_000_000)
    ('300', '1.2k', '1M')
    """
    if users < 1_000:
        return f"{users}"
    return f"{users / 1e3:g}k" if users < 1_000_000 else f"{users / 1e6:g}M"


def fit_exponent(
    sizes: Sequence[int], regrets: Sequence[float]
) -> tuple[float | None, float | None]:
    """The exponent b of regret = a T^b and its standard error; None where they are not defined.

    >>> slope, error = fit_exponent([10, 100, 1_000], [2, 20, 200])
    >>> round(slope, 6), round(error, 6)
    (1.0, 0.0)
    """
    if len(sizes) < 3 or min(regrets) <= 0:
        return None, None
    line = load_stats().linregress(np.log(sizes), np.log(regrets))
    return float(line.slope), float(line.stderr)


def estimators(rows: Sequence[Row]) -> list[Record]:
    """Bias and coverage of every estimator; the interval is that of the share covered."""
    findings = (Finding(row["policy"], row["truth"], Estimate(**row["estimate"])) for row in rows)
    made = []
    for line in summarise(findings):
        low, high = share_interval(round(line.covered * line.repetitions), line.repetitions)
        row = asdict(line) | {"low": low, "high": high}
        made.append({name: row[name] for name in ESTIMATOR_COLUMNS})
    return made


def twins(rows: Sequence[Row]) -> list[Record]:
    """How often two copies of one policy differ significantly, for each test."""
    groups = _grouped(rows, "policy", "figure")
    made = []
    for test in ("paired t", "paired bootstrap"):
        for (policy, figure), group in groups.items():
            differ = sum(
                row["p"] < LEVEL if test == "paired t" else row["bootstrap"] for row in group
            )
            low, high = share_interval(differ, len(group))
            row = {"test": test, "policy": policy, "figure": figure, "comparisons": len(group)}
            made.append({**row, "differ": differ / len(group), "low": low, "high": high})
    return made


def late(rows: Sequence[Row]) -> list[Record]:
    """What every learner causes where outcomes are late, and how much more with ageing."""
    made = []
    for (outcome, policy), group in _grouped(rows, "outcome", "policy").items():
        gain = ways(group, "ageing") - ways(group, "earlier")
        row = {"outcome": outcome, "policy": policy, **_ways(group)}
        made.append({**row, "gain": float(gain.mean()), "gain_se": _error(gain)})
    return made


def delays(rows: Sequence[Row]) -> list[Record]:
    """What one policy causes with each kind of delays, and how much of what it would at once."""
    made = []
    ordered = sorted(rows, key=lambda row: str(row["outcome"]))
    for (outcome, name), group in _grouped(ordered, "outcome", "delays").items():
        kept = ways(group, "ageing") / ways(group, "at_once")
        row = {"outcome": outcome, "delays": name, **_ways(group)}
        made.append({**row, "kept": float(kept.mean()), "kept_se": _error(kept)})
    return made


def caused(
    rows: Sequence[Row], by: Sequence[str] = ("outcome", "treatments", "reports")
) -> list[Record]:
    """How often what a policy says of its own work holds the truth, and how wide both figures are.

    The widths of the estimate are set against those of the measurement in the same worlds; the
    standard error of that ratio r is that of the mean of estimated - r measured.
    """
    made = []
    for cell, group in _grouped(rows, *by).items():
        truth = np.array([row["truth"] for row in group])
        value, low, high = _ends(group, "estimated")
        _, least, most = _ends(group, "measured")
        widths, wider = high - low, most - least
        ratio = float(widths.mean() / wider.mean())
        row: Record = dict(zip(by, cell, strict=True))
        row |= {"worlds": len(group), "truth": float(truth.mean())}
        row |= {"bias": float((value - truth).mean()), "bias_se": _error(value - truth)}
        row |= {"covered": float(((low <= truth) & (truth <= high)).mean())}
        row |= {"width": float(widths.mean())}
        row |= {"held": float(np.mean([one["held"] for one in group]))}
        row |= {"measured_low": float(least.mean()), "measured_high": float(most.mean())}
        row |= {"measured_width": float(wider.mean()), "relative_width": ratio}
        row |= {"relative_width_se": _error((widths - ratio * wider) / wider.mean())}
        made.append(row)
    return made


def _ends(group: Sequence[Row], name: str) -> Floats:
    """Value, low and high of an interval, a number for each world."""
    parts = ("value", "low", "high")
    return np.array([[row[name][part] for row in group] for part in parts], np.float64)


def ways(group: Sequence[Row], way: str) -> Floats:
    """The share of the oracle's value with one way of learning, a number for each world."""
    return np.array([row[way] for row in sorted(group, key=lambda row: int(row["world"]))])


def _ways(group: Sequence[Row]) -> Record:
    row: Record = {}
    for way in WAYS:
        shares = ways(group, way)
        row |= {way: float(shares.mean()), f"{way}_se": _error(shares)}
    return row


def _grouped(rows: Sequence[Row], *keys: str) -> dict[tuple[Any, ...], list[Row]]:
    """The rows of each combination of keys, in the order in which they first appear."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return groups


def _at(rows: Sequence[Row], users: int, policy: str) -> list[Row]:
    own = [row for row in rows if row["users"] == users and row["policy"] == policy]
    return sorted(own, key=lambda row: int(row["seed"]))


def _value(rows: Sequence[Row], users: int, name: str) -> Record:
    value, lost = over_seeds(rows, users, name), regret(rows, users, name)
    return {
        "policy": name,
        "value": float(value.mean()),
        "value_se": _error(value),
        "share": float(value.sum() / over_seeds(rows, users, ORACLE).sum()),
        "regret": float(lost.mean()),
        "regret_se": _error(lost),
    }


def _error(numbers: Floats) -> float:
    """The standard error of the mean."""
    return float(numbers.std(ddof=1) / math.sqrt(len(numbers)))
