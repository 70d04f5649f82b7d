"""What the library decides is what the service decides, to the bit."""

from __future__ import annotations

import asyncio
import io
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

import bccb
from bccb.cli import main
from bccb.data.readers import read_complete_rows
from bccb.decision import Decision
from bccb.policy import Policy
from bccb.types import Floats
from serve.service import SECOND, Service

BLOCK = 500  # users: some one by one, the rest in a list
SINGLES = 25
WINDOW = 10**6  # seconds: so long that nobody grows older, which the service notices later


@dataclass
class Run:
    """A campaign and a policy that get the same users and outcomes in the same order."""

    service: Service
    campaign: str
    policy: Policy
    features: list[str]
    treatments: list[str]
    rng: np.random.Generator
    made: dict[str, Decision] = field(default_factory=dict)
    outcomes: dict[str, float] = field(default_factory=dict)
    sent: list[dict[str, Any]] = field(default_factory=list)

    def user(self) -> dict[str, Any]:
        x = self.rng.normal(size=len(self.features)).round(3).tolist()
        cents = self.rng.integers(5, 200, len(self.treatments)).tolist()
        body = {
            "decision_id": f"u{len(self.sent)}",
            "features": dict(zip(self.features, x, strict=True)),
            "costs": {n: f"{c / 100:.2f}" for n, c in zip(self.treatments, cents, strict=True)},
        }
        self.sent.append(body)
        return body

    def decide(self, users: list[dict[str, Any]], single: bool) -> None:
        """Ask both, and compare."""
        reply = self.service.done(f"{self.campaign}/decisions", users[0] if single else users)
        for body, answer in zip(users, [reply] if single else reply, strict=True):
            costs = [float(text) for text in body["costs"].values()]
            at = float(self.service.clock())
            result = self.policy.decide(list(body["features"].values()), cost=costs, at=at)
            names = [None, *self.treatments]
            assert answer["treatment"] == names[result.action]
            assert answer["price"] == result.price
            assert answer["probability"] == result.probability
            self.made[body["decision_id"]] = result

    def draw(self, id_: str) -> float:
        decision = self.made[id_]
        lift = 0.2 * decision.action if decision.features[0] > 0 else 0.0
        converts = float(self.rng.random() < 0.1 + lift)
        if not self.policy.composition.amounts:
            return converts
        sign = 1.0 if self.rng.random() < 0.95 else -1.0  # some bring it back
        return sign * converts * float(np.exp(2.0 + decision.features[0] + self.rng.normal()))

    def observe(self, ids: list[str], single: bool) -> None:
        values = {id_: self.draw(id_) for id_ in ids}
        if single:
            for id_, value in values.items():
                assert self.service.outcome(self.campaign, id_, value).is_success
        elif ids:
            items = [{"decision_id": id_, "value": value} for id_, value in values.items()]
            self.service.done(f"{self.campaign}/outcomes", items)
        for id_, value in values.items():
            self.policy.observe(self.made[id_], value, at=float(self.service.clock()))
        self.outcomes |= values

    def block(self, late: list[str]) -> list[str]:
        """A block of users and most of their outcomes; those that come late."""
        first = len(self.sent)
        for _ in range(SINGLES):
            self.decide([self.user()], single=True)
            self.observe([self.sent[-1]["decision_id"]], single=True)
        self.decide([self.user() for _ in range(BLOCK - SINGLES)], single=False)
        ids = [body["decision_id"] for body in self.sent[first + SINGLES :]]
        self.rng.shuffle(ids)
        self.observe([*late, *ids[:-100]], single=False)
        return ids[-100:]

    def cancel(self, id_: str) -> None:
        self.service.done(f"{self.campaign}/decisions/{id_}/cancel")
        self.policy.cancel(self.made[id_], at=float(self.service.clock()))

    def check_state(self) -> None:
        machine = self.service.books.campaign(self.campaign).machine
        assert machine.counts.tobytes() == self.policy.counts.tobytes()
        assert machine.memory.tobytes() == self.policy.memory.tobytes()


def run(
    service: Service, policy: str, users: int, features: int, treatments: int, **more: Any
) -> Run:
    """All users through both, with late outcomes, cancellations, more money and a restart."""
    xs = [f"x{j}" for j in range(features)]
    ks = [f"offer {k}" for k in range(1, treatments + 1)]
    budget = users * 0.3
    campaign = service.open(
        budget=f"{budget:.2f}",
        horizon={"users": users},
        features=xs,
        treatments=ks,
        policy={"name": policy},
        seed=11,
        outcome_window_seconds=WINDOW,
        **on_the_wire(more),
    )
    shape: dict[str, Any] = {"features": features, "treatments": treatments, "seed": 11, **more}
    window = float(WINDOW * SECOND)
    made = bccb.make(policy, budget=round(budget, 2), horizon=users, window=window, **shape)
    both = Run(service, campaign["id"], made, xs, ks, np.random.default_rng(5))
    late: list[str] = []
    for i in range(users // BLOCK):
        late = both.block(late)
        both.cancel(late.pop())
        if i == users // BLOCK // 2:
            service.done(f"{both.campaign}/budget", {"add": "250.50"})
            made.add_budget(250.5)
            service.restart()
        service.clock.advance(1.5)
    both.check_state()
    assert service.campaign(both.campaign)["treated"] > users // 20
    return both


def on_the_wire(more: dict[str, Any]) -> dict[str, Any]:
    """What the library is given, as the service wants it."""
    asked: dict[str, Any] = {name: more[name] for name in ("charge", "share") if name in more}
    if "cost_cap" in more:
        asked["cost_cap"] = str(more["cost_cap"])
    if "outcome" in more:
        asked["outcome"] = {"kind": more["outcome"], "largest": str(more["largest"])}
    return asked


def actions_of(both: Run) -> list[str]:
    names = ["control", *both.treatments]
    return [names[both.made[body["decision_id"]].action] for body in both.sent]


def check_log(both: Run) -> bytes:
    """The downloaded log is what was sent and answered; as Parquet."""
    response = both.service.get(f"{both.campaign}/log", format="parquet")
    assert response.headers["content-type"] == "application/vnd.apache.parquet"
    frame = polars.read_parquet(io.BytesIO(response.content))
    assert frame["decision_id"].to_list() == [body["decision_id"] for body in both.sent]
    assert frame["number"].to_list() == list(range(1, len(both.sent) + 1))
    for name in both.features:
        assert frame[name].to_list() == [body["features"][name] for body in both.sent]
    for name in both.treatments:
        column = "cost" if len(both.treatments) == 1 else f"cost:{name}"
        assert frame[column].to_list() == [float(body["costs"][name]) for body in both.sent]
    assert frame["treatment"].to_list() == actions_of(both)
    decisions = [both.made[body["decision_id"]] for body in both.sent]
    assert frame["probability"].to_list() == [each.probability for each in decisions]
    assert frame["price"].to_list() == [each.price for each in decisions]
    outcomes = [both.outcomes.get(body["decision_id"]) for body in both.sent]
    assert frame["outcome"].to_list() == outcomes
    assert frame["at"].is_sorted()
    assert frame.schema["at"] == polars.Datetime("us", "UTC")
    lines = both.service.get(f"{both.campaign}/log").text
    same = polars.read_ndjson(io.StringIO(lines), infer_schema_length=None)
    assert same.drop("at").equals(frame.drop("at"))
    return response.content


@pytest.mark.compiled
def test_the_service_decides_and_learns_as_the_library_does(
    service: Service, tmp_path: Path
) -> None:
    both = run(service, "pooled-bayes", users=5_000, features=4, treatments=1)
    (tmp_path / "log.parquet").write_bytes(check_log(both))
    rows = polars.read_parquet(tmp_path / "log.parquet")
    log = read_complete_rows(rows.filter(polars.col("status") != "open")).log
    assert log.users == len(both.outcomes)
    assert log.feature_names == tuple(both.features)


@pytest.mark.compiled
def test_so_it_does_with_several_treatments(service: Service) -> None:
    both = run(service, "bccb", users=2_000, features=3, treatments=2)
    check_log(both)


def test_so_it_does_for_a_few_users_in_plain_python(service: Service) -> None:
    check_log(run(service, "bccb", users=500, features=2, treatments=2))


@pytest.mark.parametrize(("charge", "cost_cap"), [("conversion", 25.0), ("treatment", 5.0)])
def test_so_it_does_where_costs_are_charged_on_conversion_or_capped(
    service: Service, charge: str, cost_cap: float
) -> None:
    both = run(service, "bccb", 1_000, 2, 2, charge=charge, cost_cap=cost_cap)
    shown = service.campaign(both.campaign)
    charged = sum(round(both.made[id_].cost * 1e6) for id_, y in both.outcomes.items() if y > 0)
    if charge == "conversion":
        assert round(float(shown["spent"]) * 1e6) == charged > 0
    assert both.policy.held == pytest.approx(float(shown["reserved"]) * (charge == "conversion"))


@pytest.mark.parametrize("policy", ["pooled-bayes", "pooled-trees"])
@pytest.mark.parametrize("share", [0.2, None])
def test_so_it_does_in_money(service: Service, policy: str, share: float | None) -> None:
    paying: dict[str, Any] = {"charge": "treatment"}
    if share is not None:
        paying = {"charge": "conversion", "share": share, "cost_cap": 0.9}
    kind = {"outcome": "amount", "largest": 60.5}
    both = run(service, policy, 500, 2, 2, **kind, **paying)
    check_log(both)
    shown = service.campaign(both.campaign)
    assert shown["value"] == pytest.approx(sum(both.outcomes.values()))
    assert shown["conversions"] == np.count_nonzero(list(both.outcomes.values()))
    check_caused(both)
    if share is not None:
        owed = {id_: max(share * y, 0.0) for id_, y in both.outcomes.items()}
        charged = [min(both.made[id_].cost, round(money, 6)) for id_, money in owed.items()]
        assert float(shown["spent"]) == pytest.approx(sum(charged))


def check_caused(both: Run) -> None:
    """What was caused is the same, to the bit."""
    caused, theirs = both.service.campaign(both.campaign)["caused"], both.policy.caused()
    for name in ("estimated", "measured"):
        ours, interval = caused[name], getattr(theirs, name)
        assert (ours is None) == (interval is None)
        if interval is not None:
            assert ours == {end: getattr(interval, end) for end in ("value", "low", "high")}
    assert caused["measured_users"] == theirs.measured_users


@pytest.mark.parametrize("share", [0.2, None])
def test_so_it_does_where_amounts_come_late_or_never(service: Service, share: float | None) -> None:
    """Both grow older at the same times."""
    charge = "treatment" if share is None else "conversion"
    more: dict[str, Any] = {"outcome": "amount", "largest": 60.5, "charge": charge, "share": share}
    terms: dict[str, Any] = {"budget": "90", "horizon": {"users": 250}, "seed": 11}
    terms |= {"features": ["x0", "x1"], "policy": {"name": "pooled-bayes"}}
    terms |= {"treatments": ["a"], "outcome_window_seconds": 600, **on_the_wire(more)}
    campaign = service.open(**terms)["id"]
    shape: dict[str, Any] = {"features": 2, "seed": 11, "window": 600.0 * SECOND, **more}
    policy = bccb.make("pooled-bayes", budget=90.0, horizon=250, **shape)
    both = Run(service, campaign, policy, ["x0", "x1"], ["a"], np.random.default_rng(5))
    due: dict[str, int] = {}
    for i in range(250):
        service.clock.advance(10.0)
        service.sweep()
        policy.advance(float(service.clock()))
        both.decide([both.user()], single=True)
        id_ = both.sent[-1]["decision_id"]
        due[id_] = i + int(both.rng.integers(1, 80))  # some of them too late
        now = [id_ for id_, when in due.items() if when == i]
        both.observe([id_ for id_ in now if both.rng.random() < 0.5], single=True)
        if i == 120:
            service.restart()
    both.check_state()
    check_caused(both)
    shown = service.campaign(campaign)
    assert shown["too_late"] == policy.too_late > 0
    assert float(shown["spent"]) + float(shown["reserved"]) == pytest.approx(
        90.0 - policy.remaining
    )


@pytest.mark.parametrize("size", [1, 7, 100])
def test_users_decided_in_lists_are_decided_as_one_by_one(service: Service, size: int) -> None:
    """Also where the horizon is a time, and the users to come are counted anew for each."""
    rng = np.random.default_rng(1)
    xs: Floats = rng.normal(size=100)
    horizon = {"ends_at": "2027-01-15T09:00:00Z"}
    policy = {"name": "bccb", "params": {"warm_up": 20}}
    one = service.open(name="one", policy=policy, horizon=horizon, budget="20")["id"]
    many = service.open(name="many", policy=policy, horizon=horizon, budget="20")["id"]
    service.clock.advance(60)
    users = [
        {"decision_id": f"u{i}", "features": {"age": x}, "costs": {"email": "1"}}
        for i, x in enumerate(xs.tolist())
    ]
    single = [service.done(f"{one}/decisions", user) for user in users]
    listed: list[Any] = []
    for first in range(0, 100, size):
        listed += service.done(f"{many}/decisions", users[first : first + size])
    assert listed == single


def test_users_who_are_asked_for_together_are_decided_as_one_by_one(service: Service) -> None:
    terms: dict[str, Any] = {"policy": {"name": "thompson"}, "budget": "60", "seed": 4}
    campaigns = [service.open(**terms)["id"] for _ in range(2)]

    def body(i: int) -> dict[str, Any]:
        return {"decision_id": f"u{i}", "features": {"age": i / 7}, "costs": {"email": "1"}}

    async def ask() -> list[Any]:
        """Singles, lists and retries for both campaigns, all at once."""
        asked = []
        for i in range(0, 100, 4):
            for campaign in campaigns:
                path = f"/v1/campaigns/{campaign}/decisions"
                for what in (body(i), [body(i + 1), body(i)], [body(i + 2), body(i + 3)], body(i)):
                    asked.append(service.http.post(path, json=what))
        return [response.json() for response in await asyncio.gather(*asked)]

    answers = service.run(ask())
    replies: list[dict[str, Any]] = []
    for answer in answers:
        replies += answer if isinstance(answer, list) else [answer]
    for campaign in campaigns:
        frame = polars.read_ndjson(io.StringIO(service.get(f"{campaign}/log").text))
        policy = bccb.make("thompson", budget=60, horizon=100, features=1, seed=4)
        for row in frame.iter_rows(named=True):
            result = policy.decide([row["age"]], cost=1.0)
            assert row["treatment"] == ("control", "email")[result.action]
            assert row["probability"] == result.probability
            treatment = None if result.action == 0 else "email"
            same = [each for each in replies if each["decision_id"] == row["decision_id"]]
            assert len(same) in (2, 6)  # of both campaigns
            assert any(
                each["treatment"] == treatment and each["probability"] == result.probability
                for each in same
            )
        assert len(frame) == 100


@pytest.mark.compiled
def test_a_downloaded_log_can_be_evaluated(
    service: Service,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    campaign = service.open(
        policy={"name": "thompson"}, budget="400", horizon={"users": 600}, name="log"
    )["id"]
    rng = np.random.default_rng(0)
    for first in range(0, 600, 20):
        ids = [f"u{i}" for i in range(first, first + 20)]
        service.done(
            f"{campaign}/decisions",
            [
                {"decision_id": id_, "features": {"age": rng.normal()}, "costs": {"email": "1"}}
                for id_ in ids
            ],
        )
        values = (rng.random(20) < 0.4).astype(float).tolist()
        service.done(
            f"{campaign}/outcomes",
            [{"decision_id": id_, "value": y} for id_, y in zip(ids, values, strict=True)],
        )
    for id_ in ("open", "undone"):
        service.decide(campaign, id_)
    service.done(f"{campaign}/decisions/undone/cancel")
    path = tmp_path / "log.parquet"
    path.write_bytes(service.get(f"{campaign}/log", format="parquet").content)
    monkeypatch.setattr(
        sys,
        "argv",
        ["bccb", "evaluate", str(path), "--closed", "--all", "--policy", "treat-all"],
    )
    with pytest.raises(SystemExit) as stopped:
        main()
    printed = capsys.readouterr()
    assert not stopped.value.code, printed.err
    assert "600" in printed.out + printed.err
    assert "SNIPS" in printed.out or "IPW" in printed.out
