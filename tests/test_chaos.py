"""The chaos harness: the service passes it, and replicas without a compare-and-set do not."""

import itertools
import json
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from bench import rolling
from bench.chaos import __main__ as chaos
from bench.chaos import campaigns, checker, faults, load
from bench.chaos.fold import COUNTERS, Findings, Fold, Row
from bench.chaos.proxy import Proxy, State
from bench.service.process import PROGRAM, environment

database = pytest.importorskip("bench.service.database")

# bccb itself, but a campaign's row is moved on whoever else has moved it, and nothing minds
CARELESS = """
import psycopg

from bccb.cli import main
from bccb.ledger.postgresql import session, tables
from bccb.serve.books import Books

CONDITION = "AND sequence = %(before)s AND seal = %(sealed)s"
check, queries = tables.check, session.queries


def unguarded(its):
    check(its)
    with psycopg.connect(its.url, autocommit=True) as connection:
        connection.execute("ALTER TABLE journal DROP CONSTRAINT IF EXISTS journal_pkey")
        connection.execute("ALTER TABLE campaigns DROP CONSTRAINT IF EXISTS never_overspent")
        connection.execute("DROP INDEX IF EXISTS once")


def careless(sql):
    found = dict(queries(sql))
    assert CONDITION in found["advance"]
    return found | {"advance": found["advance"].replace(CONDITION, "")}


if __name__ == "__main__":
    tables.GUARDS = ()
    tables.check, session.queries = unguarded, careless
    Books._catch_up = lambda *given: None  # it goes on from what it has in memory
    main()
"""
SCHEMA = """
DROP SCHEMA public CASCADE;
CREATE SCHEMA public;
CREATE TABLE campaigns (
    key bigint, id text, name text, sequence bigint, seal bigint, swept bigint,
    budget bigint, spent bigint, reserved bigint
);
CREATE TABLE journal (
    campaign bigint, sequence bigint, at bigint, kind text, decision text, number bigint,
    action bigint, money bigint, value double precision, price double precision,
    probability double precision, remaining bigint, detail bytea, seal bigint
);
INSERT INTO campaigns VALUES
    (1, 'c', 'at once', 14, 0, 0, 1100000, 500000, 0),
    (2, 'k', 'on conversion', 6, 0, 0, 500000, 100000, 0);
"""
SECOND = 1_000_000
BEGAN = time.time_ns() // 1_000 - 3600 * SECOND
TERMS = {"treatments": ["email", "call"], "policy": "treat-all", "window": 10 * SECOND}
ON_CONVERSION = {**TERMS, "policy": "thompson", "charge": "conversion", "share": 0.5}


def costs(*micros: int) -> bytes:
    """The detail of a decision: what the treatments cost, and what is for the policy."""
    return b"".join(each.to_bytes(8, "little") for each in micros) + b"\1" * 24


def terms(given: dict[str, Any]) -> bytes:
    return json.dumps(given).encode()


# seconds, kind, decision, number, action, money, value, price, probability, remaining, detail
AT_ONCE: list[tuple[Any, ...]] = [
    (0, "opened", "c", None, None, 1_000_000, None, None, None, 1_000_000, terms(TERMS)),
    (1, "decision", "a", 1, 1, 300_000, None, 0.5, 0.9, 700_000, costs(300_000, 350_000)),
    (2, "decision", "b", 2, 2, 400_000, None, 0.5, 0.8, 300_000, costs(500_000, 400_000)),
    (3, "cancellation", "b", 2, None, 400_000, None, None, None, 700_000, None),
    (4, "decision", "d", 3, 1, 250_000, None, 0.5, 0.7, 450_000, costs(250_000, 350_000)),
    (4, "settlement", "d", 3, None, 200_000, None, None, None, 500_000, None),
    (5, "outcome", "a", 1, 1, 0, 1.0, None, None, 500_000, None),
    (6, "correction", "a", 1, 1, 300_000, 0.0, None, None, 500_000, None),
    (7, "budget", "more", None, None, 100_000, None, None, None, 600_000, None),
    (8, "paused", None, None, None, 0, None, None, None, 600_000, None),
    (9, "resumed", None, None, None, 0, None, None, None, 600_000, None),
    (10, "decision", "e", 4, 0, 0, None, 9.0, 0.6, 600_000, costs(900_000, 900_000)),
    (20, "expiry", "d", 3, None, 0, 0.0, None, None, 600_000, None),
    (21, "too_late", "d", 3, 1, 0, None, None, None, 600_000, None),
]
LATER: list[tuple[Any, ...]] = [
    (0, "opened", "k", None, None, 500_000, None, None, None, 500_000, terms(ON_CONVERSION)),
    (1, "decision", "x", 1, 1, 200_000, None, 0.5, 0.9, 300_000, costs(200_000, 250_000)),
    (2, "outcome", "x", 1, 1, 150_000, 0.1, None, None, 450_000, None),
    (3, "correction", "x", 1, 1, 100_000, 0.2, None, None, 400_000, None),
    (4, "decision", "y", 2, 2, 100_000, None, 0.5, 0.9, 300_000, costs(200_000, 100_000)),
    (15, "expiry", "y", 2, None, 100_000, 0.0, None, None, 400_000, None),
]
DECISIONS: list[tuple[Any, ...]] = [
    # campaign, id, treatment, probability, price, remaining
    ("c", "a", "email", 0.9, 0.5, "0.70"),
    ("c", "b", "call", 0.8, 0.5, "0.30"),
    ("c", "d", "email", 0.7, 0.5, "0.45"),
    ("c", "e", None, 0.6, 9.0, "0.60"),
    ("k", "x", "email", 0.9, 0.5, "0.30"),
    ("k", "y", "call", 0.9, 0.5, "0.30"),
]
FIELDS = ("campaign", "id", "treatment", "probability", "price", "remaining")
REST: list[dict[str, Any]] = [
    {"kind": "outcome", "id": "a", "reported": 1.0, "value": 1.0, "status": "recorded"},
    {"kind": "outcome", "id": "d", "reported": 1.0, "value": 0.0, "status": "too_late"},
    {"kind": "cancellation", "id": "b"},
    {"kind": "settlement", "id": "d", "cost": "0.1999999"},
    {"kind": "correction", "id": "a", "value": 0.0},
    {"kind": "budget", "id": "more", "add": "0.1000009"},
    {"kind": "paused", "tries": 1},
]
ANSWERS = [
    *({"kind": "decision", **dict(zip(FIELDS, each, strict=True))} for each in DECISIONS),
    *({"campaign": "c", **each} for each in REST),
]


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Not that of pytest: it closes its folder to the user of PostgreSQL whenever it starts."""
    with tempfile.TemporaryDirectory(prefix="bccb-test-chaos-") as name:
        yield Path(name)


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    """A PostgreSQL of its own."""
    server = database.Database(folder / "postgresql")
    try:
        try:
            server.start()
        except database.DatabaseError as error:
            pytest.skip(str(error))
        yield server.url()
    finally:
        server.close()


@pytest.fixture
def found(url: str) -> Callable[..., dict[str, int]]:
    """What the checker finds in a sound ledger after somebody has tampered with it."""

    def checked(tampering: str = "", answers: list[dict[str, Any]] = ANSWERS) -> dict[str, int]:
        with psycopg.connect(url) as connection:
            connection.execute(SCHEMA)
            rows = [
                (campaign, sequence, BEGAN + seconds * SECOND, *row, 0)
                for campaign, events in ((1, AT_ONCE), (2, LATER))
                for sequence, (seconds, *row) in enumerate(events, 1)
            ]
            places = ", ".join(["%s"] * len(rows[0]))
            connection.cursor().executemany(f"INSERT INTO journal VALUES ({places})", rows)
            connection.execute(tampering)
        verdict = checker.check(url, answers)
        counts = verdict.findings.counts
        return {name: counts[name] for name in COUNTERS if counts[name]}

    return checked


def copy(sequence: int, as_sequence: int = 15, changes: str = "") -> str:
    """SQL: an event once more, at the end unless it is said otherwise."""
    columns = "kind, decision, number, action, money, value, price, probability"
    return f"""
        INSERT INTO journal SELECT 1, {as_sequence}, {BEGAN + 9 * SECOND}, {columns},
            remaining {changes}, detail, 0
        FROM journal WHERE campaign = 1 AND sequence = {sequence};
        UPDATE campaigns SET sequence = greatest(sequence, {as_sequence}) WHERE key = 1;
        UPDATE journal SET at = {BEGAN + 9 * SECOND} WHERE campaign = 1 AND sequence > 9;
    """


def in_c(change: str, where: str) -> str:
    """SQL: change events of the first campaign."""
    return f"UPDATE journal SET {change} WHERE campaign = 1 AND {where}"


@pytest.mark.parametrize(
    ("tampering", "expected"),
    [
        ("", {}),
        # the campaign's row
        ("UPDATE campaigns SET spent = spent + 1 WHERE id = 'c'", {"diverged": 1}),
        ("UPDATE campaigns SET reserved = 1 WHERE id = 'k'", {"diverged": 1}),
        ("UPDATE campaigns SET budget = 400000 WHERE id = 'c'", {"overspent": 1, "diverged": 1}),
        ("UPDATE campaigns SET sequence = 15 WHERE id = 'c'", {"lost": 1}),
        ("UPDATE campaigns SET sequence = 13 WHERE id = 'c'", {"diverged": 1}),
        ("DELETE FROM campaigns WHERE id = 'k'", {"lost": 1, "diverged": 1}),
        # money
        (
            # a and b take more than the budget, and so do a and d until d is settled
            in_c("money = 500000", "kind = 'opened'")
            + "; "
            + in_c("remaining = remaining - 500000", "true")
            + "; UPDATE campaigns SET budget = 600000 WHERE key = 1",
            {"overspent": 2, "diverged": 4},
        ),
        (in_c("remaining = 1", "sequence = 11"), {"diverged": 2}),
        (in_c("remaining = remaining + 1", "sequence >= 11"), {"diverged": 2}),
        # ids, sequences and times
        (in_c("sequence = 15", "sequence = 14") + "; UPDATE campaigns SET sequence = 15 "
         "WHERE key = 1", {"lost": 1}),
        (in_c("sequence = 13", "sequence = 14"), {"lost": 1, "doubled": 1}),
        (in_c("at = at + 100000000", "sequence = 9"), {"diverged": 1}),
        (in_c("at = at + 7200000000", "sequence = 14"), {"diverged": 1}),
        (in_c(f"at = {BEGAN + 12 * SECOND}", "sequence BETWEEN 7 AND 12"), {"diverged": 2}),
        (in_c(f"at = {BEGAN + 13 * SECOND}", "sequence > 12"), {"diverged": 1}),
        (in_c("number = 9", "decision = 'e'"), {"diverged": 1}),
        (in_c("kind = 'paused'", "kind = 'resumed'"), {"doubled": 2, "diverged": 1}),
        # what became of decisions
        (in_c("decision = 'z'", "kind = 'settlement'"), {"lost": 2, "diverged": 2}),
        (in_c("value = 1", "kind = 'outcome' AND decision = 'a'"), {}),
        ("UPDATE journal SET money = 0 WHERE kind = 'expiry'", {"diverged": 3}),
        ("UPDATE journal SET value = 0.5 WHERE campaign = 2 AND kind = 'outcome'", {"diverged": 1}),
    ],
    ids=itertools.count(),  # the statements hold times, which differ between processes
)  # fmt: skip
def test_a_look_into_the_database_finds_what_is_wrong(
    found: Callable[..., dict[str, int]], tampering: str, expected: dict[str, int]
) -> None:
    assert found(tampering) == expected


@pytest.mark.parametrize("sequence", [2, 4, 6, 7, 8, 9, 14])
def test_what_happens_twice_is_doubled(found: Callable[..., dict[str, int]], sequence: int) -> None:
    assert found(copy(sequence))["doubled"] == 1


@pytest.mark.parametrize(
    ("line", "change", "counter"),
    [
        ({"kind": "decision", "id": "a"}, {"id": "z"}, "lost"),
        ({"kind": "decision", "id": "a"}, {"treatment": "call"}, "diverged"),
        ({"kind": "decision", "id": "a"}, {"probability": 0.91}, "diverged"),
        ({"kind": "decision", "id": "a"}, {"price": 0.51}, "diverged"),
        ({"kind": "decision", "id": "a"}, {"remaining": "0.71"}, "diverged"),
        ({"kind": "outcome", "id": "a"}, {"value": 0.0}, "diverged"),
        ({"kind": "outcome", "id": "a"}, {"id": "e"}, "lost"),
        ({"kind": "outcome", "id": "d"}, {"id": "a"}, "lost"),
        ({"kind": "outcome", "id": "d"}, {"status": "recorded"}, "diverged"),
        ({"kind": "outcome", "id": "d"}, {"status": "already_recorded"}, None),
        ({"kind": "cancellation"}, {"id": "e"}, "lost"),
        ({"kind": "cancellation"}, {"id": "d"}, "diverged"),
        ({"kind": "settlement"}, {"id": "a"}, "lost"),
        ({"kind": "settlement"}, {"cost": "0.2000001"}, "diverged"),
        ({"kind": "correction"}, {"id": "d"}, "lost"),
        ({"kind": "correction"}, {"value": 1.0}, "diverged"),
        ({"kind": "budget"}, {"id": "less"}, "lost"),
        ({"kind": "budget"}, {"add": "0.2"}, "diverged"),
        ({"kind": "paused"}, {"tries": 0}, "doubled"),
        ({"kind": "decision", "id": "a"}, {"campaign": "z"}, "lost"),
    ],
)
def test_an_answer_that_is_not_in_the_journal_is_found(
    found: Callable[..., dict[str, int]],
    line: dict[str, Any],
    change: dict[str, Any],
    counter: str | None,
) -> None:
    line = {"campaign": "c", **line}
    (chosen,) = [each for each in ANSWERS if line.items() <= each.items()]
    others = [each for each in ANSWERS if each is not chosen]
    expected = {counter} - {None}
    if chosen["kind"] == "decision" and change.keys() & {"id", "campaign"}:
        expected.add("diverged")  # nobody was answered what the journal has
    assert set(found("", [*others, {**chosen, **change}])) == expected


def cells(given: int = 300_000, received: int = 300_000, twice: bool = False) -> str:
    """SQL: a campaign in two cells: the second gives to the first, which decides on a user."""
    at, opened = BEGAN, terms(TERMS)
    rows = [
        (3, 1, "opened", "c9x2.0", None, 500_000, 500_000, opened),
        (4, 1, "opened", "c9x2.1", None, 500_000, 500_000, opened),
        (4, 2, "given", "move-1", None, given, 500_000 - given, None),
        (3, 2, "received", "move-1", None, received, 500_000 + received, None),
        (
            3,
            3,
            "decision",
            "order-3",
            1,
            600_000,
            received - 100_000,
            costs(600_000, 700_000),
        ),
    ]
    if twice:
        rows.append((4, 3, "given", "move-1", None, given, 500_000 - 2 * given, None))
    values = ", ".join(
        f"({key}, {sequence}, {at}, '{kind}', '{id_}', {number or 'NULL'}, {number or 'NULL'}, "
        f"{money}, NULL, {0.5 if number else 'NULL'}, {0.9 if number else 'NULL'}, {remaining}, "
        f"{in_sql(detail)}, 0)"
        for key, sequence, kind, id_, number, money, remaining, detail in rows
    )
    left = 500_000 - given * (1 + twice)
    return f"""
        INSERT INTO campaigns VALUES
            (3, 'c9x2.0', 'cut', 3, 0, 0, {500_000 + received}, 0, 600000),
            (4, 'c9x2.1', 'c9x2.1', {2 + twice}, 0, 0, {left}, 0, 0);
        INSERT INTO journal VALUES {values}
    """


def in_sql(detail: bytes | None) -> str:
    return "NULL" if detail is None else f"'\\x{detail.hex()}'"


IN_CELL = {"campaign": "c9x2", "id": "order-3", "kind": "decision", "treatment": "email"} | {
    "probability": 0.9,
    "price": 0.5,
    "remaining": "0.20",
}


def test_cells_may_move_money_and_make_none(found: Callable[..., dict[str, int]]) -> None:
    answers = [*ANSWERS, IN_CELL]
    assert found(cells(), answers) == {}
    assert found(cells(given=299_999), answers) == {"diverged": 1}
    assert found(cells(given=100_000, twice=True), answers) == {"doubled": 1, "diverged": 1}
    assert found(cells(given=500_001), answers)["overspent"] == 2  # the row, and the journal


def test_an_answer_of_a_campaign_in_cells_is_looked_for_in_the_right_one(
    found: Callable[..., dict[str, int]],
) -> None:
    # by its hash "a" belongs to the other cell
    assert found(cells(), [*ANSWERS, {**IN_CELL, "id": "a"}]) == {"lost": 1, "diverged": 1}
    assert found(cells(), [*ANSWERS, {**IN_CELL, "price": 0.4}]) == {"diverged": 1}


@pytest.mark.parametrize(
    ("value", "cost", "wrong"),
    [(0.0, 0, 140_000), (0.2, 100_000, 140_000), (0.4, 140_000, 200_000)],
)
def test_a_settled_cost_is_lowered_by_a_correction_and_never_raised(
    value: float, cost: int, wrong: int
) -> None:
    journal = [
        *LATER[:2],
        (2, "outcome", "x", 1, 1, 50_000, 0.3, None, None, 350_000, None),
        (3, "settlement", "x", 1, None, 140_000, None, None, None, 360_000, None),
    ]
    for charged, expected in ((cost, {}), (wrong, {"diverged": 1})):
        findings = Findings()
        fold, left = Fold("k", findings), 500_000 - charged
        last = (4, "correction", "x", 1, 1, charged, value, None, None, left, None)
        for sequence, (at, *row) in enumerate([*journal, last], 1):
            fold.add(Row(sequence, at * SECOND, *row))
        assert findings.counts == expected
        assert (fold.spent, fold.reserved) == (charged, 0)


def test_a_pause_that_is_gone_is_lost(found: Callable[..., dict[str, int]]) -> None:
    assert found("", [*ANSWERS, {"campaign": "c", "kind": "paused", "tries": 1}]) == {"lost": 1}


def test_a_decision_that_nobody_was_answered_is_found(
    found: Callable[..., dict[str, int]],
) -> None:
    assert found("", [line for line in ANSWERS if line.get("id") != "e"]) == {"diverged": 1}


def test_money_that_should_have_run_out_is_underspent(
    found: Callable[..., dict[str, int]], url: str
) -> None:
    assert found() == {}
    assert checker.check(url).exhausted == 0
    dear = costs(900_000, 2_000_000)
    with psycopg.connect(url) as connection:
        change = "UPDATE journal SET detail = %s WHERE decision = 'e'"
        connection.execute(change, (dear,))
    assert checker.check(url).exhausted == 0  # 1.8 of 1.1 were asked for
    with psycopg.connect(url) as connection:
        connection.execute(change, (costs(1_400_000, 2_000_000),))
    verdict = checker.check(url)
    assert verdict.exhausted == 1
    assert verdict.underspent == pytest.approx(0.6 / 1.1)
    assert checker.last_line(3, verdict.findings.counts, verdict.underspent) == (
        "faults=3 overspent=0 lost=0 doubled=0 diverged=0 underspent=54.5%"
    )


def test_the_checker_says_what_it_found(
    found: Callable[..., dict[str, int]],
    url: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found("UPDATE campaigns SET spent = 7 WHERE id = 'c'")
    answers = tmp_path / "answers.jsonl"
    answers.write_text("".join(json.dumps(line) + "\n" for line in ANSWERS))
    with pytest.raises(SystemExit) as ended:
        checker.main([url, str(answers)])
    printed = capsys.readouterr()
    assert ended.value.code == 1
    assert printed.out == "faults=0 overspent=0 lost=0 doubled=0 diverged=1 underspent=0.0%\n"
    assert "diverged: campaign c: event 14" in printed.err


def test_the_checker_shares_no_code_with_the_service() -> None:
    code = "import sys, bench.chaos.checker; print(*sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True
    )
    modules = ran.stdout.split()
    assert "bench.chaos.fold" in modules
    assert not [name for name in modules if name.partition(".")[0] == "bccb"]


# Links


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server that sends everything back."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(connection: socket.socket) -> None:
        with connection:
            try:
                while data := connection.recv(1000):
                    connection.sendall(data)
            except OSError:
                pass

    def accept() -> None:
        try:
            while True:
                threading.Thread(target=serve, args=[listener.accept()[0]], daemon=True).start()
        except OSError:
            pass

    threading.Thread(target=accept, daemon=True).start()
    yield listener.getsockname()[1]
    listener.close()


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    proxy = Proxy()
    yield proxy
    proxy.close()


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=10.0)


def sent(connection: socket.socket, data: bytes, seconds: float = 10.0) -> bytes:
    """What comes back."""
    connection.settimeout(seconds)
    connection.sendall(data)
    return connection.recv(1000)


def test_a_link_passes_on_what_it_gets(proxy: Proxy, echo: int) -> None:
    with connected(proxy.link(echo).port) as connection:
        assert sent(connection, b"a") == b"a"
        assert sent(connection, b"b") == b"b"


def test_a_cut_link_resets_and_refuses_connections(proxy: Proxy, echo: int) -> None:
    link = proxy.link(echo)
    with connected(link.port) as connection:
        assert sent(connection, b"a") == b"a"
        link.set(State.CUT)
        with pytest.raises(ConnectionResetError):
            sent(connection, b"b")
    with pytest.raises(ConnectionRefusedError):
        connected(link.port)
    link.set(State.OPEN)
    with connected(link.port) as connection:
        assert sent(connection, b"c") == b"c"


def test_who_connects_while_a_link_is_being_cut_is_reset(proxy: Proxy, echo: int) -> None:
    link = proxy.link(echo)
    held, go = threading.Event(), threading.Event()

    async def hold() -> None:
        held.set()
        go.wait()

    holding = threading.Thread(target=proxy.run, args=[hold()])
    cutting = threading.Thread(target=link.set, args=[State.CUT])
    holding.start()
    assert held.wait(10.0)
    with connected(link.port) as connection:
        cutting.start()
        time.sleep(0.1)  # the thread of the links is to find both at once
        go.set()
        holding.join()
        cutting.join()
        with pytest.raises(ConnectionResetError):
            connection.recv(1)


def test_a_black_hole_takes_everything_and_says_nothing(proxy: Proxy, echo: int) -> None:
    link = proxy.link(echo)
    with connected(link.port) as before:
        assert sent(before, b"a") == b"a"
        link.set(State.BLACK_HOLE)
        with pytest.raises(TimeoutError):
            sent(before, b"b", 0.2)
        with connected(link.port) as within:
            with pytest.raises(TimeoutError):
                sent(within, b"c", 0.2)
            link.set(State.OPEN)  # what was swallowed is missing: no connection goes on
            for connection in (before, within):
                with pytest.raises(ConnectionResetError):
                    sent(connection, b"d")


def test_what_stalls_arrives_late(proxy: Proxy, echo: int) -> None:
    link = proxy.link(echo)
    with connected(link.port) as connection:
        assert sent(connection, b"a") == b"a"
        link.set(State.STALLED)
        with pytest.raises(TimeoutError):
            sent(connection, b"b", 0.2)
        link.set(State.OPEN)
        connection.settimeout(10.0)
        assert connection.recv(1000) == b"b"


def test_a_clock_is_set_apart() -> None:
    code = "import time, sys; print(time.time(), time.time_ns(), *sys.argv[1:])"
    before = time.time()
    ran = subprocess.run(
        [sys.executable, "-m", "bench.chaos.clock", "-7200", "-m", "timeit", "-n1", "-r1", code],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    now, now_ns, *_ = ran.stdout.split()
    assert 0 <= float(now) - (before - 7200) < 60
    assert 0 <= int(now_ns) / 1e9 - (before - 7200) < 60


# The whole


def counts_of(line: str) -> dict[str, int]:
    """The counts in the last line; it must be as promised."""
    pattern = r"faults=(\d+) " + " ".join(rf"{name}=(\d+)" for name in COUNTERS)
    found = re.fullmatch(pattern + r" underspent=\d+\.\d%", line)
    assert found, line
    return dict(zip(("faults", *COUNTERS), map(int, found.groups()), strict=True))


@pytest.mark.compiled
@pytest.mark.slow_first(80)
def test_nothing_is_lost_in_a_minute_of_chaos(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        chaos.main(["--seconds", "60"])
    printed = capsys.readouterr()
    counts = counts_of(printed.out.splitlines()[-1])
    assert counts.pop("faults") >= 10, printed.err
    assert not any(counts.values()), printed.err
    assert re.search(r"[1-9]\d* clocks set apart", printed.err)
    assert re.search(r"money should have run out in [1-9]", printed.err)
    assert ended.value.code == 0


@pytest.mark.slow_first(20)
def test_replicas_without_the_compare_and_set_overspend(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [
        {**request, "policy": {"name": campaigns.GREEDY}, "budget": "30"}
        for request in campaigns.campaign_requests()
        if request["name"] in ("little money", campaigns.PAUSES)
    ]
    monkeypatch.setattr(load, "campaign_requests", lambda: asked)
    monkeypatch.setattr(faults, "kinds", lambda: ["peer link cut"])  # each decides for itself
    monkeypatch.setattr(faults, "AWAY", (10.0, 10.0))
    monkeypatch.setattr(faults, "BETWEEN", 0.1)
    program = folder / "careless.py"
    program.write_text(CARELESS)
    options = ["--seconds", "8", "--folder", str(folder)]
    with pytest.raises(SystemExit) as ended:
        chaos.main([*options, "--program", f"{sys.executable} {program}"])
    printed = capsys.readouterr()
    counts = counts_of(printed.out.splitlines()[-1])
    assert counts["overspent"] > 0, printed.err
    assert counts["doubled"] > 0
    assert counts["diverged"] > 0
    assert ended.value.code == 1
    (left,) = folder.glob("bccb-chaos-*")
    assert (left / "answers.jsonl").exists()
    shutil.rmtree(left)


def test_a_request_that_needs_a_second_retry_has_failed(tmp_path: Path) -> None:
    restarted = rolling.Rolling(tmp_path, 1, 2, PROGRAM)
    for tries in (1, 2):
        restarted.load.traffic.note(0.1, tries)
    assert restarted.failures == 0
    restarted.load.traffic.note(0.1, 3)
    assert restarted.failures == 1
    assert "failures=1 retries=3 retried_more_than_once=1 " in restarted.line()
