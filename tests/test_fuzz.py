"""The fuzz harness: the service passes it, and what it must find it finds."""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from bench import fuzz
from bench.fuzzing import actions, audit, faults, looks, session, space, strict, wire
from bench.fuzzing.corrections import corrected, may_correct
from bench.fuzzing.findings import COUNTERS, Findings
from bench.fuzzing.model import Book, BrokenError, Span
from bench.fuzzing.outcomes import observed
from bench.fuzzing.session import RoundOverError, Session
from bench.fuzzing.wire import Call, Wire, calling

ZEROS = " ".join(f"{name}=0" for name in COUNTERS)
AT = Span(1_000_000, 1_000_010)
LATER = Span(100_000_000, 100_000_010)
REQUEST = {
    "name": "autumn",
    "budget": "1.00",
    "horizon": {"users": 100},
    "features": ["age"],
    "treatments": ["mail", "call"],
    "outcome_window_seconds": 60,
}


def counts_in(line: str) -> dict[str, int]:
    return {name: int(count) for name, count in re.findall(r"(\w+)=(\d+)", line)}


@pytest.mark.compiled
@pytest.mark.slow_first(25)
def test_random_attacks_find_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "LONGEST", 3.0)  # other tests share the machine
    with pytest.raises(SystemExit) as ended:
        size = ["--campaigns", "40", "--decisions", "4000"]
        fuzz.main(["--seed", "1", *size, "--folder", str(tmp_path)])
    printed = capsys.readouterr().out
    last = printed.splitlines()[-1]
    assert re.fullmatch(rf"campaigns=\d+ decisions=\d+ restarts=\d+ {ZEROS}", last), printed
    counts = counts_in(last)
    assert counts["campaigns"] >= 40
    assert counts["decisions"] >= 4_000
    assert counts["restarts"] >= 3
    assert ended.value.code == 0
    assert not list(tmp_path.iterdir())


# bccb itself, with a defect put in
DEFECTS = {
    "nonfinite": """
import re
from bccb import wire
before = wire.encode
wire.encode = lambda content: re.sub(rb'"price":[^,}\\]]+', b'"price":NaN', before(content))
""",
    "lost": """
import re
from bccb import wire
before, calls = wire.encode, []
def forgetful(content):
    calls.append(1)
    return re.sub(rb'"price":[^,}\\]]+', b'"price":%d.5' % len(calls), before(content))
wire.encode = forgetful
""",
    "stalls": """
import time
from bccb.serve import routes
before = routes.report_view
routes.report_view = lambda *arguments: time.sleep(1.3) or before(*arguments)
""",
}


@pytest.mark.compiled
@pytest.mark.parametrize("counter", DEFECTS)
def test_a_defect_that_is_put_in_is_found(
    counter: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = faults.program

    def program(version: str) -> tuple[str, ...]:
        python, option, code = plain(version)
        return python, option, code.replace("from bccb.cli", f"{DEFECTS[counter]}\nfrom bccb.cli")

    monkeypatch.setattr(session, "program", program)
    monkeypatch.setattr(fuzz, "warm", lambda folder: None)
    size = ["--campaigns", "80", "--decisions", "12000", "--jobs", "1"]
    with pytest.raises(SystemExit) as ended:
        fuzz.main(["--seed", "1", *size, "--stop-at-first", "--folder", str(tmp_path)])
    *result, last = capsys.readouterr().out.splitlines()
    assert counts_in(last)[counter] > 0, result
    assert ended.value.code == 1
    where = r"\[--seed 1 --round 0, step \d+\]"
    assert any(re.fullmatch(rf"{counter}: .*{where}", line) for line in result), result
    assert list(tmp_path.glob("*/0/data/fuzz.sqlite"))  # to look at


def test_the_same_seed_draws_the_same() -> None:
    drawn = [space.draw_campaign(fuzz_draws(), "a") for _ in range(2)]
    for each in drawn:
        each.pop("horizon")  # which may be a time
    assert drawn[0] == drawn[1]


def fuzz_draws() -> Any:
    return space.Draws("1/0/1")


def test_every_policy_and_parameter_of_the_service_is_drawn() -> None:
    draws, seen = space.Draws(1), set[str]()
    for number in range(2_000):
        policy = space.draw_campaign(draws, str(number)).get("policy", {"name": "", "params": {}})
        seen |= {policy["name"], *policy["params"]}
    for name, spec in space.served_policies().items():
        assert spec.after_history or {name, *space.parameters_of(spec)} <= seen


def test_parameters_reach_the_ends_of_their_ranges() -> None:
    draws = space.Draws(1)
    for spec in space.served_policies().values():
        for parameter in space.parameters_of(spec).values():
            drawn = [space.draw_parameter(draws, parameter) for _ in range(2_000)]
            assert all(parameter.least <= each <= parameter.most for each in drawn)
            assert {max(parameter.least, -space.LARGEST), min(parameter.most, space.LARGEST)} <= {
                *drawn
            }
            assert parameter.least > 0 or "-0.0" in map(repr, drawn)


# The checks


@pytest.mark.parametrize("raw", [b'{"p": NaN}', b'[{"p": -Infinity}]', b"1e999", b'{"p": -1E+400}'])
def test_numbers_that_are_not_finite_are_refused(raw: bytes) -> None:
    with pytest.raises(strict.NotFiniteError):
        strict.parse(raw)


@pytest.mark.parametrize("raw", [b"", b"{", b'{"a": 1,}', b"\xff", b"{} {}"])
def test_what_is_no_json_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        strict.parse(raw)


def test_numbers_at_the_end_of_the_range_pass() -> None:
    assert strict.parse(b'[1.7976931348623157e308, 5e-324, -0.0, null, "NaN"]')


def test_metrics_that_are_not_finite_are_refused() -> None:
    strict.check_metrics('# HELP x\nx{le="+Inf"} 3.0\ny 0\n')
    with pytest.raises(strict.NotFiniteError):
        strict.check_metrics("x 1\ny NaN\n")


@pytest.fixture
def book() -> Book:
    view = {"id": "c", "name": "autumn", "policy": {"params": {"threshold": -0.0}}}
    return Book("c", dict(REQUEST), view, Findings())


def user(id_: str, cost: str = "0.40") -> dict[str, Any]:
    return {"decision_id": id_, "features": {"age": 1}, "costs": {"mail": cost, "call": "0.1"}}


def answer(id_: str, remaining: str, treatment: str | None = "mail", **more: Any) -> dict[str, Any]:
    answers = {"decision_id": id_, "treatment": treatment, "probability": 0.5, "price": 0.1}
    return {**answers, "remaining": remaining, "act": True, **more}


def view_of(book: Book, **more: Any) -> dict[str, Any]:
    answers = {"status": "running", "budget": "1.00", "spent": "0.00", "reserved": "0.40"}
    counts = {"remaining": "0.60", "decisions": 1, "treated": 1, "pending": 1}
    outcomes = {"too_late": 0, "corrections": 0, "conversions": 0.0, "value": None}
    return {**book.view, **answers, **counts, **outcomes, **more}


def taken(book: Book, take: Callable[[], Any]) -> dict[str, int]:
    """What a check counts."""
    with suppress(BrokenError):
        take()
    return dict(book.findings.counts)


@pytest.mark.parametrize(
    ("change", "counter"),
    [
        ({}, None),
        ({"probability": None}, "nonfinite"),
        ({"probability": 0.0}, "nonfinite"),
        ({"probability": 1.5}, "nonfinite"),
        ({"price": None}, "nonfinite"),
        ({"price": -1.0}, "nonfinite"),
        ({"remaining": "0.61"}, "disagreed"),
        ({"remaining": "-0.40"}, "overspent"),
        ({"treatment": "letter"}, "disagreed"),
        ({"act": False}, "disagreed"),
        ({"extra": 1}, "disagreed"),
    ],
)
def test_a_wrong_decision_is_counted(
    book: Book, change: dict[str, Any], counter: str | None
) -> None:
    answers = {**answer("a", "0.60"), **change}
    result = taken(book, lambda: book.decided([user("a")], [answers], AT))
    assert result == ({counter: 1} if counter else {})


def test_more_than_the_budget_is_overspent(book: Book) -> None:
    users = [user(each) for each in "abc"]
    answers = [answer("a", "0.60"), answer("b", "0.20"), answer("c", "0.20")]
    assert taken(book, lambda: book.decided(users, answers, AT)) == {"overspent": 1}


@pytest.mark.parametrize(
    "change", [{"price": -0.1 * 0.0}, {"treatment": None}, {"probability": None}, {"extra": 1}]
)
def test_an_answer_that_changes_is_lost(book: Book, change: dict[str, Any]) -> None:
    first = answer("a", "0.60", price=0.0)
    book.decided([user("a")], [first], AT)
    assert taken(book, lambda: book.decided([user("a")], [dict(first)], AT)) == {}
    assert taken(book, lambda: book.decided([user("a")], [{**first, **change}], AT)) == {"lost": 1}


@pytest.mark.parametrize(
    ("change", "counter"),
    [
        ({}, None),
        ({"decisions": 0}, "lost"),
        ({"spent": "0.61"}, "overspent"),
        ({"reserved": "0.30", "remaining": "0.70"}, "disagreed"),
        ({"budget": "2.00", "remaining": "1.60"}, "disagreed"),
        ({"status": "paused"}, "disagreed"),
        ({"pending": 0}, "disagreed"),
        ({"conversions": 1.0}, "lost"),
        ({"too_late": 1}, "lost"),
        ({"corrections": 1}, "lost"),
        ({"name": "winter"}, "lost"),
        ({"policy": {"params": {"threshold": 0.0}}}, "lost"),
    ],
)
def test_a_wrong_view_is_counted(book: Book, change: dict[str, Any], counter: str | None) -> None:
    book.decided([user("a")], [answer("a", "0.60")], AT)
    result = taken(book, lambda: looks.check_view(book, view_of(book, **change), AT))
    assert result == ({counter: 1} if counter else {})


def test_a_window_that_may_have_passed_leaves_both_open(book: Book) -> None:
    book.decided([user("a")], [answer("a", "0.60")], AT)
    swept = {"pending": 0, "spent": "0.40", "reserved": "0.00"}
    assert taken(book, lambda: looks.check_view(book, view_of(book), LATER)) == {}
    assert taken(book, lambda: looks.check_view(book, view_of(book, **swept), LATER)) == {}


def test_an_outcome_is_recorded_once(book: Book) -> None:
    book.decided([user("a")], [answer("a", "0.60")], AT)
    item = {"decision_id": "a", "value": 1}

    def report(status: str, value: float = 1.0) -> dict[str, int]:
        answers = [{"decision_id": "a", "value": value, "status": status}]
        return taken(book, lambda: observed(book, [item], 200, answers, AT, again=False))

    assert report("recorded") == {}
    assert report("already_recorded") == {}
    assert report("recorded") == {"lost": 1}
    assert report("already_recorded", 0.0) == {"lost": 1, "disagreed": 1}


def test_a_late_outcome_does_not_count(book: Book) -> None:
    book.decided([user("a")], [answer("a", "0.60")], AT)
    answers = [{"decision_id": "a", "value": 1.0, "status": "recorded"}]
    item = {"decision_id": "a", "value": 1}
    result = taken(book, lambda: observed(book, [item], 200, answers, LATER, again=False))
    assert result == {"lost": 1}


def test_a_conversion_that_came_too_late_is_counted_once(book: Book) -> None:
    book.decided([user("a")], [answer("a", "0.60")], AT)
    late = {"pending": 0, "spent": "0.40", "reserved": "0.00", "too_late": 1}
    answers = [{"decision_id": "a", "value": 0.0, "status": "too_late"}]
    item = {"decision_id": "a", "value": 1}
    for _ in range(2):
        assert taken(book, lambda: observed(book, [item], 200, answers, LATER, again=False)) == {}
        assert taken(book, lambda: looks.check_view(book, view_of(book, **late), LATER)) == {}
    again = view_of(book, **late | {"too_late": 2})
    assert taken(book, lambda: looks.check_view(book, again, LATER)) == {"lost": 1}


MONEY = {"outcome": {"kind": "amount"}, "charge": "conversion", "share": 0.2}


def observed_book(amount: float, **terms: Any) -> Book:
    """A campaign with one decision, whose outcome is known."""
    book = Book("c", {**REQUEST, **MONEY, **terms}, {}, Findings())
    book.decided([user("a")], [answer("a", "0.60")], AT)
    answers = [{"decision_id": "a", "value": amount, "status": "recorded"}]
    observed(book, [{"decision_id": "a", "value": amount}], 200, answers, AT, again=False)
    return book


def corrections(book: Book, value: float, status: str = "recorded") -> dict[str, int]:
    answers = {"decision_id": "a", "value": value, "status": status}
    return taken(book, lambda: corrected(book, "a", value, answers, again=False))


def test_a_correction_is_charged_and_counted_once() -> None:
    book = observed_book(1.0)
    assert (book.paid, may_correct(book, "a", 0.5, AT)) == (200_000, {200})
    assert corrections(book, 0.5) == {}
    assert (book.paid, book.rows["a"].value) == (100_000, 0.5)
    assert may_correct(book, "a", 0.5, LATER) == {200}  # as it was answered
    assert may_correct(book, "a", 0.0, AT) == {409}
    assert corrections(book, 0.5, "already_recorded") == {}
    item = {"decision_id": "a", "value": 1.0}
    same = [{"decision_id": "a", "value": 0.5, "status": "already_recorded"}]
    assert taken(book, lambda: observed(book, [item], 200, same, AT, again=False)) == {}
    assert corrections(book, 0.5) == {"lost": 1}
    shown: dict[str, Any] = {"pending": 0, "spent": "0.10", "reserved": "0.00"}
    shown |= {"remaining": "0.90", "corrections": 1, "conversions": 1.0, "value": 0.5}
    assert taken(book, lambda: looks.check_view(book, view_of(book, **shown), AT)) == {"lost": 1}
    wrong = view_of(book, **shown | {"value": 1.0})
    assert taken(book, lambda: looks.check_view(book, wrong, AT)) == {"lost": 2}


@pytest.mark.parametrize(("value", "paid"), [(0.0, 0), (-1.0, 0), (0.25, 50_000), (2.0, 120_000)])
def test_a_settled_cost_is_lowered_by_a_correction_and_never_raised(
    value: float, paid: int
) -> None:
    book = observed_book(1.0)
    book.change(book.rows["a"], settled=120_000)
    assert (book.paid, may_correct(book, "a", value, AT)) == (120_000, {200})
    assert corrections(book, value) == {}
    assert book.paid == paid
    assert book.may_settle("a", "0.12", AT) == {200}  # as it was answered
    assert book.may_settle("a", "0.05", AT) == {409}


def test_a_correction_needs_an_outcome_its_window_and_the_money() -> None:
    book = observed_book(0.0)
    assert may_correct(book, "b", 1.0, AT) == {404}
    assert may_correct(book, "a", 1.0, LATER) == {409}
    book.decided([user("b", "0.90")], [answer("b", "0.10")], AT)
    assert may_correct(book, "b", 1.0, AT) == {409}  # without an outcome
    assert may_correct(book, "a", 0.5, AT) == {200}
    assert may_correct(book, "a", 0.6, AT) == {409}  # it would cost more than is left
    assert corrections(book, 0.5) == {}
    assert book.paid == book.budget


def test_a_body_that_is_too_long_must_be_refused(book: Book) -> None:
    asked = actions.decide(book, [{**user("a"), "features": {"note": "x" * actions.MOST_BYTES}}])
    assert asked.check(413, {}, AT, False) == 0
    with pytest.raises(BrokenError, match="was answered 200 .*, not .413."):
        asked.check(200, [answer("a", "0.60")], AT, False)


def test_a_price_below_the_cap_is_counted() -> None:
    book = Book("c", {**REQUEST, "cost_cap": "10.00"}, {}, Findings())
    cheap = answer("a", "0.60", price=0.09)
    assert taken(book, lambda: book.decided([user("a")], [cheap], AT)) == {"disagreed": 1}
    right = answer("b", "0.60", price=0.1)
    assert taken(book, lambda: book.decided([user("b")], [right], AT)) == {"disagreed": 1}


def test_a_cancelled_decision_returns_its_money(book: Book) -> None:
    book.decided([user("a")], [answer("a", "0.60")], AT)
    state = {"decision_id": "a", "treatment": "mail", "status": "cancelled"}
    state |= {"reserved": "0.00", "spent": "0.00", "remaining": "1.00"}
    assert book.may_cancel("a", AT) == {200}
    assert taken(book, lambda: book.cancelled("a", state, AT)) == {}
    assert book.may_decide([user("a")], AT) == {409}
    assert taken(book, lambda: book.cancelled("a", {**state, "remaining": "0.60"}, AT)) == {
        "disagreed": 1
    }


@pytest.mark.parametrize(
    ("amount", "charged", "most"), [(1.0, 200_000, "0.2"), (9.0, 400_000, "0.4"), (-1.0, 0, "")]
)
def test_a_share_of_the_amount_is_charged_and_can_be_settled(
    amount: float, charged: int, most: str
) -> None:
    book = Book("c", {**REQUEST, **MONEY}, {}, Findings())
    book.decided([user("a")], [answer("a", "0.60")], AT)
    assert book.may_settle("a", "0.1", AT) == {409}
    answers = [{"decision_id": "a", "value": amount, "status": "recorded"}]
    item = {"decision_id": "a", "value": amount}
    assert taken(book, lambda: observed(book, [item], 200, answers, AT, again=False)) == {}
    assert (book.paid, book.reserved) == (charged, 0)
    assert book.may_settle("a", most or "0", AT) == ({200} if most else {409})
    assert book.may_settle("a", f"{most or 0.1}1", AT) == ({422} if most else {409})


def test_campaigns_in_money_are_drawn_with_all_their_terms() -> None:
    draws, kinds = space.Draws(1), set[tuple[bool, ...]]()
    for number in range(1_000):
        asked = space.draw_campaign(draws, str(number))
        if "outcome" in asked:
            assert asked.get("charge") == "conversion" or "share" not in asked
            kinds.add(("share" in asked, "largest" in asked["outcome"]))
    assert kinds == {(a, b) for a in (False, True) for b in (False, True)}


def test_a_row_that_is_not_in_the_log_is_lost(book: Book) -> None:
    book.decided([user("a")], [answer("a", "0.60")], AT)
    row = {"decision_id": "a", "number": 1, "age": 1.0, "treatment": "mail", "outcome": None}
    row |= {"probability": 0.5, "price": 0.1, "status": "open"}
    assert taken(book, lambda: looks.check_log(book, [row], AT)) == {}
    assert taken(book, lambda: looks.check_log(book, [], AT)) == {"lost": 1}
    changed = {**row, "probability": 0.25}
    assert taken(book, lambda: looks.check_log(book, [changed], AT)) == {"lost": 2}


# Answers of a server that is not ours


class Stub(HTTPServer):
    """Answers whatever a test sets."""

    status, content_type, body, wait = 200, "application/json", b"{}", 0.0


class Canned(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Stub

    def do_GET(self) -> None:
        time.sleep(self.server.wait)
        self.send_response(self.server.status)
        self.send_header("Content-Type", self.server.content_type)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


@pytest.fixture
def stub() -> Iterator[Stub]:
    server = Stub(("127.0.0.1", 0), Canned)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def asking(stub: Stub, tmp_path: Path, book: Book) -> Iterator[Session]:
    result = Session(tmp_path / "none.sqlite", Findings())
    result.wire = Wire(stub.server_port, 0, result.findings)
    result.books.append(book)
    result.names.append("autumn")
    yield result
    result.wire.close()


PROBLEM = {"type": "urn:x", "title": "x", "status": 500, "detail": "x"}


@pytest.mark.parametrize(
    ("status", "body", "counter"),
    [
        (200, b"{}", None),
        (200, b'{"price": NaN}', "nonfinite"),
        (200, b"half of", "nonfinite"),
        (500, json.dumps(PROBLEM).encode(), "faults"),
        (503, json.dumps(PROBLEM).encode(), "faults"),
        (404, json.dumps(PROBLEM).encode(), "disagreed"),
    ],
)
def test_answers_that_must_not_be_are_counted(
    stub: Stub, asking: Session, status: int, body: bytes, counter: str | None
) -> None:
    stub.status, stub.body = status, body
    call = Call("GET", "/")
    with suppress(BrokenError):
        asking.read(call, asking.wire.ask(call))
    assert dict(asking.findings.counts) == ({counter: 1} if counter else {})


def test_a_call_that_takes_long_is_a_stall(
    stub: Stub, asking: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "LONGEST", 0.1)
    asking.wire.ask(calling("GET", "/healthz"))
    assert not asking.findings
    stub.wait = 0.3
    asking.wire.ask(calling("GET", "/healthz"))
    assert asking.findings.counts == {"stalls": 1}


def test_a_campaign_that_is_gone_is_lost(stub: Stub, asking: Session, book: Book) -> None:
    stub.body = b'{"campaigns": []}'
    audit.check_views(asking)
    assert asking.findings.counts["lost"] == 1
    assert asking.books == []


def test_what_is_not_answered_is_asked_again(stub: Stub, asking: Session, book: Book) -> None:
    stub.status, stub.body = 503, json.dumps({**PROBLEM, "status": 503}).encode()
    action = actions.view(book)
    asking.perform([action], injected=True)
    assert asking.pending == [action]
    stub.status, stub.body = 200, json.dumps(view_of(book)).encode()
    asking.resend()
    assert asking.pending == []
    assert book.findings.counts["disagreed"] == 1  # it tells of a decision that nobody made


def test_a_server_that_does_not_start_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import sys; print('error: written by', sys.argv[-1]); sys.exit(2)"
    monkeypatch.setattr(session, "program", lambda version: (sys.executable, "-c", code))
    result = Session(tmp_path / faults.VERSIONS[0], Findings())
    with pytest.raises(RoundOverError):
        result.start(0)
    assert result.findings.counts == {"refused_starts": 1}
    with pytest.raises(RoundOverError):  # also where another version wrote the ledger
        result.start(1)
    assert result.findings.counts == {"refused_starts": 2}


def test_the_verdict_is_one_line_with_the_promised_fields() -> None:
    findings = Findings()
    findings.add("stalls", "1.2 s")
    assert findings.verdict(3, 20, 1) == (
        "campaigns=3 decisions=20 restarts=1 overspent=0 lost=0 nonfinite=0 stalls=1 "
        "refused_starts=0 faults=0 disagreed=0"
    )
