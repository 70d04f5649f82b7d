"""The crash harness: the service passes it, and servers that forget or overspend do not."""

import asyncio
import re
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench import crash
from bench.service.books import Reader
from bench.service.checks import again
from bench.service.memory import COUNTERS, Book, Decision, Faults, cost_micros
from bench.service.process import Server

SCHEMA = """
CREATE TABLE campaigns (key, sequence, id, budget, spent, reserved);
CREATE TABLE journal (campaign, sequence, kind, decision, money);
INSERT INTO campaigns VALUES (1, 9, 'c', 1000000, 300000, 200000);
INSERT INTO journal VALUES
    (1, 1, 'opened', NULL, 900000), (1, 2, 'decision', 'a', 300000),
    (1, 3, 'decision', 'b', 400000), (1, 4, 'cancellation', 'b', 400000),
    (1, 5, 'decision', 'd', 250000), (1, 6, 'settlement', 'd', 200000),
    (1, 7, 'outcome', 'a', 0), (1, 8, 'budget', 'more', 100000), (1, 9, 'too_late', 'd', 0);
"""
# bccb itself, but it begins again and again where it was when it first found a campaign
FORGETFUL = """
import sqlite3, sys
from contextlib import closing
from pathlib import Path

from bccb.cli import main


def campaigns(ledger):
    with closing(sqlite3.connect(ledger)) as file:
        tables = file.execute("SELECT name FROM sqlite_master").fetchall()
        return ("campaigns",) in tables and file.execute("SELECT * FROM campaigns").fetchall()


if sys.argv[1] == "serve":
    ledger = Path(sys.argv[-1])
    old = ledger.with_suffix(".old")
    source, target = (old, ledger) if old.exists() else (ledger, old)
    if source.exists() and campaigns(source):
        for part in ("", "-wal", "-shm"):
            Path(f"{target}{part}").unlink(missing_ok=True)
        with closing(sqlite3.connect(source)) as here, closing(sqlite3.connect(target)) as there:
            here.backup(there)
main()
"""


@pytest.mark.compiled
@pytest.mark.slow_first(40)
def test_nothing_is_lost_in_ten_kills(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        crash.main(["--kills", "10", "--seed", "1", "--folder", str(tmp_path)])
    printed = capsys.readouterr()
    last = printed.out.splitlines()[-1]
    assert last == "kills=10 overspent=0 lost=0 doubled=0 state_mismatch=0", printed.err
    assert re.search(r"[1-9]\d* fits", printed.err)
    assert ended.value.code == 0
    assert not list(tmp_path.iterdir())


async def load_until_decided(
    harness: crash.Harness, server: Server, seconds: float, fits: bool
) -> None:
    """Kill it under the clients, but not before they know of some more decisions."""

    def known() -> int:
        return sum(len(book.decisions) for book in harness.books)

    before = known()
    living = [asyncio.create_task(client.live(server.port)) for client in harness.clients]
    async with asyncio.timeout(60):
        while known() < before + 20:
            await asyncio.sleep(0.01)
    server.kill()
    await asyncio.gather(*living)


@pytest.mark.compiled
@pytest.mark.slow_first
def test_a_server_that_forgets_is_found_out(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crash, "EARLY", 0.0)  # every server but the first has time to forget
    monkeypatch.setattr(crash.Harness, "load", load_until_decided)
    program = tmp_path / "forgetful.py"
    program.write_text(FORGETFUL)
    options = ["--kills", "3", "--seed", "5", "--folder", str(tmp_path)]
    with pytest.raises(SystemExit) as ended:
        crash.main([*options, "--program", f"{sys.executable} {program}"])
    last = capsys.readouterr().out.splitlines()[-1]
    counts = {name: int(count) for name, count in re.findall(r"(\w+)=(\d+)", last)}
    assert counts["lost"] > 0
    assert counts["state_mismatch"] > 0
    assert ended.value.code == 1
    assert list(tmp_path.glob("*/crash.sqlite"))


def decision(name: str, cost: str, **more: object) -> Decision:
    answer = {"decision_id": name, "treatment": "email"}
    known = Decision({"decision_id": name, "costs": {"email": cost}}, answer)
    for key, value in more.items():
        setattr(known, key, value)
    return known


@pytest.fixture
def look(tmp_path: Path) -> Callable[[str], dict[str, int]]:
    """The counters after a look into a ledger that somebody has tampered with."""

    def looked(tampering: str) -> dict[str, int]:
        path, faults = tmp_path / "ledger.sqlite", Faults()
        with sqlite3.connect(path) as file:
            file.executescript(SCHEMA + tampering)
        file.close()
        recorded = {"outcome": {"status": "recorded"}}
        late = {"outcome": {"status": "too_late"}, "reported": 1.0}
        known = [decision("a", "0.3", **recorded), decision("b", "0.4", cancelled={})]
        known.append(decision("d", "0.25", settled={}, settled_cost="0.2", **late))
        book = Book("c", {}, {one.id: one for one in known}, {"more": "0.1"})
        Reader(path, faults).check([book], {"c": known}, fold_again=True)
        assert re.fullmatch(r"kills=1( \w+=\d+){4}", faults.line(1))
        return {name: faults.counts[name] for name in COUNTERS if faults.counts[name]}

    return looked


@pytest.mark.parametrize(
    ("tampering", "expected"),
    [
        ("", {}),
        ("UPDATE campaigns SET spent = 300001", {"state_mismatch": 1}),
        ("UPDATE campaigns SET budget = 400000", {"overspent": 1, "state_mismatch": 1}),
        (
            "UPDATE journal SET money = 0 WHERE kind = 'opened'",
            {"overspent": 1, "state_mismatch": 1},
        ),
        ("DELETE FROM journal WHERE kind = 'outcome'", {"lost": 2}),
        ("UPDATE journal SET decision = 'e' WHERE decision = 'a'", {"lost": 1}),
        ("UPDATE journal SET decision = 'less' WHERE decision = 'more'", {"lost": 1}),
        ("DELETE FROM journal WHERE kind = 'too_late'", {"lost": 1}),
        ("INSERT INTO journal VALUES (1, 10, 'decision', 'a', 300000)", {"doubled": 1}),
    ],
)
def test_a_look_into_the_file_finds_what_is_wrong(
    look: Callable[[str], dict[str, int]], tampering: str, expected: dict[str, int]
) -> None:
    assert look(tampering) == expected


def test_an_answer_that_changes_is_doubled() -> None:
    book, faults = Book("c", {}), Faults()
    request = {"decision_id": "a", "costs": {"email": "0.3"}}
    book.remember(request, {"decision_id": "a", "treatment": None}, faults)
    book.remember(request, {"decision_id": "a", "treatment": None}, faults)
    assert not faults.counts
    book.remember(request, {"decision_id": "a", "treatment": "email"}, faults)
    assert faults.counts == {"doubled": 1}


def test_money_of_amounts_is_the_share_that_is_charged() -> None:
    recorded = {"status": "recorded"}
    paying: dict[str, Any] = {"on_conversion": True, "share": 200_000}
    known = [
        decision("a", "0.3", outcome={**recorded, "value": 1.0}, **paying),
        decision("b", "0.3", outcome={**recorded, "value": 99.5}, **paying),
        decision("d", "0.3", outcome={**recorded, "value": -4.0}, **paying),
        decision("e", "0.3", **paying),
        decision("f", "0.3", outcome={"status": "too_late", "value": 0.0}, reported=-4.0, **paying),
    ]
    request = {"budget": "2", "outcome": {"kind": "amount"}, "share": 0.2}
    book = Book("c", request, {one.id: one for one in known})
    assert [one.paid for one in known] == [200_000, 300_000, 0, 300_000, 0]
    assert [one.is_free for one in known] == [False, False, True, True, True]
    found = book.money()
    assert (found["paid"], found["spent"]) == (800_000, 500_000)
    assert (found["conversions"], found["value"], found["too_late"]) == (3, 96.5, 1)


def settled_and_corrected(name: str, **more: object) -> Decision:
    """A treatment that was settled at 0.2, and whose order then came back."""
    state = {"decision_id": name, "treatment": "email", "reserved": "0", "spent": "0.2"}
    known: dict[str, Any] = {"settled": state, "settled_cost": "0.200000", "reported": 1.0}
    known |= {"outcome": {"status": "recorded", "value": 1.0}, "corrected": 0.0}
    return decision(name, "0.3", **known | more)


def test_an_order_that_came_back_returns_its_settled_cost() -> None:
    known = [
        settled_and_corrected("a", on_conversion=True),
        settled_and_corrected("b", on_conversion=True, share=250_000),
        settled_and_corrected("d", on_conversion=True, corrected=None),
        settled_and_corrected("e"),  # charged whether the user converts or not
        settled_and_corrected("f", on_conversion=True, share=250_000, corrected=0.5),
        settled_and_corrected("g", on_conversion=True, share=250_000, corrected=90.0),
    ]
    assert [one.paid for one in known] == [0, 0, 200_000, 200_000, 125_000, 200_000]
    book = Book("c", {"budget": "2"}, {one.id: one for one in known[:4]})
    assert (book.money()["paid"], book.money()["spent"]) == (400_000, 400_000)


@pytest.mark.parametrize(
    ("known", "right"),
    [
        (settled_and_corrected("a", on_conversion=True), "0"),
        (settled_and_corrected("a", on_conversion=True, corrected=None), "0.2"),
        (settled_and_corrected("a"), "0.2"),
    ],
)
@pytest.mark.parametrize("spent", ["0", "0.1", "0.2", "0.200001", "0.3"])
def test_a_settlement_that_is_asked_again_tells_what_is_spent_by_now(
    known: Decision, right: str, spent: str
) -> None:
    faults = Faults()
    *_, (request, check) = again(Book("c", {}), [known], faults)
    assert request.startswith(b"POST /v1/campaigns/c/decisions/a/settle ")
    state = {"decision_id": "a", "treatment": "email", "reserved": "0", "spent": spent}
    check(200, state)
    assert faults.counts == ({} if spent == right else {"doubled": 1})
    check(200, {**state, "spent": right, "reserved": "0.1"})
    check(409, {"type": "settlement-differs"})
    assert faults.counts == {"doubled": 2 if spent == right else 3}


def test_money_is_what_the_answers_add_up_to() -> None:
    known = [
        decision("a", "0.3000001", outcome={"status": "recorded", "value": 1.0}, reported=1.0),
        decision("b", "0.4", cancelled={}),
        decision("d", "0.25", settled={}, settled_cost="0.2"),
        decision("e", "0.1", outcome={"status": "too_late", "value": 0.0}, reported=1.0),
    ]
    book = Book("c", {"budget": "1.0000009"}, {one.id: one for one in known}, {"more": "0.1"})
    assert book.money() == {
        "budget": 1_100_000,
        "paid": 600_001,
        "spent": 600_001,
        "decisions": 4,
        "conversions": 1.0,
        "too_late": 1,
    }
    assert book.pending() == 1
    assert cost_micros("0.0000001") == 1
