"""The slots of a policy: what each component must provide, as kernels that do nothing.

The drivers call these names, and ``bind`` replaces them by a policy's own kernels. Each docstring
is the contract of its slot. A component without a kernel for a slot keeps the one here. Shapes: d
features, K treatments; arm 0 is the control.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from bccb.kernels.jit import jit
from bccb.kernels.linalg import fill
from bccb.types import Floats

MISFIT = 0.1  # standard error of the treated users' base rate that features do not show, in logits


class Nothing(NamedTuple):
    """The state of a component that has none."""

    memory: Annotated[Floats, "0"]


@jit
def view_estimator(memory: Floats, d: int, K: int) -> Any:
    """The estimator's part of the memory as its named state; comes from its layout."""


@jit
def predict(estimator: Any, z: Floats, effect: Floats, spread: Floats) -> bool:
    """Write effect[k-1] = tau_k(z) and its standard error; return whether warm-up is over.

    ``z`` has d + 1 entries: the user's features, then the constant 1.
    """
    fill(effect, 0.0)
    fill(spread, 0.0)
    return True


@jit
def learn_estimator(estimator: Any, z: Floats, arm: int, a: float, b: float) -> None:
    """Learn evidence (a, b) of a user ``z`` in ``arm``: a known outcome y is (y, 1)."""


@jit
def rate_of(estimator: Any, z: Floats, arm: int) -> float:
    """P(conversion) of a user ``z`` in ``arm``.

    What is charged on conversion is expected to cost this share of its price. An estimator that
    knows no rates has no kernel for this slot: then the price counts in full.
    """
    return 1.0


@jit
def view_amounts(memory: Floats, d: int, K: int) -> Any:
    """What was learned about amounts, where outcomes are amounts (:mod:`bccb.kernels.amounts`)."""
    return Nothing(memory)


@jit
def gain_of(y: float) -> float:
    """What the estimator learns of an outcome y: with amounts, whether there was a conversion."""
    return y


@jit
def learn_amount(amounts: Any, user: int, z: Floats, arm: int, y: float) -> None:
    """Learn the amount of a conversion; nothing where there was none.

    ``user`` is the number of the decision, by which it can be corrected, or 0.
    """


@jit
def correct_amount(amounts: Any, user: int, z: Floats, arm: int, was: float, y: float) -> None:
    """Learn y in place of an amount that was learned; 0 stands for no conversion."""


@jit
def unit_of(amounts: Any) -> float:
    """What a score of 1 is worth: a conversion, or with amounts the typical amount of one."""
    return 1.0


@jit
def amount_of(amounts: Any, z: Floats, arm: int) -> float:
    """What a conversion of a user ``z`` in ``arm`` is worth, in units."""
    return 1.0


@jit
def charged_share(amounts: Any, z: Floats, arm: int, share: float, most: float) -> float:
    """The expected cost of a conversion that costs a share of its amount, at most ``most``."""
    return most


@jit
def effect_of(estimator: Any, z: Floats, k: int, gradient: Floats) -> tuple[float, float]:
    """The effect of treatment k + 1 on a user ``z``, and the slope of the base rate in its logit.

    Writes the gradient of the effect in all weights. The estimator's state has their posterior
    ``covariance``. An estimator without one has no kernel for this slot.
    """
    return 0.0, 0.0


@jit
def sum_effects(estimator: Any, zs: Floats, arms: Floats) -> tuple[float, float, float]:
    """The sum of tau_arm(z) over users, its posterior variance, and the sum of squares.

    By the delta method, with the covariance of all weights, and an error of MISFIT that the treated
    have in common. An estimator without a posterior has
    no kernel for this slot; then no sample of treated users is kept.
    """
    return 0.0, 0.0, 0.0


@jit
def view_explorer(memory: Floats, d: int, K: int) -> Any:
    """The explorer's part of the memory as its named state; comes from its layout."""


@jit
def explore(
    explorer: Any, seed: int, number: int, spread: Floats, ready: bool, bonus: Floats
) -> None:
    """Write bonus[k-1] = b_k, what is added to the effect of treatment k in decision ``number``."""
    fill(bonus, 0.0)


@jit
def learn_explorer(explorer: Any, arm: int, a: float, b: float) -> None:
    """Learn evidence (a, b) of a user in ``arm``."""


@jit
def chance(explorer: Any, margin: Floats, spread: Floats, ready: bool, action: int) -> float:
    """The probability that ``action`` maximises margin + bonus, over the explorer's draws.

    ``margin[k-1]`` is tau_k - lambda c_k, or minus infinity if k is not affordable.
    """
    best, largest = 0, 0.0
    for k in range(margin.shape[0]):
        if margin[k] > largest:
            best, largest = k + 1, margin[k]
    return 1.0 if action == best else 0.0


@jit
def reserve(explorer: Any) -> float:
    """The share of decisions that are made at random, to keep overlap in the log."""
    return 0.0


@jit
def view_pacer(memory: Floats, d: int, K: int) -> Any:
    """The pacer's part of the memory as its named state; comes from its layout."""


@jit
def note_arrival(pacer: Any, score: Floats, costs: Floats) -> None:
    """Note a user who was decided on: the score tau_k + b_k and the cost of each treatment."""


@jit
def note_unknown(pacer: Any, share: float) -> None:
    """Note the share of outcomes that is not known yet, where outcomes come late."""


@jit
def forecast(pacer: Any, left: float, first: bool) -> None:
    """Update the price from the recent users; ``left`` is the money per user to come.

    Before the ``first`` decision, the recent users are those from history.
    """


@jit
def price(pacer: Any, budget_left: float, time_left: float) -> float:
    """lambda, the price of a unit of money, given the shares of budget and time that are left."""
    return 0.0


@jit
def view_sample(memory: Floats, d: int) -> Any:
    """The sample of treated users, where the estimator can sum effects over it."""
    return Nothing(memory)


@jit
def keep_in_sample(sample: Any, seed: int, number: int, x: Floats, arm: int) -> None:
    """Note a user who was decided on."""


@jit
def note_in_sample(sample: Any, arm: int, a: float, b: float) -> None:
    """Note evidence (a, b) that was learned of a user."""


@jit
def end_history(sample: Any) -> None:
    """Note that all that was learned so far is history."""


@jit
def view_store(memory: Floats, d: int, K: int) -> Any:
    """The store of outcomes, where the estimator is fitted again while the policy runs."""
    return Nothing(memory)


@jit
def note_learned(store: Any, b: float) -> None:
    """Note that evidence of weight b was learned."""


@jit
def keep_in_store(
    store: Any, seed: int, user: int, x: Floats, arm: int, a: float, b: float
) -> None:
    """Note the evidence (a, b) of a user whose outcome is final."""


@jit
def correct_in_store(
    store: Any, seed: int, user: int, x: Floats, arm: int, was: float, a: float
) -> None:
    """Correct the gain of a user whose outcome was final."""


@jit
def fit_is_due(store: Any) -> bool:
    """Whether the estimator is to be fitted again."""
    return False
