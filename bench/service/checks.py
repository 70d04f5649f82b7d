"""What a server that was started again must answer, seen against what it answered before."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator
from itertools import cycle
from typing import Any

from bench.service.memory import (
    Book,
    Decision,
    Faults,
    budget_micros,
    cost_micros,
    in_lists,
    money_of,
)
from bench.service.process import Server
from bench.service.wire import Connection, connect, request_bytes

LIST = 1_000
CONNECTIONS = 8


async def ask_again(
    server: Server, books: list[Book], wanted: dict[str, list[Decision]], faults: Faults
) -> None:
    """Send everything in ``wanted`` once more: nothing may come out differently."""
    connections = [await connect(server.port) for _ in range(CONNECTIONS)]
    work: list[list[Any]] = [[] for _ in connections]
    sends = (send for book in books for send in again(book, wanted[book.id], faults))
    for queue, send in zip(cycle(work), sends, strict=False):
        queue.append(send)
    await asyncio.gather(*map(_work, connections, work))
    for connection in connections:
        connection.close()


async def _work(connection: Connection, sends: list[Any]) -> None:
    for request, check in sends:
        check(*await connection.send(request))


def again(book: Book, wanted: list[Decision], faults: Faults) -> Iterator[Any]:
    """What was acknowledged, as requests to send again, each with what checks its answer."""
    path = f"/v1/campaigns/{book.id}"
    standing = [one for one in wanted if one.cancelled is None]
    for many in in_lists(standing, LIST):
        body = [one.request for one in many]
        yield request_bytes("POST", f"{path}/decisions", body), _same_answers(many, faults)
    reported = [one for one in wanted if one.outcome is not None]
    for many in in_lists(reported, LIST):
        items = [{"decision_id": one.id, "value": one.reported} for one in many]
        yield request_bytes("POST", f"{path}/outcomes", items), _same_outcomes(many, faults)
    for one in wanted:
        place = f"{path}/decisions/{one.id}"
        if one.cancelled is not None:
            yield request_bytes("POST", f"{place}/cancel"), _same_state(one.cancelled, faults)
            yield request_bytes("POST", f"{path}/decisions", one.request), _gone(one, faults)
        if one.corrected is not None:
            value = {"value": one.corrected}
            yield request_bytes("POST", f"{place}/correct", value), _same_correction(one, faults)
        if one.settled is not None:
            request = request_bytes("POST", f"{place}/settle", {"cost": one.settled_cost})
            yield request, _same_settlement(one, faults)


def _same_correction(one: Decision, faults: Faults) -> Any:
    def check(status: int, answer: Any) -> None:
        if status != 200 or (answer["value"], answer["status"]) != (
            one.corrected,
            "already_recorded",
        ):
            faults.add("lost", f"the correction of {one.id} became {status} {answer}")

    return check


def _same_answers(many: list[Decision], faults: Faults) -> Any:
    def check(status: int, answers: Any) -> None:
        if status != 200:
            faults.add("doubled", f"decisions asked again were answered {status} {answers}")
            return
        for one, answer in zip(many, answers, strict=True):
            if answer != one.answer:
                faults.add("doubled", f"{one.answer} became {answer}")

    return check


def _gone(one: Decision, faults: Faults) -> Any:
    def check(status: int, answer: Any) -> None:
        if status != 409 or not answer["type"].endswith("decision-cancelled"):
            faults.add("doubled", f"the cancelled {one.id} was answered {status} {answer}")

    return check


def _same_outcomes(many: list[Decision], faults: Faults) -> Any:
    def check(status: int, answers: Any) -> None:
        if status != 200:
            faults.add("lost", f"outcomes sent again were answered {status} {answers}")
            return
        for one, answer in zip(many, answers, strict=True):
            assert one.outcome is not None
            allowed = {"too_late"} if one.late else {"already_recorded"}
            if one.late and one.reported == 0.0:  # once expired it counts as 0 anyway
                allowed.add("already_recorded")
            counts = one.outcome["value"] if one.corrected is None else one.corrected
            if answer["value"] != counts or answer["status"] not in allowed:
                counter = "lost" if answer["status"] == "recorded" else "doubled"
                faults.add(counter, f"the outcome {one.outcome} became {answer}")

    return check


def _same_state(before: dict[str, Any], faults: Faults) -> Any:
    def check(status: int, answer: Any) -> None:
        fields = ("decision_id", "treatment", "reserved", "spent")
        if status != 200 or any(answer[name] != before[name] for name in fields):
            faults.add("doubled", f"{before} became {status} {answer}")

    return check


def _same_settlement(one: Decision, faults: Faults) -> Any:
    """The answer is the same, except that a correction may have returned money since."""
    before = one.settled
    assert before is not None

    def check(status: int, answer: Any) -> None:
        fields = ["decision_id", "treatment", "reserved"]
        if one.corrected is None:
            fields.append("spent")
        same = status == 200 and all(answer[name] == before[name] for name in fields)
        if not same or cost_micros(answer["spent"]) != one.paid:
            now = f"corrected to {one.corrected}, it costs {one.paid} micros"
            faults.add("doubled", f"{before} became {status} {answer}; {now}")

    return check


def check_money(server: Server, books: Iterable[Book], faults: Faults) -> None:
    """The campaigns' money against what the answers add up to; nothing may be under way."""
    for book in books:
        status, now = server.call("GET", f"/v1/campaigns/{book.id}")
        if status != 200:
            faults.add("lost", f"campaign {book.id} was answered {status} {now}")
            continue
        expected = book.money()
        budget, spent, reserved = money_of(now)
        if now["decisions"] < book.seen:
            faults.add("lost", f"{book.seen} decisions were shown, now {now}")
        free = 0  # what windows that passed may have returned
        if book.expires and book.on_conversion:
            free = sum(one.paid for one in book.known() if one.is_free)
        if spent + reserved > budget or expected["paid"] - free > expected["budget"]:
            faults.add("overspent", f"{now}, by the answers {expected}")
        found = {**expected, "budget": budget, "paid": spent + reserved}
        counts = ("decisions", "conversions", "too_late", *(["value"] if book.in_money else []))
        found |= {name: now[name] for name in counts}
        if 0 <= expected["paid"] - (spent + reserved) <= free:
            found["paid"] = expected["paid"]
        if not book.expires:
            found["spent"] = spent
            expected["pending"], found["pending"] = book.pending(), now["pending"]
        if found != expected or budget_micros(now["remaining"]) != budget - spent - reserved:
            faults.add("state_mismatch", f"campaign {now}: {found}, by the answers {expected}")


def check_log(server: Server, books: Iterable[Book], faults: Faults) -> None:
    """The whole log: every acknowledged decision once, with its end, and no others."""
    for book in books:
        status, raw = server.raw("GET", f"/v1/campaigns/{book.id}/log?format=ndjson")
        if status != 200:
            faults.add("state_mismatch", f"the log was answered {status} {raw[:200]!r}")
            continue
        rows = [json.loads(line) for line in raw.splitlines()]
        known = {row["decision_id"]: row for row in rows}
        if len(known) != len(rows):
            faults.add("doubled", f"{len(rows)} rows in the log, {len(known)} ids")
        for id_ in known.keys() - book.decisions.keys():
            faults.add("state_mismatch", f"nobody was answered {known[id_]}")
        for one in book.decisions.values():
            _check_row(book, one, known.get(one.id), faults)


def _check_row(book: Book, one: Decision, row: dict[str, Any] | None, faults: Faults) -> None:
    if row is None:
        faults.add("lost", f"{one.id} is not in the log of campaign {book.id}")
        return
    if one.cancelled is not None:
        allowed = {"cancelled"}
    elif one.outcome is not None and not one.late:
        allowed = {"observed", "expired"} if book.expires and not one.reported else {"observed"}
    else:
        allowed = {"open", "expired"} if book.expires else {"open"}
    treatment = one.answer["treatment"] or "control"
    same = (row["treatment"], row["probability"]) == (treatment, one.answer["probability"])
    if row["status"] not in allowed:
        faults.add("lost", f"{one} stands in the log as {row}")
    elif not same or (row["status"] == "observed" and row["outcome"] != one.value):
        faults.add("doubled", f"{one} stands in the log as {row}")
