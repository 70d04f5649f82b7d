r"""Replay: a policy driven over the log of a randomised trial.

Users are streamed in a given order. Where the policy proposes what the trial did, the outcome is
seen, learned and, for a treatment, paid for; other users are skipped, but the clock counts them.
The run ends when what is left buys nothing more in the stream.

Incremental conversions are those that the paid treatments caused. Of the users for whom the policy
proposes treatment k, the trial treated a share e_k and left a share e_0 alone, by chance; so

    incremental = sum_{proposed k} ( Y 1[A = k] - Y 1[A = 0] e_k / e_0 )

is unbiased: the treated conversions, less what the same users would have done anyway. The sum of
Y / e_k - Y / e_0 would count users as treated whom the budget did not pay for.

In a log of decisions with one treatment each user has odds of their own, p / (1 - p). With several
treatments the log does not hold them: use the estimates of ``evaluation``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from bccb.errors import InputError
from bccb.evaluate.overlap import chance_of
from bccb.evaluate.proposals import Course, drive
from bccb.money import MICROS
from bccb.policy import Policy
from bccb.types import Floats, Ints, Log

POINTS = 200  # of a trajectory


@dataclass(frozen=True, slots=True)
class Replay:
    """One run: what was spent, what it brought, and the path there."""

    conversions: float
    incremental: float
    incremental_se: float
    spend: float
    treated: int
    matched: int
    encountered: int
    proposed: float
    realised: float
    seconds: float
    trajectory: Floats = field(repr=False)  # rows of (users, spend, price, conversions)


def stream(log: Log, seed: int, users: int) -> tuple[Ints, Ints]:
    """The rows of a stream of ``users`` drawn without replacement, and the rows outside it."""
    if not 1 <= users <= log.users:
        raise InputError("users", users, f"from 1 to {log.users}, the rows of the log")
    order = np.random.default_rng(seed).permutation(log.users)
    return order[:users], order[users:]


def replay(policy: Policy, log: Log, order: Ints | None = None) -> Replay:
    """Drive ``policy`` over the rows ``order`` of ``log``, by default all of them as they stand.

    >>> import bccb
    >>> from bccb.data import simulate
    >>> policy = bccb.make("thompson", budget=100, horizon=5_000, features=12, seed=1)
    >>> result = replay(policy, simulate(5_000, seed=1))
    >>> result.spend <= 100, result.matched <= result.encountered
    (True, True)
    """
    policy.check(log.features.shape[1], log.treatments)
    odds = _odds(log)
    rows = np.arange(log.users) if order is None else np.ascontiguousarray(order)
    if rows.dtype != np.int64 or rows.ndim != 1 or not rows.size:
        raise InputError("order", order, "a list of row numbers")
    if rows.min() < 0 or rows.max() >= log.users:
        raise InputError("order", order, f"row numbers from 0 to {log.users - 1}")
    outcomes = log.outcomes[:, None]
    run = drive(policy, rows, log.features, log.micros, log.actions, outcomes, pays_all=False)
    came = rows[: run.users]
    actions, logged, y = run.actions[: run.users], log.actions[came], log.outcomes[came]
    followed = (actions > 0) & (logged == actions)
    against = np.where((actions > 0) & (logged == 0), -y * _of_rows(odds, came, actions), 0.0)
    weights = np.where(followed, y, against)
    incremental = float(np.cumsum(weights)[-1]) if came.size else 0.0
    variance = float((weights**2).sum()) - incremental**2 / max(run.users, 1)
    return Replay(
        conversions=float(y[followed].sum()),
        incremental=incremental,
        incremental_se=math.sqrt(max(variance, 0.0)),
        spend=run.spend,
        treated=int(followed.sum()),
        matched=int(run.matched.sum()),
        encountered=run.users,
        proposed=float((actions > 0).mean()) if came.size else 0.0,
        realised=int(followed.sum()) / max(int(run.matched.sum()), 1),
        seconds=run.seconds,
        trajectory=_trajectory(log, rows, run, followed),
    )


def _of_rows(odds: Floats, rows: Ints, actions: Ints) -> Floats:
    """The odds of these actions in these rows."""
    return odds[rows % len(odds), actions]


def _trajectory(log: Log, rows: Ints, run: Course, followed: npt.NDArray[np.bool_]) -> Floats:
    """Some points on the way: users, spend, price, conversions."""
    if not run.users:
        return np.zeros((0, 4))
    ends = -(-np.arange(1, POINTS + 1) * len(rows) // POINTS)
    at = np.unique(np.append(ends[ends < run.users], run.users)) - 1
    came, chosen = rows[: run.users], np.maximum(run.actions[: run.users] - 1, 0)
    spend = np.cumsum(np.where(followed, log.micros[came, chosen], 0)) / MICROS
    conversions = np.cumsum(np.where(followed, log.outcomes[came], 0.0))
    return np.column_stack((at + 1.0, spend[at], run.prices[at], conversions[at]))


def _odds(log: Log) -> Floats:
    """How much likelier each action was than being left alone: (1, K+1), or a row for each user."""
    for arm, share in enumerate(log.shares.tolist()):
        if not share or (arm == 0 and not (log.actions == 0).any()):
            raise InputError(f"the share of arm {arm} in the log", 0, "above 0")
    if log.probabilities is None:
        return np.atleast_2d(log.shares / log.shares[0])
    if log.treatments > 1:
        allowed = "1 where the log has probabilities: use bccb evaluate"
        raise InputError("the number of treatments", log.treatments, allowed)
    alone = chance_of(log, 0)
    # where nobody could have been left alone, nobody was: these odds are never asked for
    treated = np.divide(1.0 - alone, alone, out=np.zeros(log.users), where=alone > 0)
    return np.column_stack((np.ones(log.users), treated))
