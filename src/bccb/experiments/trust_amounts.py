"""Amounts in ``bccb trust``: outcomes in money, where the truth is known.

A conversion brings a log-normal amount, and how much of it the features tell is varied. A policy
that learns amounts is compared with the same policy that counts conversions. Both are valued in
money, and so are two oracles: one knows what each user is worth, the other the rates alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import NamedTuple

import numpy as np

from bccb.data.simulator import Outcome
from bccb.data.world import World, simulate_world, with_amounts
from bccb.evaluate.live import best, live, outcomes_in, value_of
from bccb.evaluate.proposals import KNOWN, drive
from bccb.evaluate.statistics import share_interval
from bccb.experiments.experiment import Claim, Record, Verdict
from bccb.experiments.trust import MONEY, Piece, Setup
from bccb.experiments.trust_caused import drive_at_once, holds, looks_over
from bccb.experiments.trust_claims import percent
from bccb.outcome import Kind
from bccb.pacers.budget_forecast import exhausting_price
from bccb.policies import DEFAULT, make
from bccb.policy import Policy
from bccb.report.rows import Row
from bccb.types import Floats, Ints

FIRST_SEED, FIRST_WORLD = 9_700, 9_800  # of seeds that nothing was chosen on
MOST_SEEDS, LEAST_SEEDS, SEEDS_PER_STREAM = 24, 2, 4
MOST_WORLDS, LEAST_WORLDS, WORLDS_PER_SEED = 67, 2, 0.67
VARIATIONS = (0.0, 0.5, 1.0)  # of the logarithm of amounts, by the features
HUGE, PLACE = 1e5, 0.1  # one order, after this share of the conversions
LARGEST = 200.0  # that counts in what is measured
SMALL = 10  # streams of coverage are so many times shorter
LEAST_USERS = 200  # of a world, so that somebody converts: before that nothing is said
USUAL, WITH_HUGE = "usual", "one huge"
WORSE, AHEAD, LOST = 0.01, 1.0 / 3.0, 0.03
COVERED = 0.93
CHANCE = 2.0  # standard errors
FEWEST = 5  # seeds


class Stream(NamedTuple):
    """A kind of users."""

    outcome: Outcome
    shorter: int  # than the table of values
    variation: float
    orders: str = USUAL


STREAMS = (
    *(Stream("conversion", 1, variation) for variation in VARIATIONS),
    *(Stream("visit", 5, variation) for variation in VARIATIONS),
    *(Stream("visit", 1, variation) for variation in VARIATIONS),
    Stream("visit", 5, 0.5, WITH_HUGE),
)


@dataclass(frozen=True, slots=True)
class Valued:
    """The default policy in one world, counting money or conversions."""

    seed: int
    users: int
    stream: Stream
    policy: str = DEFAULT
    kind: str = "amounts"

    def make(self) -> list[Record]:
        """One row: shares of what the oracle causes that knows what users are worth."""
        counted = simulate_world(self.users, self.seed, self.stream.outcome)
        world = with_amounts(counted, self.stream.variation, self.seed)
        budget = MONEY * self.users
        most = best(world, budget).run.value
        met = world if self.stream.orders == USUAL else with_huge_order(world)
        ours = live(self._fresh(met, budget), met).value
        same = self._fresh(counted, budget)
        order, outcomes = np.arange(self.users), outcomes_in(counted)
        actions = drive(same, order, counted.features, counted.micros, KNOWN, outcomes).actions
        row: Record = {"seed": self.seed, "users": self.users, **self.stream._asdict()}
        row |= {"amounts": ours / most, "rates": value_of(actions, world) / most}
        return [{**row, "ceiling": value_of(by_rates(world, budget), world) / most}]

    def _fresh(self, world: World, budget: float) -> Policy:
        return make(
            self.policy,
            budget=budget,
            horizon=self.users,
            features=world.features.shape[1],
            seed=self.seed,
            outcome=world.kind,
        )


def with_huge_order(world: World) -> World:
    """The same users, one of whom orders for 100,000, treated or not."""
    assert world.amounts is not None
    buyers = np.flatnonzero(world.draws < world.rates.min(axis=1))
    drawn = world.amounts.drawn.copy()
    drawn[buyers[int(PLACE * len(buyers))]] = HUGE
    return replace(world, amounts=world.amounts._replace(drawn=drawn))


def by_rates(world: World, budget: float) -> Ints:
    """What the oracle does that knows the rates, and takes every conversion for the same."""
    counted = replace(world, amounts=None)
    price = exhausting_price(counted.effects, counted.costs, budget / world.users)
    gains = counted.effects - price * counted.costs
    return np.where(gains.max(axis=1) > 0.0, gains.argmax(axis=1) + 1, 0)


@dataclass(frozen=True, slots=True)
class ToldInMoney:
    """What the default policy says that it caused, in money, in one world."""

    world: int
    users: int
    variation: float
    kind: str = "amounts-caused"

    def make(self) -> list[Record]:
        """One row: the truth, both intervals at the end, and whether one held at all looks."""
        world = with_amounts(
            simulate_world(self.users, self.world, "visit"), self.variation, self.world
        )
        policy = make(
            budget=MONEY * self.users,
            horizon=self.users,
            features=world.features.shape[1],
            seed=self.world,
            outcome=Kind.AMOUNT,
            largest=LARGEST,
        )
        outcomes, actions = outcomes_in(world), np.zeros(self.users, np.int64)
        counting = np.minimum(outcomes, LARGEST)  # what is beyond it is not measured
        looks, held = set(looks_over(self.users)), True
        for step, _ in enumerate(drive_at_once(policy, world, outcomes, actions), 1):
            if step in looks:
                held = held and holds(policy.caused(), counting, actions)
        figures = policy.caused()
        assert figures.estimated is not None
        assert figures.measured is not None
        row: Record = {"variation": self.variation, "world": self.world}
        row |= {"truth": value_of(actions, world), "held": held}
        return [
            row | {"estimated": asdict(figures.estimated), "measured": asdict(figures.measured)}
        ]


def seeds(setup: Setup) -> range:
    """The seeds of each kind of users: fewer where there are few seeds."""
    count = min(MOST_SEEDS, max(LEAST_SEEDS, setup.seeds // SEEDS_PER_STREAM))
    return range(FIRST_SEED, FIRST_SEED + count)


def every_stream(setup: Setup) -> list[Piece]:
    """A piece for each seed and kind of users."""
    return [
        Valued(seed, setup.middle // stream.shorter, stream)
        for seed in seeds(setup)
        for stream in STREAMS
    ]


def every_told(setup: Setup) -> list[Piece]:
    """A piece for each world; no two share a seed."""
    count = min(MOST_WORLDS, max(LEAST_WORLDS, int(WORLDS_PER_SEED * setup.seeds)))
    users = max(setup.middle // SMALL, LEAST_USERS)
    return [
        ToldInMoney(FIRST_WORLD + place * MOST_WORLDS + number, users, variation)
        for place, variation in enumerate(VARIATIONS)
        for number in range(count)
    ]


def amounts_table(rows: Sequence[Row]) -> list[Record]:
    """A row for each kind of users: mean shares of what the oracle causes, and what is gained."""
    made = []
    keys = ("outcome", "users", "variation", "orders")
    for kind in dict.fromkeys(tuple(row[key] for key in keys) for row in rows):
        own = [row for row in rows if tuple(row[key] for key in keys) == kind]
        line: Record = dict(zip(keys, kind, strict=True))
        ours, counting = _over(own, "amounts"), _over(own, "rates")
        line |= {"amounts": float(ours.mean()), "rates": float(counting.mean())}
        gain, error = float((ours - counting).mean()), _error(ours - counting)
        line |= {"gain": round(gain, 4), "gain_se": round(error, 4)}
        line["ceiling"] = float(_over(own, "ceiling").mean())
        made.append({**line, "seeds": len(own)})
    return made


def never_worse(table: Sequence[Row], count: int) -> Claim:
    """Learning amounts costs nothing where there is nothing to learn."""
    text = "a policy that learns amounts is nowhere more than 1 % below one that counts conversions"
    usual = [row for row in table if row["orders"] == USUAL]
    margins = [(row["gain"] + WORSE * row["rates"], row["gain_se"]) for row in usual]
    worst = min(usual, key=lambda row: float(row["gain"] / row["rates"]))
    return Claim(text, _verdict(margins, count), _figure(worst, worst["gain"], count))


def takes_what_differs(table: Sequence[Row], count: int) -> Claim:
    """Where amounts differ, learning them pays."""
    text = "where features tell most, it gains a third of what separates the two oracles"
    own = [row for row in table if row["variation"] == VARIATIONS[-1] and row["orders"] == USUAL]
    apart = [1.0 - row["ceiling"] for row in own]
    shares = [row["gain"] / gap for row, gap in zip(own, apart, strict=True)]
    margins = [
        (row["gain"] - AHEAD * gap, row["gain_se"]) for row, gap in zip(own, apart, strict=True)
    ]
    worst = min(range(len(own)), key=shares.__getitem__)
    return Claim(text, _verdict(margins, count), _figure(own[worst], shares[worst], count))


def stands_a_huge_order(table: Sequence[Row], count: int) -> Claim:
    """One order moves nothing that it should not."""
    text = "one order of 100,000 in the stream costs at most 3 % of what is caused"
    keys = ("outcome", "users", "variation")
    (hit,) = (row for row in table if row["orders"] == WITH_HUGE)
    (same,) = (
        row for row in table if row["orders"] == USUAL and all(row[k] == hit[k] for k in keys)
    )
    lost = 1.0 - hit["amounts"] / same["amounts"]
    verdict: Verdict = "holds" if lost <= LOST else "does not hold"
    if count < FEWEST:
        verdict = "cannot tell"
    return Claim(text, verdict, _figure(hit, lost, count))


def covers_in_money(table: Sequence[Row], name: str) -> Claim:
    """What a campaign says in money holds what it is about."""
    what = {"covered": "estimated", "held": "measured"}[name]
    text = f"in money, what is {what} as caused holds it in at least {percent(COVERED)} of worlds"
    worlds = sum(row["worlds"] for row in table)
    hits = sum(round(row[name] * row["worlds"]) for row in table)
    low, high = share_interval(hits, worlds)
    verdict: Verdict = "cannot tell"
    if not low < COVERED <= high:
        verdict = "holds" if low >= COVERED else "does not hold"
    share = percent(hits / worlds, 1)
    return Claim(
        text, verdict, f"{share} of {worlds:,} worlds ({percent(low, 1)} to {percent(high, 1)})"
    )


def _figure(row: Row, value: float, count: int) -> str:
    cell = f"{row['outcome']}s, {row['users']:,} users, variation {row['variation']:g}"
    return f"{percent(value, 1)} ({cell}), {count} seeds of each kind"


def _verdict(margins: Sequence[tuple[float, float]], count: int) -> Verdict:
    """By how far each figure is above its limit, with its standard error."""
    if count < FEWEST:
        return "cannot tell"
    if any(margin + CHANCE * error < 0.0 for margin, error in margins):
        return "does not hold"
    return "holds" if all(margin >= 0.0 for margin, _ in margins) else "cannot tell"


def _over(rows: Sequence[Row], name: str) -> Floats:
    return np.array([row[name] for row in rows], np.float64)


def _error(numbers: Floats) -> float:
    """The standard error of the mean."""
    return float(numbers.std(ddof=1) / math.sqrt(len(numbers)))
