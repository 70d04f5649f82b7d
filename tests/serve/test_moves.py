"""Money between cells: nothing is lost or made, and the plans of cells go on."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pasts import damage
from starlette.requests import Request
from typer.testing import CliRunner

from bccb.cli import app
from bccb.errors import InputError
from bccb.kernels import counts as count
from bccb.ledger.event import Event, Kind
from bccb.ledger.opening import open_ledger
from bccb.ledger.port import Account, ConflictError, Mark
from bccb.money import MICROS, MOST_MONEY
from bccb.serve import moves
from bccb.serve.books import Books
from bccb.serve.cells import cell_for, cells_of
from bccb.serve.moves import due, level
from bccb.serve.spreading import Ask, Spread
from serve.recovered import reasons
from serve.service import Clock, Service, user

ACTS = ("decide", "decide", "decide", "outcome", "cancel", "level", "level", "add", "restart")


def account(remaining: int, key: int = 1, spent: int = 0, budget: int | None = None) -> Account:
    budget = remaining + spent if budget is None else budget
    return Account(key, f"c1x4.{key - 1}", str(key), 1, 0, 0, budget, spent, 0)


def to_cell(whole: str, cell: int, prefix: str = "u") -> list[str]:
    """Ids of some decisions of one cell."""
    cells = cells_of(whole)
    every = (f"{prefix}{i}" for i in range(2_000))
    return [id_ for id_ in every if cell_for(id_, cells) == cells[cell]]


def spend(service: Service, whole: str, cell: int, users: int, prefix: str = "u") -> None:
    """Treat users of one cell, for 1.00 each."""
    ids = to_cell(whole, cell, prefix)[:users]
    service.done(f"{whole}/decisions", [user(id_) for id_ in ids])


def budgets(service: Service, whole: str) -> list[int]:
    return [each.budget for each in service.books.ledger.accounts(cells_of(whole))]


def leveled(service: Service, whole: str) -> int:
    """Level as the engine does; how many moves."""
    return service.run(service.engine.do(lambda books, at: level(books, at, cells_of(whole))))


def verify(path: str | Path) -> str:
    result = CliRunner().invoke(app, ["ledger", "verify", str(path)])
    assert result.exit_code == 0, result.output
    return result.output


# What is due


def test_cells_that_are_close_together_move_nothing() -> None:
    assert due([account(100, 1), account(109, 2)]) is None
    assert due([account(0, 1), account(0, 2)]) is None
    assert due([account(100, 1)]) is None
    assert due([]) is None


def test_the_richest_gives_to_the_poorest_up_to_the_mean() -> None:
    rich, poor, middle = account(900, 1), account(100, 2), account(500, 3)
    assert due([rich, poor, middle]) == (rich, poor, 400)


@given(st.lists(st.integers(0, 10**12), min_size=2, max_size=64))
def test_moves_end_with_about_the_same_for_all(remaining: list[int]) -> None:
    cells = [account(each, key) for key, each in enumerate(remaining, 1)]
    for _ in range(moves.AT_ONCE * len(cells)):
        move = due(cells)
        if move is None:
            break
        by_key = {each.key: each for each in cells}
        giver, receiver = by_key[move.giver.key], by_key[move.receiver.key]
        by_key[giver.key] = giver._replace(budget=giver.budget - move.micros)
        by_key[receiver.key] = receiver._replace(budget=receiver.budget + move.micros)
        cells = list(by_key.values())
        assert by_key[giver.key].budget >= 1
    left = [each.budget for each in cells]
    assert sum(left) == sum(remaining)
    mean = sum(left) // len(left)
    assert mean == 0 or max(left) - min(left) <= max(moves.APART * mean, len(left))


def test_no_cell_gets_more_than_a_campaign_may_have() -> None:
    rich, poor = account(10**9, 1), account(0, 2, spent=MOST_MONEY)
    assert due([rich, poor]) is None


# Moving


@pytest.mark.parametrize("path", ["", "/report", "/budget"])
def test_money_that_moves_while_cells_are_asked_counts_once(
    service: Service, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    hot = service.open(cells=2, budget="100.00")["id"]
    spend(service, hot, 1, 50)
    cells, ask, asked = cells_of(hot), Spread._ask, list[str]()

    async def one_by_one(self: Spread, how: Ask, request: Request, cell: str) -> object:
        """Money moves as soon as the second cell has answered; only then the first one does."""
        if cell == cells[0]:
            while not asked:
                await asyncio.sleep(0)
            return await ask(self, how, request, cell)
        answer = await ask(self, how, request, cell)
        await service.engine.do(lambda books, at: level(books, at, cells))
        asked.append(cell)
        return answer

    monkeypatch.setattr(Spread, "_ask", one_by_one)
    if path == "/budget":
        answer = service.done(f"{hot}/budget", {"add": "10.00", "request_id": "more"})
    else:
        answer = service.get(f"{hot}{path}").json()
    view = answer.get("campaign", answer)
    more = 10 if path == "/budget" else 0
    assert budgets(service, hot)[1] > 50_000_000
    assert float(view["budget"]) == 100 + more
    assert float(view["remaining"]) == 50 + more


def test_money_goes_where_it_is_spent(service: Service) -> None:
    hot = service.open(cells=2, budget="100.00")["id"]
    spend(service, hot, 1, 50)
    assert service.decide(hot, to_cell(hot, 1)[50])["treatment"] is None
    assert leveled(service, hot) == 1
    assert budgets(service, hot) == [25 * MICROS, 75 * MICROS]
    assert service.campaign(hot)["budget"] == "100.00"
    assert service.decide(hot, to_cell(hot, 1)[51])["treatment"] == "email"
    assert leveled(service, hot) == 0
    verify(service.place)


def test_both_cells_have_an_event_under_the_same_id(service: Service) -> None:
    hot = service.open(cells=2)["id"]
    service.clock.advance(5)
    spend(service, hot, 0, 20)
    leveled(service, hot)
    first, second = (service.books.campaign(cell) for cell in cells_of(hot))
    ledger = service.books.ledger
    received, given_ = (list(ledger.events(each.key))[-1] for each in (first, second))
    assert (received.kind, given_.kind) == (Kind.RECEIVED, Kind.GIVEN)
    assert received.decision == given_.decision
    assert received.money == given_.money == 10 * MICROS
    assert received.remaining == given_.remaining == 40 * MICROS
    assert received.at == given_.at == service.clock()


@pytest.mark.parametrize("kind", [Kind.GIVEN, Kind.RECEIVED])
@pytest.mark.parametrize("change", ["money = money + 1", "decision = 'move-x'", "at = at + 1"])
def test_a_move_that_was_changed_is_damage(tmp_path: Path, kind: Kind, change: str) -> None:
    path = tmp_path / "ledger.sqlite"
    service = Service(path)
    hot = service.open(cells=2)["id"]
    spend(service, hot, 0, 20)
    leveled(service, hot)
    service.stop()
    damage(path, "DELETE FROM snapshots")
    damage(path, f"UPDATE journal SET {change} WHERE kind = '{kind}'")
    (reason,) = reasons(path)
    assert f"({kind})" in reason


def test_time_does_not_run_back(service: Service) -> None:
    hot = service.open(cells=2)["id"]
    spend(service, hot, 0, 20)
    last = service.books.campaign(f"{hot}.0").at
    service.clock.advance(-60)
    leveled(service, hot)
    assert service.books.campaign(f"{hot}.0").at == last
    verify(service.place)


def test_the_engine_moves_money_by_itself(tmp_path: Path) -> None:
    service = Service(tmp_path / "ledger.sqlite", tick=0.01)
    hot = service.open(cells=2)["id"]
    service.done(f"{hot}/budget", {"add": "100.00"})
    deadline = time.monotonic() + 30.0
    while len(set(budgets(service, hot))) > 1 and time.monotonic() < deadline:
        service.get(hot)  # which gives the engine its time
    assert budgets(service, hot) == [100 * MICROS] * 2
    service.stop()
    verify(tmp_path / "ledger.sqlite")


def test_a_closed_campaign_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "EVERY", 0.0)
    service = Service(tmp_path / "ledger.sqlite")
    hot = service.open(cells=2)["id"]
    spend(service, hot, 0, 20)
    service.done(f"{hot}/close")
    before = budgets(service, hot)
    look = moves.Moves().look
    service.run(service.engine.do(lambda books, at: look(books, at, lambda _: True)))
    assert budgets(service, hot) == before
    service.stop()


def test_only_the_holder_of_the_first_cell_moves(service: Service) -> None:
    hot = service.open(cells=2)["id"]
    spend(service, hot, 0, 20)
    before = budgets(service, hot)
    look = moves.Moves().look
    service.run(service.engine.do(lambda books, at: look(books, at, lambda id_: id_ != f"{hot}.0")))
    assert budgets(service, hot) == before
    look = moves.Moves().look
    service.run(service.engine.do(lambda books, at: look(books, at, lambda id_: id_ == f"{hot}.0")))
    assert budgets(service, hot) != before


def test_a_lost_race_moves_nothing(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    hot = service.open(cells=2)["id"]
    spend(service, hot, 0, 20)
    before, ledger = budgets(service, hot), service.books.ledger
    advance = ledger.advance
    lost: list[list[int]] = []

    def race(account: Account, before: Mark) -> None:
        """Once, another process is faster after the first of two rows."""
        if not lost and account.id.endswith(".1"):
            lost.append(budgets(service, hot))
            raise ConflictError("another writer")
        advance(account, before)

    monkeypatch.setattr(ledger, "advance", race)
    assert leveled(service, hot) == 1
    assert lost
    assert sum(budgets(service, hot)) == sum(before)
    monkeypatch.undo()
    service.restart()
    assert sum(budgets(service, hot)) == sum(before)
    verify(service.place)


def test_a_row_that_does_not_fit_its_journal_is_left_alone(service: Service) -> None:
    hot = service.open(cells=2)["id"]
    spend(service, hot, 0, 20)
    file = service.books.ledger._file  # type: ignore[attr-defined]
    file.execute("UPDATE campaigns SET seal = seal + 1 WHERE id = ?", (f"{hot}.1",))
    assert leveled(service, hot) == 0


def test_a_quarantined_cell_neither_gives_nor_gets(service: Service) -> None:
    hot = service.open(cells=3)["id"]
    spend(service, hot, 0, 20)
    service.books.quarantine(f"{hot}.1", "for a test")
    assert leveled(service, hot) == 1
    first, second, third = budgets(service, hot)
    assert second == 33_333_333
    assert first > third
    seen = service.campaign(hot)
    assert seen["status"] == "quarantined"
    assert f"cell {hot}.1" in seen["reason"]
    assert seen["decisions"] == 20


# Plans


@pytest.mark.parametrize("policy", ["pooled-bayes", "budgeted-thompson", "treat-all"])
def test_a_plan_goes_on_with_other_money(service: Service, policy: str) -> None:
    """As if the money had been so since the plan began: shares of money and time stay comparable,
    which a pacer that compares them needs.
    """
    hot = service.open(cells=2, policy={"name": policy}, horizon={"users": 400})["id"]
    spend(service, hot, 0, 30)
    first, second = (service.books.campaign(cell) for cell in cells_of(hot))
    planned = [each.machine.planned for each in (first, second)]
    moved = budgets(service, hot)
    leveled(service, hot)
    for cell, before, plan in zip((first, second), moved, planned, strict=True):
        more = cell.budget - before
        assert cell.machine.planned == (plan[0] + more, plan[1])
        assert cell.machine.remaining_micros == cell.remaining
        at_plan = cell.budget - cell.machine.planned[0]
        assert at_plan == before - plan[0]  # nothing was planned again
        share = cell.machine.remaining_micros / cell.machine.planned[0]
        assert 0.0 < share <= 1.0
    spend(service, hot, 1, 30)
    verify(service.place)


def test_a_giver_keeps_at_least_a_micro(service: Service) -> None:
    machine = service.books.campaign(service.open(cells=2)["id"] + ".0").machine
    left = machine.remaining_micros
    with pytest.raises(InputError):
        machine.shift_micros(-left)
    machine.shift_micros(1 - left)
    assert machine.counts[count.PLANNED] == machine.counts[count.REMAINING] == 1
    with pytest.raises(InputError):
        machine.shift_micros(MOST_MONEY)


# Whatever happens


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), cells=st.integers(2, 5))
def test_no_money_is_lost_or_made(
    tmp_path_factory: pytest.TempPathFactory, seed: int, cells: int
) -> None:
    """Random decisions, outcomes, cancellations, money, moves and restarts."""
    rng = random.Random(seed)
    clock = Clock()
    path = tmp_path_factory.mktemp("moves") / "ledger.sqlite"
    service = Service(path, clock)
    charge = rng.choice(["treatment", "conversion"])
    hot = service.open(cells=cells, charge=charge, budget="60.00")["id"]
    total, made = 60 * MICROS, 0
    try:
        for step in range(30):
            clock.advance(rng.uniform(-1, 20))
            match rng.choice(ACTS):
                case "decide":
                    size = rng.randint(1, 8)
                    users = [
                        user(f"d{made + i}", f"{rng.uniform(0.1, 5):.2f}") for i in range(size)
                    ]
                    service.done(f"{hot}/decisions", users)
                    made += size
                case "outcome" if made:
                    service.outcome(hot, f"d{rng.randrange(made)}", rng.randint(0, 1))
                case "cancel" if made:
                    service.post(f"{hot}/decisions/d{rng.randrange(made)}/cancel")
                case "level":
                    leveled(service, hot)
                case "add":
                    service.done(f"{hot}/budget", {"add": "5.00", "request_id": f"r{step}"})
                    total += 5 * MICROS
                case "restart":
                    service.restart()
            assert sum(budgets(service, hot)) == total
            for cell in cells_of(hot):
                row = service.books.ledger.account(cell)
                assert row == service.books.campaign(cell).account()
                assert row.spent + row.reserved <= row.budget
    finally:
        service.stop()
    verify(path)
    given_, received = journal(path, Kind.GIVEN), journal(path, Kind.RECEIVED)
    assert {each.decision: each.money for each in given_} == {
        each.decision: each.money for each in received
    }


def journal(path: Path, kind: Kind) -> list[Event]:
    ledger = open_ledger(path, read_only=True)
    rows = [each for one in ledger.accounts() for each in ledger.events(one.key)]
    ledger.close()
    return [each for each in rows if each.kind == kind]


def test_cells_fold_from_a_snapshot_and_from_the_first_event_alike(service: Service) -> None:
    hot = service.open(cells=3, policy={"name": "pooled-bayes"})["id"]
    for turn in range(3):
        spend(service, hot, turn, 20, prefix=f"t{turn}-")
        leveled(service, hot)
    before = [service.books.campaign(cell).to_bytes() for cell in cells_of(hot)]
    ledger = service.books.ledger
    books = Books(ledger)
    list(books.open())
    assert [books.campaign(cell).to_bytes() for cell in cells_of(hot)] == before
    service.restart()  # with snapshots
    assert [service.books.campaign(cell).to_bytes() for cell in cells_of(hot)] == before
