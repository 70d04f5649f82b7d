"""Evaluation: what the decisions of a log caused, and what other policies would have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from bccb.assembly import assemble_for
from bccb.caused import Caused
from bccb.charge import AT_ONCE, TREATMENT, Payment
from bccb.errors import InputError
from bccb.evaluate.caused import caused_by
from bccb.evaluate.charged import (
    charged_for,
    charged_in_all,
    due_rates,
    expected_charges,
    paid_in,
    payment_for,
    seen_in,
)
from bccb.evaluate.estimates import (
    HEADLINE,
    Estimate,
    Weighted,
    effective_size,
    estimate_proposed,
    estimate_treated,
)
from bccb.evaluate.outcome_model import outcome_rates
from bccb.evaluate.overlap import (
    ALONE,
    TREATED,
    OutsideOverlap,
    chance_of,
    no_balance,
    no_support,
    no_support_for_amounts,
    overlap_warning,
    thin_warning,
    within_overlap,
)
from bccb.evaluate.parallel import OnProgress
from bccb.evaluate.proposals import Proposals, propose_on
from bccb.intervals import Interval
from bccb.money import MICROS
from bccb.outcome import Kind
from bccb.policies import spec_of
from bccb.types import Flags, Floats, Ints, Log

SEEDS = 3 << 32  # seeds of evaluated policies begin here, far from those of policies that made logs


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What one policy caused on the users of a log, or would have, and for how much money.

    Where outcomes are amounts, "conversions" and "incremental" are values, in currency.
    """

    policy: str
    users: int
    treated: int  # or that the policy would treat
    conversions: float | None  # of the treated; None for proposals, many of which were not followed
    learned: int | None  # users that the policy could learn from; None for the log's own
    spend: float
    estimates: tuple[Estimate, ...]  # to be shown unless ``withheld``
    effective_users: float  # those left alone, or those treated, whichever are fewer
    # None where it is not known: with probabilities and several treatments
    outside: OutsideOverlap | None
    warnings: tuple[str, ...]
    withheld: str = ""  # why the log has no support for any estimate
    caused: Caused | None = None  # of the log's own decisions, by a model and without one
    # what proposals would be charged on conversion, as estimated for the users that the estimates
    # are about; None where spend is known
    charged: Interval | None = None
    kind: str = Kind.CONVERSION  # of the outcomes

    @property
    def shown(self) -> tuple[Estimate, ...]:
        """The estimates that the log supports."""
        return () if self.withheld else self.estimates

    @property
    def headline(self) -> Estimate | None:
        """The estimate to go by; None where the log has no support for any.

        The doubly robust one: it is unbiased whatever its model of outcomes thinks, as long as the
        probabilities are right, and the narrower the more that model knows.
        """
        return next((line for line in self.shown if line.method == HEADLINE), None)

    @property
    def compared_spend(self) -> float:
        """What was spent on the users whom the estimates are about."""
        if self.charged is not None:
            return self.charged.value
        return self.spend * (1.0 - (self.outside.spend if self.outside else 0.0))

    def cost_per_incremental(self, estimate: Estimate) -> Interval | None:
        """What was spent for each caused conversion; None where it may be that none was caused."""
        if estimate.low <= 0:
            return None
        spend = self.charged or Interval(*[self.compared_spend] * 3)
        return Interval(
            spend.value / estimate.incremental,
            spend.low / estimate.high,
            spend.high / estimate.low,
        )

    def return_on_spend(self, estimate: Estimate) -> Interval | None:
        """The value that was caused for each unit of money; None where perhaps none was spent."""
        spend = self.charged or Interval(*[self.compared_spend] * 3)
        if spend.low <= 0:
            return None
        return Interval(
            estimate.incremental / spend.value,
            estimate.low / (spend.high if estimate.low > 0 else spend.low),
            estimate.high / (spend.low if estimate.high > 0 else spend.high),
        )

    def figures(self) -> dict[str, Any]:
        """The evaluation in plain types, without estimates that the log does not support."""
        figures = asdict(replace(self, estimates=self.shown))
        for line, estimate in zip(figures["estimates"], self.shown, strict=True):
            name, each = "cost_per_incremental", self.cost_per_incremental(estimate)
            if self.kind == Kind.AMOUNT:
                name, each = "return_on_spend", self.return_on_spend(estimate)
            line[name] = None if each is None else asdict(each)
        return figures


def evaluate_log(log: Log, rates: Floats, payment: Payment = AT_ONCE) -> Evaluation:
    """What the treatments of the log itself caused; ``rates`` are those of an outcome model.

    >>> from bccb.data import simulate
    >>> from bccb.evaluate.outcome_model import outcome_rates
    >>> log = simulate(20_000, seed=1, outcome="visit")
    >>> own = evaluate_log(log, outcome_rates(log))
    >>> [f"{line.method} {line.incremental:.0f} ± {line.se:.0f}" for line in own.estimates]
    ['IPW 251 ± 66', 'SNIPS 243 ± 65', 'DR 270 ± 59']
    """
    treated, alone = log.actions > 0, chance_of(log, 0)
    paid = paid_in(log, payment)
    inside, outside = _overlap(log.actions, alone, paid)
    odds = np.zeros(log.users)
    left = inside & ~treated
    odds[left] = (1.0 - alone[left]) / alone[left]
    estimates: tuple[Estimate, ...] = ()
    warnings, withheld = overlap_warning(outside, "treated users"), list[str]()
    if odds.any() and (treated & inside).any():
        chance = alone[inside]
        squares = None if np.isnan(chance).any() else (1.0 - chance) ** 2 / chance
        control = Weighted(odds[inside], rates[inside, 0], squares)
        estimates = estimate_treated(log.outcomes[inside], treated[inside], control, log.kind)
        spread = float((odds**2).sum()) if squares is None else float(((1 - chance) / chance).sum())
        withheld = no_support(ALONE, odds)
        withheld += no_balance(ALONE, odds, int((treated & inside).sum()), spread)
        if log.amounts:
            for who, weights in ((ALONE, odds), (TREATED, (treated & inside).astype(np.float64))):
                withheld += no_support_for_amounts(who, weights, log.outcomes)
        else:
            warnings += thin_warning(ALONE, odds, log.outcomes)
    else:
        withheld = [NOTHING]
    return Evaluation(
        policy=THIS,
        users=log.users,
        treated=int(treated.sum()),
        conversions=float(log.outcomes[treated].sum()),
        learned=None,
        spend=float(paid.sum()),
        estimates=estimates,
        effective_users=effective_size(odds),
        outside=outside,
        warnings=tuple(warnings),
        withheld=" ".join(withheld),
        caused=caused_by(log),
        kind=log.kind,
    )


def evaluate_proposals(
    name: str,
    log: Log,
    rates: Floats,
    proposals: Proposals,
    payment: Payment = AT_ONCE,
    due: Floats | None = None,
) -> Evaluation:
    """What a policy with these proposals would have caused on the users of the log.

    What it would be charged on conversion is estimated, too, by the doubly robust estimate; ``due``
    is :func:`.charged.due_rates`, by default the ``rates``. For users outside the overlap, whom no
    estimate is about, the spend is what those rates expect.
    """
    wanted, due = proposals.actions, rates if due is None else due
    asked, alone = chance_of(log, wanted), chance_of(log, 0)
    micros = expected_charges(log, due, payment.share) if payment.on_conversion else log.micros
    costs = np.where(wanted > 0, micros[np.arange(log.users), wanted - 1] / MICROS, 0.0)
    inside, outside = _overlap(wanted, np.minimum(asked, alone), costs)
    rows = np.flatnonzero(inside & (wanted > 0))
    logged, outcomes = log.actions[rows], log.outcomes[rows]
    taken = _weighted(asked[rows], logged == wanted[rows], rates[rows, wanted[rows]])
    control = _weighted(alone[rows], logged == 0, rates[rows, 0])
    estimates: tuple[Estimate, ...] = ()
    charged, spend = None, proposals.spend
    if payment.on_conversion:
        parts = due[rows, wanted[rows]]
        terms = charged_for(log, rows, wanted[rows], asked[rows], parts, payment.share)
        seen = seen_in(log, rows, wanted[rows], asked[rows], payment.share)
        charged = charged_in_all(terms, seen)
        spend = charged.value + float(costs[~inside].sum())
    warnings, withheld = overlap_warning(outside, "users it would treat"), list[str]()
    if taken.weights.any() and control.weights.any():
        estimates = estimate_proposed(outcomes, taken, control, log.kind)
        for who, arm in ((FOLLOWED, taken), (ALONE, control)):
            spread = arm.weights**2 if arm.squares is None else arm.squares - 1.0
            withheld += no_support(who, arm.weights)
            withheld += no_balance(who, arm.weights, len(rows), float(spread.sum()))
            if log.amounts:
                withheld += no_support_for_amounts(who, arm.weights, outcomes)
            else:
                warnings += thin_warning(who, arm.weights, outcomes)
    else:
        withheld = [NOTHING if wanted.any() else NOBODY]
    return Evaluation(
        policy=name,
        users=log.users,
        treated=int((wanted > 0).sum()),
        conversions=None,
        learned=proposals.learned,
        spend=spend,
        estimates=estimates,
        effective_users=min(effective_size(taken.weights), effective_size(control.weights)),
        outside=outside,
        warnings=tuple(warnings),
        withheld=" ".join(withheld),
        charged=charged,
        kind=log.kind,
    )


def _overlap(actions: Ints, chance: Floats, paid: Floats) -> tuple[Flags, OutsideOverlap | None]:
    """The rows that are used, and the part of the treatments ``actions`` that is in the others."""
    inside = within_overlap(chance)
    if inside is None:
        return np.ones(len(actions), np.bool_), None
    lost = (actions > 0) & ~inside
    users, spend = max(1, int((actions > 0).sum())), float(paid.sum()) or 1.0
    return inside, OutsideOverlap(float(lost.sum()) / users, float(paid[lost].sum()) / spend)


def _weighted(chance: Floats, rows: Flags, rates: Floats) -> Weighted:
    """An arm whose rows stand for 1 / chance users each."""
    weights = np.zeros(len(chance))
    weights[rows] = 1.0 / chance[rows]
    return Weighted(weights, rates, None if np.isnan(chance).any() else 1.0 / chance)


def evaluate_with_others(
    log: Log,
    names: Sequence[str],
    budget: float | None = None,
    seed: int = 0,
    progress: OnProgress | None = None,
    *,
    charge: str = TREATMENT,
    cost_cap: float | None = None,
    share: float | None = None,
) -> list[Evaluation]:
    """Evaluate the log's own decisions, then those of other policies with this budget, which is by
    default what the log spent. ``progress`` is called after each. ``charge``, ``cost_cap`` and
    ``share`` are those of :func:`bccb.make`; charge and share are the log's, too.
    """
    payment, rates = payment_for(log, charge, cost_cap, share), outcome_rates(log)
    evaluations = [evaluate_log(log, rates, payment)]
    due = due_rates(log, rates, payment)
    money = evaluations[0].spend if budget is None else budget
    if not money:
        raise InputError("what this log spent", money, "above 0, or --budget given")
    for name in names:
        if progress is not None:
            progress(len(evaluations), len(names) + 1, name)
        evaluations.append(evaluate_policy(log, rates, name, money, seed, payment, due))
    return evaluations


def evaluate_policy(
    log: Log,
    rates: Floats,
    name: str,
    budget: float,
    seed: int = 0,
    payment: Payment = AT_ONCE,
    due: Floats | None = None,
) -> Evaluation:
    """Drive a policy over the log with this budget and evaluate its proposals."""
    spec, own = spec_of(name), SEEDS + seed
    policy = assemble_for(spec, log, budget=budget, horizon=log.users, seed=own, payment=payment)
    proposals = propose_on(policy, log, rates if due is None else due)
    return evaluate_proposals(name, log, rates, proposals, payment, due)


def unsuitable(name: str) -> str:
    """Why a policy cannot be driven over a log of decisions; empty where it can."""
    spec = spec_of(name)
    if spec.needs_effects:
        return f"{name} is left out: it needs the true effects, which no log knows"
    if spec.needs_history:
        return f"{name} is left out: it needs history, and all rows of this log are evaluated"
    return ""


THIS = "this log"
FOLLOWED = "The users treated as proposed"
NOBODY = "It would treat nobody on this log."
NOTHING = "This log cannot tell what these treatments cause: no such users were left to chance."
