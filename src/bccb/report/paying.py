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
EFFECTS_IGNORED = "A cost cap says little to policies that ignore effects or costs"
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
    blind = [name for name, *_ in spent if _is_blind(name)]
    left = [one for one in spent if one[0] not in blind and one[2] < LEFT * one[1]]
    said = "no money was left over"
    if left:
        listed = ", ".join(f"{name} spent {_of(budget, paid)}" for name, budget, paid in left)
        said = f"there was nothing left that is worth its price: {listed}"
    cap = f"a cost cap of {payment.cost_cap:,g}"
    if kind == Kind.AMOUNT:
        cap += f" for one unit of value (a return of at least {1 / payment.cost_cap:,.3g})"
    lines.append(f"With {cap} {said}.")
    if blind:
        lines.append(f"{EFFECTS_IGNORED}: {', '.join(dict.fromkeys(blind))}.")
    return lines


def _is_blind(name: str) -> bool:
    """Whether a policy knows no cost of one more conversion, which a cap could limit."""
    return name in NAIVE or not spec_of(name).composition.cost_aware


def _of(budget: float, paid: float) -> str:
    """What was spent of a budget, with decimals where whole numbers would say too little.

    >>> _of(1_000.0, 612.4), _of(9.5, 6.123)
    ('612 of 1,000', '6.12 of 9.5')
    """
    return f"{paid:,.{0 if budget >= 100 else 2}f} of {budget:,g}"


def price_of(payment: Payment) -> str:
    """What simulated users cost."""
    if payment.on_conversion:
        return f"each who is treated and converts costs {costs.MEAN} on average"
    return f"treating one costs {costs.MEAN} on average"


def arguments_of(payment: Payment, kind: str = Kind.CONVERSION) -> str:
    """Those of ``bccb.make`` that are not the default."""
    charge = ', outcome="amount"' if kind == Kind.AMOUNT else ""
    charge += f', charge="{payment.charge}"' if payment.on_conversion else ""
    charge += "" if payment.share is None else f", share={payment.share:.15g}"
    return charge + (f", cost_cap={payment.cost_cap:.15g}" if payment.cost_cap else "")
