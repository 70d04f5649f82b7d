"""When the cost of a treatment is charged: at once, or only if the user converts."""

from __future__ import annotations

from typing import NamedTuple

from bccb import checks
from bccb.errors import InputError
from bccb.kernels.counts import ON_CONVERSION, ON_TREATMENT
from bccb.money import MICROS, cap_in_micros

TREATMENT, CONVERSION = "treatment", "conversion"
SHARE_RANGE = "at least 0.000001 and at most 1"
CODES = {TREATMENT: ON_TREATMENT, CONVERSION: ON_CONVERSION}


class Payment(NamedTuple):
    """When costs are charged, and the most that one more conversion may be expected to cost."""

    charge: str = TREATMENT
    cost_cap: float | None = None
    share: float | None = None  # the share of the amount that is charged, at most the cost

    @property
    def on_conversion(self) -> bool:
        """Whether a treatment costs something only if the user converts."""
        return self.charge == CONVERSION

    @property
    def text(self) -> str:
        """When how much is charged, as logs say it.

        >>> Payment("conversion", share=0.2).text
        'conversion, share 0.2'
        """
        return self.charge + ("" if self.share is None else f", share {self.share:g}")


AT_ONCE = Payment()


def payment_in(text: str, field: str = "charge") -> Payment:
    """What :attr:`Payment.text` says; checked.

    >>> payment_in("conversion, share 0.2")
    Payment(charge='conversion', cost_cap=None, share=0.2)
    """
    charge, _, share = text.partition(", share ")
    try:
        return payment_of(charge, None, float(share) if share else None)
    except ValueError:
        raise InputError(
            field, text, '"treatment", "conversion" or "conversion, share 0.2"'
        ) from None


def payment_of(charge: str, cost_cap: float | None, share: float | None = None) -> Payment:
    """How treatments are paid for; checked.

    >>> payment_of("conversion", None).on_conversion
    True
    """
    share_in_millionths(share, charge)
    if cost_cap is not None:
        cap_in_micros(checks.number("cost_cap", cost_cap))
    return Payment(charge, cost_cap, share)


def share_in_millionths(share: float | None, charge: str, field: str = "share") -> int:
    """The share of an amount that is charged, in millionths; 0 for none; checked.

    >>> share_in_millionths(0.2, "conversion")
    200000
    """
    code = charge_code(charge)
    if share is None:
        return 0
    number = checks.number(field, share)
    if not 1 <= number * MICROS <= MICROS:
        raise InputError(field, share, SHARE_RANGE)
    if code != ON_CONVERSION:
        raise InputError(field, share, 'left out: a share of the amount needs charge="conversion"')
    return round(number * MICROS)


def charge_code(charge: str, field: str = "charge") -> int:
    """The code of a charge in a policy's counts; checked.

    >>> charge_code("conversion")
    1
    """
    if not isinstance(charge, str) or charge not in CODES:
        raise InputError(field, charge, " or ".join(f'"{name}"' for name in CODES))
    return CODES[charge]
