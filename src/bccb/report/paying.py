"""How treatments are paid for, in words: charged on conversion, and with a cost cap."""

from __future__ import annotations

from collections.abc import Sequence

from bccb.charge import Payment
from bccb.data import costs
from bccb.outcome import Kind
from bccb.policies import NAIVE, spec_of

ON_CONVERSION = (
    "Costs are charged on conversion: a treatment costs nothing unless the user converts; until "
    "that is known its whole cost is held."
)
OF_AMOUNTS = (
    "Costs are a share of what a treated user brings: {share:g} of the amount, and at most the "
    "cost of the treatment, which is held until the outcome is known."
)
CHARGE_ESTIMATED = (
    "What is charged is estimated, because a trial does not say whether users would have converted "
    "whom it did not treat as proposed: spend may be above the budget, which live it never is."
)
NO_CAP_APPLIES = "no cost cap applies to policies that ignore effects or costs"
SAME_LIFT = "A cost cap says little to policies that take every lift to be the same"
LEFT = 0.95  # of the budget: who spends less under a cap left money, not only small change
UNSPENT = 0.99  # of the budget: who treats everybody with less than this has money to spare


def payment_lines(
    payment: Payment, spent: Sequence[tuple[str, float, float]], kind: str = Kind.CONVERSION
) -> list[str]:
    """How treatments are paid for, and who has money left over because of a cost cap.

    ``spent`` is each policy with its budget and what it spent; outcomes are of this ``kind``.

    >>> payment_lines(Payment(cost_cap=9.0), [("bccb", 100.0, 61.2), ("hybrid", 100.0, 99.8)])
    ['With a cost cap of 9 there was nothing left that is worth its price: bccb spent 61 of 100.']
    """
    lines = [ON_CONVERSION] if payment.on_conversion else []
    if payment.share is not None:
        lines = [OF_AMOUNTS.format(share=payment.share)]
    if payment.cost_cap is None:
        return lines
    free = [name for name, *_ in spent if spec_of(name).composition.no_cap]
    naive = [name for name, *_ in spent if name in NAIVE and name not in free]
    left = [one for one in spent if one[0] not in free + naive and one[2] < LEFT * one[1]]
    said = "no money was left over"
    if left:
        listed = ", ".join(f"{name} spent {_of(budget, paid)}" for name, budget, paid in left)
        said = f"there was nothing left that is worth its price: {listed}"
    cap = f"a cost cap of {payment.cost_cap:,g}"
    if kind == Kind.AMOUNT:
        cap += (
            f" for one unit of value (an expected return of at least {1 / payment.cost_cap:,.3g})"
        )
    lines.append(f"With {cap} {said}.")
    for said, names in ((NO_CAP_APPLIES.capitalize(), free), (SAME_LIFT, naive)):
        if names:
            lines.append(f"{said}: {', '.join(dict.fromkeys(names))}.")
    return lines


def _of(budget: float, paid: float) -> str:
    """What was spent of a budget, with decimals where whole numbers would say too little.

    >>> _of(1_000.0, 612.4), _of(9.5, 6.123)
    ('612 of 1,000', '6.12 of 9.5')
    """
    return f"{paid:,.{0 if budget >= 100 else 2}f} of {budget:,g}"


def price_of(payment: Payment, cost: float | None = None) -> str:
    """What simulated users cost: on average, or so much each.

    >>> price_of(Payment("conversion", share=0.2), 10.0)
    'each who is treated and converts costs 0.2 of the amount, at most 10'
    """
    price = f"{costs.MEAN} on average" if cost is None else f"{cost:,.15g}"
    if payment.share is not None:
        price = f"{payment.share:g} of the amount, at most {price}"
    if payment.on_conversion:
        return f"each who is treated and converts costs {price}"
    return f"treating one costs {price}"


def arguments_of(payment: Payment, kind: str = Kind.CONVERSION) -> str:
    """Those of ``bccb.make`` that are not the default."""
    charge = ', outcome="amount"' if kind == Kind.AMOUNT else ""
    charge += f', charge="{payment.charge}"' if payment.on_conversion else ""
    charge += "" if payment.share is None else f", share={payment.share:.15g}"
    return charge + (f", cost_cap={payment.cost_cap:.15g}" if payment.cost_cap else "")
