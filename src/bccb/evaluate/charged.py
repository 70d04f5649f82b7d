r"""What is charged on conversion, estimated from a log.

A treatment a > 0 of a user costs c if they convert, so that a policy with these proposals pays

    sum_{a>0} c_a ( m_a + 1[A = a] (1[Y > 0] - m_a) / p )

in expectation: the doubly robust estimate, with A the action that was taken, p its probability and
m_a the rate that a model expects. With m = 0 it is inverse propensity weighting.

Where a share s of the amount Y is charged, at most c, the part min(s Y / c, 1) of the cost is due
in place of 1[Y > 0].
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from bccb.charge import AT_ONCE, TREATMENT, Payment, payment_in, payment_of
from bccb.errors import InputError
from bccb.evaluate.outcome_model import outcome_rates
from bccb.evaluate.statistics import LEVEL, load_stats
from bccb.intervals import QUANTILE, Interval
from bccb.outcome import Kind
from bccb.types import Floats, Ints, Log


def payment_for(
    log: Log, charge: str, cost_cap: float | None = None, share: float | None = None
) -> Payment:
    """How the treatments of a log are paid for; checked: a share is one of an amount.

    A log of the service says how its treatments were charged. It is used unless a charge or a share
    is given; one that contradicts it is refused.
    """
    if log.charge and charge == TREATMENT and share is None:
        charge, _, share = payment_in(log.charge)
    if share is not None and not log.amounts:
        allowed = "left out: the outcomes of this log are conversions, not amounts of money"
        raise InputError("share", share, allowed)
    payment = payment_of(charge, cost_cap, share)
    if log.charge and log.charge != payment.text:
        option = log.charge.replace(", share", " --share")
        raise InputError("charge", payment.text, f"as in this log: --charge {option}")
    return payment


def part_due(log: Log, share: float | None = None) -> Floats:
    """Which part of the cost of each row's treatment is due on conversion, from 0 to 1.

    >>> micros = np.full((3, 1), 4 * 10**6)
    >>> log = Log(np.zeros((3, 1)), [1, 1, 1], [8, 0, 90], micros, kind="amount")
    >>> part_due(log).tolist(), part_due(log, share=0.2).tolist()
    ([1.0, 0.0, 1.0], [0.4, 0.0, 1.0])
    """
    if share is None:
        # not 0, as the policies count conversions: a refund is one, too
        return np.asarray(log.outcomes != 0.0, np.float64)
    costs = log.costs[np.arange(log.users), np.maximum(log.actions, 1) - 1]
    return np.asarray(np.clip(share * log.outcomes / costs, 0.0, 1.0))


def paid_in(log: Log, payment: Payment = AT_ONCE) -> Floats:
    """What the log's own treatments cost, row by row.

    >>> log = Log(np.zeros((3, 1)), [1, 1, 0], [1, 0, 1], np.full((3, 1), 10**6))
    >>> paid_in(log).tolist(), paid_in(log, Payment("conversion")).tolist()
    ([1.0, 1.0, 0.0], [1.0, 0.0, 0.0])
    """
    costs = np.where(log.actions > 0, log.costs[np.arange(log.users), log.actions - 1], 0.0)
    return costs * part_due(log, payment.share) if payment.on_conversion else costs


def due_rates(log: Log, rates: Floats, payment: Payment) -> Floats:
    """The part of the cost that a model expects to be due, for each row and action.

    Where outcomes are 0 or 1 it is the rate of conversions, and so that of ``rates``, which a model
    of outcomes gave. Otherwise it has a model of its own: an outcome of 0.5 is charged as one of 1.
    """
    return outcome_rates(as_due(log, payment)) if is_due_otherwise(log, payment) else rates


def is_due_otherwise(log: Log, payment: Payment) -> bool:
    """Whether something else is due on conversion than the outcomes of a log say.

    >>> log = Log(np.zeros((2, 1)), [1, 1], [0.5, 0], np.full((2, 1), 10**6))
    >>> is_due_otherwise(log, Payment("conversion")), is_due_otherwise(log, AT_ONCE)
    (True, False)
    """
    if not payment.on_conversion:
        return False
    return log.amounts or not np.array_equal(part_due(log, payment.share), log.outcomes)


def as_due(log: Log, payment: Payment) -> Log:
    """The log with the part of the cost that is due for outcomes."""
    return replace(log, outcomes=part_due(log, payment.share), kind=Kind.CONVERSION)


def running_rates(log: Log, share: float | None = None) -> Floats:
    """The mean part due of each action over the users before each, of shape (n, K+1).

    Without a share it is the conversion rate. Half a conversion of one more user is added, for the
    first ones.

    >>> log = Log(np.zeros((3, 1)), [1, 1, 0], [1, 0, 1], np.full((3, 1), 10**6))
    >>> running_rates(log).tolist()
    [[0.5, 0.5], [0.5, 0.75], [0.5, 0.5]]
    """
    took = log.actions[:, None] == np.arange(log.treatments + 1)
    converted = took * part_due(log, share)[:, None]
    users, conversions = (np.cumsum(each, axis=0) - each for each in (took, converted))
    return np.asarray((conversions + 0.5) / (users + 1.0))


def expected_charges(log: Log, rates: Floats | None = None, share: float | None = None) -> Ints:
    """What each treatment of each user is expected to be charged, in micros, of shape (n, K).

    ``rates`` are what a model expects to be due; where it has none, those of the users before
    stand in.
    """
    before = running_rates(log, share)
    expected = before if rates is None else np.where(rates > 0.0, rates, before)
    return np.ceil(log.micros * np.minimum(expected[:, 1:], 1.0)).astype(np.int64)


def charged_for(
    log: Log,
    rows: Ints,
    actions: Ints,
    chance: Floats,
    rates: Floats,
    share: float | None = None,
) -> Floats:
    """The terms of the estimate: what treating each of ``rows`` with its action is charged.

    ``chance`` and ``rates`` are those of these actions; the chance counts where the log took them.

    >>> log = Log(np.zeros((2, 1)), [1, 0], [1, 1], np.full((2, 1), 2 * 10**6))
    >>> rows, half = np.array([0, 1]), np.full(2, 0.5)
    >>> charged_for(log, rows, np.array([1, 1]), half, np.full(2, 0.1)).round(9).tolist()
    [3.8, 0.2]
    """
    followed = log.actions[rows] == actions
    error = np.zeros(len(rows))
    np.divide(part_due(log, share)[rows] - rates, chance, out=error, where=followed)
    return np.asarray(log.costs[rows, actions - 1] * (rates + error))


def charged_in_all(terms: Floats, seen: Seen) -> Interval:
    """The sum with its 95 % interval, which nothing below 0 belongs to.

    The variance is that of the terms, because proposals do not depend on the log's own draws. Where
    few charges were seen, that is too little, and most often where the sum is too low. So the upper
    end is at least as far away as that of a weighted Poisson sum of what was seen.
    """
    total = float(terms.sum())
    reach = QUANTILE * math.sqrt(len(terms) * float(terms.var())) if len(terms) else 0.0
    high = total + max(reach, upper_of_poisson(seen) - float(seen.charges.sum()))
    return Interval(max(total, 0.0), max(total - reach, 0.0), max(high, 0.0))


class Seen(NamedTuple):
    """The rows that took a proposed action, by inverse propensity weighting."""

    charges: Floats  # what was charged, over the chance of the action
    costs: Floats  # what can be charged, over that chance


def seen_in(
    log: Log, rows: Ints, actions: Ints, chance: Floats, share: float | None = None
) -> Seen:
    """What is known of the charges of these proposals without a model."""
    followed = log.actions[rows] == actions
    costs = log.costs[rows, actions - 1][followed] / chance[followed]
    return Seen(costs * part_due(log, share)[rows][followed], costs)


def upper_of_poisson(seen: Seen) -> float:
    """The upper end of the 95 % interval of a weighted Poisson sum (Fay and Feuer 1997).

    One more charge is taken to weigh as one does on average, weighted by itself, which is on the
    safe side.

    >>> none, one = np.zeros(100), np.eye(100)[0]
    >>> [round(upper_of_poisson(Seen(charges, np.ones(100))), 2) for charges in (none, one)]
    [3.69, 5.57]
    """
    if not len(seen.costs):
        return 0.0
    one_more = float((seen.costs**2).sum() / seen.costs.sum())
    total = float(seen.charges.sum()) + one_more
    squares = float((seen.charges**2).sum()) + one_more**2
    shape = total**2 / squares
    return float(load_stats().gamma.ppf(1.0 - LEVEL / 2, shape)) * squares / total
