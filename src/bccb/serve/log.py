"""The log of a campaign, to be downloaded: one row a decision, for `bccb evaluate` and others."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bccb.data.schema import Columns
from bccb.ledger.event import ENDS
from bccb.ledger.ledger import Ledger, Resolved
from bccb.ledger.money import MICROS
from bccb.serve.campaign import Campaign
from bccb.serve.views import moment

OWN = ("decision_id", "number", "at", "treatment", "probability", "price", "outcome", "status")
SHADOW = ("proposed", "proposed_probability")
CONTROL = "control"
PAGE = 5_000  # rows at once


def taken_names(treatments: tuple[str, ...]) -> set[str]:
    """Names of columns that no feature may have."""
    return {*OWN, *SHADOW, *cost_columns(treatments)}


def cost_columns(treatments: tuple[str, ...]) -> tuple[str, ...]:
    """The column with the cost of each treatment."""
    return ("cost",) if len(treatments) == 1 else tuple(f"cost:{name}" for name in treatments)


def rows(ledger: Ledger, campaign: Campaign, until: int) -> Iterator[list[dict[str, Any]]]:
    """Pages of rows in the order of decisions, as things stood after event ``until``."""
    after = 0
    while True:
        page = ledger.resolved(campaign.key, after, until, PAGE)
        if not page:
            return
        after = page[-1].decision.sequence
        yield [_row(campaign, found) for found in page]


def _row(campaign: Campaign, found: Resolved) -> dict[str, Any]:
    terms, decision = campaign.terms, found.decision
    features = campaign.trace(decision)[: len(terms.features)].tolist()
    costs = (campaign.costs(decision) / MICROS).tolist()
    arms = (CONTROL, *terms.treatments)
    proposed = arms[decision.action or 0]
    ends_with_outcome = found.kind in ("outcome", "expiry")
    row = {
        "decision_id": decision.decision,
        "number": decision.number,
        "at": moment(decision.at),
        **dict(zip(terms.features, features, strict=True)),
        **dict(zip(cost_columns(terms.treatments), costs, strict=True)),
        "treatment": proposed,
        "probability": decision.probability,
        "price": decision.price,
        "outcome": found.value if ends_with_outcome else None,
        "status": "open" if found.kind is None else ENDS[found.kind],
    }
    if terms.shadow:  # what was done is what the other system did, with a chance of its own
        done = arms[found.action or 0] if found.kind == "outcome" else None
        row |= {"treatment": done, "probability": None, "proposed": proposed}
        row |= {"proposed_probability": decision.probability}
        row["outcome"] = found.value if found.kind == "outcome" else None
    return row


def columns(campaign: Campaign) -> Columns:
    """Which column plays which part, so that readers need not be told."""
    terms = campaign.terms
    rest: tuple[str, ...] = ("decision_id", "number", "at", "price")
    if terms.shadow:
        rest += ("probability", *SHADOW)
    return Columns(
        treatment="treatment",
        control=CONTROL,
        outcome="outcome",
        features=terms.features,
        treatments=terms.treatments,
        cost=cost_columns(terms.treatments),
        excluded=(*rest, "status"),
        probability=None if terms.shadow else "probability",
        status="status",
    )


def write_parquet(ledger: Ledger, campaign: Campaign, until: int) -> Path:
    """The log in a new file, which the caller removes."""
    import polars

    schema = _schema(campaign)
    parts = [polars.DataFrame(page, schema=schema) for page in rows(ledger, campaign, until)]
    frame = polars.concat(parts) if parts else polars.DataFrame(schema=schema)
    frame = frame.with_columns(polars.col("at").str.to_datetime(time_zone="UTC"))
    with tempfile.NamedTemporaryFile(suffix=".parquet", delete=False) as file:
        path = Path(file.name)
    try:
        frame.write_parquet(path, metadata=columns(campaign).metadata())
    except BaseException as error:
        path.unlink()
        if isinstance(error, polars.exceptions.PolarsError):  # a full disk, say
            raise OSError(str(error)) from None
        raise
    return path


def _schema(campaign: Campaign) -> dict[str, Any]:
    import polars

    terms = campaign.terms
    kinds: dict[str, Any] = {"decision_id": polars.String, "number": polars.Int64}
    kinds["at"] = polars.String
    kinds |= dict.fromkeys((*terms.features, *cost_columns(terms.treatments)), polars.Float64)
    kinds |= {"treatment": polars.String, "probability": polars.Float64, "price": polars.Float64}
    kinds |= {"outcome": polars.Float64, "status": polars.String}
    if terms.shadow:
        kinds |= {"proposed": polars.String, "proposed_probability": polars.Float64}
    return kinds


def write_ndjson(ledger: Ledger, campaign: Campaign, until: int) -> Iterator[bytes]:
    """The log line by line, a page at a time."""
    for page in rows(ledger, campaign, until):
        lines = (json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in page)
        yield ("\n".join(lines) + "\n").encode()
