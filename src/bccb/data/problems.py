"""What is wrong with a file, in plain words, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bccb.data.profile import Profile
from bccb.data.roles import Arm, Role
from bccb.types import Floats

FEW_CONVERSIONS = 100  # of an arm: below this its rate is known to a fifth at best
FEW_ROWS = 1_000
LEAST_SHARE = 0.02  # of the rows, for an arm


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is wrong."""

    column: str | None
    text: str
    blocks: bool = False  # whether it must be mended before a log can be read


def of_missing(columns: list[Profile], roles: dict[str, Role], rows: int) -> list[Problem]:
    """Missing values: features can be imputed, arms and outcomes cannot."""
    problems = []
    for column in columns:
        part = roles[column.name].part if column.name in roles else None
        if not column.missing:
            continue
        amount = (
            f"{column.name} is missing in {_rows(column.missing)} ({column.missing / rows:.1%})"
        )
        if part in ("arm", "outcome", "cost", "probability"):
            advice = "it is never filled in: remove these rows"
            if part == "outcome":
                advice += ", or write no into them where missing means no"
            problems.append(Problem(column.name, f"{amount}; {advice}.", blocks=True))
        elif part in ("feature", "date"):
            filled = "makes '(missing)' a level of its own"
            if column.is_number:
                filled = f"puts the median there and adds a column, '{column.name} is missing'"
            problems.append(Problem(column.name, f"{amount}; --impute {filled}."))
    return problems


def of_levels(columns: list[Profile], roles: dict[str, Role]) -> list[Problem]:
    """Levels that are too rare to tell anything, which are put together."""
    problems = []
    for column in columns:
        is_feature = column.name in roles and roles[column.name].part == "feature"
        if not is_feature or column.kind != "text":
            continue
        rare, share = column.rare_levels()
        if rare:
            text = (
                f"{column.name} has {column.distinct:,} levels; the rare ones ({rare:,}, with "
                f"{share:.1%} of the rows) are put together as '(other)'."
            )
            problems.append(Problem(column.name, text))
    return problems


def of_arms(arm: Arm, outcomes: Floats | None, rows: int) -> list[Problem]:
    """Arms with few rows or few conversions."""
    problems = []
    groups, names = arm.groups(), [str(arm.control), *arm.treatments]
    counts = np.bincount(groups[groups >= 0], minlength=len(names))
    scale = rows / groups.size
    for group, name in enumerate(names):
        if counts[group] < LEAST_SHARE * groups.size:
            text = (
                f"arm {name!r} has {counts[group] * scale:,.0f} of {rows:,} rows: too few to "
                "learn from. Name the treatments to keep with --arms."
            )
            problems.append(Problem(arm.column.name, text))
    if outcomes is None:
        return problems
    known = (groups >= 0) & ~np.isnan(outcomes)
    sums = np.bincount(groups[known], weights=outcomes[known], minlength=len(names)) * scale
    few = [
        f"{total:,.0f} in {name!r}"
        for name, total in zip(names, sums, strict=True)
        if total < FEW_CONVERSIONS
    ]
    if few:
        text = (
            f"few conversions: {', '.join(few)}. Expect wide intervals, and effects that cannot "
            "be told from none."
        )
        problems.append(Problem(None, text))
    return problems


def of_size(rows: int) -> list[Problem]:
    """Files that are too small."""
    if rows >= FEW_ROWS:
        return []
    text = f"{rows:,} rows are few: a trial that shows whom to treat has many thousands."
    return [Problem(None, text)]


def _rows(count: int) -> str:
    return f"{count:,} row{'s' if count != 1 else ''}"
