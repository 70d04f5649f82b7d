"""A campaign begins with what a policy has learned elsewhere: an uploaded history."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np
import pytest

import bccb
from bccb.encoding import Encoding, Feature
from bccb.policies import spec_of
from bccb.policy import Policy
from bccb.serve import learning
from bccb.serve.terms import MOST_MEMORY
from bccb.types import Log
from serve.recovered import states
from serve.service import Service, refused
from serve.test_encoded import states_without_snapshot

ENCODING = Encoding(
    (
        Feature("age", fill=41.0),
        Feature("plan", "category", ("basic", "plus"), others=True),
    )
)
FEATURES = [
    {"name": "age", "fill": 41},
    {"name": "plan", "kind": "category", "levels": ["basic", "plus"]},
]
USERS: list[dict[str, Any]] = [
    {"age": age, "plan": plan}
    for age in (20.0, None, 60.0)
    for plan in ("basic", "plus", "brand new")
]
NEED_HISTORY = ("offline-uplift", "offline-forecast", "offline-boosted", "hybrid")


def trial(rows: int = 600) -> Log:
    """A trial in which the young with plan plus buy when treated."""
    rng = np.random.default_rng(7)
    values = [USERS[i] for i in rng.integers(len(USERS), size=rows)]
    actions = rng.integers(2, size=rows)
    lifted = np.array([user["plan"] == "plus" and user["age"] == 20.0 for user in values])
    chance = 0.2 + 0.5 * lifted * actions
    return Log(
        features=np.array([ENCODING.row(user) for user in values]),
        actions=actions,
        outcomes=(rng.random(rows) < chance).astype(float),
        micros=np.full((rows, 1), 1_000_000),
        encoding=ENCODING,
    )


def made(name: str = "pooled-bayes", **more: Any) -> Policy:
    shape: dict[str, Any] = {"budget": 100, "horizon": 100, "features": 4, "seed": 1, **more}
    return bccb.make(name, **shape)


def taught(name: str = "pooled-bayes", **more: Any) -> Policy:
    policy = made(name, **more)
    policy.learn(trial())
    return policy


def opened(service: Service, policy: str = "pooled-bayes", **more: Any) -> str:
    terms: dict[str, Any] = {"features": FEATURES, "policy": {"name": policy}}
    return str(service.open(**terms | {"learned_from": "upload", **more})["id"])


def upload(service: Service, campaign: str, saved: bytes, **headers: str) -> httpx.Response:
    kind = {"content-type": "application/octet-stream", **headers}
    return service.ask("PUT", f"{campaign}/learning", content=saved, headers=kind)


def bodies(first: int = 0, count: int = 60) -> list[dict[str, Any]]:
    return [
        {"decision_id": f"u{i}", "features": USERS[i % len(USERS)], "costs": {"email": "1.00"}}
        for i in range(first, first + count)
    ]


@pytest.mark.parametrize("name", [*NEED_HISTORY, "pooled-bayes", "pooled-trees", "bccb"])
def test_with_the_same_history_the_service_decides_as_the_library(
    service: Service, name: str
) -> None:
    campaign, policy = opened(service, name), taught(name)
    answer = upload(service, campaign, policy.to_bytes())
    assert answer.status_code == 200, answer.text
    assert answer.json()["needs_history"] is False
    for body, told in zip(bodies(), service.done(f"{campaign}/decisions", bodies()), strict=True):
        decision = policy.decide(ENCODING.row(body["features"]), cost=1.0)
        assert told["treatment"] == (None, "email")[decision.action]
        assert (told["price"], told["probability"]) == (decision.price, decision.probability)


def test_history_changes_what_is_decided(service: Service) -> None:
    campaign = opened(service, budget="10")
    upload(service, campaign, taught(budget=10).to_bytes())
    answers = service.done(f"{campaign}/decisions", bodies(count=90))
    treated = [USERS[i % 9] for i, each in enumerate(answers) if each["treatment"]]
    assert len([user for user in treated if user["plan"] == "plus"]) >= len(treated) / 2 > 2


def test_without_its_history_a_campaign_refuses_decisions_and_says_what_to_do(
    service: Service,
) -> None:
    campaign = opened(service)
    assert service.campaign(campaign)["needs_history"] is True
    asked = service.post(f"{campaign}/decisions", bodies()[0])
    detail = refused(asked, 409, kind="needs-history")
    assert detail.endswith(f"upload a saved policy with PUT /v1/campaigns/{campaign}/learning")
    service.restart()
    refused(service.post(f"{campaign}/decisions", bodies()), 409, kind="needs-history")
    assert upload(service, campaign, taught().to_bytes()).status_code == 200
    service.done(f"{campaign}/decisions", bodies()[0])


def test_the_same_learning_again_is_answered_and_other_learning_is_refused(
    service: Service,
) -> None:
    campaign, saved = opened(service), taught().to_bytes()
    first = upload(service, campaign, saved).json()
    assert upload(service, campaign, saved).json() == first
    assert upload(service, campaign, taught().to_bytes()).json() == first  # learned once more
    service.done(f"{campaign}/decisions", bodies()[0])
    service.restart()
    assert upload(service, campaign, saved).json()["decisions"] == 1
    other = made()
    other.learn(trial(300))
    refused(upload(service, campaign, other.to_bytes()), 409, kind="has-history")
    assert [event.kind for event in journal(service, campaign)].count("learned") == 1


def journal(service: Service, campaign: str) -> list[Any]:
    return list(service.books.ledger.events(service.books.campaign(campaign).key))


def test_recovery_is_the_same_to_the_bit_and_so_are_the_next_decisions(service: Service) -> None:
    campaign = opened(service, "hybrid")
    upload(service, campaign, taught("hybrid").to_bytes())
    service.done(f"{campaign}/decisions", bodies())
    service.outcome(campaign, "u3", 1)
    before = service.books.campaign(campaign)
    kept, name = before.to_bytes(), before.terms.name
    assert states_without_snapshot(service)[name] == kept  # as after a kill
    service.restart()  # from the snapshot
    assert service.books.campaign(campaign).to_bytes() == kept
    later = service.done(f"{campaign}/decisions", bodies(60))
    service.stop()
    assert states(service.place)[name] != kept
    service.start()
    assert service.done(f"{campaign}/decisions", bodies(60)) == later


def decided() -> Policy:
    policy = taught()
    policy.decide([1.0, 0.0, 0.0, 0.0], cost=1.0)
    return policy


@pytest.mark.parametrize(
    ("saved", "detail"),
    [
        (lambda: b"", "a saved policy is '0 bytes'"),
        (lambda: taught().to_bytes()[:-100], "a saved policy is"),
        (lambda: taught("bccb").to_bytes(), "the policy is bccb, but the campaign was opened with"),
        (lambda: taught(reserve=0.2).to_bytes(), "the policy is pooled-bayes with other param"),
        (lambda: made().to_bytes(), "the policy has learned nothing: call policy.learn(log)"),
        (lambda: made(features=3).to_bytes(), "the policy has 3 columns of features, but the"),
        (lambda: made(treatments=2).to_bytes(), "the policy has 2 treatments, but the campaign"),
        (lambda: decided().to_bytes(), "the policy has made 1 decisions of its own"),
    ],
)
def test_a_policy_that_does_not_fit_is_refused_and_nothing_is_learned(
    service: Service, saved: Any, detail: str
) -> None:
    campaign = opened(service)
    answer = upload(service, campaign, saved())
    assert refused(answer, 422, kind="invalid-learning").startswith(detail)
    assert service.campaign(campaign)["needs_history"] is True
    assert len(journal(service, campaign)) == 1


def test_only_a_campaign_that_waits_for_it_takes_learning(service: Service) -> None:
    saved = taught().to_bytes()
    plain = opened(service, learned_from=None)
    refused(upload(service, plain, saved), 409, kind="takes-no-history")
    refused(upload(service, "c1", saved), 404, kind="unknown")
    closed = opened(service)
    service.done(f"{closed}/close")
    refused(upload(service, closed, saved), 409, kind="campaign-closed")


def test_a_campaign_that_waits_for_its_history_has_no_learning_to_take(service: Service) -> None:
    waiting = opened(service)
    terms = {"name": "x", "budget": "1", "horizon": {"users": 9}, "features": FEATURES}
    asked = {**terms, "treatments": ["email"], "policy": {"name": "pooled-bayes"}}
    answer = service.post("", {**asked, "learned_from": waiting})
    assert "waits for its history" in refused(answer, 422, "learned_from")


def test_what_is_too_large_or_no_file_is_refused(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = opened(service)
    as_json = service.ask("PUT", f"{campaign}/learning", {"a": 1})
    assert "must be 'application/octet-stream'" in refused(as_json, 415, kind="not-a-file")
    huge = upload(service, campaign, b"", **{"content-length": "64000001"})
    assert "at most 64,000,000 bytes" in refused(huge, 413, kind="too-large")
    monkeypatch.setattr(learning, "MOST_BYTES", 1_000)
    refused(upload(service, campaign, taught().to_bytes()), 413, kind="too-large")
    body = service.post(f"{campaign}/decisions", headers={"content-length": "8000001"})
    refused(body, 413, kind="too-large")


def test_a_full_store_of_outcomes_fits_into_an_upload() -> None:
    composition = spec_of("pooled-trees").composition
    for features, treatments in ((1, 1), (16, 1), (60, 3), (1_000, 1), (1_000, 100)):
        numbers = composition.store_size(features, treatments) + MOST_MEMORY  # of the model
        assert 8 * numbers < learning.MOST_BYTES


@pytest.mark.parametrize("name", NEED_HISTORY)
def test_a_policy_that_needs_history_is_refused_without_any(service: Service, name: str) -> None:
    terms = {"name": "x", "budget": "1", "horizon": {"users": 9}, "features": ["age"]}
    asked = {**terms, "treatments": ["email"], "policy": {"name": name}}
    detail = refused(service.post("", asked), 422, "policy")
    assert detail.endswith('or learned_from must be a campaign or "upload"')
