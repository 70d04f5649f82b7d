"""When the cost of a treatment is charged: at once, or only if the user converts."""

from __future__ import annotations

from bccb.errors import InputError
from bccb.kernels.counts import ON_CONVERSION, ON_TREATMENT

TREATMENT, CONVERSION = "treatment", "conversion"
CODES = {TREATMENT: ON_TREATMENT, CONVERSION: ON_CONVERSION}


def charge_code(charge: str, field: str = "charge") -> int:
    """The code of a charge in a policy's counts; checked.

    >>> charge_code("conversion")
    1
    """
    if not isinstance(charge, str) or charge not in CODES:
        raise InputError(field, charge, " or ".join(f'"{name}"' for name in CODES))
    return CODES[charge]
