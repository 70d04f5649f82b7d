"""Which column plays which part, as far as names and values tell: proposals, each with a reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from bccb.data import words
from bccb.data.outcomes import NO, YES
from bccb.data.profile import Profile
from bccb.data.schema import one_of, quoted
from bccb.encoding import as_text
from bccb.errors import InputError
from bccb.outcome import Kind, kind_by_values
from bccb.types import Floats, Ints

Part: TypeAlias = Literal[
    # what a log is made of
    "arm", "outcome", "cost", "probability", "status", "charge", "feature", "date",
    # and what is left out
    "id", "after treatment", "leak", "paid", "copy of arm", "split", "constant", "unreadable",
    "excluded",
]  # fmt: skip
Confidence: TypeAlias = Literal["given", "clear", "likely", "a guess"]
USED = frozenset({"arm", "outcome", "cost", "probability", "status", "charge", "feature", "date"})
LEAST_POINTS = 2  # of an arm
CLEAR_POINTS = 4
MOSTLY = 0.5  # of the rows: an outcome in money is 0 in as many at least
NEARLY_ALWAYS = 0.99  # of the rows


@dataclass(frozen=True, slots=True)
class Role:
    """The part of a column."""

    column: str
    part: Part
    confidence: Confidence
    reason: str


@dataclass(frozen=True, slots=True)
class Question:
    """What the file does not tell, and the option that answers it."""

    option: str
    candidates: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Arm:
    """The column with the arm, and which of its values is the control."""

    column: Profile
    role: Role
    control: str | None = None  # None: nothing tells
    control_reason: str = ""
    wanted: tuple[str, ...] = ()  # the treatments of interest, where they are given

    @property
    def treatments(self) -> list[str]:
        """Its other values, in the order in which logs number them."""
        if self.wanted:
            return list(self.wanted)
        names = [as_text(value) for value in sorted(self.column.values.drop_nulls().unique())]
        return [name for name in names if name != self.control]

    def groups(self) -> Ints:
        """For every row the number of its arm: 0 is the control; -1 where it is missing."""
        codes, names = self.column.codes()
        if self.control is None:
            return codes
        order = {name: place for place, name in enumerate((self.control, *self.treatments))}
        places = np.array([order.get(name, -1) for name in names] + [-1])
        return np.asarray(places[codes])

    def only(self, treatments: tuple[str, ...]) -> Arm:
        """With these treatments alone; with all where none is named."""
        for name in treatments:
            if name not in self.column.levels or name == self.control:
                raise InputError("--arms", name, one_of(name, self.treatments))
        return replace(self, wanted=treatments)


def named(columns: Iterable[Profile], option: str, name: str) -> Profile:
    """The column that an option names."""
    by_name = {column.name: column for column in columns}
    if name not in by_name:
        raise InputError(option, name, one_of(name, by_name))
    return by_name[name]


def find_arm(columns: list[Profile], given: str) -> Arm | Question:
    """The column with the arm. Where two say the same, the finer one; where two differ, neither."""
    if given:
        column = named(columns, "--treatment", given)
        if not column.is_choice:
            allowed = "a column with 2 to 12 different values, one for each arm"
            raise InputError("--treatment", given, allowed)
        return Arm(column, Role(given, "arm", "given", "given with --treatment"))
    points = {
        column.name: words.arm_points(column.name, list(column.levels))
        for column in columns
        if column.is_choice and not column.is_split
    }
    ranked = sorted(
        (column for column in columns if points.get(column.name, 0) >= LEAST_POINTS),
        key=lambda column: -points[column.name],
    )
    if not ranked:
        few = tuple(name for name in points)
        return Question("--treatment COL", few, "no column looks like the arm of a trial")
    least = min(CLEAR_POINTS, points[ranked[0].name] - 1)
    close = [one for one in ranked if points[one.name] >= least]
    best = max(close, key=lambda one: (one.distinct, points[one.name]))
    rivals = tuple(one.name for one in close if one is not best and not determines(best, one))
    if rivals:
        names = (best.name, *rivals)
        return Question("--treatment COL", names, f"{quoted(names)} all look like the arm")
    score = points[best.name]
    confidence: Confidence = (
        "clear" if score >= CLEAR_POINTS else "likely" if score > LEAST_POINTS else "a guess"
    )
    reason = f"its name and its values {quoted(sorted(best.levels))}"
    return Arm(best, Role(best.name, "arm", confidence, reason))


def determines(one: Profile, other: Profile) -> bool:
    """Whether each value of one column goes with a single value of the other."""
    if not (one.is_choice and other.levels):
        return False
    mine, theirs = one.codes()[0] + 1, other.codes()[0] + 1
    pairs = np.bincount(mine * (len(other.levels) + 1) + theirs)
    return bool(np.count_nonzero(pairs) == np.count_nonzero(np.bincount(mine)))


def find_control(arm: Arm, given: str, paid: Floats | None) -> Arm | Question:
    """Which value of the arm means "left alone": by its word, or because nothing was paid there."""
    column, role = arm.column, arm.role
    names = list(column.levels)
    if given:
        if given not in names:
            raise InputError("--control", given, one_of(given, names))
        return Arm(column, role, given, "given with --control")
    points = {name: words.control_points(name) for name in names}
    best = [name for name in names if points[name] == max(points.values()) > 0]
    if len(best) == 1:
        return Arm(column, role, best[0], f"{best[0]!r} is the word for no treatment")
    if paid is not None:
        codes, _ = column.codes()
        free = [name for code, name in enumerate(names) if not np.any(paid[codes == code] > 0)]
        if len(free) == 1:
            return Arm(column, role, free[0], f"nothing was paid in any of its {free[0]!r} rows")
    values = tuple(sorted(names))
    text = f"nothing tells which value of {column.name!r} means 'left alone'"
    return Question("--control VALUE", values, text)


def find_outcome(
    columns: list[Profile], arm: Arm | None, given: str, kind: str = ""
) -> Role | Question:
    """The column with the outcome: the deepest of those whose names say so."""
    if given:
        named(columns, "--outcome", given)
        return Role(given, "outcome", "given", "given with --outcome")
    if kind == Kind.AMOUNT:
        listed = tuple(column.name for column in columns if is_mostly_nothing(column))
        return Question("--outcome COL", listed, "amounts may be in any column that is mostly 0")
    possible = [column for column in columns if _may_be_outcome(column, arm)]
    for names, confidence in ((words.OUTCOME, "clear"), (words.MAYBE_OUTCOME, "likely")):
        found = [column for column in possible if words.has(column.name, names)]
        if len(found) > 1:
            listed = tuple(column.name for column in found)
            return Question("--outcome COL", listed, f"{quoted(listed)} all look like the outcome")
        if found:
            reason = f"its name, and its two values {quoted(found[0].levels)}"
            return Role(found[0].name, "outcome", confidence, reason)  # type: ignore[arg-type]
    money = [column for column in columns if is_money(column)]
    listed = tuple(column.name for column in (*possible, *money))
    text = "no column is named like an outcome"
    half = [one for one in columns if one.distinct == 1 and words.has(one.name, words.OUTCOME)]
    if half:
        text = f"{half[0].name!r} is {next(iter(half[0].levels))!r} or missing"
        text += ": write 0 there if missing means no"
    elif money and not possible:
        text = f"no column says yes or no to a conversion; {quoted(listed)} may be amounts"
    elif not possible:
        text = "no column has two values, as an outcome has: make one of yes and no, or 1 and 0"
    return Question("--outcome COL", listed, text)


def is_money(column: Profile) -> bool:
    """Whether it may be what users brought afterwards: mostly 0, and named like money."""
    if column.kind != "number" or column.is_binary or words.is_before(column.name):
        return False
    if words.is_after(column.name) or not words.has(column.name, words.MONEY):
        return False
    return is_mostly_nothing(column)


def is_mostly_nothing(column: Profile) -> bool:
    """Whether it has numbers, most of them 0."""
    return column.kind == "number" and bool(np.mean(column.numbers() == 0.0) >= MOSTLY)


def brought(column: Profile, outcomes: Floats) -> bool:
    """Whether a column is what conversions brought: not 0 just where there was one."""
    if not is_money(column):
        return False
    numbers = column.numbers()
    known = ~np.isnan(outcomes) & ~np.isnan(numbers)
    same = (numbers != 0.0) == (outcomes != 0.0)
    return bool(np.mean(same[known]) >= NEARLY_ALWAYS)


def _may_be_outcome(column: Profile, arm: Arm | None) -> bool:
    """Whether it has two values, is not of the time before, and both values are in the control."""
    if not column.is_binary or words.is_before(column.name) or words.has(column.name, words.AFTER):
        return False
    if arm is None:
        return True
    if column.name == arm.column.name or determines(arm.column, column):
        return False
    in_control = column.codes()[0][arm.groups() == 0]
    return arm.control is None or np.unique(in_control[in_control >= 0]).size == 2


def as_outcomes(column: Profile, positive: str | None) -> Floats | Question:
    """The outcomes as numbers, NaN where they are missing; of amounts whether there was any."""
    if column.kind in ("number", "true/false"):
        numbers = column.numbers()
        missing = np.isnan(numbers)
        if kind_by_values(numbers[~missing]) is Kind.AMOUNT:
            return np.where(missing, numbers, numbers != 0.0)
        return numbers
    codes, names = column.codes()
    texts = [name.strip().lower() for name in names]
    yes = [text for text in texts if text in YES] if positive is None else [positive.lower()]
    if len(set(texts)) > 2 or (positive is not None and yes[0] not in texts):
        raise InputError(f"outcome column {column.name!r}", names, "two values at most")
    if len(set(yes)) != 1 and not (len(set(texts)) == 1 and texts[0] in NO):
        text = f"nothing tells which text of {column.name!r} counts as outcome 1"
        return Question("--positive VALUE", tuple(names), text)
    values = np.array([float(text in yes) for text in texts] + [np.nan])
    return np.asarray(values[codes])
