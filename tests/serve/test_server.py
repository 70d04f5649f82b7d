"""Faults of the disk, the files and the process: nobody is treated, nothing acknowledged is lost,
and the service goes on by itself when the fault is gone.
"""

from __future__ import annotations

import os
import resource
import shutil
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from itertools import product
from pathlib import Path

import httpx
import postgresql
import pytest
from processes import (
    Server,
    assert_whole,
    bccb,
    counting_ticks,
    decisions_in,
    is_problem,
    serving,
    until,
    user,
    wait_for_ticks,
)

from bccb.machine import Machine
from bccb.policies import DEFAULT
from bccb.serve import server as server_module
from bccb.serve.connection import MOST_CONNECTIONS
from bccb.serve.server import most_connections, opened
from serve.service import Service

# As root, permissions refuse nothing: give that right up.
UNPRIVILEGED = """
import ctypes, os
if os.geteuid() == 0:
    version, nothing = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert ctypes.CDLL(None).capset(version, nothing) == 0
"""
linux = pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="there is no prlimit here")


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data" / "bccb.sqlite"


@contextmanager
def no_space(server: Server) -> Iterator[None]:
    """No file of the server can grow beyond what its write-ahead log has now."""
    size = Path(f"{server.ledger}-wal").stat().st_size
    soft, hard = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (size, hard))
    yield
    with suppress(ProcessLookupError):  # it has ended
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def folder_away(server: Server) -> Iterator[None]:
    """The folder is not where it was, as when a volume is gone."""
    away = server.ledger.parent.with_name("away")
    server.ledger.parent.rename(away)
    yield
    away.rename(server.ledger.parent)


@contextmanager
def locked(server: Server) -> Iterator[None]:
    """Another process writes and does not come to an end."""
    with closing(sqlite3.connect(server.ledger, isolation_level=None)) as file:
        file.execute("BEGIN IMMEDIATE")
        yield
        file.execute("ROLLBACK")


FAULTS = [pytest.param(no_space, marks=linux), folder_away, locked]


@pytest.mark.parametrize("fault", FAULTS, ids=["no space", "folder away", "locked"])
def test_what_cannot_be_made_durable_is_not_done_until_it_can(
    ledger: Path, fault: Callable[[Server], AbstractContextManager[None]]
) -> None:
    with serving(ledger) as server:
        campaign = server.open()
        answers = {f"u{i}": server.decide(campaign, f"u{i}").json() for i in range(3)}
        before = server.campaign(campaign)
        with fault(server):
            for path, body in (
                ("decisions", user("u3")),
                ("decisions", [user("u4"), user("u5")]),
                ("outcomes", [{"decision_id": "u0", "value": 1}]),
                ("decisions/u1/cancel", None),
                ("decisions/u2/settle", {"cost": "0.10"}),
                ("budget", {"add": "5", "request_id": "more"}),
                ("pause", None),
            ):
                answer = server.client.post(f"/v1/campaigns/{campaign}/{path}", json=body)
                assert is_problem(answer, 503, "not-durable"), answer.text
                assert answer.headers["retry-after"] == "1"
            assert server.status("/readyz") == 503
            assert server.status("/healthz") == 200
            assert server.campaign(campaign) == before
            assert server.decide(campaign, "u0").json() == answers["u0"]  # what was, is
        until(lambda: server.status("/readyz") == 200)  # though nobody asks anything of it
        for id_ in ("u3", "u4", "u0"):
            answer = server.decide(campaign, id_)
            assert answer.status_code == 200
            answers[id_] = answer.json()
        assert server.campaign(campaign)["reserved"] == "2.50"
        assert "Traceback" not in server.stderr()
        assert "the ledger can be written again" in server.stderr()
        assert server.stop() == 0
    assert decisions_in(ledger) == ["u0", "u1", "u2", "u3", "u4"]
    assert_whole(ledger)


@linux
def test_a_service_stops_cleanly_while_the_disk_is_full(ledger: Path) -> None:
    with serving(ledger) as server:
        campaign = server.open()
        assert server.decide(campaign, "u0").status_code == 200
        with no_space(server):
            assert server.decide(campaign, "u1").status_code == 503
            server.process.terminate()
            assert server.process.wait(30) == 0
    assert decisions_in(ledger) == ["u0"]
    assert_whole(ledger)


def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        with serving(disk / "bccb.sqlite") as server:
            campaign = server.open()
            assert server.decide(campaign, "u0").status_code == 200
            filler = disk / "filler"
            with suppress(OSError), filler.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(4096))
            answers = [server.decide(campaign, f"u{i}") for i in range(1, 40)]
            assert answers[-1].status_code == 503
            done = 1 + sum(answer.status_code == 200 for answer in answers)
            assert {answer.status_code for answer in answers} <= {200, 503}
            assert server.campaign(campaign)["reserved"] == f"{done / 2:.2f}"
            assert server.status("/readyz") == 503
            filler.unlink()
            until(lambda: server.status("/readyz") == 200)
            assert server.decide(campaign, "u39").status_code == 200
            server.kill()
        assert len(decisions_in(disk / "bccb.sqlite")) == done + 1
        assert_whole(disk / "bccb.sqlite")
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_a_removed_folder_takes_nobody_in(ledger: Path) -> None:
    """SQLite itself would go on to write into files that nobody can find again."""
    ticks = ledger.parent.parent / "ticks"
    with serving(ledger, hook=counting_ticks(ticks)) as server:
        campaign = server.open()
        assert server.decide(campaign, "u0").status_code == 200
        shutil.rmtree(ledger.parent)
        assert is_problem(server.decide(campaign, "u1"), 503, "not-durable")
        ledger.parent.mkdir()
        wait_for_ticks(ticks)  # the service has tried to write again
        assert is_problem(server.decide(campaign, "u1"), 503, "not-durable")
        assert is_problem(server.client.get(f"/v1/campaigns/{campaign}/log"), 503, "not-durable")
        assert server.status("/readyz") == 503
        assert server.status("/healthz") == 200
        assert server.stop() == 0
    assert list(ledger.parent.iterdir()) == []


def test_a_ledger_that_cannot_be_written_is_refused_at_the_start(ledger: Path) -> None:
    with serving(ledger) as server:
        server.open()
        assert server.stop() == 0
    for file_mode, folder_mode in ((0o444, 0o755), (0o644, 0o555)):
        ledger.chmod(file_mode)
        ledger.parent.chmod(folder_mode)
        Path(f"{ledger}.lock").chmod(file_mode)
        ran = bccb("serve", "--port", 0, "--ledger", ledger, hook=UNPRIVILEGED)
        ledger.parent.chmod(0o755)
        assert (ran.returncode, ran.stdout) == (2, ""), (file_mode, ran.stderr)
        assert ran.stderr.startswith("error: cannot "), ran.stderr
        assert str(ledger) in ran.stderr
        assert ran.stderr.count("\n") == 1
    ledger.chmod(0o644)
    assert_whole(ledger)


def test_permissions_taken_from_a_running_service_lose_nothing(ledger: Path) -> None:
    """Its files are open already, so it may go on; whatever it acknowledges is there."""
    with serving(ledger, hook=UNPRIVILEGED) as server:
        campaign = server.open()
        ledger.chmod(0o444)
        ledger.parent.chmod(0o555)
        answers = [server.decide(campaign, f"u{i}") for i in range(5)]
        ledger.parent.chmod(0o755)
        ledger.chmod(0o644)
        assert {answer.status_code for answer in answers} <= {200, 503}
        done = [f"u{i}" for i, answer in enumerate(answers) if answer.status_code == 200]
        until(lambda: server.status("/readyz") == 200)
        assert server.decide(campaign, "u5").status_code == 200
        server.kill()
    assert decisions_in(ledger) == [*done, "u5"]
    assert_whole(ledger)


def test_damage_under_a_running_service_ends_the_decisions_of_that_campaign(ledger: Path) -> None:
    with serving(ledger) as server:
        campaign, other = server.open(), server.open(name="winter")
        assert server.decide(campaign, "u0").status_code == 200
        with closing(sqlite3.connect(ledger, isolation_level=None)) as file:
            file.execute("UPDATE campaigns SET sequence = sequence + 1 WHERE name = 'autumn'")
        assert is_problem(server.decide(campaign, "u1"), 503, "not-durable")
        assert is_problem(server.decide(campaign, "u1"), 409, "campaign-quarantined")
        assert server.decide(other, "u2").status_code == 200
        assert server.status("/readyz") == 200
        assert "in its row sequence is 3, but 2" in server.campaign(campaign)["reason"]
        assert server.stderr().count("is quarantined") == 1
        assert server.stop() == 0
    assert decisions_in(ledger) == ["u0", "u2"]


# The first log as Parquet opens files of its own, so what is tried then has a service of its own.
SPARE = [[*product(["ndjson"], range(4)), ("parquet", 0)], [("parquet", 2)], [("parquet", 3)]]


@linux
@pytest.mark.parametrize("tried", SPARE, ids=["shared", "two", "three"])
def test_a_log_without_descriptors_is_a_documented_refusal(
    ledger: Path, tried: list[tuple[str, int]]
) -> None:
    with serving(ledger) as server:
        campaign = server.open()
        path = f"/v1/campaigns/{campaign}/log"
        assert server.decide(campaign, "u0").status_code == 200
        soft, hard = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
        for kind, spare in tried:
            used = len(os.listdir(f"/proc/{server.pid}/fd"))
            resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (used + spare, hard))
            answer = server.client.get(path, params={"format": kind})
            assert answer.status_code in (200, 503), answer.text
            assert spare or answer.status_code == 503
            if answer.status_code == 503:
                kinds = ("not-durable", "no-space")
                assert any(is_problem(answer, 503, each) for each in kinds), answer.text
            resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (soft, hard))
            until(lambda: server.status(f"{path}?format={kind}") == 200)  # noqa: B023


def test_no_acknowledged_decision_is_lost_by_a_kill(ledger: Path) -> None:
    answers: dict[str, dict[str, object]] = {}
    with serving(ledger) as server:
        campaign = server.open(budget="25")  # for the first fifty users
        address = f"{server.address}/v1/campaigns/{campaign}/decisions"

        def ask(who: str) -> None:
            with suppress(httpx.TransportError), httpx.Client() as client:
                for i in range(10_000):
                    answer = client.post(address, json=user(f"{who}{i}"))
                    assert answer.status_code == 200
                    answers[f"{who}{i}"] = answer.json()

        threads = [threading.Thread(target=ask, args=(who,)) for who in "abcd"]
        for thread in threads:
            thread.start()
        until(lambda: len(answers) > 100)
        os.kill(server.pid, 9)
        for thread in threads:
            thread.join()
    made = decisions_in(ledger)
    assert set(answers) <= set(made)
    assert len(made) == len(set(made)) <= len(answers) + len(threads)
    assert_whole(ledger)
    with serving(ledger) as server:
        for id_, answer in answers.items():
            assert server.decide(campaign, id_).json() == answer
        after = server.campaign(campaign)
        assert (after["reserved"], after["remaining"]) == ("25.00", "0.00")
        assert (after["decisions"], after["treated"]) == (len(made), 50)


def test_half_of_the_descriptors_are_for_connections_to_other_replicas(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_module, "raise_descriptors", lambda most: min(most, 1_024))
    assert [most_connections(shared) for shared in (False, True)] == [960, 480]
    monkeypatch.setattr(server_module, "raise_descriptors", lambda most: most)
    assert [most_connections(shared) for shared in (False, True)] == [MOST_CONNECTIONS] * 2


def test_a_replica_compiles_what_campaigns_need_before_it_joins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = postgresql.server().new_place()
    service = Service(place)
    for policy in ("treat-all", "bccb"):
        for i in range(2):
            service.open(name=f"{policy} {i}", policy={"name": policy})
    amounts = {"kind": "amount", "largest": "50"}
    service.open(name="in money", policy={"name": "pooled-bayes"}, outcome=amounts)
    service.open(name="damaged")
    service.stop()
    postgresql.server().run(
        "ALTER TABLE journal DISABLE TRIGGER ALL; "
        "UPDATE journal SET detail = 'none' WHERE campaign = 6 AND sequence = 1; "
        "ALTER TABLE journal ENABLE TRIGGER ALL",
        place,
    )
    warmed: list[tuple[str, bool]] = []

    def warm(self: Machine) -> None:
        assert self.pending is not None
        warmed.append((self.name, self.composition.amounts))

    monkeypatch.setattr(Machine, "warm", warm)
    with opened(place):
        pass
    assert warmed == [
        (DEFAULT, False),
        ("treat-all", False),
        ("bccb", False),
        ("pooled-bayes", True),
    ]
