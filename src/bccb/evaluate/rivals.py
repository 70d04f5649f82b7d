"""Rivals: the policies that a user could take, and what each causes on the stream of a trial.

Every rival pays for each of its proposals, as it would live, and is judged by the conversions that
its proposals cause. Of simulated users the true effects are known, and their sum is the figure. Of
a trial it is the doubly robust estimate, whose outcome model knows the rows of history alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bccb.assembly import assemble_for
from bccb.charge import AT_ONCE, Payment
from bccb.errors import FitError
from bccb.evaluate.charged import (
    as_due,
    charged_for,
    is_due_otherwise,
    running_rates,
)
from bccb.evaluate.outcome_model import model_of
from bccb.evaluate.proposals import propose_on
from bccb.evaluate.replay import Gains
from bccb.evaluate.trials import Trial
from bccb.outcome import Kind
from bccb.policies import POLICIES, RESPONSE_FIRST, spec_of, takes
from bccb.spec import Spec
from bccb.types import Floats, Ints, Log


@dataclass(frozen=True, slots=True)
class RivalRun:
    """One policy on the stream of one seed."""

    policy: str
    seed: int
    incremental: float
    spend: float
    learned: int  # users whose outcome it was shown
    note: str = ""


NONE = Gains(np.empty(0, np.int64), np.empty(0))


def rivals_of(history: int, kind: str = Kind.CONVERSION, capped: bool = False) -> list[str]:
    """The policies that can be used with this many rows of history, for outcomes of this kind.

    Where the cost is ``capped``, those alone that a cap applies to: others would spend more.

    >>> set(rivals_of(1_000)) - set(rivals_of(0)) >= {"hybrid", "offline-uplift"}
    True
    """
    return [
        name
        for name, spec in POLICIES.items()
        if not spec.needs_effects
        and (history or not spec.needs_history)
        and takes(name, kind)
        and not (capped and spec.composition.no_cap)
    ]


def rival_of(name: str, history: int) -> Spec:
    """A policy of the table as it is run after this many rows of history.

    response-first learns from them, too. Otherwise a policy that begins with history would be ahead
    of it for knowing who converts, and not for learning effects.

    >>> rival_of("response-first", 1_000).needs_history, rival_of("bccb", 1_000).needs_history
    (True, False)
    """
    spec = spec_of(name)
    return replace(spec, after_history=True) if name == RESPONSE_FIRST and history else spec


def measure(
    trial: Trial,
    names: Sequence[str],
    budget: float,
    seed: int,
    payment: Payment = AT_ONCE,
) -> Iterator[tuple[RivalRun, Gains]]:
    """Run each policy over the stream of a trial; one that cannot be fitted treats nobody.

    What is charged on conversion is estimated (:mod:`.charged`).
    """
    log = trial.log.take(trial.order)
    past = trial.past.take(trial.history) if len(trial.history) else None
    rates = None if log.effects is not None or past is None else _rates(past, log)
    due = rates
    if past is not None and rates is not None and is_due_otherwise(past, payment):
        due = _rates(as_due(past, payment), log)
    for name in names:
        spec = rival_of(name, len(trial.history))
        policy = assemble_for(
            spec, log, budget=budget, horizon=log.users, seed=seed, payment=payment
        )
        try:
            if policy.needs_history and past is not None:
                policy.learn(past)
        except FitError as error:
            yield RivalRun(name, seed, 0.0, 0.0, 0, f"treats nobody: {error}"), NONE
            continue
        proposals = propose_on(policy, log, due)
        treated = np.flatnonzero(proposals.actions)
        actions, spend = proposals.actions[treated], proposals.spend
        each = gains_of(log, treated, actions, rates)
        if payment.on_conversion:
            expected = running_rates(log, payment.share) if due is None else due
            known = log.shares[actions], expected[treated, actions], payment.share
            spend = max(float(charged_for(log, treated, actions, *known).sum()), 0.0)
        run = RivalRun(name, seed, float(each.sum()), spend, proposals.learned)
        yield run, Gains(trial.order[treated], each)


def _rates(past: Log, log: Log) -> Floats:
    """What a model of the past expects of each user under each action, of shape (n, K+1)."""
    arms = (past.actions == arm for arm in range(past.treatments + 1))
    predict = model_of(past.kind)
    return np.column_stack(
        [predict(past.features[arm], past.outcomes[arm], log.features) for arm in arms]
    )


def gains_of(log: Log, users: Ints, actions: Ints, rates: Floats | None = None) -> Floats:
    """What ``actions`` cause, user by user: the true effects or, with ``rates``, estimates.

    The estimates are the doubly robust ones of :mod:`bccb.evaluate.estimates`, whose sum is
    unbiased whatever the rates.

    >>> log = Log(np.zeros((4, 1)), [0, 0, 1, 1], [0, 1, 1, 1], np.full((4, 1), 10**6))
    >>> gains_of(log, np.array([1, 2, 3]), np.array([1, 1, 1]), np.zeros((4, 2))).tolist()
    [-2.0, 2.0, 2.0]
    """
    if rates is None:
        assert log.effects is not None
        return np.asarray(log.effects[users, actions - 1])
    logged, outcomes = log.actions[users], log.outcomes[users]
    treated, alone = rates[users, actions], rates[users, 0]
    gains: Floats = treated - alone
    gains += (logged == actions) * (outcomes - treated) / log.shares[actions]
    gains -= (logged == 0) * (outcomes - alone) / log.shares[0]
    return gains
