"""The table of policies, and how one is made from it."""

from __future__ import annotations

from difflib import get_close_matches

from bccb.assembly import assemble
from bccb.charge import TREATMENT
from bccb.composition import Composition
from bccb.errors import InputError
from bccb.outcome import Kind
from bccb.policy import Policy
from bccb.spec import Spec

POOLED = Composition("pooled-logistic", "posterior-sampling", "budget-forecast")
TREAT_ALL = "treat-all"
CHEAPEST_FIRST, RESPONSE_FIRST = NAIVE = ("cheapest-first", "response-first")  # ignore effects
WITH_TREES = Composition("pooled-trees", "posterior-sampling", "budget-forecast")
LEARNS = {"haste": 2_000.0}
FIXED_LIFT = {
    "lift": 0.3,
    "lift_spread": 1e-6,
    "lift_variation": 1e-6,
    "lift_slope": 1e-6,
    "prior_strength": 1e9,
    "optimism": 0.0,
    "width": 0.0,
    "reserve": 0.0,
}

POLICIES: dict[str, Spec] = {
    spec.name: spec
    for spec in (
        Spec(
            "thompson",
            "treats when a draw of the treated rate beats one of the control rate",
            Composition("none", "beta-difference", "none", cost_aware=False),
        ),
        Spec(
            "budgeted-thompson",
            "Thompson sampling that must beat a paced threshold",
            Composition("none", "beta-difference", "pace-ratio", cost_aware=False),
        ),
        Spec(
            "hte-greedy",
            "treats whenever the estimated effect is positive",
            Composition("two-model", "coin", "none", cost_aware=False),
        ),
        Spec(
            "uplifting-bandit",
            "upper confidence bounds on the effect, per unit of cost",
            Composition("ridge-pair", "upper-confidence", "pace-ratio"),
        ),
        Spec(
            "bccb",
            "the paper's method: effect plus scaled Thompson bonus, per unit of cost, paced",
            Composition("two-model", "beta-difference", "pace-ratio"),
            {"eta": 0.1},
        ),
        Spec(
            "offline-uplift",
            "models fitted on history and frozen, with a fixed price",
            Composition("frozen", "none", "fixed-price"),
        ),
        Spec(
            "offline-forecast",
            "the same models at the price that uses the budget up",
            Composition("frozen", "none", "budget-forecast"),
        ),
        Spec(
            "offline-boosted",
            "boosted trees fitted on history and frozen, at the price that uses the budget up",
            Composition("boosted", "none", "budget-forecast"),
        ),
        Spec(
            CHEAPEST_FIRST,
            "looks only at the cost, at the price that uses the budget up",
            Composition("constant", "none", "budget-forecast"),
        ),
        Spec(
            RESPONSE_FIRST,
            "ranks by the predicted response per cost, as if every treatment had the same lift",
            POOLED,
            {**LEARNS, **FIXED_LIFT},
        ),
        Spec(
            TREAT_ALL,
            "treats everybody until the money is gone",
            Composition("constant", "none", "none", cost_aware=False),
        ),
        Spec(
            "pooled-bayes",
            "ours: one Bayesian model of all arms, sampled, at the price that uses the budget up",
            POOLED,
            LEARNS,
        ),
        Spec(
            "pooled-trees",
            "pooled-bayes with scores of boosted trees, fitted again as outcomes come in",
            WITH_TREES,
            LEARNS,
        ),
        Spec(
            "hybrid",
            "pooled-trees that has learned from history before",
            WITH_TREES,
            LEARNS,
            after_history=True,
        ),
        Spec(
            "oracle",
            "gets the true effects as its features, with the best fixed price (simulator only)",
            Composition("given", "none", "fixed-price"),
            needs_effects=True,
        ),
    )
}
DEFAULT = "pooled-trees"


def make(
    name: str = DEFAULT,
    *,
    budget: float,
    horizon: int,
    features: int,
    treatments: int = 1,
    seed: int = 0,
    window: float | None = None,
    cost_cap: float | None = None,
    charge: str = TREATMENT,
    share: float | None = None,
    outcome: str = Kind.CONVERSION,
    largest: float | None = None,
    **parameters: float,
) -> Policy:
    """A new policy from the table: ``budget`` to spend on ``horizon`` users with ``features``.

    With a ``window`` outcomes come late: every call then says when (:meth:`Policy.advance`).
    With a ``cost_cap`` the price never falls below 1 / cost_cap: nothing is bought that the model
    expects to cost more, and money may be left over. A caused conversion may still cost more than
    the cap while the model is wrong about who responds. To learn that, some of the cheapest users
    are treated at random while the cap binds, for at most 1 % of the budget and a quarter of what
    is bought at that price. Policies that ignore effects or costs take no cap.
    With ``charge="conversion"`` a cost is due only if the user converts; until then it is held.
    With ``outcome="amount"`` outcomes are amounts of money, mostly 0, and the policy maximises
    their sum: scores, prices and what was caused are in currency, and ``cost_cap`` is what one more
    unit of it may be expected to cost. ``share`` charges this share of the amount, at most the
    cost. ``largest`` is the largest amount that counts when effects are measured, and needed for
    that.
    ``parameters`` change the defaults of its components; ``bccb policies NAME`` lists both.

    >>> make("bccb", budget=5_000, horizon=100_000, features=12, eta=0.05).parameters["eta"]
    0.05
    """
    spec = spec_of(name).changed(**parameters)
    spec.composition.components[0].check_installed()
    return assemble(
        spec,
        budget=budget,
        horizon=horizon,
        features=features,
        treatments=treatments,
        seed=seed,
        window=window,
        cost_cap=cost_cap,
        charge=charge,
        share=share,
        outcome=outcome,
        largest=largest,
    )


def spec_of(name: str) -> Spec:
    """The row of the table with this name."""
    if not isinstance(name, str) or name not in POLICIES:
        close = get_close_matches(str(name), POLICIES, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise InputError("policy", name, f"one of {', '.join(POLICIES)}{hint}")
    return POLICIES[name]


def takes(name: str, kind: str) -> bool:
    """Whether a policy can decide by outcomes of a kind.

    >>> takes("pooled-trees", "amount"), takes("bccb", "amount"), takes("bccb", "conversion")
    (True, False, True)
    """
    return kind != Kind.AMOUNT or spec_of(name).composition.takes_amounts
