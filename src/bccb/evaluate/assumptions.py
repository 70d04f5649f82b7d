"""Assumptions of a plan: which users come, how many convert, and what a conversion brings.

Users are those of a trial, drawn with replacement, or the simulator's. Everybody's odds of a
conversion are shifted alike, so that rate and effect are those asked for. In money a conversion
brings a log-normal amount. In a trial its mean depends on the features, by the ridge regression
of :func:`bccb.evaluate.outcome_model.fit_amounts`, in which one huge order counts little, and it
varies as the trial's do; where amounts of treated users clearly differ from those of others, they
do so in the plan. So do losses, the amounts below 0.
"""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bccb.data import costs
from bccb.data.world import SPREAD, Amounts, World, simulate_world
from bccb.errors import InputError
from bccb.evaluate.live import outcomes_in
from bccb.evaluate.outcome_model import fit_amounts, predict
from bccb.intervals import QUANTILE, Interval
from bccb.kernels.moments import CHANCE
from bccb.outcome import LARGEST_RANGE, MOST_AMOUNT, check_largest
from bccb.types import Floats, Ints, Log

FEWEST_CONVERSIONS = 20  # of each arm of a trial
STREAM = 7  # keeps the draws of rows apart from others
FARTHEST = 30.0  # logits
MOSTLY = 0.99  # of conversions bring less than the largest that counts
CUTS = 4  # times that amounts are cut before the model is fitted: a huge one widens the first cut
MOST_LOST = 0.5  # of the amounts: a campaign that loses money without treatments has no plan


class Target(NamedTuple):
    """What one more conversion rests on: the rate without treatment, and what treating adds."""

    rate: float
    effect: float


class AssumedAmounts(NamedTuple):
    """What conversions are assumed to bring."""

    amount: float  # on average, without treatment
    spread: float  # of its logarithm, beyond what the features tell
    largest: float  # the largest amount that counts in what is measured
    lost: float = 0.0  # the share of losses in the sum of all amounts, without their signs
    lost_treated: float = 0.0  # the same of treated users; another one if they clearly differ
    ratio: Interval | None = None  # of amounts of treated users to those of others, in a trial

    @property
    def loses(self) -> bool:
        """Whether some amounts are below 0."""
        return self.lost > 0.0 or self.lost_treated > 0.0

    @property
    def factor(self) -> float:
        """What treating does to amounts: nothing, unless the trial shows that it does."""
        if self.ratio is None or self.ratio.low <= 1.0 <= self.ratio.high:
            return 1.0
        return self.ratio.value


class Shape(NamedTuple):
    """Users of a trial: features, costs, and what they do without treatment."""

    features: Floats
    micros: Ints
    rates: Floats  # of conversions
    amounts: Floats | None = None  # what a conversion of each brings on average, without its sign
    ratios: Floats | None = None  # of amounts of the trial to what is expected of them


class Assumed(NamedTuple):
    """All that a plan assumes; where it does not say, users are those of the simulator."""

    target: Target | None = None
    shape: Shape | None = None
    worth: AssumedAmounts | None = None
    cost: float | None = None  # of treating any of the simulated users


def simulated(target: Target | None, amount: float | None, cost: float | None) -> Assumed:
    """Simulated users, with this rate and effect, average amount and cost; checked."""
    if target is not None and not 0.0 < target.rate < 1.0:
        raise InputError("rate", target.rate, "above 0 and below 1, such as 0.05")
    if target is not None and not -target.rate < target.effect < 1.0 - target.rate:
        allowed = f"such that the rate {target.rate:g} with it stays between 0 and 1"
        raise InputError("effect", target.effect, allowed)
    if cost is not None:
        costs.constant(1, 1, cost)  # refuse one that is none
    if amount is None:
        return Assumed(target, cost=cost)
    if not 1e-6 <= amount <= MOST_AMOUNT:
        raise InputError("amount", amount, f"{LARGEST_RANGE}, such as 25")
    largest = amount * math.exp(NormalDist().inv_cdf(MOSTLY) * SPREAD - 0.5 * SPREAD**2)
    return Assumed(target, worth=AssumedAmounts(amount, SPREAD, _tidy(largest)), cost=cost)


def of_trial(trial: Log) -> Assumed:
    """The users of a trial, its rate and effect (the average over its treatments) and amounts.

    >>> from bccb.data import simulate
    >>> assumed = of_trial(simulate(4_000, seed=2, outcome="visit"))
    >>> round(assumed.target.rate, 3), assumed.worth is None
    (0.036, True)
    """
    if trial.probabilities is not None:
        allowed = "left out: a plan needs a randomised trial, not a log of a policy's decisions"
        raise InputError("the probabilities of the log", "given", allowed)
    treated = trial.actions > 0
    converted = 1.0 * (trial.outcomes != 0.0) if trial.amounts else trial.outcomes
    for who, rows in (("treated", treated), ("untreated", ~treated)):
        conversions = float(converted[rows].sum())
        if conversions < FEWEST_CONVERSIONS:
            allowed = f"at least {FEWEST_CONVERSIONS}; or give --rate and --effect"
            raise InputError(f"conversions of {who} users in the trial", conversions, allowed)
    rate = float(converted[~treated].mean())
    target = Target(rate, float(converted[treated].mean()) - rate)
    rates = predict(trial.features[~treated], converted[~treated], trial.features)
    shape = Shape(trial.features, trial.micros, np.clip(rates, 1e-9, 1.0 - 1e-9))
    if not trial.amounts:
        return Assumed(target, shape)
    shape, worth = _worth(trial, shape, treated)
    return Assumed(target, shape, worth)


def _worth(
    trial: Log, shape: Shape, treated: npt.NDArray[np.bool_]
) -> tuple[Shape, AssumedAmounts]:
    """The users with what a conversion of each brings without treatment, and what is assumed."""
    won = np.flatnonzero(trial.outcomes)
    sizes = np.abs(trial.outcomes)
    for _ in range(CUTS):
        sizes[won] = fit_amounts(trial.features, sizes).cut
    model, own = fit_amounts(trial.features, sizes), treated[won]
    ratio = _ratio(model.residuals[own], model.residuals[~own])
    lost, lost_treated = _losses(sizes[won], trial.outcomes[won] < 0.0, own)
    if lost >= MOST_LOST:
        allowed = f"below {MOST_LOST:.0%}: a plan in money needs amounts that are mostly gains"
        raise InputError("the share of losses in the amounts of the trial", f"{lost:.1%}", allowed)
    largest = float(np.quantile(_without_chance(trial.outcomes[trial.outcomes > 0.0]), MOSTLY))
    worth = AssumedAmounts(1.0, 0.0, 1.0, lost, lost_treated, ratio)
    sizes[treated] /= worth.factor
    model = fit_amounts(trial.features, sizes)
    amounts = model.expected(trial.features)
    uncut = np.abs(trial.outcomes[won]) / np.where(own, worth.factor, 1.0)
    ratios = _without_chance(uncut / model.expected(trial.features[won]))
    amounts *= ratios.mean()
    return shape._replace(amounts=amounts, ratios=ratios / ratios.mean()), worth._replace(
        amount=float(np.average(amounts, weights=shape.rates)) * (1.0 - 2.0 * lost),
        spread=float(model.residuals.std()),
        largest=_tidy(largest),
    )


def _without_chance(sizes: Floats) -> Floats:
    """The sizes, the largest two of which count as the third."""
    most = np.sort(sizes)[-min(CHANCE, len(sizes))]
    return np.asarray(np.minimum(sizes, most), np.float64)


def _losses(
    sizes: Floats, below: npt.NDArray[np.bool_], treated: npt.NDArray[np.bool_]
) -> tuple[float, float]:
    """The share of losses in the sum of sizes, without treatment and with it.

    The same for both, unless the 95 % interval of their difference excludes 0.
    """
    shares, variances = [], []
    for rows in (~treated, treated):
        total = float(sizes[rows].sum())
        share = float(sizes[rows & below].sum()) / total
        shares.append(share)
        variances.append(float(((sizes[rows] * (below[rows] - share)) ** 2).sum()) / total**2)
    if abs(shares[1] - shares[0]) > QUANTILE * math.sqrt(sum(variances)):
        return shares[0], shares[1]
    of_both = float(sizes[below].sum() / sizes.sum())
    return of_both, of_both


def _ratio(ours: Floats, others: Floats) -> Interval:
    """The ratio of amounts with these logarithms, with its 95 % interval."""
    apart = float(ours.mean() - others.mean())
    reach = QUANTILE * math.sqrt(ours.var() / len(ours) + others.var() / len(others))
    ends = (round(math.exp(each), 9) for each in (apart, apart - reach, apart + reach))
    return Interval(*ends)


def _tidy(amount: float) -> float:
    """The amount rounded up to two digits, which a user can give again.

    >>> _tidy(186.2), _tidy(0.0301), _tidy(25.0)
    (190.0, 0.031, 25.0)
    """
    unit = 10.0 ** (math.floor(math.log10(amount)) - 1)
    rounded = float(f"{math.ceil(amount / unit * (1.0 - 1e-12)) * unit:.2g}")
    return min(max(rounded, 1e-6), MOST_AMOUNT)


def with_largest(assumed: Assumed, largest: float | None) -> Assumed:
    """The same with another largest amount that counts; checked."""
    if largest is None:
        return assumed
    if assumed.worth is None:
        allowed = "left out: it is about amounts of money, and outcomes are conversions here"
        raise InputError("largest", largest, allowed)
    check_largest(largest)
    return assumed._replace(worth=assumed.worth._replace(largest=largest))


class Users(NamedTuple):
    """Users of a plan, and what each action brings."""

    world: World  # its amounts are those without treatment
    outcomes: Floats  # (n, K+1), this time
    values: Floats  # (n, K+1), on average


def users_of(users: int, seed: int, assumed: Assumed) -> Users:
    """So many users of a plan."""
    world, treated = _world(users, seed, assumed)
    outcomes, values = outcomes_in(world), world.rates.copy()
    if world.amounts is not None and treated is not None:
        outcomes[:, 1:] = (outcomes[:, 1:] != 0.0) * treated.drawn[:, None]
        values[:, :1] *= world.amounts.worth[:, None]
        values[:, 1:] *= treated.worth[:, None]
    return Users(world, outcomes, values)


def world_of(users: int, seed: int, assumed: Assumed) -> World:
    """So many users of a plan. What treating does to amounts is not in it."""
    return _world(users, seed, assumed)[0]


def _world(users: int, seed: int, assumed: Assumed) -> tuple[World, Amounts | None]:
    """So many users, and what a conversion of each of them brings when treated."""
    target, shape = assumed.target, assumed.shape
    world = simulate_world(users, seed, "conversion" if target is None else "visit")
    if assumed.cost is not None:
        world = replace(world, micros=costs.constant(users, world.micros.shape[1], assumed.cost))
    means, ratios = None, None
    if target is not None:
        base, features, micros = world.rates[:, 0], world.features, world.micros
        if shape is not None:
            rows = np.random.default_rng((seed, STREAM)).integers(0, len(shape.rates), users)
            base, features, micros = shape.rates[rows], shape.features[rows], shape.micros[rows]
            means, ratios = None if shape.amounts is None else shape.amounts[rows], shape.ratios
        base = _shifted(base, target.rate)
        shifted = _shifted(base, target.rate + target.effect)
        rates = np.column_stack((base, *(shifted for _ in range(micros.shape[1]))))
        world = replace(world, features=features, micros=micros, rates=rates)
    if assumed.worth is None:
        return world, None
    alone, treated = _drawn(users, seed, assumed.worth, means, ratios)
    return replace(world, amounts=alone), treated


def _drawn(
    users: int, seed: int, worth: AssumedAmounts, means: Floats | None, ratios: Floats | None
) -> tuple[Amounts, Amounts]:
    """What a conversion of each user brings, without treatment and with it."""
    rng = np.random.default_rng((seed, STREAM, 1))
    means = np.full(users, worth.amount) if means is None else means
    if ratios is None:
        drawn = np.exp(worth.spread * rng.normal(size=users) - 0.5 * worth.spread**2)
    else:
        drawn = rng.choice(ratios, users)
    chance, sizes = rng.random(users), means * drawn
    alone, treated = (
        Amounts(
            factor * means * (1.0 - 2.0 * lost),
            np.where(chance < lost, -1.0, 1.0) * np.minimum(factor * sizes, MOST_AMOUNT),
            worth.spread,
        )
        for factor, lost in ((1.0, worth.lost), (worth.factor, worth.lost_treated))
    )
    return alone, treated


def _shifted(rates: Floats, mean: float) -> Floats:
    """The rates with all odds multiplied by one factor, so that their mean is ``mean``."""
    logits = np.log(rates / (1.0 - rates))
    low, high = -FARTHEST, FARTHEST
    for _ in range(60):
        middle = 0.5 * (low + high)
        above = (1.0 / (1.0 + np.exp(-logits - middle))).mean() > mean
        low, high = (low, middle) if above else (middle, high)
    return np.asarray(1.0 / (1.0 + np.exp(-logits - low)))
