"""Money in integer micros (1e-6 of the currency unit): from text, from floats, and as text.

Costs are rounded up and budgets down, so that no rounding can spend more than there is.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bccb.errors import InputError

MICROS = 1_000_000
DECIMALS = 6
CENT = 10_000  # micros
LEAST_COST, MOST_COST = 1, 1_000_000 * MICROS  # micros
COST_RANGE = "at least 0.000001 and at most 1,000,000"
MOST_MONEY = 9_000_000_000 * MICROS  # micros: up to here a float tells all but the last apart
ROUNDING = 1e-3  # of a micro: what a float of currency units is off by is less


def checked_cost(field: str, cost: float) -> float:
    """A cost in currency units, refused where it is out of range."""
    if not LEAST_COST <= cost * MICROS <= MOST_COST:
        raise InputError(field, cost, COST_RANGE)
    return cost


def cost_micros(costs: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Costs in currency units as micros, rounded up; all must be finite.

    >>> cost_micros(np.array([0.29, 0.1 + 0.2, 1e-7])).tolist()
    [290000, 300000, 1]
    """
    micros = costs * MICROS
    whole = np.floor(micros)
    return (whole + (micros - whole > ROUNDING)).astype(np.int64)


def cost_in_micros(cost: float) -> int:
    """One cost in currency units as micros, rounded up, as :func:`cost_micros` does.

    >>> cost_in_micros(0.29), cost_in_micros(1e-7)
    (290000, 1)
    """
    micros = cost * MICROS
    whole = int(micros)
    return whole + (micros - whole > ROUNDING)


def budget_in_micros(money: float) -> int:
    """A budget in currency units as micros, rounded down.

    >>> budget_in_micros(0.29), budget_in_micros(1.9e-6)
    (290000, 1)
    """
    return int(money * MICROS + ROUNDING)


def costs_up(field: str, text: str) -> int:
    """A cost in micros: what does not fit is rounded up.

    >>> costs_up("cost", "0.77"), costs_up("cost", "0.0000001")
    (770000, 1)
    """
    whole, rest = _split(field, text)
    return whole + (1 if rest else 0)


def budget_down(field: str, text: str) -> int:
    """A budget in micros: what does not fit is rounded down.

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
