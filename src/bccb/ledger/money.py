"""Money as text and as integer micros (1e-6 of the currency unit): never as a float."""

from __future__ import annotations

from bccb.errors import InputError

MICROS = 1_000_000
DECIMALS = 6


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
    return f"{units}.{f'{part:06d}'.rstrip('0').ljust(2, '0')}"
