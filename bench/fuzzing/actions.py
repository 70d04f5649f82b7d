"""Random calls on campaigns, each with what takes its answer into the plain ledger."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from bench.fuzzing import looks, strict
from bench.fuzzing.corrections import corrected, may_correct
from bench.fuzzing.model import MOST_LIST, Book, DecisionRow, Span
from bench.fuzzing.outcomes import observed
from bench.fuzzing.space import MICRO, Users, log_int, log_uniform, money
from bench.fuzzing.wire import Answer, Call, calling

Draws = random.Random
MOST_BYTES = 8_000_000  # of a body, as docs/service.md says
MOST_NUMBERS = 20_000  # features and costs in one list, where it is not to be the longest


@dataclass(slots=True)
class Action:
    """A call on a campaign, and what checks its answer.

    ``check`` gets the status, the parsed body, when it happened, and whether the call may have
    arrived before. It returns how many new decisions were made.
    """

    book: Book
    call: Call
    check: Callable[[int, Any, Span, bool], int]
    parse: Callable[[bytes], Any] = strict.parse
    began: int | None = None  # when it was sent first


def drawn(draws: Draws, book: Book, users: Users, fresh: Callable[[], str]) -> Action:
    """One more random action on a campaign; ``fresh`` makes ids that were never used."""
    kinds: dict[Callable[[], Action], float] = {
        lambda: decide(book, new_users(draws, book, users, fresh), draws.random() < 0.9): 44,
        lambda: outcomes(draws, book): 26,
        lambda: again(draws, book, users, fresh): 6,
        lambda: cancel(draws, book): 5,
        lambda: settle(draws, book): 12,
        lambda: correct_some(draws, book): 25,
        lambda: add_budget(draws, book): 4,
        lambda: turn(draws, book): 2,
        lambda: view(book): 2,
        lambda: report(book): 3,
        lambda: log(book, draws.random() < 0.3): 2,
    }
    if not book.rows:
        return next(iter(kinds))()
    return draws.choices(list(kinds), list(kinds.values()))[0]()


# Deciding


def new_users(
    draws: Draws, book: Book, users: Users, fresh: Callable[[], str]
) -> list[dict[str, Any]]:
    """Some users that were not asked about yet, perhaps with some that were."""
    size = draws.choice((1, 2, draws.randint(3, 20), *(draws.randint(21, 200) for _ in range(5))))
    kind = draws.random()
    if kind < 0.02:
        size = MOST_LIST
    elif kind < 0.98:
        size = max(min(size, book.most_per_list, MOST_NUMBERS // users.width), 1)
    found = [users.draw(draws, fresh()) for _ in range(size)]
    if draws.random() < 0.1 and size > 1:
        found[0] = {**found[1], "decision_id": found[0]["decision_id"]}  # the same user twice
    if draws.random() < 0.1:
        known = [row.user for row in sample(draws, book, 5) if row.status != "cancelled"]
        found = (found + known)[-MOST_LIST:]
    return found


def decide(book: Book, users: list[dict[str, Any]], as_list: bool = True) -> Action:
    """Ask for decisions: all of them or none."""
    single = len(users) == 1 and not as_list
    call = _calling(book, "POST", "decisions", users[0] if single else users)

    def check(status: int, body: Any, at: Span, again: bool) -> int:
        long = len(call.body or b"") > MOST_BYTES  # many users with many features each
        _check(book, call, status, body, {413} if long else book.may_decide(users, at))
        if status != 200:
            return 0
        return book.decided(users, [body] if single else body, at)

    return Action(book, call, check)


def again(draws: Draws, book: Book, users: Users, fresh: Callable[[], str]) -> Action:
    """Known ids with the same body, perhaps written otherwise, or with another one."""
    rows = sample(draws, book, min(draws.choice((1, 5, 50)), book.most_per_list))
    asked = [row.user for row in rows]
    kind = draws.random()
    if kind < 0.3:
        asked = [{**user, "costs": _rewritten(draws, user["costs"])} for user in asked]
    elif kind < 0.5:
        asked[-1] = {**users.draw(draws, fresh()), "decision_id": rows[-1].id}
    return decide(book, asked)


def _rewritten(draws: Draws, costs: dict[str, str]) -> dict[str, str]:
    """The same amounts in other words."""
    forms: tuple[str, ...] = ("{}", "0{}", "{}000000", "0{}000000")
    return {name: draws.choice(forms).format(text) for name, text in costs.items()}


def sample(draws: Draws, book: Book, many: int) -> list[DecisionRow]:
    """Some decisions: the last ones, or any."""
    rows = list(book.rows.values())
    many = min(many, len(rows))
    return rows[-many:] if many and draws.random() < 0.3 else draws.sample(rows, many)


# What becomes of them


def outcomes(draws: Draws, book: Book) -> Action:
    """Report outcomes: of open decisions, twice, differently, of ended ones, of unknown ones."""
    rows = sample(draws, book, min(draws.choice((1, 10, 100, 400)), book.most_per_list))
    if draws.random() < 0.8:
        rows = [row for row in rows if row.status == "open"] or rows[:1]
    rate = draws.choice((0.0, 0.05, 0.5, 1.0))
    items = [_item(draws, book, row, rate) for row in rows]
    kind = draws.random()
    if kind < 0.05:
        items.append(dict(draws.choice(items)))
    elif kind < 0.08:
        items.append({**draws.choice(items), "value": draws.random()})
    elif kind < 0.11:
        items.append({**items[0], "decision_id": "nobody"})
    if len(items) == 1 and draws.random() < 0.7:
        return outcome(book, items[0])
    return outcome_list(book, items)


def _value(draws: Draws, book: Book, rate: float) -> float:
    """An outcome: mostly 0 or 1, or of any size where outcomes are amounts."""
    value = draws.choice((0, 1, 0.5, -0.0, 5e-324, draws.random()))
    if draws.random() < 0.9:
        value = 1 if draws.random() < rate else 0
    if book.amounts and value:
        value = draws.choice((value, 1e9, 0.005, 19.99, log_uniform(draws, 1e-9, 1e9)))
        value *= -1 if book.negative and draws.random() < 0.2 else 1
    return value


def _item(draws: Draws, book: Book, row: DecisionRow, rate: float) -> dict[str, Any]:
    value = _value(draws, book, rate)
    if row.report is not None and draws.random() < 0.8:
        value = row.report[0]
    item: dict[str, Any] = {"decision_id": row.id, "value": value}
    if book.shadow:
        item["action"] = draws.choice((None, row.treatment, *book.request["treatments"][:2]))
        if row.report is not None and draws.random() < 0.8:
            item["action"] = row.report[1]
    return item


def outcome_list(book: Book, items: list[dict[str, Any]]) -> Action:
    """Report outcomes as a list."""
    call = _calling(book, "POST", "outcomes", items)

    def check(status: int, body: Any, at: Span, again: bool) -> int:
        observed(book, items, status, body, at, again)
        return 0

    return Action(book, call, check)


def outcome(book: Book, item: dict[str, Any]) -> Action:
    """Report one outcome."""
    body = {key: value for key, value in item.items() if key != "decision_id"}
    call = _calling(book, "PUT", f"decisions/{quote(item['decision_id'])}/outcome", body)

    def check(status: int, body: Any, at: Span, again: bool) -> int:
        observed(book, [item], status, [body] if status == 200 else body, at, again)
        return 0

    return Action(book, call, check)


def correct_some(draws: Draws, book: Book) -> Action:
    """Correct an outcome: of a reported one, of one that cannot be corrected, or once more."""
    rows = sample(draws, book, 50)
    if draws.random() < 0.9:
        rows = [row for row in rows if row.status == "observed"] or rows
    row = draws.choice(rows)
    value = _value(draws, book, rate=0.3)
    if row.report is not None and draws.random() < 0.1:
        value = row.report[0]
    if row.corrected is not None and draws.random() < 0.7:
        value = row.corrected
    return correct(book, row.id, value)


def correct(book: Book, id_: str, value: float) -> Action:
    """Correct an outcome."""
    call = _calling(book, "POST", f"decisions/{quote(id_)}/correct", {"value": value})
    counts = value + 0.0  # as a float without the sign of zero

    def check(status: int, body: Any, at: Span, again: bool) -> int:
        _check(book, call, status, body, may_correct(book, id_, counts, at))
        if status == 200:
            corrected(book, id_, counts, body, again)
        return 0

    return Action(book, call, check)


def cancel(draws: Draws, book: Book) -> Action:
    """Undo a decision."""
    (row,) = sample(draws, book, 1)
    call = _calling(book, "POST", f"decisions/{quote(row.id)}/cancel")

    def check(status: int, body: Any, at: Span, again: bool) -> int:
        _check(book, call, status, body, book.may_cancel(row.id, at))
        if status == 200:
            book.cancelled(row.id, body, at)
        return 0

    return Action(book, call, check)


def settle(draws: Draws, book: Book) -> Action:
    """Tell what a treatment cost."""
    treated = [row for row in sample(draws, book, 20) if row.treatment is not None]
    row = treated[0] if treated else sample(draws, book, 1)[0]
    micros = draws.choice((row.cost, row.cost // 2, 0, draws.randint(0, row.cost), row.cost + 1))
    cost = money(draws, micros)
    call = _calling(book, "POST", f"decisions/{quote(row.id)}/settle", {"cost": cost})

    def check(status: int, body: Any, at: Span, again: bool) -> int:
        allowed = book.may_settle(row.id, cost, at)
        _check(book, call, status, body, allowed)
        if status == 200:
            book.settled(row.id, cost, body, at)
        elif status == 409 and 200 in allowed:
            book.expire(row)  # in a shadow campaign its money has returned
        return 0

    return Action(book, call, check)


# The campaign


def add_budget(draws: Draws, book: Book) -> Action:
    """More money; always with an id, since what is not answered is asked again."""
    request = draws.choice((f"more-{len(book.added)}", *list(book.added)[-2:]))
    add = money(draws, log_int(draws, 1, 10**9 * MICRO))
    if request in book.added and draws.random() < 0.7:
        add = money(draws, book.added[request])
    call = _calling(book, "POST", "budget", {"add": add, "request_id": request})

    def check(status: int, body: Any, at: Span, again: bool) -> int:
        _check(book, call, status, body, book.may_add(add, request, at))
        if status == 200:
            book.add(request, add)
            looks.check_view(book, body, at)
        return 0

    return Action(book, call, check)


def turn(draws: Draws, book: Book) -> Action:
    """Pause, resume or close; most campaigns go on."""
    kinds = ("resume",) if book.status == "paused" else ("resume", "pause", "pause", "close")
    kind = draws.choice(kinds)
    call = _calling(book, "POST", kind)

    def check(status: int, body: Any, at: Span, again: bool) -> int:
        _check(book, call, status, body, book.may_turn(kind))
        if status == 200:
            book.status = {"pause": "paused", "resume": "running", "close": "closed"}[kind]
            looks.check_view(book, body, at)
        return 0

    return Action(book, call, check)


# Looking


def view(book: Book) -> Action:
    """A campaign."""
    return _look(book, "", looks.check_view)


def report(book: Book) -> Action:
    """What the page shows of it."""
    return _look(book, "report", looks.check_report)


def log(book: Book, parquet: bool = False) -> Action:
    """Its log."""
    if not parquet:
        return _look(book, "log?format=ndjson", looks.check_log, strict.parse_lines)
    return _look(book, "log?format=parquet", looks.check_log, looks.parquet_rows)


def _look(
    book: Book,
    path: str,
    check_body: Callable[[Book, Any, Span], None],
    parse: Callable[[bytes], Any] = strict.parse,
) -> Action:
    call = _calling(book, "GET", path)

    def check(status: int, body: Any, at: Span, again: bool) -> int:
        _check(book, call, status, body, {200})
        check_body(book, body, at)
        return 0

    return Action(book, call, check, parse)


def _calling(book: Book, method: str, path: str, body: Any = None) -> Call:
    return calling(method, f"/v1/campaigns/{book.id}/{path}".rstrip("/"), body, book.about)


def _check(book: Book, call: Call, status: int, body: Any, allowed: set[int]) -> None:
    if status not in allowed:
        raise book.broken(f"{call.about} was answered {status} {body}, not {sorted(allowed)}")


def is_problem(answer: Answer) -> bool:
    """Whether a refusal is answered as it should be."""
    problem = strict.parse(answer.raw)
    return (
        answer.content_type == "application/problem+json"
        and isinstance(problem, dict)
        and {"type", "title", "status", "detail"} <= problem.keys()
        and problem["status"] == answer.status
    )
