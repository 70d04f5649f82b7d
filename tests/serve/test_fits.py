"""Policies that are fitted again: elsewhere, journaled, applied between decisions, never lost."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pasts import damage

import bccb
from bccb import fitting
from bccb.estimators import trees
from bccb.fitting import FitJob, Fitted
from bccb.ledger.event import Kind
from bccb.machine import Machine
from bccb.serve import fits as fits_of_service
from bccb.serve import worker as worker_of_service
from bccb.serve.worker import Worker
from serve.recovered import reasons, states
from serve.service import SECOND, Service, refused

FIRST, WINDOW, USERS = 80, 10**6, 400
POLICY = {"name": "pooled-trees", "params": {"first_fit": FIRST}}
LONGEST = 300.0  # seconds


class Both:
    """A campaign and a policy that get the same users, outcomes and fits."""

    def __init__(self, service: Service) -> None:
        self.service, self.rng = service, np.random.default_rng(3)
        shape: dict[str, Any] = {"features": 2, "seed": 11}
        self.policy = bccb.make(
            *("pooled-trees",),
            budget=100,
            horizon=USERS,
            window=float(WINDOW * SECOND),
            first_fit=FIRST,
            **shape,
        )
        self.policy.fits_itself = False
        self.id = service.open(
            budget="100.00",
            horizon={"users": USERS},
            features=["a", "b"],
            policy=POLICY,
            seed=11,
            outcome_window_seconds=WINDOW,
        )["id"]

    @property
    def machine(self) -> Machine:
        return self.service.books.campaign(self.id).machine

    def live(self, users: int) -> None:
        """Decide on users, and report what most of them do."""
        for _ in range(users):
            a, b = self.rng.normal(size=2).round(3).tolist()
            body: dict[str, Any] = {
                "decision_id": f"u{self.policy.decisions}",
                "features": {"a": a, "b": b},
                "costs": {"email": "0.50"},
            }
            answer = self.service.done(f"{self.id}/decisions", body)
            at = float(self.service.clock())
            made = self.policy.decide([a, b], cost=0.5, at=at)
            assert answer["treatment"] == ([None, "email"][made.action])
            assert (answer["price"], answer["probability"]) == (made.price, made.probability)
            if made.number % 10:
                rate = 0.1 + 0.3 * made.action * (abs(a) < 0.7)
                y = float(self.rng.random() < rate)
                assert self.service.outcome(self.id, body["decision_id"], y).is_success
                self.policy.observe(made, y, at=at)

    def begin(self) -> FitJob:
        """Start the fit that is due, and make the job that it should be."""
        fits = self.service.engine.fits
        assert fits.is_due(self.service.books.campaign(self.id))
        fits.begin(self.service.books)
        assert not fits.is_due(self.service.books.campaign(self.id))  # one at a time
        return self.policy.fit_job()

    def until_fitted(self) -> None:
        fits, began = self.service.engine.fits, time.monotonic()
        while not fits.ready:
            assert time.monotonic() - began < LONGEST
            time.sleep(0.01)

    def until_applied(self, fits: int) -> None:
        began = time.monotonic()
        while self.machine.fits < fits:
            assert time.monotonic() - began < LONGEST
            self.service.run(asyncio.sleep(0.01))

    def check_state(self) -> None:
        assert self.machine.counts.tobytes() == self.policy.counts.tobytes()
        assert self.machine.memory.tobytes() == self.policy.memory.tobytes()


@pytest.fixture
def both(service: Service) -> Both:
    return Both(service)


@pytest.fixture(scope="module")
def fitted_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A ledger without snapshots whose campaign was fitted, and that campaign."""
    place = tmp_path_factory.mktemp("fitted") / "ledger.sqlite"
    service = Service(place)
    try:
        both = Both(service)
        both.live(100)
        both.begin()
        both.until_fitted()
        both.until_applied(1)
    finally:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(service.books, "keep_all", lambda: None)
            service.stop()
    return place, both.id


def kinds(path: str | Path) -> list[str]:
    with closing(sqlite3.connect(path)) as file:
        return [kind for (kind,) in file.execute("SELECT kind FROM journal ORDER BY sequence")]


@pytest.fixture
def without_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """No fit is possible in this process, and none in another that it might start."""

    def refuse(*_: object) -> Fitted:
        raise AssertionError("a fit")

    monkeypatch.setattr(trees, "classifier", refuse)
    monkeypatch.setattr(Worker, "run", refuse)


@pytest.mark.parametrize("steps", [False, True], ids=["at once", "step by step"])
def test_decisions_with_fits_in_between_are_the_librarys(
    both: Both, steps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if steps:  # some rows at a time, while others are decided on
        monkeypatch.setattr(fits_of_service, "INLINE", 1e-9)
    both.live(100)
    job = both.begin()
    both.until_fitted()
    at = both.machine.decisions
    if not steps:
        both.until_applied(1)
        both.policy.apply_fit(fitting.run(job))
        both.live(150)
        assert (both.machine.fits, at) == (1, 100)
        job = both.begin()
        both.until_fitted()
        both.until_applied(2)
    else:
        both.until_applied(1)
    both.policy.apply_fit(fitting.run(job))
    both.check_state()
    both.live(30)
    both.check_state()


def test_a_fit_learns_what_came_while_it_was_made(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    both.live(100)
    held: list[Any] = []
    fits = both.service.engine.fits
    monkeypatch.setattr(fits, "_submit", lambda id_, job: held.append((id_, job)))
    job = both.begin()
    both.live(50)
    monkeypatch.undo()
    fits._submit(*held[0])
    both.until_fitted()
    both.until_applied(1)
    both.policy.apply_fit(fitting.run(job))
    both.check_state()
    both.live(50)
    both.check_state()


def test_a_fit_of_a_campaign_that_was_read_again_meanwhile_is_made_once_more(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    both.live(100)
    held: list[Any] = []
    fits = both.service.engine.fits
    with monkeypatch.context() as patched:
        patched.setattr(fits, "_submit", lambda id_, job: held.append((id_, job)))
        both.begin()
    books = both.service.books
    books.campaign(both.id)
    books.abandon()
    books.refresh()
    fits._submit(*held[0])
    both.until_fitted()
    fits.step(books, both.service.clock())
    assert both.machine.fits == 0
    both.begin()
    both.until_fitted()
    both.until_applied(1)


def test_recovery_applies_fits_and_makes_none(both: Both, request: pytest.FixtureRequest) -> None:
    service = both.service
    both.live(100)
    both.begin()
    both.until_fitted()
    both.until_applied(1)
    service.clock.advance(5)
    live(both, 30)
    before = service.books.campaign(both.id).to_bytes()
    seen = service.campaign(both.id)
    assert (seen["fits"], seen["fitted_at"]) == (1, "2027-01-15T08:00:00Z")
    service.stop()
    request.getfixturevalue("without_fits")
    assert list(states(service.place).values()) == [before]
    with closing(sqlite3.connect(service.place)) as file:
        file.execute("DELETE FROM snapshots")
        file.commit()
    assert list(states(service.place).values()) == [before]
    service.start()
    live(both, 10)
    assert service.campaign(both.id)["fits"] == 1
    assert kinds(service.place).count(Kind.FITTED) == 1


@pytest.mark.parametrize(
    "change",
    [
        "detail = zeroblob(length(detail))",
        "detail = zeroblob(9)",
        "detail = x''",
        "seal = seal + 1",
    ],
)
def test_a_damaged_fit_is_reported_with_its_place(
    fitted_once: tuple[Path, str], change: str, tmp_path: Path
) -> None:
    ledger, campaign = fitted_once
    place = tmp_path / ledger.name
    shutil.copy(ledger, place)
    damage(place, f"UPDATE journal SET {change} WHERE kind = 'fitted'")
    (message,) = reasons(place)
    assert f"campaign {campaign} is damaged: at event " in message
    assert "(fitted)" in message


def live(both: Both, users: int) -> None:
    """Decide on users in the campaign alone."""
    for i in range(users):
        number = both.machine.decisions
        body = {
            "decision_id": f"v{number}",
            "features": {"a": i / users, "b": 0.0},
            "costs": {"email": "0.50"},
        }
        both.service.done(f"{both.id}/decisions", body)
        assert both.service.outcome(both.id, f"v{number}", float(i % 5 == 0)).is_success


def test_fits_happen_by_themselves_and_are_told(tmp_path: Path) -> None:
    service = Service(tmp_path / "ledger.sqlite", tick=0.02)
    try:
        both = Both(service)
        live(both, 100)
        both.until_applied(1)
        service.clock.advance(1)
        live(both, 110)
        both.until_applied(2)
        seen = service.campaign(both.id)
        assert (seen["fits"], seen["fitted_at"]) == (2, "2027-01-15T08:00:01Z")
        text = service.get("/metrics").text
        assert f'bccb_campaign_fits{{campaign="{both.id}"}} 2.0' in text
        assert f'bccb_campaign_fitted_timestamp_seconds{{campaign="{both.id}"}} 1.8' in text
    finally:
        service.stop()


def test_a_worker_that_dies_costs_nothing_but_the_fit(
    both: Both, caplog: pytest.LogCaptureFixture
) -> None:
    both.live(100)
    fits = both.service.engine.fits
    fits.begin(both.service.books)
    began = time.monotonic()
    while fits._worker._process is None or fits._worker._process.pid is None:
        assert time.monotonic() - began < LONGEST
    fits._worker._process.kill()
    with caplog.at_level(logging.ERROR):
        while fits._running:
            assert time.monotonic() - began < LONGEST
            time.sleep(0.01)
    assert "it cannot be fitted: its process has died" in caplog.text
    both.live(50)
    both.check_state()
    assert both.machine.fit_due
    assert not fits.is_due(both.service.books.campaign(both.id))  # not again at once
    both.live(70)
    job = both.begin()
    both.until_fitted()
    both.until_applied(1)
    both.policy.apply_fit(fitting.run(job))
    both.check_state()


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="halts a process")
def test_a_worker_that_hangs_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_of_service, "LONGEST", 0.2)
    worker = Worker()
    worker._start()
    assert worker._process is not None
    assert worker._process.pid is not None
    os.kill(worker._process.pid, signal.SIGSTOP)
    job = bccb.make("pooled-trees", budget=1, horizon=9, features=1).fit_job()
    with pytest.raises(ChildProcessError, match="gave no answer within an hour"):
        worker.run(job)
    worker._process.join(LONGEST)
    assert not worker._process.is_alive()  # so that the next job starts another
    worker.stop()


STARTS_A_WORKER = """
import sys, time
from bccb.serve.worker import Worker

if __name__ == "__main__":
    worker = Worker()
    worker._start()
    print(worker._process.pid, flush=True)
    time.sleep(600)
"""


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="asks Linux about a process")
def test_a_worker_ends_when_the_service_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "starts.py"
    script.write_text(STARTS_A_WORKER)
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        status = Path(f"/proc/{int(parent.stdout.readline())}/status")
        assert is_alive(status)
        parent.kill()
    began = time.monotonic()
    while is_alive(status):
        assert time.monotonic() - began < LONGEST
        time.sleep(0.05)


def is_alive(status: Path) -> bool:
    """Whether a process runs, and is not only waiting to be forgotten."""
    try:
        return "State:\tZ" not in status.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_fit_under_way_at_the_end_is_due_again(both: Both) -> None:
    both.live(100)
    both.begin()
    process = None
    while process is None:
        process = both.service.engine.fits._worker._process
    began = time.monotonic()
    both.service.restart()
    assert time.monotonic() - began < 30.0
    assert not process.is_alive()
    both.check_state()
    assert both.service.engine.fits.is_due(both.service.books.campaign(both.id))


def test_rows_that_do_not_allow_a_fit_are_noted_too(both: Both) -> None:
    for i in range(FIRST):
        body = {
            "decision_id": f"w{i}",
            "features": {"a": 0.0, "b": 0.0},
            "costs": {"email": "0.50"},
        }
        both.service.done(f"{both.id}/decisions", body)
        assert both.service.outcome(both.id, f"w{i}", 0.0).is_success
    both.begin()
    both.until_fitted()
    began = time.monotonic()
    while both.machine.fit_due:
        assert time.monotonic() - began < LONGEST
        both.service.run(asyncio.sleep(0.01))
    before = both.service.books.campaign(both.id).to_bytes()
    seen = both.service.campaign(both.id)
    assert (seen["fits"], seen["fitted_at"]) == (0, None)
    both.service.stop()
    assert list(states(both.service.place).values()) == [before]
    both.service.start()


def test_other_policies_start_no_process(service: Service) -> None:
    id_ = service.open(policy={"name": "pooled-bayes"})["id"]
    for i in range(5):
        service.decide(id_, f"d{i}")
        service.outcome(id_, f"d{i}", 1.0)
    service.run(service.engine._tick())
    assert service.engine.fits._thread is None
    assert service.engine.fits._worker._process is None


def test_without_scikit_learn_the_campaign_is_refused(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    body = {
        "name": "trees",
        "budget": "1.00",
        "horizon": {"users": 10},
        "features": ["age"],
        "treatments": ["email"],
        "policy": {"name": "pooled-trees"},
    }
    detail = refused(service.post("", body), 422, "policy")
    assert "pip install 'bccb[lab]'" in detail


def test_a_campaign_begins_with_the_outcomes_of_another(both: Both) -> None:
    both.live(100)
    both.begin()
    both.until_fitted()
    both.until_applied(1)
    other = both.service.open(
        name="second",
        features=["a", "b"],
        policy=POLICY,
        learned_from=both.id,
        outcome_window_seconds=WINDOW,
    )
    machine = both.service.books.campaign(other["id"]).machine
    assert len(machine.fit_job().rows.b) == len(both.machine.fit_job().rows.b) == 90
    before = both.service.books.campaign(other["id"]).to_bytes()
    both.service.restart()
    assert both.service.books.campaign(other["id"]).to_bytes() == before
