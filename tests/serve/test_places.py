"""Which replica holds a campaign."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from bccb.ledger.port import Replica
from bccb.serve import places as module
from bccb.serve.places import Places

CAMPAIGNS = [f"c{i:010x}" for i in range(3_000)]


def replica(
    name: str, version: str = "0.9.0", alive: bool = True, leaving: bool = False
) -> Replica:
    return Replica(name, f"http://{name}:8000", version, leaving, alive)


def places(me: str, *others: Replica) -> Places:
    made = Places(me)
    made.update([replica(me), *others])
    return made


def holder(of: Places, campaign: str) -> str:
    elsewhere = of.elsewhere(campaign)
    return of.me if elsewhere is None else elsewhere.id


def test_all_replicas_agree_and_campaigns_spread_evenly() -> None:
    names = ["a", "b", "c"]
    views = [places(me, *(replica(each) for each in names if each != me)) for me in names]
    held = [[holder(view, campaign) for campaign in CAMPAIGNS] for view in views]
    assert held[0] == held[1] == held[2]
    assert min(Counter(held[0]).values()) > 900


def test_when_a_replica_goes_only_its_campaigns_move() -> None:
    before, after = places("a", replica("b"), replica("c")), places("a", replica("b"))
    for campaign in CAMPAIGNS:
        if holder(before, campaign) != "c":
            assert holder(after, campaign) == holder(before, campaign)


@pytest.mark.parametrize("gone", [replica("b", alive=False), replica("b", leaving=True)])
def test_one_that_is_gone_or_leaves_holds_nothing(gone: Replica) -> None:
    assert all(map(places("a", gone).is_here, CAMPAIGNS))


def test_campaigns_stay_with_the_newest_code() -> None:
    view = places("a", replica("b", "0.10.0"), replica("c", "0.10.0"))
    assert {holder(view, campaign) for campaign in CAMPAIGNS} == {"b", "c"}


def test_a_suspect_is_left_out_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    view = places("a", replica("b"))
    there = next(each for each in CAMPAIGNS if holder(view, each) == "b")
    view.suspect(replica("b"))
    assert view.is_here(there)
    assert view.others() == []
    now = time.monotonic() + module.SUSPECTED
    monkeypatch.setattr(time, "monotonic", lambda: now)
    assert holder(view, there) == "b"


def test_one_that_leaves_hands_everything_over_while_there_are_others() -> None:
    view = places("a", replica("b"))
    view.leaving = True
    assert not any(map(view.is_here, CAMPAIGNS))
    alone = places("a")
    alone.leaving = True
    assert all(map(alone.is_here, CAMPAIGNS))


def test_before_the_first_beat_everything_is_here() -> None:
    assert Places("a").is_here("c1")
