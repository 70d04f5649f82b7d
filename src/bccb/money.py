"""Money in integer micros (1e-6 of the currency unit): from text, from floats, and as text.

Costs are rounded up and budgets down, so that rounding never spends more than there is.
"""

from __future__ import annotations

from math import ceil

import numpy as np
import numpy.typing as npt

from bccb.errors import InputError

MICROS = 1_000_000
DECIMALS = 6
CENT = 10_000  # micros
LEAST_COST, MOST_COST = 1, 1_000_000 * MICROS  # micros
SCALE, LEAST, MOST = float(MICROS), float(LEAST_COST), float(MOST_COST)  # faster beside floats
COST_RANGE = "at least 0.000001 and at most 1,000,000"
MOST_MONEY = (
    9_000_000_000 * MICROS
)  # micros: up to here a float of currency units is exact to a micro
BUDGET_RANGE = f"at least 0.000001 and at most {MOST_MONEY // MICROS:,}"
ROUNDING = 1e-3  # of a micro: the error of a float of currency units is smaller


def cost_micros(costs: npt.NDArray[np.float64], field: str = "cost") -> npt.NDArray[np.int64]:
    """Costs in currency units, one row per user, as micros, rounded up; checked.

    >>> cost_micros(np.array([[0.29], [0.1 + 0.2], [1e-6]])).ravel().tolist()
    [290000, 300000, 1]
    """
    micros = costs * MICROS
    good = (micros >= LEAST_COST) & (micros <= MOST_COST)
    if not good.all():
        place = tuple(np.argwhere(~good)[0])
        raise InputError(f"{field} of row {place[0]}", float(costs[place]), COST_RANGE)
    return np.ceil(micros - ROUNDING).astype(np.int64)


def cost_in_micros(cost: float, field: str = "cost") -> int:
    """One cost in currency units as micros, as :func:`cost_micros` does.

    >>> cost_in_micros(0.29), cost_in_micros(1.5e-6)
    (290000, 2)
    """
    micros = cost * SCALE
    if not LEAST <= micros <= MOST:
        raise InputError(field, cost, COST_RANGE)
    return ceil(micros - ROUNDING)


def budget_in_micros(money: float, field: str = "budget") -> int:
    """A budget in currency units as micros, rounded down; checked.

    >>> budget_in_micros(0.29), budget_in_micros(1.9e-6)
    (290000, 1)
    """
    if not 1 <= money * MICROS <= MOST_MONEY:
        raise InputError(field, money, BUDGET_RANGE)
    return int(money * MICROS + ROUNDING)


def cap_in_micros(cap: float, field: str = "cost_cap") -> int:
    """The most that one unit of outcome may cost as micros, rounded down; checked.

    >>> cap_in_micros(12.5)
    12500000
    """
    if not LEAST_COST <= cap * MICROS <= MOST_MONEY:
        raise InputError(field, cap, BUDGET_RANGE)
    return int(cap * MICROS + ROUNDING)


def costs_up(field: str, text: str) -> int:
    """A cost in micros, rounded up.

    >>> costs_up("cost", "0.77"), costs_up("cost", "0.0000001")
    (770000, 1)
    """
    whole, rest = _split(field, text)
    return whole + (1 if rest else 0)


def budget_down(field: str, text: str) -> int:
    """A budget in micros, rounded down.

    >>> budget_down("budget", "5000"), budget_down("budget", "0.0000019")
    (5000000000, 1)
    """
    return _split(field, text)[0]


def _split(field: str, text: str) -> tuple[int, bool]:
    """Whole micros, and whether there is anything beyond them."""
    units, _, part = text.partition(".")
    if not (text.isascii() and units.isdecimal() and (part.isdecimal() or part == "")):
        raise InputError(field, text, 'decimal text such as "0.77"')
    return int(units) * MICROS + int(part[:DECIMALS].ljust(DECIMALS, "0")), bool(
        part[DECIMALS:].strip("0")
    )


def as_text(micros: int) -> str:
    """Micros as decimal text, with two decimals or as many as it takes.

    >>> as_text(770000), as_text(5_000_000_000), as_text(1)
    ('0.77', '5000.00', '0.000001')
    """
    units, part = divmod(micros, MICROS)
    if part % CENT == 0:
        return f"{units}.{part // CENT:02d}"
    return f"{units}.{f'{part:06d}'.rstrip('0').ljust(2, '0')}"
