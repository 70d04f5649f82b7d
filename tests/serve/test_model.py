"""Random interleavings of all calls, against the plain ledger: money, statuses, answers, codes."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from postgresql import server

from serve.plain_ledger import Book, Refused, micros
from serve.service import SECOND, Clock, Service

NAMES = ("one", "two", "three")
TREATMENTS = ("email", "call")
COSTS = ("0.30", "0.7000001", "1.10")
OUTCOMES = (
    None,
    {"kind": "amount", "negative": True, "largest": "2"},
    {"kind": "amount", "negative": False},
)
MONEY = ("budget", "spent", "reserved", "remaining")

names = st.sampled_from((*["one"] * 5, *["two"] * 3, "three"))  # the first two are there
ids = st.sampled_from([f"d{i}" for i in range(4)])
costs = st.sampled_from((*COSTS * 5, "0.000"))
bodies = st.tuples(st.sampled_from((0.5, -1.0)), costs, costs)
actions = st.sampled_from((None, "email", "call", "nothing"))
reports = st.fixed_dictionaries(
    {
        "decision_id": st.one_of(ids, ids, ids, ids, st.just("nobody")),
        "value": st.sampled_from((0.0, 1.0, 0.0, 1.0, 2.5, 0.9999999, -2.5)),
    },
    optional={"action": actions},
)


@st.composite
def terms(draw: st.DrawFn) -> dict[str, Any]:
    """What a campaign can be opened with; times are seconds from the beginning."""
    charge = draw(st.sampled_from(("treatment", "conversion")))
    outcome = draw(st.sampled_from(OUTCOMES))
    learning = "pooled-bayes" if outcome else "thompson"
    policies = "treat-all", "cheapest-first", "response-first", learning
    policy = draw(st.sampled_from(policies))
    capped = policy in ("response-first", "pooled-bayes")  # a cap applies to them
    share = draw(st.sampled_from((None, 0.3))) if outcome and charge == "conversion" else None
    return {
        "budget": draw(st.sampled_from(("40", "2.5000009", "1.00"))),
        "users": draw(st.sampled_from((4, 100, None))),
        "ends_in": draw(st.sampled_from((50, 500))),
        "expected_users": draw(st.sampled_from((None, 20))),
        "treatments": list(TREATMENTS[: draw(st.integers(1, 2))]),
        "policy": policy,
        "window": draw(st.sampled_from((5, 60))),
        "mode": draw(st.sampled_from(("live", "shadow"))),
        "charge": charge,
        "cost_cap": draw(st.sampled_from((None, "0.8000001"))) if capped else None,
        "outcome": outcome,
        "share": share,
    }


class Interleavings(RuleBasedStateMachine):
    """The service and the model, side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.clock = Clock()
        self.begin = self.clock()
        self.service = Service(self.new_place(), self.clock)
        self.books: dict[str, Book] = {}
        self.asked: dict[str, dict[str, Any]] = {}
        self.copies = 0

    def new_place(self) -> str:
        return str(self.folder / "0.sqlite")

    def teardown(self) -> None:
        self.service.stop()
        shutil.rmtree(self.folder)

    def path(self, name: str) -> str:
        return self.books[name].id if name in self.books else "c-nobody"

    def expect(
        self, name: str, response: httpx.Response, follow: Callable[[Book], Any]
    ) -> tuple[Any, Any]:
        """What the service answered and what the model says, both None where it is a refusal."""
        expected, status = None, 200
        try:
            if name not in self.books:
                raise Refused(404)
            expected = follow(self.books[name])
        except Refused as refusal:
            status = refusal.status
        assert response.status_code == status, response.text
        if status != 200:
            assert response.headers["content-type"] == "application/problem+json"
            return None, None
        return response.json(), expected

    # Campaigns

    @initialize(first=terms(), second=terms())
    def begin_with_two(self, first: dict[str, Any], second: dict[str, Any]) -> None:
        self.open_campaign("one", first)
        self.open_campaign("two", second)

    @rule(name=st.sampled_from(NAMES), given=terms())
    def open_campaign(self, name: str, given: dict[str, Any]) -> None:
        ends_at = None if given["users"] else self.begin + given["ends_in"] * SECOND
        body = self.campaign_body(name, given, ends_at)
        response = self.service.post("", body)
        if name in self.books:
            before = self.campaign_body(name, self.asked[name], self.books[name].terms["ends_at"])
            assert response.status_code == (200 if body == before else 409)
        elif ends_at is not None and ends_at <= self.clock():
            assert response.status_code == 422
        else:
            assert response.status_code == 201, response.text
            kept = {**given, "ends_at": ends_at, "outcome_window_seconds": given["window"]}
            self.books[name] = Book(response.json()["id"], kept, self.clock())
            self.asked[name] = given
        if response.is_success:
            assert response.json()["id"] == self.books[name].id

    def campaign_body(self, name: str, given: dict[str, Any], ends_at: int | None) -> Any:
        horizon: dict[str, Any] = {"users": given["users"]}
        if ends_at is not None:
            end = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=ends_at)
            horizon = {"ends_at": end.isoformat(), "expected_users": given["expected_users"]}
        return {
            "name": name,
            "budget": given["budget"],
            "horizon": horizon,
            "features": ["age"],
            "treatments": given["treatments"],
            "policy": {"name": given["policy"]},
            "outcome_window_seconds": given["window"],
            "seed": 7,
            "mode": given["mode"],
            "charge": given["charge"],
            "cost_cap": given["cost_cap"],
            "share": given["share"],
            **({"outcome": given["outcome"]} if given["outcome"] else {}),
        }

    @rule(name=names)
    def open_again(self, name: str) -> None:
        if name in self.asked:
            self.open_campaign(name, self.asked[name])

    @rule(name=names, turn=st.sampled_from(("pause", *["resume"] * 6, "close")))
    def turn_campaign(self, name: str, turn: str) -> None:
        response = self.service.post(f"{self.path(name)}/{turn}")
        self.expect(name, response, lambda book: book.turn(self.clock(), turn))

    @rule(
        name=names,
        add=st.sampled_from(("1.0000019", "0.50", "0.0000009")),
        request=st.sampled_from((None, "r1", "d1")),
    )
    def add_budget(self, name: str, add: str, request: str | None) -> None:
        body = {"add": add} if request is None else {"add": add, "request_id": request}
        response = self.service.post(f"{self.path(name)}/budget", body)
        self.expect(name, response, lambda book: book.add(self.clock(), add, request))

    # Decisions

    def body(self, name: str, id_: str, given: tuple[Any, ...]) -> dict[str, Any]:
        treatments = self.books[name].terms["treatments"] if name in self.books else TREATMENTS
        age, *texts = given
        return {
            "decision_id": id_,
            "features": {"age": age},
            "costs": dict(zip(treatments, texts, strict=False)),
        }

    def ask(self, name: str, asked: list[tuple[str, tuple[Any, ...]]], single: bool) -> None:
        users = [self.body(name, id_, given) for id_, given in asked]
        path = f"{self.path(name)}/decisions"
        response = self.service.post(path, users[0] if single else users)
        if name in self.books:
            size = 1 + len(self.books[name].terms["treatments"])
            asked = [(id_, given[:size]) for id_, given in asked]
        answers, _ = self.expect(
            name, response, lambda book: book.check_decide(self.clock(), asked)
        )
        if answers is None:
            return
        for (id_, given), answer in zip(asked, [answers] if single else answers, strict=True):
            assert answer["decision_id"] == id_
            self.books[name].decided(self.clock(), id_, given, answer)

    @rule(name=names, id_=ids, given=bodies)
    def decide(self, name: str, id_: str, given: tuple[Any, ...]) -> None:
        self.ask(name, [(id_, given)], single=True)

    @rule(name=names, asked=st.lists(st.tuples(ids, bodies), min_size=1, max_size=4))
    def decide_many(self, name: str, asked: list[tuple[str, tuple[Any, ...]]]) -> None:
        self.ask(name, asked, single=False)

    @rule(name=names, wanted=st.lists(ids, min_size=1, max_size=4, unique=True), given=bodies)
    def decide_again(self, name: str, wanted: list[str], given: tuple[Any, ...]) -> None:
        """A retry: known ids come with the body they had."""
        rows = self.books[name].rows if name in self.books else {}
        again = [(*rows[id_].body, "1.00") if id_ in rows else given for id_ in wanted]
        self.ask(name, list(zip(wanted, again, strict=True)), single=len(wanted) == 1)

    # What becomes of them

    @rule(name=names, item=reports, fits=st.booleans())
    def report_outcome(self, name: str, item: dict[str, Any], fits: bool) -> None:
        item = self.fitting(name, item) if fits else item
        body = {key: value for key, value in item.items() if key != "decision_id"}
        path = f"{self.path(name)}/decisions/{item['decision_id']}/outcome"
        response = self.service.ask("PUT", path, body)
        answer, expected = self.expect(name, response, lambda b: b.observe(self.clock(), [item]))
        if answer is not None:
            assert (answer["status"], answer["value"]) == expected[0]

    @rule(
        name=names,
        items=st.lists(reports, min_size=1, max_size=3),
        fits=st.sampled_from((True, True, False)),
        twice=st.booleans(),
    )
    def report_outcomes(
        self, name: str, items: list[dict[str, Any]], fits: bool, twice: bool
    ) -> None:
        items = items * 2 if twice else items
        items = [self.fitting(name, item) for item in items] if fits else items
        response = self.service.post(f"{self.path(name)}/outcomes", items)
        answer, expected = self.expect(name, response, lambda b: b.observe(self.clock(), items))
        if answer is not None:
            assert [(each["status"], each["value"]) for each in answer] == expected

    def fitting(self, name: str, item: dict[str, Any]) -> dict[str, Any]:
        """The report with an action where the campaign wants one, and without where not; with an
        outcome of its kind.
        """
        book = self.books.get(name)
        shadow, outcome = (book.shadow, book.terms["outcome"]) if book else (False, None)
        rest = {key: value for key, value in item.items() if key != "action"}
        least = -9.0 if outcome and outcome["negative"] else 0.0
        rest["value"] = max(least, min(rest["value"], 9.0 if outcome else 1.0))
        return {**rest, "action": item.get("action")} if shadow else rest

    @rule(name=names, id_=ids)
    def cancel(self, name: str, id_: str) -> None:
        response = self.service.post(f"{self.path(name)}/decisions/{id_}/cancel")
        answer, _ = self.expect(name, response, lambda book: book.cancel(self.clock(), id_))
        self.check_state(name, id_, answer)

    @rule(name=names, id_=ids, cost=st.sampled_from(("0.2", "0.2000001", "0.2", "0", "5.00")))
    def settle(self, name: str, id_: str, cost: str) -> None:
        response = self.service.post(f"{self.path(name)}/decisions/{id_}/settle", {"cost": cost})
        answer, _ = self.expect(name, response, lambda book: book.settle(self.clock(), id_, cost))
        self.check_state(name, id_, answer)

    @rule(
        name=names, id_=ids, value=st.sampled_from((0.0, 1.0, 0.0, 7.5, -3.0)), fits=st.booleans()
    )
    def correct(self, name: str, id_: str, value: float, fits: bool) -> None:
        if fits:
            value = float(self.fitting(name, {"value": value})["value"])
        path = f"{self.path(name)}/decisions/{id_}/correct"
        response = self.service.post(path, {"value": value})
        answer, expected = self.expect(
            name, response, lambda b: b.correct(self.clock(), id_, value)
        )
        if answer is not None:
            assert (answer["status"], answer["value"]) == expected

    def check_state(self, name: str, id_: str, answer: Any) -> None:
        if answer is not None:
            answers = {k: micros(v) if k in MONEY else v for k, v in answer.items()}
            assert answers == self.books[name].state(id_)

    # Time and the process

    @rule(seconds=st.sampled_from((61.0, 6.0, 61.0, 1.0, 0.000001, -1.0, -40.0)))
    def move_clock(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule()
    def let_windows_pass(self) -> None:
        self.service.sweep()
        for book in self.books.values():
            book.sweep(self.clock())

    @rule(killed=st.booleans())
    def restart(self, killed: bool) -> None:
        """Stop and start again, or go on from what a process killed now would leave."""
        if killed:
            self.leave_copy()
        self.service.restart()

    def leave_copy(self) -> None:
        """Let the next start find the files as they are now."""
        self.copies += 1
        copy = self.folder / f"{self.copies}.sqlite"
        for ending in ("", "-wal"):
            shutil.copy(f"{self.service.place}{ending}", f"{copy}{ending}")
        self.service.place = str(copy)

    @rule(name=names)
    def download_log(self, name: str) -> None:
        response = self.service.get(f"{self.path(name)}/log")
        if name not in self.books:
            assert response.status_code == 404
            return
        book = self.books[name]
        results = [json.loads(line) for line in response.text.splitlines()]
        expected = [book.log_row(number, id_) for number, id_ in enumerate(book.rows, 1)]
        assert [
            {key: row[key] for key in like} for row, like in zip(results, expected, strict=True)
        ] == expected

    @invariant()
    def money_and_counts_are_the_models(self) -> None:
        body = self.service.get("").json()["campaigns"]
        assert [each["name"] for each in body] == list(self.books)[::-1]
        for each in body:
            book = self.books[each["name"]]
            money = {key: micros(each[key]) for key in MONEY}
            assert money["spent"] + money["reserved"] <= money["budget"]
            assert money == book.money
            rows = book.rows.values()
            assert each["status"] == book.status
            assert each["decisions"] == len(rows)
            assert each["pending"] == sum(row.status == "open" for row in rows)
            assert each["treated"] == sum(
                row.answer["treatment"] is not None and row.status != "cancelled" for row in rows
            )


class OnPostgresql(Interleavings):
    """The same over PostgreSQL."""

    def new_place(self) -> str:
        return server().new_place()

    def leave_copy(self) -> None:
        """A process that is killed keeps no snapshots."""
        self.service.engine.trouble = "killed"


def many(share: int) -> settings:
    return settings(
        max_examples=settings().max_examples // share,
        stateful_step_count=50,
        phases=(Phase.explicit, Phase.reuse, Phase.generate),  # to shrink a failure takes minutes
    )


pytestmark = pytest.mark.slow_first(10)
TestInterleavings = Interleavings.TestCase
TestInterleavings.settings = many(2)
TestOnPostgresql = OnPostgresql.TestCase
TestOnPostgresql.settings = many(8)
