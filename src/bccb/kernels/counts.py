"""The counts of a policy (int64): its dimensions, its clock, and its money in integer micros."""

from __future__ import annotations

from bccb.kernels.jit import jit
from bccb.types import Ints

FEATURES, TREATMENTS, SEED, NUMBER, HORIZON, BUDGET, REMAINING = range(7)
PROPOSED, EXPLORED, HISTORY, PLANNED, SINCE = range(7, 12)
AT_ESTIMATOR, AT_EXPLORER, AT_PACER, END = range(12, 16)  # where the parts of the memory begin
COUNTS = 16
MOST_USERS, MOST_FEATURES, MOST_TREATMENTS = 2**53, 100_000, 1_000
MOST_MEMORY = 100_000_000  # float64 numbers of a policy, 800 MB

NOT_LEARNED = -1  # instead of a number of rows: history must be learned before the first decision


@jit
def explorer_size(counts: Ints) -> int:
    """The size of the explorer's memory."""
    return int(counts[AT_PACER] - counts[AT_EXPLORER])


@jit
def delivery(counts: Ints) -> float:
    """The share of proposed money that was paid, 1 at first: some treatments are not delivered.

    In replay, those are the proposals that the trial did not follow. To steady the start, a
    hundredth of the budget counts as proposed and paid before the first user.
    """
    before = 0.01 * counts[BUDGET]
    paid = counts[BUDGET] - counts[REMAINING]
    return float((before + paid) / (before + counts[PROPOSED]))
