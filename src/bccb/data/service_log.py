"""The columns of a campaign's log, as the service writes it: one row for each decision."""

from __future__ import annotations

from collections.abc import Sequence

from bccb.data.schema import CHARGED_ON, Columns, cost_columns
from bccb.outcome import Kind

# The log's own columns, by polars' names of their types; features and costs stand between them
OWN = {
    "decision_id": "String",
    "number": "Int64",
    "at": "String",
    "treatment": "String",
    "probability": "Float64",
    "price": "Float64",
    "outcome": "Float64",
    "status": "String",
}
SHADOW = {"proposed": "String", "proposed_probability": "Float64"}
AMOUNTS = {"outcome_kind": "String"}  # which says so, in every row
CHARGED = {CHARGED_ON: "String"}  # likewise, where costs are charged on conversion
CONTROL = "control"


def service_columns(
    features: tuple[str, ...],
    treatments: tuple[str, ...],
    costs: tuple[str, ...],
    shadow: bool,
    amounts: bool,
    charged: bool,
) -> Columns:
    """The role of each column. In a shadow campaign somebody else decided, with probabilities of
    their own.
    """
    roles = ["treatment", "outcome", *([] if shadow else ["probability"])]
    own = own_columns(shadow, amounts, charged)
    return Columns(
        treatment="treatment",
        control=CONTROL,
        outcome="outcome",
        features=features,
        treatments=treatments,
        cost=costs,
        excluded=tuple(name for name in own if name not in roles),
        probability=None if shadow else "probability",
        status="status",
        charge=CHARGED_ON if charged else None,
        kind=str(Kind.AMOUNT if amounts else Kind.CONVERSION),
    )


def own_columns(shadow: bool, amounts: bool, charged: bool) -> dict[str, str]:
    """The log's own columns in their order, with their types."""
    own = OWN | (SHADOW if shadow else {}) | (AMOUNTS if amounts else {})
    return own | (CHARGED if charged else {})


def recognised(present: Sequence[str]) -> Columns | None:
    """The columns of a file that has those of a campaign's log, such as its lines of JSON."""
    if not set(OWN) <= set(present):
        return None
    # Costs stand right before the treatment; with one treatment nothing tells its name but rows.
    before = present[: present.index("treatment")]
    treatments = tuple(name.removeprefix("cost:") for name in before if name.startswith("cost:"))
    costs = cost_columns(treatments or ("",))
    own = {*OWN, *SHADOW, *AMOUNTS, *CHARGED, *costs}
    features = tuple(name for name in present if name not in own)
    kinds = (name in present for name in ("proposed", "outcome_kind", CHARGED_ON))
    return service_columns(features, treatments, costs, *kinds)
