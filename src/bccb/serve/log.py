"""The log of a campaign, to be downloaded: one row per decision, for `bccb evaluate`."""

from __future__ import annotations

import csv
import heapq
import io
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from itertools import islice
from typing import IO, Any, TypeAlias

from bccb.data.encodings import encoding_metadata
from bccb.data.schema import Columns, cost_columns
from bccb.data.service_log import (
    AMOUNTS,
    CHARGED,
    CONTROL,
    OWN,
    SHADOW,
    own_columns,
    service_columns,
)
from bccb.encoding import Kind, Value, as_text, plain
from bccb.ledger.event import Event
from bccb.ledger.moment import as_time
from bccb.ledger.port import Ledger, Reader, Resolved
from bccb.money import MICROS
from bccb.outcome import WITH_VALUE, status_of
from bccb.serve.campaign import Campaign
from bccb.serve.terms import Terms
from bccb.wire import encode

PAGE = 5_000  # rows at once


def taken_names(treatments: tuple[str, ...]) -> set[str]:
    """Names of columns that no feature may have."""
    return {*OWN, *SHADOW, *AMOUNTS, *CHARGED, *cost_columns(treatments)}


Until: TypeAlias = Mapping[int, int]  # the last event of each cell that counts, by its key


def rows(ledger: Reader, campaign: Campaign, until: Until) -> Iterator[list[dict[str, Any]]]:
    """Pages of rows in the order of decisions, as things stood after these events.

    The decisions of several cells are put in the order of time, and renumbered.
    """
    size = max(PAGE // len(until), 1)
    cells = [_resolved(ledger, key, last, size) for key, last in until.items()]
    merged = heapq.merge(*cells, key=lambda resolved: resolved.decision.at)
    numbered = enumerate(merged, 1)
    while page := list(islice(numbered, PAGE)):
        yield [_row(campaign, number, resolved) for number, resolved in page]


def _resolved(ledger: Reader, key: int, until: int, size: int) -> Iterator[Resolved]:
    """The decisions of one cell, so many at a time."""
    after = 0
    while page := ledger.resolved(key, after, until, size):
        yield from page
        after = page[-1].decision.sequence


def cells_in(ledger: Reader, ids: Sequence[str]) -> tuple[Campaign, Until] | None:
    """The first cell of a campaign as it was opened, which tells how to read its decisions, and
    where all cells stand; None if there is no such campaign.
    """
    accounts = ledger.accounts(ids)
    first = ledger.first(accounts[0].key) if accounts else None
    if first is None or first.detail is None:
        return None
    campaign = Campaign(accounts[0].key, accounts[0].id, Terms.from_json(first.detail))
    return campaign, {account.key: account.sequence for account in accounts}


def _row(campaign: Campaign, number: int, resolved: Resolved) -> dict[str, Any]:
    terms, decision = campaign.terms, resolved.decision
    features = _features(campaign, decision)
    costs = (campaign.costs(decision) / MICROS).tolist()
    arms = (CONTROL, *terms.treatments)
    proposed = arms[decision.action or 0]
    ends_with_outcome = resolved.kind in WITH_VALUE
    row = {
        "decision_id": decision.decision,
        "number": number,
        "at": as_time(decision.at),
        **dict(zip(terms.features, features, strict=True)),
        **dict(zip(cost_columns(terms.treatments), costs, strict=True)),
        "treatment": proposed,
        "probability": decision.probability,
        "price": decision.price,
        "outcome": resolved.value if ends_with_outcome else None,
        "status": status_of(resolved.kind),
    }
    if terms.has_amounts:
        row["outcome_kind"] = terms.outcome
    if terms.payment.on_conversion:
        row["charged_on"] = terms.payment.text
    if terms.shadow:  # what was done is what the other system did, with a probability of its own
        recorded = resolved.kind in WITH_VALUE and resolved.action is not None
        done = arms[resolved.action or 0] if recorded else None
        row |= {"treatment": done, "probability": None, "proposed": proposed}
        row |= {"proposed_probability": decision.probability}
        row["outcome"] = resolved.value if recorded else None
    return row


def _features(campaign: Campaign, decision: Event) -> list[Value]:
    """The features of a decision, as they came."""
    if campaign.terms.encoding is None:
        plain: list[Value] = campaign.trace(decision)[: campaign.terms.columns].tolist()
        return plain
    values: list[Value] = json.loads(campaign.raw(decision))
    return values


def columns(campaign: Campaign) -> Columns:
    """The role of each column, so that readers need no options."""
    terms = campaign.terms
    costs = cost_columns(terms.treatments)
    return service_columns(terms.features, terms.treatments, costs, *_kinds_of(terms))


def write(ledger: Ledger, campaign: Campaign, until: Until, kind: str) -> IO[bytes]:
    """The log as things stood after these events, in a file without a name.

    It is safe in a thread beside the writer: it reads through a reader of its own.
    """
    with closing(ledger.reader()) as reader, ExitStack() as stack:
        file = stack.enter_context(tempfile.TemporaryFile())
        pages = rows(reader, campaign, until)
        if kind == "parquet":
            _write_parquet(pages, campaign, file)
        elif kind == "csv":
            _write_csv(pages, campaign, file)
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
    parts = [polars.DataFrame(_as_text(page, campaign), schema=schema) for page in pages]
    frame = polars.concat(parts) if parts else polars.DataFrame(schema=schema)
    frame = frame.with_columns(polars.col("at").str.to_datetime(time_zone="UTC"))
    try:
        frame.write_parquet(file, metadata=columns(campaign).metadata() | _metadata(campaign))
    except polars.exceptions.PolarsError as error:  # such as a full disk
        raise OSError(str(error)) from None


def _write_csv(pages: Iterator[list[dict[str, Any]]], campaign: Campaign, file: IO[bytes]) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    table = csv.DictWriter(text, _names(campaign))
    table.writeheader()
    for page in pages:
        table.writerows(_as_text(page, campaign))
    text.detach()  # flushes, and leaves the file open


def _as_text(page: list[dict[str, Any]], campaign: Campaign) -> list[dict[str, Any]]:
    """Rows with the levels of categories as text: in Parquet a column has one type, and in CSV the
    number 1 and the text "1" must be the same level.
    """
    names = [name for name, kind in _kinds(campaign).items() if kind == "category"]
    for row in page:
        row |= {name: as_text(row[name]) for name in names if row[name] is not None}
    return page


def _kinds(campaign: Campaign) -> dict[str, Kind]:
    terms = campaign.terms
    encoding = terms.encoding or plain(terms.features)
    return {feature.name: feature.kind for feature in encoding.features}


def _metadata(campaign: Campaign) -> dict[str, str]:
    encoding = campaign.terms.encoding
    return {} if encoding is None else encoding_metadata(encoding)


def _own(campaign: Campaign) -> dict[str, str]:
    return own_columns(*_kinds_of(campaign.terms))


def _kinds_of(terms: Terms) -> tuple[bool, bool, bool]:
    """Whether a campaign is in shadow mode, in money, and charged on conversion."""
    return terms.shadow, terms.has_amounts, terms.payment.on_conversion


def _names(campaign: Campaign) -> list[str]:
    """The columns in their order."""
    terms, own = campaign.terms, list(_own(campaign))
    return [*own[:3], *terms.features, *cost_columns(terms.treatments), *own[3:]]


def _schema(campaign: Campaign) -> dict[str, Any]:
    """The columns in their order, with the types of polars."""
    import polars

    own = {name: getattr(polars, kind) for name, kind in _own(campaign).items()}
    kinds = _kinds(campaign)
    features = {
        name: polars.Float64 if kind == "number" else polars.String for name, kind in kinds.items()
    }
    return {name: own.get(name) or features.get(name, polars.Float64) for name in _names(campaign)}
