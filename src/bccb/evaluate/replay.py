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
from typing import NamedTuple

import numpy as np

from bccb.errors import InputError
from bccb.evaluate.overlap import chance_of
from bccb.evaluate.proposals import drive
from bccb.policy import Policy
from bccb.types import Floats, Ints, Log

POINTS = 200  # of a trajectory


class Gains(NamedTuple):
    """What treating each of some rows of a log causes."""

    rows: Ints
    each: Floats


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
    gains: Gains = field(repr=False)  # whose sum is incremental


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
    policy.check_kind(log)
    odds = _odds(log)
    rows = np.arange(log.users) if order is None else _checked(order, log.users)
    run = drive(
        *(policy, rows, log.features, log.micros, log.actions, log.outcomes[:, None]),
        pays_all=False,
        points=POINTS,
    )
    came, actions = rows[: run.users], run.actions[: run.users]
    proposed = actions > 0
    telling = np.flatnonzero((log.outcomes.take(came) != 0.0) & proposed)
    weights = _weights(log, odds, came[telling], actions[telling])
    incremental = float(np.cumsum(weights)[-1]) if weights.size else 0.0
    variance = float((weights**2).sum()) - incremental**2 / max(run.users, 1)
    paid = np.flatnonzero(run.matched[: run.users] & proposed)
    conversions = np.append(0.0, np.cumsum(log.outcomes.take(came[paid])))
    by_then = conversions[np.searchsorted(paid, run.path[:, 0].astype(np.int64))]
    matched = int(np.count_nonzero(run.matched))
    return Replay(
        conversions=float(conversions[-1]),
        incremental=incremental,
        incremental_se=math.sqrt(max(variance, 0.0)),
        spend=run.spend,
        treated=len(paid),
        matched=matched,
        encountered=run.users,
        proposed=int(np.count_nonzero(proposed)) / max(run.users, 1),
        realised=len(paid) / max(matched, 1),
        seconds=run.seconds,
        trajectory=np.column_stack((run.path, by_then)),
        gains=Gains(came[telling], weights),
    )


def _checked(order: Ints, users: int) -> Ints:
    rows = np.ascontiguousarray(order)
    if rows.dtype != np.int64 or rows.ndim != 1 or not rows.size:
        raise InputError("order", order, "a list of row numbers")
    if rows.min() < 0 or rows.max() >= users:
        raise InputError("order", order, f"row numbers from 0 to {users - 1}")
    return rows


def _weights(log: Log, odds: Floats, rows: Ints, proposed: Ints) -> Floats:
    """The terms of the incremental conversions that these rows give."""
    y, logged = log.outcomes[rows], log.actions[rows]
    against = np.where(logged == 0, -y * odds[rows % len(odds), proposed], 0.0)
    return np.where(logged == proposed, y, against)


def _odds(log: Log) -> Floats:
    """How much likelier each action was than being left alone: (1, K+1), or a row for each user."""
    for arm, share in enumerate(log.shares.tolist()):
        if not share or (arm == 0 and not (log.actions == 0).any()):
            name = f" ({log.treatment_names[arm - 1]})" if arm else ""
            allowed = "above 0: nobody can be compared with users that the log does not have"
            raise InputError(f"the share of arm {arm}{name} in the log", 0, allowed)
    if log.probabilities is None:
        return np.atleast_2d(log.shares / log.shares[0])
    if log.treatments > 1:
        allowed = "1 where the log has probabilities: use bccb evaluate"
        raise InputError("the number of treatments", log.treatments, allowed)
    alone = chance_of(log, 0)
    # where nobody could have been left alone, nobody was: these odds are never asked for
    treated = np.divide(1.0 - alone, alone, out=np.zeros(log.users), where=alone > 0)
    return np.column_stack((np.ones(log.users), treated))
