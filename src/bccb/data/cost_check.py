"""Costs that were paid, where what treating would cost is needed.

A cost that is known before the decision cannot depend on an arm that chance chose, nor tell the
outcome. One that does is most often what was paid: nothing for users left alone, or nothing unless
a coupon was redeemed. With it a policy seems to know whom the trial treated, and every figure is
wrong.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from bccb.data.leakage import MOST_AREA, area_under_curve, outcomes_by_value, rows_before
from bccb.errors import InputError
from bccb.money import MICROS
from bccb.types import Flags, Floats, Ints, Log

NEEDED = "what each treatment would cost for each user, also those left alone"
FAR = 5.0  # standard errors: by chance once in two million
LARGE_DIFFERENCE = 0.1  # in standard deviations, as for the balance of features
FEWEST = 10  # converters, others, and users left to chance, below which nothing is blatant
LEAST_SHARE = 0.2  # of the converters whose cost is beyond that of everybody else
LEAST_EXPECTED = 20  # others that chance would have put among them
MOST_ROWS = 200_000  # enough to see it
SEED = 0  # of the rows that are looked at where there are more


def check_costs(log: Log, names: Sequence[str]) -> None:
    """Refuse costs that depend on the arm, or that tell the outcome; ``names`` are their columns, one
    for each treatment or one for all.

    >>> log = Log(np.zeros((40, 1)), [0, 1] * 20, [0] * 40, [[10], [500_000]] * 20)
    >>> check_costs(log, ["paid"])
    Traceback (most recent call last):
    bccb.errors.InputError: the mean of cost column 'paid' is {'control': 1e-05, 'treatment-1': 0.5}, but must be about the same in every arm: give what each treatment would cost for each user, also those left alone (a log of decisions that looked at costs needs its probabilities, too)
    """  # noqa: E501
    if log.users > MOST_ROWS:
        log = log.take(np.random.default_rng(SEED).choice(log.users, MOST_ROWS, replace=False))
    arms = ("control", *log.treatment_names)
    for name, micros in zip(names, log.micros.T, strict=False):
        if np.ptp(micros) == 0:
            continue
        scores = _scores(micros)
        for arm in range(len(arms)):
            _check_arm(log, arm, name, micros, scores)
        for arm, which in enumerate(arms):
            rows = log.actions == arm
            _check_outcome(f"cost column {name!r} in arm {which}", micros[rows], log.outcomes[rows])


def _scores(micros: Ints) -> tuple[Floats, Floats]:
    """Two standardised scores of a cost: high against low, and far out against middling."""
    _, which, counts = np.unique(micros, return_inverse=True, return_counts=True)
    ranks = ((np.cumsum(counts) - counts / 2) / len(micros))[which]
    return _standardised(ranks), _standardised(np.abs(ranks - 0.5))


def _standardised(values: Floats) -> Floats:
    spread = float(values.std())
    return (values - values.mean()) / spread if spread > 1e-9 else np.zeros(len(values))


def _check_arm(log: Log, arm: int, name: str, micros: Ints, scores: tuple[Floats, Floats]) -> None:
    r"""Refuse a cost whose scores g differ between an arm and the others, given the chance p of it:

        z = sum (1[A = arm] - p) g / sqrt( sum p (1 - p) g^2 ),

    standard normal where the cost was known before chance chose, also if p depends on the cost and
    on the past. With probabilities and several treatments a log does not hold p: not tested.
    """
    given = log.probabilities
    if given is not None and log.treatments > 1:
        return
    chosen = log.actions == arm
    chance = np.where(chosen, given, 1.0 - given) if given is not None else log.shares[arm]
    chances = np.broadcast_to(chance * (1.0 - chance), log.users)
    left_to_chance = float(chances.sum())
    if left_to_chance < FEWEST:
        return
    for what, score in zip(("mean", "deviation"), scores, strict=True):
        difference = float((chosen - chance) @ score)
        error = math.sqrt(float(chances @ score**2))
        small = abs(difference) < LARGE_DIFFERENCE * left_to_chance
        if not small and abs(difference) > FAR * error:
            raise InputError(
                f"the {what} of cost column {name!r}",
                _by_arm(log, micros, what),
                f"about the same in every arm: give {NEEDED}{_hint(log)}",
            )


def _by_arm(log: Log, micros: Ints, what: str) -> dict[str, float]:
    by_arm = {}
    for arm, name in enumerate(("control", *log.treatment_names)):
        own = micros[log.actions == arm]
        if own.size:
            by_arm[name] = _money(float(own.mean() if what == "mean" else own.std()))
    return by_arm


def _hint(log: Log) -> str:
    """What else may be wrong."""
    several = ", in a column of its own for each treatment" if log.treatments > 1 else ""
    if log.probabilities is not None:
        return several
    return f"{several} (a log of decisions that looked at costs needs its probabilities, too)"


def _check_outcome(what: str, micros: Ints, outcomes: Floats) -> None:
    """Refuse a cost that within an arm tells who converted, not one that merely goes with it."""
    converted: Flags = outcomes > 0
    if min(int(converted.sum()), int((~converted).sum())) < FEWEST:
        return
    ones, zeros = outcomes_by_value(micros.astype(np.float64), converted.astype(np.float64))
    area = area_under_curve(ones, zeros)
    beyond = max(rows_before(ones, zeros), rows_before(ones[::-1], zeros[::-1]))
    expected = beyond * float(zeros.sum()) / len(micros)
    alone = beyond >= LEAST_SHARE * float(ones.sum()) and expected >= LEAST_EXPECTED
    if alone or max(area, 1 - area) > MOST_AREA:
        by_outcome = {
            "converted": _money(float(micros[converted].mean())),
            "others": _money(float(micros[~converted].mean())),
        }
        allowed = f"known before the outcome, which it tells: give {NEEDED}"
        raise InputError(f"the mean of {what}", by_outcome, allowed)


def _money(micros: float) -> float:
    return float(f"{micros / MICROS:.4g}")
