"""Random campaigns and users, over all that the service allows.

Policies and the ranges of their parameters come from the registries of bccb: a new component is
covered without a change here.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from bccb.kernels.component import Parameter
from bccb.policies import DEFAULT, POLICIES
from bccb.spec import Spec

MICRO = 10**6
MOST_BUDGET = 9 * 10**9 * MICRO
MOST_COST = 10**6 * MICRO
MOST_FEATURE = 1e100
MOST_LARGEST = 10**9 * MICRO  # of amounts
IN_MONEY = (DEFAULT, "pooled-bayes", "cheapest-first")  # policies: each compiles for long
MOST_WINDOW = 10 * 366 * 86_400
MOST_USERS = 10**12
MOST_SEED = 2**53 - 1
LARGEST, SMALLEST, TINY = sys.float_info.max, math.ulp(0.0), sys.float_info.min
EDGES = (0.0, -0.0, SMALLEST, -SMALLEST, TINY, 1e-300, 1e-12, 1.0, 1e300)
ODD_NAMES = ("é", "日本語", "a b", 'quo"te', "it's", "back\\slash", "{}", "%s%n", "__proto__", "🙂")
TAKEN = ("decision_id", "number", "at", "treatment", "probability", "price", "outcome", "cost")

Draws = random.Random


def served_policies() -> dict[str, Spec]:
    """The policies that the service takes."""
    return {
        name: spec
        for name, spec in POLICIES.items()
        if not spec.needs_effects and not spec.composition.fitted
    }


def parameters_of(spec: Spec) -> dict[str, Parameter]:
    """The parameters of a policy's components."""
    parts = spec.composition.components
    return {name: each for part in parts for name, each in part.parameters.items()}


def draw_parameter(draws: Draws, parameter: Parameter) -> float:
    """A value within the range: its edges, about the default, or of any magnitude."""
    least, most = max(parameter.least, -LARGEST), min(parameter.most, LARGEST)
    kind = draws.random()
    if kind < 0.3:
        edges = [least, most, math.nextafter(least, math.inf), math.nextafter(most, -math.inf)]
        return draws.choice([each for each in (*edges, *EDGES) if least <= each <= most])
    if kind < 0.6 and parameter.default:
        found = parameter.default * 10 ** draws.uniform(-3, 3)
    elif kind < 0.8 and least < 0:
        found = -log_uniform(draws, SMALLEST, -least)
    else:
        found = log_uniform(draws, max(least, SMALLEST), most)
    return min(max(found, least), most)


def log_uniform(draws: Draws, least: float, most: float) -> float:
    """Every magnitude is as likely as any other."""
    return min(max(math.exp(draws.uniform(math.log(least), math.log(most))), least), most)


def log_int(draws: Draws, least: int, most: int) -> int:
    """A whole number, of any magnitude; the ends more often."""
    if draws.random() < 0.1:
        return draws.choice((least, most))
    return min(max(round(log_uniform(draws, max(least, 1), most)), least), most)


def money(draws: Draws, micros: int) -> str:
    """Micros as text, in one of the forms that mean the same."""
    text = f"{micros // MICRO}.{micros % MICRO:06d}"
    kind = draws.random()
    if kind < 0.5:
        return text
    return f"{text}000000" if kind < 0.6 else text.rstrip("0").rstrip(".")


def cost_micros(text: str) -> int:
    """A cost in whole micros, rounded up."""
    units, _, part = text.partition(".")
    part = part.ljust(12, "0")
    return int(units) * MICRO + int(part[:6]) + (int(part[6:]) > 0)


def budget_micros(text: str) -> int:
    """An amount in whole micros, rounded down."""
    units, _, part = text.partition(".")
    return int(units) * MICRO + int(part[:6].ljust(6, "0"))


@dataclass(slots=True)
class Users:
    """How the users of one campaign look, and what it costs to treat them."""

    features: list[str]
    treatments: list[str]
    feature: Callable[[Draws], float]
    costs: Callable[[Draws], list[int]]

    @property
    def width(self) -> int:
        """Numbers in one request for a decision."""
        return len(self.features) + len(self.treatments)

    def draw(self, draws: Draws, id_: str) -> dict[str, Any]:
        """A request for a decision on one more user."""
        prices = [f"{each // MICRO}.{each % MICRO:06d}" for each in self.costs(draws)]
        return {
            "decision_id": id_,
            "features": {name: self.feature(draws) for name in self.features},
            "costs": dict(zip(self.treatments, prices, strict=True)),
        }


def draw_users(draws: Draws, request: dict[str, Any]) -> Users:
    """Users for a campaign; most of them can be paid for."""
    budget, many = budget_micros(request["budget"]), len(request["treatments"])
    most = max(min(budget // draws.choice((1, 3, 30, 300, 3_000)), MOST_COST), 1)
    fixed = [log_int(draws, 1, most) for _ in range(many)]

    def scattered(each: Draws) -> list[int]:
        return [1 + int(each.random() * most) if each.random() < 0.95 else 1 for _ in range(many)]

    def any_cost(each: Draws) -> list[int]:
        return [log_int(each, 1, MOST_COST) for _ in range(many)]

    kinds: list[Callable[[Draws], list[int]]] = [scattered, scattered, any_cost]
    kinds += [lambda each: [most] * many, lambda each: fixed]
    return Users(
        request["features"], request["treatments"], draws.choice(FEATURE_KINDS), draws.choice(kinds)
    )


def _repeated(draws: Draws) -> float:
    return draws.choice((0, 1, -1, 0.5, 2**53))


def _any_feature(draws: Draws) -> float:
    kind = draws.random()
    if kind < 0.2:
        return draws.choice((0.0, -0.0, SMALLEST, -SMALLEST, MOST_FEATURE, -MOST_FEATURE, TINY))
    return draws.choice((-1, 1)) * log_uniform(draws, SMALLEST, MOST_FEATURE)


FEATURE_KINDS: tuple[Callable[[Draws], float], ...] = (
    lambda draws: round(draws.gauss(0, 1), 4),
    lambda draws: float(draws.random() < 0.5),
    lambda draws: draws.uniform(-1e100, 1e100),
    lambda draws: 1e8 + draws.random(),
    lambda draws: SMALLEST * draws.randrange(4),
    lambda draws: 0.0,
    lambda draws: 7.25,
    _repeated,
    _any_feature,
)


def draw_campaign(draws: Draws, name: str) -> dict[str, Any]:
    """A request for a new campaign that the service must take; but see :func:`may_be_too_large`."""
    treatments = _names(draws, _size(draws, ((1, 1, 4), (2, 5, 4), (6, 20, 1), (21, 100, 1))), "t")
    taken = {*TAKEN, *(f"cost:{each}" for each in treatments)}
    counts = ((0, 0, 1), (1, 5, 5), (6, 20, 3), (21, 100, 1), (101, 1_000, 0.3))
    features = [each for each in _names(draws, _size(draws, counts), "f") if each not in taken]
    policies = {key: spec for key, spec in served_policies().items() if not spec.after_history}
    policy = draws.choice(list(policies))
    asked: dict[str, Any] = {
        "name": name,
        "budget": money(draws, log_int(draws, 1, MOST_BUDGET)),
        "horizon": _horizon(draws),
        "features": features,
        "treatments": treatments,
        "policy": {"name": policy, "params": _parameters(draws, policies[policy])},
        "outcome_window_seconds": log_int(draws, 1, MOST_WINDOW),
        "seed": log_int(draws, 0, MOST_SEED),
        "mode": draws.choice(("live", "live", "shadow")),
    }
    if draws.random() < 0.3:
        asked["outcome_window_seconds"] = draws.randint(1, 5)
    for key in ("policy", "outcome_window_seconds", "seed", "mode"):
        if draws.random() < 0.05:
            del asked[key]
    if draws.random() < 0.5:
        asked["charge"] = draws.choice(("treatment", "conversion", "conversion"))
    name = asked.get("policy", {"name": DEFAULT})["name"]
    if draws.random() < 0.3 and not POLICIES[name].composition.no_cap:
        asked["cost_cap"] = money(draws, log_int(draws, 1, MOST_BUDGET))
    if draws.random() < 0.2:
        asked["currency"] = draws.choice(("EUR", "x", "usd"))
    if draws.random() < 0.6 and name in IN_MONEY:
        asked |= _in_money(draws, asked.get("charge") == "conversion")
    return asked


def _in_money(draws: Draws, on_conversion: bool) -> dict[str, Any]:
    """The terms of a campaign whose outcomes are amounts."""
    outcome: dict[str, Any] = {"kind": "amount"}
    if draws.random() < 0.5:
        outcome["negative"] = draws.random() < 0.5
    if draws.random() < 0.7:
        outcome["largest"] = money(draws, log_int(draws, 1, MOST_LARGEST))
    if not on_conversion or draws.random() < 0.3:
        return {"outcome": outcome}
    return {"outcome": outcome, "share": draws.choice((0.2, 1, 1e-6, log_uniform(draws, 1e-5, 1)))}


def draw_successor(draws: Draws, source: dict[str, Any], id_: str, name: str) -> dict[str, Any]:
    """A campaign that begins with what another one has learned."""
    asked = {**source, "name": name, "learned_from": id_, "horizon": _horizon(draws)}
    asked["budget"] = money(draws, log_int(draws, 1, MOST_BUDGET))
    asked["mode"] = draws.choice(("live", "shadow"))
    policy = source.get("policy", {"name": DEFAULT, "params": {}})
    same = [
        key
        for key, spec in served_policies().items()
        if spec.composition == POLICIES[policy["name"]].composition
        and spec.parameters == POLICIES[policy["name"]].parameters
    ]
    asked["policy"] = {**policy, "name": draws.choice(same)}
    return asked


def may_be_too_large(asked: dict[str, Any]) -> bool:
    """Whether the service may say that features x treatments are too many."""
    return len(asked["features"]) >= 100 or len(asked["features"]) * len(asked["treatments"]) > 500


def _parameters(draws: Draws, spec: Spec) -> dict[str, float]:
    share = draws.choice((0.0, 0.3, 0.3, 1.0))
    return {
        name: draw_parameter(draws, each)
        for name, each in parameters_of(spec).items()
        if draws.random() < share
    }


def _horizon(draws: Draws) -> dict[str, Any]:
    if draws.random() < 0.7:
        return {"users": log_int(draws, 1, MOST_USERS)}
    seconds = draws.choice((draws.uniform(3, 30), log_uniform(draws, 60, 2e11)))
    zone = timezone(timedelta(minutes=15 * draws.randint(-48, 48)))
    ends = (datetime.now(UTC) + timedelta(seconds=seconds)).astimezone(zone)
    horizon: dict[str, Any] = {"ends_at": ends.isoformat()}
    if draws.random() < 0.5:
        horizon["expected_users"] = log_int(draws, 1, MOST_USERS)
    return horizon


def _size(draws: Draws, counts: tuple[tuple[int, int, float], ...]) -> int:
    least, most, _ = draws.choices(counts, [weight for *_, weight in counts])[0]
    return draws.choice((least, most, draws.randint(least, most), draws.randint(least, most)))


def _names(draws: Draws, many: int, letter: str) -> list[str]:
    found = [f"{letter}{number}" for number in range(many)]
    if draws.random() < 0.1:
        odd = draws.sample(ODD_NAMES, min(many, len(ODD_NAMES)))
        found[: len(odd)] = odd
    if found and draws.random() < 0.05:
        found[0] = letter * 100
    return found
