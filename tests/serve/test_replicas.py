"""Several real processes on one PostgreSQL: any of them answers any request, whichever ends."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import postgresql
import pytest
from processes import TREAT_ALL, bccb, until

from serve.replicas import Cluster

pytestmark = pytest.mark.compiled

LEARNS = {
    **{name: term for name, term in TREAT_ALL.items() if name != "policy"},  # the default one
    "name": "learns",
    "budget": "40",
    "features": ["age", "visits"],
    "outcome_window_seconds": 10**6,
    "seed": 3,
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("replicas"), postgresql.server().new_place(), 3)
    yield made
    made.close()


@pytest.fixture
def cluster(running: Cluster) -> Cluster:
    """Three replicas; a start takes seconds, so all tests share them."""
    running.mend()
    return running


def user(number: int) -> dict[str, Any]:
    draws = random.Random(number)
    features = {"age": round(draws.gauss(0, 1), 3), "visits": draws.randrange(9)}
    costs = {"email": f"{draws.randrange(5, 50) / 100:.2f}"}
    return {"decision_id": f"u{number}", "features": features, "costs": costs}


def live(cluster: Cluster, campaign: str, numbers: range, turn: Iterator[int]) -> list[Any]:
    """Decide and report, one request after the other, each at the next replica in turn."""
    answers = []
    for number in numbers:
        i = next(turn)
        answers.append(cluster.done(i, "POST", f"{campaign}/decisions", user(number)))
        value = {"value": float(random.Random(-number).random() < 0.3)}
        cluster.done(next(turn), "PUT", f"{campaign}/decisions/u{number}/outcome", value)
    return answers


def test_any_replica_answers_any_request(cluster: Cluster) -> None:
    ids = [
        cluster.done(i % 3, "POST", "", {**TREAT_ALL, "name": f"campaign {i}"})["id"]
        for i in range(6)
    ]
    for n, id_ in enumerate(ids):
        body = {"decision_id": "d", "features": {"age": 1}, "costs": {"email": "0.5"}}
        answers = [cluster.done(i, "POST", f"{id_}/decisions", body) for i in range(3)]
        assert answers[0] == answers[1] == answers[2]
        cluster.done((n + 1) % 3, "PUT", f"{id_}/decisions/d/outcome", {"value": 1})
        seen = [cluster.done(i, "GET", id_) for i in range(3)]
        assert seen[0] == seen[1] == seen[2]
        assert (seen[0]["decisions"], seen[0]["spent"]) == (1, "0.50")
    lists = [[each["id"] for each in cluster.done(i, "GET", "")["campaigns"]] for i in range(3)]
    assert lists[0] == lists[1] == lists[2]
    assert [id_ for id_ in lists[0] if id_ in ids] == ids[::-1]
    cluster.settle()
    assert sum(cluster.figure(each, "bccb_forwards_total") for each in cluster.servers) > 0
    assert cluster.ask(1, "GET", "c-none").status_code == 404
    assert cluster.ask(2, "POST", "", {**TREAT_ALL, "name": "campaign 1"}).status_code == 200
    taken = cluster.ask(0, "POST", "", {**TREAT_ALL, "name": "campaign 1", "budget": "7"})
    assert taken.status_code == 409


def test_replicas_decide_as_one_process_on_a_file_does_to_the_bit(tmp_path: Path) -> None:
    def decided(place: str, many: int, kill: bool) -> list[Any]:
        cluster = Cluster(tmp_path, place, many)
        try:
            campaign = cluster.done(0, "POST", "", LEARNS)["id"]
            draws = random.Random(1)
            turn = iter(lambda: draws.randrange(many), None)
            answers = []
            for begin in range(0, 120, 40):
                answers += live(cluster, campaign, range(begin, begin + 40), turn)
                if kill:
                    gone = cluster.holder(campaign)
                    cluster.servers[gone].kill()
                    cluster.mend()
            listed = [user(number) for number in range(200, 300)]
            answers += cluster.done(0, "POST", f"{campaign}/decisions", listed)
            return answers
        finally:
            cluster.close()

    on_file = decided(str(tmp_path / "ledger.sqlite"), 1, kill=False)
    alone = decided(postgresql.server().new_place(), 1, kill=False)
    place = postgresql.server().new_place()
    together = decided(place, 3, kill=True)
    assert on_file == alone == together
    assert 0 < sum(answer["treatment"] is not None for answer in on_file) < len(on_file)
    assert bccb("ledger", "verify", place).returncode == 0


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGSTOP])
def test_another_replica_takes_over_from_one_that_ends_or_stops(
    cluster: Cluster, sign: signal.Signals
) -> None:
    campaign = cluster.done(0, "POST", "", {**LEARNS, "name": sign.name})["id"]
    live(cluster, campaign, range(10), iter(lambda: 0, None))
    holder = cluster.holder(campaign)
    cluster.servers[holder].process.send_signal(sign)
    other = (holder + 1) % 3
    began = time.monotonic()
    live(cluster, campaign, range(10, 20), iter(lambda: other, None))
    assert time.monotonic() - began < 15.0
    if sign == signal.SIGSTOP:
        cluster.servers[holder].process.send_signal(signal.SIGCONT)
        stopped = holder  # it is behind: it must see what the others did, and go on from there
        assert cluster.done(stopped, "GET", campaign)["decisions"] == 20
        live(cluster, campaign, range(20, 25), iter(lambda: stopped, None))
        assert cluster.done(other, "GET", campaign)["decisions"] == 25
    cluster.mend()
    assert bccb("ledger", "verify", cluster.place).returncode == 0


def test_one_that_is_asked_to_end_hands_over(cluster: Cluster) -> None:
    campaign = cluster.done(0, "POST", "", {**LEARNS, "name": "hand over"})["id"]
    holder = cluster.holder(campaign)
    server, campaigns = cluster.servers[holder], cluster.campaigns()
    server.process.send_signal(signal.SIGTERM)
    until(lambda: server.call("GET", "/readyz")[0] == 503)
    body = cluster.done(holder, "POST", f"{campaign}/decisions", user(1))  # it forwards now
    others = [cluster.servers[(holder + i) % 3] for i in (1, 2)]
    until(lambda: sum(cluster.figure(each, "bccb_campaigns_held") for each in others) == campaigns)
    assert server.process.wait(20.0) in (0, -signal.SIGTERM)
    again = cluster.done((holder + 1) % 3, "POST", f"{campaign}/decisions", user(1))
    assert body == again


def test_keys_count_at_every_replica_within_seconds(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, postgresql.server().new_place(), 2)
    try:
        check_keys(cluster)
    finally:
        cluster.close()


def check_keys(cluster: Cluster) -> None:
    made = bccb("keys", "create", "me", "--scope", "admin", "--ledger", cluster.place)
    assert made.returncode == 0, made.stderr
    key = next(word for word in made.stdout.split() if word.startswith("bccb_"))
    until(lambda: all(cluster.ask(i, "GET", "").status_code == 401 for i in range(2)))

    def with_key(i: int) -> int:
        server = cluster.servers[i]
        url = f"http://{server.host}:{server.port}/v1/campaigns"
        headers = {"Authorization": f"Bearer {key}"}
        answer = httpx.post(url, json={**TREAT_ALL, "name": f"{i}"}, headers=headers, timeout=30.0)
        return answer.status_code

    assert [with_key(i) for i in range(2)] == [201, 201]
    bccb("keys", "revoke", key.split("_")[1], "--ledger", cluster.place)
    until(lambda: [with_key(i) for i in range(2)] == [401, 401])
