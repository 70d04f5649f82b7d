"""The log of a campaign, to be downloaded: one row per decision, for `bccb evaluate`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import IO, Any

from bccb.data.schema import Columns
from bccb.data.service_log import CONTROL, OWN, SHADOW, cost_columns, service_columns
from bccb.ledger.moment import as_time
from bccb.ledger.port import Ledger, Reader, Resolved
from bccb.money import MICROS
from bccb.outcome import WITH_VALUE, status_of
from bccb.serve.campaign import Campaign
from bccb.wire import encode

PAGE = 5_000  # rows at once


def taken_names(treatments: tuple[str, ...]) -> set[str]:
    """Names of columns that no feature may have."""
    return {*OWN, *SHADOW, *cost_columns(treatments)}


def rows(ledger: Reader, campaign: Campaign, until: int) -> Iterator[list[dict[str, Any]]]:
    """Pages of rows in the order of decisions, as things stood after event ``until``."""
    after = 0
    while True:
        page = ledger.resolved(campaign.key, after, until, PAGE)
        if not page:
            return
        after = page[-1].decision.sequence
        yield [_row(campaign, resolved) for resolved in page]


def _row(campaign: Campaign, resolved: Resolved) -> dict[str, Any]:
    terms, decision = campaign.terms, resolved.decision
    features = campaign.trace(decision)[: len(terms.features)].tolist()
    costs = (campaign.costs(decision) / MICROS).tolist()
    arms = (CONTROL, *terms.treatments)
    proposed = arms[decision.action or 0]
    ends_with_outcome = resolved.kind in WITH_VALUE
    row = {
        "decision_id": decision.decision,
        "number": decision.number,
        "at": as_time(decision.at),
        **dict(zip(terms.features, features, strict=True)),
        **dict(zip(cost_columns(terms.treatments), costs, strict=True)),
        "treatment": proposed,
        "probability": decision.probability,
        "price": decision.price,
        "outcome": resolved.value if ends_with_outcome else None,
        "status": status_of(resolved.kind),
    }
    if terms.shadow:  # what was done is what the other system did, with a probability of its own
        recorded = resolved.kind in WITH_VALUE and resolved.action is not None
        done = arms[resolved.action or 0] if recorded else None
        row |= {"treatment": done, "probability": None, "proposed": proposed}
        row |= {"proposed_probability": decision.probability}
        row["outcome"] = resolved.value if recorded else None
    return row


def columns(campaign: Campaign) -> Columns:
    """The role of each column, so that readers need no options."""
    terms = campaign.terms
    costs = cost_columns(terms.treatments)
    return service_columns(terms.features, terms.treatments, costs, terms.shadow)


def write(ledger: Ledger, campaign: Campaign, until: int, kind: str) -> IO[bytes]:
    """The log as things stood after event ``until``, in a file without a name.

    It is safe in a thread beside the writer: it reads through a reader of its own.
    """
    with closing(ledger.reader()) as reader, ExitStack() as stack:
        file = stack.enter_context(tempfile.TemporaryFile())
        pages = rows(reader, campaign, until)
        if kind == "parquet":
            _write_parquet(pages, campaign, file)
        else:
            for page in pages:
                # older versions let prices pass that JSON does not know
                file.writelines(encode(row) + b"\n" for row in page)
        file.flush()
        stack.pop_all()  # it is the caller's now
    return file


def _write_parquet(
    pages: Iterator[list[dict[str, Any]]], campaign: Campaign, file: IO[bytes]
) -> None:
    import polars

    schema = _schema(campaign)
    parts = [polars.DataFrame(page, schema=schema) for page in pages]
    frame = polars.concat(parts) if parts else polars.DataFrame(schema=schema)
    frame = frame.with_columns(polars.col("at").str.to_datetime(time_zone="UTC"))
    try:
        frame.write_parquet(file, metadata=columns(campaign).metadata())
    except polars.exceptions.PolarsError as error:  # such as a full disk
        raise OSError(str(error)) from None


def _own(campaign: Campaign) -> dict[str, str]:
    return OWN | SHADOW if campaign.terms.shadow else OWN


def _schema(campaign: Campaign) -> dict[str, Any]:
    """The columns in their order, with the types of polars."""
    import polars

    own = {name: getattr(polars, kind) for name, kind in _own(campaign).items()}
    terms, first = campaign.terms, ("decision_id", "number", "at")
    numbers = dict.fromkeys((*terms.features, *cost_columns(terms.treatments)), polars.Float64)
    return {name: own.pop(name) for name in first} | numbers | own
