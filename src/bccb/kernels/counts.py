"""The counts of a policy (int64): its dimensions, its clock, and its money in integer micros."""

from __future__ import annotations

import numpy as np

from bccb.kernels.jit import jit
from bccb.types import Ints

FEATURES, TREATMENTS, SEED, NUMBER, HORIZON, BUDGET, REMAINING = range(7)
PROPOSED, EXPLORED, HISTORY, PLANNED, SINCE = range(7, 12)
CAP, CHARGE, SHARE, HELD, OFFERED, LARGEST = range(12, 18)
# where the parts of the memory begin
AT_ESTIMATOR, AT_EXPLORER, AT_PACER, AT_AMOUNTS, END = range(18, 23)
COUNTS = 23
EARLIER = 16  # of them in versions without a cap and a charge
MOST_USERS, MOST_FEATURES, MOST_TREATMENTS = 2**53, 100_000, 1_000
MOST_MEMORY = 100_000_000  # float64 numbers of a policy, 800 MB

# What may be spent to learn who is worth the cost cap, while it binds
LEARNING = 0.01  # of the budget, all of it by half time
AT_FIRST = 0.3  # of that
SURPLUS = 0.25  # of what the rule itself spent: on average it pays well below the cap
FARTHEST = 20.0  # times the money per user: the cost that is within reach while none of it is spent

NO_CAP = 0  # instead of the micros that one more conversion may cost
ON_TREATMENT, ON_CONVERSION = range(2)  # when a cost is charged
NOT_LEARNED = -1  # instead of a number of rows: history must be learned before the first decision


def current(counts: Ints) -> Ints:
    """Counts of this version, from those that were kept by this version or an earlier one."""
    if len(counts) != EARLIER:
        return counts
    made = np.zeros(COUNTS, np.int64)
    made[:CAP], made[AT_ESTIMATOR:AT_AMOUNTS], made[AT_AMOUNTS:] = (
        counts[:12],
        counts[12:15],
        counts[15],
    )
    return made


@jit
def explorer_size(counts: Ints) -> int:
    """The size of the explorer's memory."""
    return int(counts[AT_PACER] - counts[AT_EXPLORER])


@jit
def to_return(counts: Ints) -> float:
    """The micros that are held for open decisions and expected to return.

    Costs that are charged on conversion are held in full until the outcome is known. The share that
    is charged in the end is expected to be that of all costs offered so far.
    """
    if counts[HELD] == 0:
        return 0.0
    return float(counts[HELD] * max(1.0 - counts[PROPOSED] / max(counts[OFFERED], 1), 0.0))


@jit
def delivery(counts: Ints) -> float:
    """The share of proposed money that was paid, 1 at first: some treatments are not delivered.

    In replay, those are the proposals that the trial did not follow. Where costs are charged on
    conversion, it also corrects what was expected of conversions. To steady the start, a hundredth
    of the budget counts as proposed and paid before the first user.
    """
    before = 0.01 * counts[BUDGET]
    paid = counts[BUDGET] - counts[REMAINING] - to_return(counts)
    return float((before + paid) / (before + counts[PROPOSED]))


@jit
def reach(counts: Ints) -> float:
    """The cost, in currency, below which users are tried while the cost cap binds.

    It falls as the allowance for that is spent, so that it settles where as much is spent as comes
    in, whatever users cost, and the cheapest are tried.
    """
    allowed, time = LEARNING * counts[BUDGET], max(counts[HORIZON] - counts[SINCE], 1)
    passed = min(AT_FIRST + 2.0 * (counts[NUMBER] - counts[SINCE]) / time, 1.0)
    surplus = SURPLUS * (counts[PROPOSED] - counts[EXPLORED])
    left = (passed * allowed + surplus - counts[EXPLORED]) / allowed
    return float(FARTHEST * min(max(left, 0.0), 1.0) * counts[PLANNED] / 1e6 / time)


@jit
def least_price(counts: Ints) -> float:
    """The price below which money buys less than the cost cap demands; 0 without one."""
    return 0.0 if counts[CAP] == NO_CAP else 1e6 / counts[CAP]


@jit
def charge_of(counts: Ints, held: int, outcome: float) -> int:
    """What is charged of a cost that was held, where it is charged on conversion."""
    if counts[SHARE] > 0:  # millionths of the amount
        return int(min(held, round(max(outcome, 0.0) * counts[SHARE])))
    return held if outcome != 0.0 else 0


@jit
def settle(counts: Ints, held: int, charged: int) -> None:
    """Return what was held for a decision, less what its outcome costs."""
    counts[HELD] -= held
    counts[REMAINING] += held - charged
