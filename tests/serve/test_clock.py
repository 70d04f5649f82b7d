"""A clock that is set back: time stands still until it has caught up, also across a restart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pasts import Desk, decide
from processes import assert_whole, counting_ticks, serving, until, wait_for_ticks

from bccb.ledger.event import Event, Kind
from bccb.ledger.opening import open_ledger
from bccb.serve import outcomes
from bccb.serve.campaign import Campaign
from bccb.serve.meter import Meter
from bccb.wire import DecisionRequest, OutcomeItem

SECOND = 1_000_000
DAY = 86_400 * SECOND
NOON = 1_800_000_000 * SECOND
WINDOW = 60 * SECOND
BODY: dict[str, Any] = {
    "name": "autumn",
    "budget": "30",
    "horizon": {"ends_at": "2027-01-16T08:00:00Z"},  # a day after noon
    "features": [],
    "treatments": ["email"],
    "policy": {"name": "cheapest-first"},
    "outcome_window_seconds": WINDOW // SECOND,
    "seed": 1,
}


class Calls(Desk):
    """A desk with one campaign, and calls at times of our own."""

    def __init__(self, path: Path, at: int) -> None:
        super().__init__(path)
        self.add("c1", BODY, at)

    @property
    def campaign(self) -> Campaign:
        return self.books.campaign("c1")

    def restart(self) -> None:
        """As after a kill, when no snapshot tells the time."""
        self.close()
        self._open()

    def decide(self, at: int, *ids: str) -> Any:
        asked = [
            DecisionRequest(decision_id=id_, features={}, costs={"email": "0.50"}) for id_ in ids
        ]
        made = decide(self.books, at, "c1", asked)
        self.commit()
        return made

    def observe(self, at: int, id_: str) -> str:
        item = OutcomeItem(decision_id=id_, value=1.0)
        (answer,) = outcomes.observe(self.books, at, outcomes.Reports("c1", [item], single=True))
        self.commit()
        return answer.status

    def sweep(self, at: int) -> list[str]:
        """Which windows pass now."""
        before = self.campaign.sequence
        outcomes.sweep(self.books, at)
        self.commit()
        events = self.ledger.events(self.campaign.key, before)
        return [event.decision or "" for event in events if event.kind == Kind.EXPIRY]

    def events(self) -> list[Event]:
        return list(self.ledger.events(self.campaign.key))


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Calls]:
    made = Calls(tmp_path / "ledger.sqlite", NOON)
    yield made
    made.close()


BACK = [SECOND, 3_600 * SECOND, DAY, 400 * DAY]


@pytest.mark.parametrize("back", BACK)
@pytest.mark.parametrize("restarted", [False, True])
def test_a_clock_set_back_is_as_good_as_one_that_stands_still(
    desk: Calls, tmp_path: Path, back: int, restarted: bool
) -> None:
    """The same answers, prices and journal, to the bit: the pace does not change."""
    still = Calls(tmp_path / "still.sqlite", NOON)
    for each, then in ((desk, NOON + 3_600 * SECOND - back), (still, NOON + 3_600 * SECOND)):
        each.decide(NOON + 3_600 * SECOND, "u0")
        if restarted:
            each.restart()
        for i in range(1, 30):
            each.decide(then, f"u{i}")
            if i % 3 == 0:
                assert each.observe(then, f"u{i}") == "recorded"
        assert each.sweep(then) == []
    assert desk.events() == still.events()
    assert desk.campaign.to_bytes() == still.campaign.to_bytes()
    still.close()


@pytest.mark.parametrize("back", BACK)
def test_the_times_of_the_journal_never_fall(desk: Calls, back: int) -> None:
    for i, at in enumerate([NOON, NOON + 5, NOON + 5 - back, NOON + 3, NOON + 9, NOON - back]):
        desk.decide(at, f"u{i}")
    times = [event.at for event in desk.events()]
    assert times == sorted(times)
    assert times[-1] == NOON + 9


@pytest.mark.parametrize("restarted", [False, True])
def test_a_window_passes_once_and_not_before_its_time(desk: Calls, restarted: bool) -> None:
    desk.decide(NOON, "u0")
    assert desk.sweep(NOON + WINDOW) == []
    assert desk.sweep(NOON - DAY) == []
    assert desk.sweep(NOON + WINDOW + 1) == ["u0"]
    desk.decide(NOON + WINDOW + 2, "u1")
    if restarted:
        desk.restart()
    for at in (NOON - DAY, NOON, NOON + WINDOW + 1, NOON + WINDOW + 2, NOON - DAY):
        assert desk.sweep(at) == []  # u0 has passed, u1 has only begun
    assert desk.observe(NOON - DAY, "u0") == "too_late"
    assert desk.observe(NOON - DAY, "u1") == "recorded"
    assert desk.sweep(NOON + DAY) == []


def test_windows_opened_while_the_clock_was_back_pass_when_it_has_caught_up(desk: Calls) -> None:
    desk.decide(NOON, "u0")
    desk.decide(NOON - DAY, "u1")
    assert desk.sweep(NOON - DAY + WINDOW + 1) == []
    assert desk.sweep(NOON + WINDOW + 1) == ["u0", "u1"]


def test_a_jump_forward_and_back_spends_no_more_than_it_did(desk: Calls) -> None:
    """A clock that was wrong for a moment ends no campaign that had not ended, nor gives money."""
    desk.decide(NOON + DAY // 2, *(f"a{i}" for i in range(10)))
    planned = desk.campaign.planned(desk.campaign.at, 10)
    desk.decide(NOON, *(f"b{i}" for i in range(10)))
    assert desk.campaign.planned(desk.campaign.now(NOON), 10) == planned
    assert desk.campaign.remaining >= 0


def test_the_meter_forgets_what_a_wrong_clock_counted() -> None:
    meter = Meter()
    meter.add(NOON, 500)
    meter.add(NOON - DAY, 20)
    assert meter.rate(NOON - DAY) == 2.0
    meter.add(NOON - DAY + 5 * SECOND, 10)
    assert meter.rate(NOON - DAY + 5 * SECOND) == 3.0


def test_a_service_whose_clock_is_set_back_goes_on(tmp_path: Path) -> None:
    """A real one, over a restart: what it says of the time, and when a short window passes."""
    (tmp_path / "data").mkdir()
    ledger, offset = tmp_path / "data" / "bccb.sqlite", tmp_path / "offset"

    def set_back(seconds: int) -> None:
        draft = tmp_path / "draft"
        draft.write_text(str(-seconds))
        draft.replace(offset)  # at once: an empty file would read as no offset

    set_back(0)
    hook = f"""
import time, pathlib
real, offset = time.time_ns, pathlib.Path({str(offset)!r})
time.time_ns = lambda: real() + int(offset.read_text()) * 1_000_000_000
"""
    with serving(ledger, hook=hook) as server:
        campaign = server.open(outcome_window_seconds=1)
        assert server.decide(campaign, "u0").status_code == 200
        set_back(86_400)
        assert server.decide(campaign, "u1").status_code == 200
        behind = next(
            float(line.split()[1])
            for line in server.client.get("/metrics").text.splitlines()
            if line.startswith("bccb_clock_behind_seconds ")
        )
        assert 86_000 < behind < 87_000
        assert server.stop() == 0
    ticks = tmp_path / "ticks"
    with serving(ledger, hook=hook + counting_ticks(ticks)) as server:
        assert server.decide(campaign, "u2").status_code == 200
        set_back(86_390)  # the window is over, but time stands still
        wait_for_ticks(ticks)
        assert server.campaign(campaign)["pending"] == 3
        set_back(0)
        until(lambda: server.campaign(campaign)["pending"] == 0)
        server.kill()
    with closing(open_ledger(ledger, read_only=True)) as kept:
        times = [event.at for event in kept.events(1)]
        ends = [event.decision for event in kept.events(1) if event.kind == Kind.EXPIRY]
    assert times == sorted(times)
    assert ends == ["u0", "u1", "u2"]
    assert_whole(ledger)
