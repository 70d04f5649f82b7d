"""Which columns say what a treatment would cost, and which what was paid in the end."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from bccb.data import words
from bccb.data.differences import difference, tells
from bccb.data.profile import Profile
from bccb.data.roles import Arm, Question, Role, determines, named
from bccb.data.schema import Cost, quoted
from bccb.errors import InputError
from bccb.types import Floats

NOT_CHANCE = 1e-6  # a p-value
LARGE = 0.1  # a difference between arms, in standard deviations
NEEDED = "a policy needs what treating would cost, which is known before it decides"


@dataclass(frozen=True, slots=True)
class Prices:
    """What treatments cost, as far as the file tells."""

    cost: Cost | None  # None: nothing tells
    reason: str
    roles: list[Role] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def is_price(column: Profile) -> bool:
    """Whether a column is named like a cost."""
    named_so = words.has(column.name, words.COST) and not words.is_before(column.name)
    return named_so and column.kind == "number"


def amount_paid(columns: list[Profile]) -> Floats | None:
    """What the columns with costs hold together in each row; None without one."""
    amounts = [np.nan_to_num(column.numbers()) for column in columns if is_price(column)]
    return np.sum(amounts, axis=0) if amounts else None


def find_prices(
    columns: list[Profile], arm: Arm, outcomes: Floats, given: Cost | None
) -> Prices | Question:
    """What the treatments cost: from columns with costs that do not depend on arm and outcome."""
    if given is not None:
        return _given(columns, arm, outcomes, given)
    candidates = [column for column in columns if is_price(column)]
    by_arm = [column for column in candidates if _goes_with(arm, column)]
    paid = {
        c.name: why for c in candidates if c not in by_arm and (why := why_paid(c, arm, outcomes))
    }
    usable = [c for c in candidates if c not in by_arm and c.name not in paid]
    roles = [Role(name, "paid", "clear", why) for name, why in paid.items()]
    warnings = [f"{name} is what was paid, and {NEEDED}." for name in paid]
    if by_arm:
        return _by_arm(by_arm[0], arm, roles, warnings)
    if usable:
        chosen = usable if len(usable) == 1 else _matched(usable, arm.treatments)
        if chosen is None:
            names = tuple(column.name for column in usable)
            text = f"nothing tells which of {quoted(names)} is the cost of which treatment"
            return Question("--cost COL", names, text)
        return _from_columns(chosen, roles, warnings)
    for column in candidates:
        if column.name in paid and (prices := _usual(column, arm)):
            usual = f"the usual amount in {column.name!r} where it is above 0"
            reason = f"{usual}: {_listed(prices, arm)}"
            return Prices(_shortest(prices), reason, roles, warnings)
    return Prices(None, "no column tells what a treatment would cost", roles, warnings)


def why_paid(column: Profile, arm: Arm, outcomes: Floats) -> str | None:
    """In words why a column is what was paid, and not what treating would cost; None if it is not.

    A cost may differ between users, and so go along with the outcome to some degree. But it is
    the same for all arms, and it is there also for those who did not convert.
    """
    groups, amounts = arm.groups(), np.nan_to_num(column.numbers())
    treated, control = groups > 0, groups == 0
    if not np.any(amounts[control] > 0) and np.any(amounts[treated] > 0):
        rest = "always above 0"
        if not np.all(amounts[treated] > 0):
            rest = f"above 0 in {np.mean(amounts[treated] > 0):.1%} of the treated rows"
        said = f"it is 0 or missing in the whole control arm, and {rest}"
        return f"{said}, so it is what was paid"
    if np.any(amounts > 0) and not np.any(amounts[outcomes == 0] > 0):
        return "it is above 0 only where the outcome is 1, so it is what was paid"
    if reason := tells(column, outcomes):
        return f"{reason}, so it is what was paid"
    found = difference(column, groups)
    if found.p_value < NOT_CHANCE and found.size > LARGE:
        said = f"it differs between the arms by {found.size:.2g} standard deviations"
        return f"{said}, so it is what was paid"
    return None


def _given(columns: list[Profile], arm: Arm, outcomes: Floats, given: Cost) -> Prices:
    """What the user gave, with a warning where it cannot be right."""
    names = given if isinstance(given, tuple) else (given,)
    found = [named(columns, "--cost", name) for name in names if isinstance(name, str)]
    roles = [Role(one.name, "cost", "given", "given with --cost") for one in found]
    for column in found:
        if column.kind != "number":
            raise InputError("--cost", column.name, "a column of numbers")
        if (why := why_paid(column, arm, outcomes)) is not None:
            raise InputError("--cost", column.name, f"another column or a number: {why}; {NEEDED}")
    if isinstance(given, tuple) and len(given) != len(arm.treatments):
        allowed = f"one, or one for each of {quoted(arm.treatments)}"
        raise InputError("--cost", ",".join(map(str, given)), allowed)
    return Prices(given, "given with --cost", roles)


def _goes_with(arm: Arm, column: Profile) -> bool:
    """Whether every arm has one cost, and every treatment one above 0."""
    if column.distinct < 2 or not determines(arm.column, column):
        return False
    return _usual(column, arm) is not None


def _by_arm(column: Profile, arm: Arm, roles: list[Role], warnings: list[str]) -> Prices:
    prices = _usual(column, arm)
    assert prices is not None
    reason = "each arm has one value in it, which is what the treatment costs"
    role = Role(column.name, "copy of arm", "clear", reason)
    reason = f"the values of {column.name!r}: {_listed(prices, arm)}"
    return Prices(_shortest(prices), reason, [*roles, role], warnings)


def _from_columns(chosen: list[Profile], roles: list[Role], warnings: list[str]) -> Prices:
    reason = "named like a cost, and it depends neither on the arm nor on the outcome"
    names = tuple(column.name for column in chosen)
    roles = [*roles, *(Role(name, "cost", "clear", reason) for name in names)]
    return Prices(names[0] if len(names) == 1 else names, reason, roles, warnings)


def _matched(columns: list[Profile], treatments: list[str]) -> list[Profile] | None:
    """The column whose name has the name of each treatment in it."""
    chosen = []
    for treatment in treatments:
        wanted = set(words.words_of(treatment))
        found = [one for one in columns if wanted and wanted <= set(words.words_of(one.name))]
        if len(found) != 1:
            return None
        chosen += found
    return chosen if len({one.name for one in chosen}) == len(chosen) else None


def _usual(column: Profile, arm: Arm) -> tuple[float, ...] | None:
    """The median of what is above 0 in each treated arm; None where there is nothing."""
    groups, amounts = arm.groups(), np.nan_to_num(column.numbers())
    prices = []
    for group in range(1, len(arm.treatments) + 1):
        above = amounts[(groups == group) & (amounts > 0)]
        if not above.size:
            return None
        prices.append(float(np.median(above)))
    return tuple(prices)


def _listed(prices: tuple[float, ...], arm: Arm) -> str:
    """Which price is whose: --cost has them in the order of the arms, which is easy to mistake."""
    *most, last = (f"{p:.15g} for {name!r}" for p, name in zip(prices, arm.treatments, strict=True))
    return f"{', '.join(most)} and {last}" if most else last


def _shortest(prices: tuple[float, ...]) -> float | tuple[float, ...]:
    return prices[0] if len(set(prices)) == 1 else prices
