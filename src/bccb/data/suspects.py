"""Columns that look like features and are none: measured after the treatment, or copies of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bccb.data import words
from bccb.data.differences import Difference, difference, tells
from bccb.data.profile import Profile
from bccb.data.roles import Arm, Confidence, Role, determines
from bccb.types import Floats

CHANCE = 0.001  # a p-value below this, shared among all columns, is not put down to chance
SMALL, LARGE = 0.05, 0.1  # differences between arms, in standard deviations
MOST_DIFFERENT = 0.5  # of the columns; where more differ, the arms were not chosen by chance


@dataclass(frozen=True, slots=True)
class Judgement:
    """The roles of columns, and what is to be said about them."""

    roles: list[Role]
    warnings: list[str]


def judge(
    columns: list[Profile], arm: Arm | None, outcomes: dict[str, Floats], by_chance: bool
) -> Judgement:
    """Tell features from what was measured after the treatment.

    ``outcomes`` holds the outcome, and other columns that might be one. ``by_chance``: the same
    chances for everybody decided on the arm, so that nothing known before differs between arms.
    """
    roles = {column.name: _by_name_or_outcome(column, arm, outcomes) for column in columns}
    left = [column for column in columns if roles[column.name] is None]
    found = _differences(left, arm) if by_chance else {}
    large = [name for name, one in found.items() if one.size >= LARGE]
    small = [name for name, one in found.items() if SMALL <= one.size < LARGE]
    warnings = []
    if len(large) > 2 and len(large) > MOST_DIFFERENT * len(left):
        warnings.append(
            f"{len(large)} of {len(left)} features differ between the arms, {large[0]} by "
            f"{found[large[0]].size:.2g} standard deviations: the arms were not chosen by chance "
            "alone. Figures would be wrong: use a randomised trial, or name the column with the "
            "probability of each choice with --probability COL."
        )
        large = []
    elif small:
        warnings.append(
            f"{', '.join(small)}: a small difference between the arms, but more than chance "
            "explains. What was measured after the treatment must be left out with --exclude."
        )
    for column in left:
        if column.name in large:
            roles[column.name] = Role(
                column.name, "after treatment", "likely", _differs(found[column.name])
            )
    made = [roles[column.name] or _feature(column) for column in columns]
    return Judgement(made, warnings)


def _by_name_or_outcome(
    column: Profile, arm: Arm | None, outcomes: dict[str, Floats]
) -> Role | None:
    """The role of a column that is no feature, by its name, the arm or the outcomes."""
    if arm is not None and column.distinct > 1 and determines(arm.column, column):
        reason = f"each value of {arm.column.name!r} goes with one value of it"
        return Role(column.name, "copy of arm", "clear", reason)
    if words.has(column.name, words.TRUTH):
        reason = "named like the effect itself, which nobody knows when deciding"
        return Role(column.name, "leak", "likely", reason)
    said, target = None, None
    for target, values in outcomes.items():  # noqa: B007 - the last one is used
        if said := tells(column, values):
            break
    if words.is_after(column.name):
        sure: Confidence = "clear" if said else "likely"
        return Role(
            column.name, "after treatment", sure, "its name says that it comes after the treatment"
        )
    if column.name in outcomes:
        return Role(column.name, "after treatment", "likely", "another outcome")
    if said is None:
        return None
    known = said.replace("the outcome", repr(target), 1)
    if words.is_before(column.name):
        return Role(column.name, "leak", "likely", known)
    return Role(column.name, "leak", "clear", f"{known}: measured after it, most likely")


def _differences(columns: list[Profile], arm: Arm | None) -> dict[str, Difference]:
    """Those between arms that chance does not explain."""
    if arm is None:
        return {}
    groups = arm.groups()
    found = {column.name: difference(column, groups) for column in columns}
    least = CHANCE / max(1, len(columns))
    return {name: one for name, one in found.items() if one.p_value < least}


def _differs(found: Difference) -> str:
    return (
        f"it differs between the arms by {found.size:.2g} standard deviations, and the other "
        "columns do not: measured after the treatment, most likely"
    )


def _feature(column: Profile) -> Role:
    if column.kind == "date":
        return Role(column.name, "date", "likely", "dates, which are read as days since 1970")
    return Role(column.name, "feature", "likely", _described(column))


def _described(column: Profile) -> str:
    """What a feature holds.

    A heavy tail is nothing to mend: policies take logarithms and ranks of their own.
    """
    if column.kind == "number":
        numbers = column.numbers()
        return f"numbers from {np.nanmin(numbers):,.6g} to {np.nanmax(numbers):,.6g}"
    return f"{column.kind}, {column.distinct:,} levels"
