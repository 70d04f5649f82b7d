"""Receipts: what a policy keeps of each decision until it has an outcome, or until that is final.

A decision that was changed, or that another copy of the policy made, does not match its receipt and
is refused. So only money that this policy paid is refunded.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from bccb.decision import Decision, Origin
from bccb.errors import InputError, StateError
from bccb.kernels import counts as count
from bccb.money import MICROS
from bccb.types import Floats, Ints

Receipt: TypeAlias = tuple[int, int]  # the micros paid, and a checksum of the trace and the action
adler32: Callable[[Any, int], int] = zlib.adler32  # half the time of crc32


class Receipts(dict[int, Receipt]):
    """The receipts of decisions, by their numbers.

    ``counts`` are those of the policy, which know how many decisions it has made. ``otherwise`` is
    what became of decisions without a receipt.
    """

    def __init__(
        self,
        origin: Origin,
        counts: Ints,
        kept: Mapping[int, Receipt],
        otherwise: str = "observed or cancelled",
    ) -> None:
        super().__init__(kept)
        self.origin, self.counts, self.otherwise = origin, counts, otherwise

    def add(self, number: int, paid: int, trace: Floats, action: int) -> None:
        """Keep the receipt of a decision."""
        self[number] = paid, adler32(trace, action)

    def paid(self, decision: Decision) -> int:
        """The micros that a decision paid. One that does not wait, or was changed, is refused."""
        if not isinstance(decision, Decision):
            raise InputError("decision", decision, "what decide or Decision.from_dict returned")
        ours = decision._origin is self.origin or decision._origin == self.origin
        kept = None
        try:
            action, number = decision.action, decision.number
            kept = self.get(number)
            if ours and kept is not None and 0 <= action <= self.origin.treatments:
                paid, checksum = kept
                if adler32(decision._trace, action) == checksum and paid / MICROS == decision.cost:
                    return paid
            made = bool(0 < number <= self.counts[count.NUMBER])
        except (AttributeError, TypeError, ValueError, OverflowError, BufferError):  # was changed
            made = False
        if ours and made and kept is None:
            raise StateError(f"decision {decision.number} was {self.otherwise} already")
        changed = ", or was changed since" if ours and made else ""
        raise StateError(f"decision {decision.number} was not made by this policy{changed}")

    def rows(self) -> Ints:
        """One row for each: number, micros paid, checksum; in the order of the numbers."""
        rows = [(number, *receipt) for number, receipt in sorted(self.items())]
        return np.array(rows, np.int64).reshape(-1, 3)
