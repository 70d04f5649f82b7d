"""Work: limits on what one request may take, told before it is asked for."""

from __future__ import annotations

import pytest

from bccb.policies import make
from bccb.serve import work
from bccb.serve.schemas import MOST_BATCH
from bccb.serve.work import most_per_list, seconds_a_user
from serve.service import Service, refused, user


def test_small_campaigns_take_the_longest_lists() -> None:
    for features, treatments in ((1, 1), (12, 1), (100, 3)):
        machine = make(budget=1, horizon=1, features=features, treatments=treatments)
        assert most_per_list(machine) == MOST_BATCH


@pytest.mark.parametrize(("features", "treatments"), [(300, 1), (10, 100), (100, 10)])
def test_wide_campaigns_take_shorter_lists(features: int, treatments: int) -> None:
    machine = make(budget=1, horizon=1, features=features, treatments=treatments)
    most = most_per_list(machine)
    assert 10 < most < MOST_BATCH
    assert most * seconds_a_user(machine) <= work.MOST


def test_a_list_that_would_take_too_long_is_refused_in_one_sentence(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "SECONDS_A_USER", work.MOST / 3.5)
    view = service.open()
    campaign, most = view["id"], view["most_per_list"]
    assert most == 3
    users = [user(f"d{i}") for i in range(4)]
    told = f"campaign {campaign} takes at most 3 users per list, not 4: send shorter lists"
    answer = service.post(f"{campaign}/decisions", users)
    assert refused(answer, 422, kind="list-too-long") == told
    assert len(service.done(f"{campaign}/decisions", users[:3])) == 3
    items = [{"decision_id": f"d{i % 3}", "value": 0} for i in range(4)]
    assert refused(service.post(f"{campaign}/outcomes", items), 422, kind="list-too-long") == told
    assert len(service.done(f"{campaign}/outcomes", items[:3])) == 3
