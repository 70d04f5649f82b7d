"""What a campaign's policy has learned, asked over HTTP."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bccb.serve import explanations
from serve.service import Service, refused


def drive(service: Service, campaign: str, users: int) -> list[tuple[float, bool]]:
    """Only those above 0.5 respond to treatment; who they were, and who was treated."""
    draw, seen = np.random.default_rng(5), []
    for i in range(users):
        age = float(draw.random())
        answer = service.decide(campaign, f"d{i}", cost="0.50", age=age)
        treated = answer["treatment"] is not None
        service.outcome(campaign, f"d{i}", float(treated and age > 0.5))
        seen.append((age, treated))
    return seen


def test_the_effect_and_the_treated_are_told_by_segment(service: Service) -> None:
    policy = {"name": "pooled-trees"}
    campaign = service.open(policy=policy, budget="60", horizon={"users": 200})
    seen = drive(service, campaign["id"], 200)
    answer = service.get(f"{campaign['id']}/explanation")
    assert answer.status_code == 200
    learned = answer.json()
    assert learned["users"] == 200
    (treatment,) = learned["treatments"]
    assert treatment["treatment"] == campaign["treatments"][0]
    age = next(each for each in treatment["features"] if each["feature"] == "age")
    lowest, _, highest = age["segments"]
    assert age["is_clear"]
    assert (age["least"], age["most"]) == (lowest["name"], highest["name"])
    assert lowest["effect"]["value"] < highest["effect"]["value"]
    ages, treated = np.array(seen).T
    share = treated[ages > np.quantile(ages, 2 / 3)].mean()
    assert highest["treated"]["low"] <= share <= highest["treated"]["high"]


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        ({"name": "pooled-trees"}, "has learned 0 outcomes, of 100 needed"),
        ({"name": "pooled-bayes"}, "keeps no users to average effects over"),
        ({"name": "bccb"}, "cannot tell what it has learned"),
    ],
)
def test_what_cannot_be_told_is_refused(service: Service, policy: Any, why: str) -> None:
    campaign = service.open(policy=policy)["id"]
    answer = service.get(f"{campaign}/explanation")
    assert why in refused(answer, 409, kind="cannot-explain")


def test_an_unknown_campaign_is_refused(service: Service) -> None:
    refused(service.get("nobody/explanation"), 404)


def test_who_is_treated_is_left_out_where_the_sample_does_not_tell(service: Service) -> None:
    id_ = service.open(policy={"name": "pooled-bayes"})["id"]
    campaign = service.books.campaign(id_)
    service.decide(id_, "d1", cost="0.10")
    assert explanations.copied(campaign).sample() is not None
    campaign.tally.decisions[1] += 1  # treated by a version that kept no sample
    assert explanations.copied(campaign).sample() is None
