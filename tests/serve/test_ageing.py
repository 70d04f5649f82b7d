"""Users of a campaign whose outcome is not reported: what is learned of them as time passes."""

from __future__ import annotations

import numpy as np
import pytest
from pasts import without_charges

from bccb.assembly import assemble
from bccb.ledger.event import Kind, Known
from bccb.policies import spec_of
from bccb.serve import books as books_module
from bccb.serve.campaign import Campaign
from bccb.serve.recovery import fold
from serve.recovered import states
from serve.service import Service

WINDOW = 1_000  # seconds


def driven(service: Service, users: int = 60, **terms: object) -> str:
    """A campaign of which every third user converts, after 20 to 400 seconds."""
    rng = np.random.default_rng(3)
    asked = {"policy": {"name": "pooled-bayes"}, "outcome_window_seconds": WINDOW, **terms}
    id_ = str(service.open(**asked)["id"])
    due: list[tuple[float, str]] = []
    for i in range(users):
        service.clock.advance(20.0)
        decision = service.decide(id_, f"u{i}", "0.25", age=float(rng.normal()))
        service.sweep()
        if i % 3 == 0:
            due.append((i + rng.uniform(1.0, 20.0), decision["decision_id"]))
        for each in [each for each in due if each[0] <= i]:
            due.remove(each)
            service.outcome(id_, each[1], 1)
    return id_


def folded(service: Service, campaign: Campaign, snapshot: bool) -> Campaign:
    """The same from the ledger, from its last snapshot or from its first event."""
    ledger = service.books.ledger
    account = ledger.account(campaign.id)
    assert account is not None
    return fold(ledger, account, ledger.snapshot(account.key) if snapshot else None)


def test_silence_is_learned_before_the_window_ends(service: Service) -> None:
    id_ = service.open(policy={"name": "pooled-bayes"}, outcome_window_seconds=WINDOW)["id"]
    service.decide(id_, "a")
    campaign = service.books.campaign(id_)
    before = campaign.machine.memory.copy()
    service.clock.advance(WINDOW / 2)
    service.sweep()
    half = campaign.machine.memory.copy()
    assert (half != before).any()
    weight = campaign.pending.ring.weight[campaign.pending.place(1)]
    assert 0.3 < weight < 1.0
    service.clock.advance(WINDOW)
    service.sweep()
    assert campaign.pending.first == 2
    assert campaign.open == 0


def test_what_was_learned_is_what_the_library_learns_of_the_same_times(service: Service) -> None:
    id_ = driven(service)
    campaign = service.books.campaign(id_)
    terms = campaign.terms
    policy = assemble(
        spec_of("pooled-bayes"),
        budget=terms.budget / 1e6,
        horizon=terms.users or 1,
        features=len(terms.features),
        treatments=len(terms.treatments),
        seed=terms.seed,
        window=float(terms.window),
    )
    assert policy.pending is not None
    for event in service.books.ledger.events(campaign.key):
        at = float(event.at)
        if event.kind == Kind.DECISION:
            x, costs = campaign.trace(event)[: len(terms.features)], campaign.costs(event)
            assert costs.flags.writeable  # or the kernels would be compiled once more
            number, action, *_ = policy.step(np.ascontiguousarray(x), costs)
            assert action == event.action
            policy.pending.enter(number, x[None, :], np.array([action]), np.array([at]), number)
        elif event.kind == Kind.AGED:
            policy.age(at, event.number or 0)
        elif event.kind == Kind.OUTCOME:
            policy.end(event_number(service, campaign, event.decision), event.value or 0.0, at)
    np.testing.assert_array_equal(policy.memory, campaign.machine.memory)
    np.testing.assert_array_equal(policy.pending.delay, campaign.pending.delay)


def event_number(service: Service, campaign: Campaign, decision: str | None) -> int:
    events = service.books.ledger.known(campaign.key, [decision or ""])[decision or ""]
    return next(event.number or 0 for event in events if event.kind == Kind.DECISION)


@pytest.mark.parametrize("shadow", [False, True])
@pytest.mark.parametrize("every", [7, 5_000])
def test_a_start_continues_to_the_bit(
    service: Service, monkeypatch: pytest.MonkeyPatch, shadow: bool, every: int
) -> None:
    monkeypatch.setattr(books_module, "SNAPSHOT_EVERY", every)
    if shadow:
        id_ = str(service.open(mode="shadow", outcome_window_seconds=WINDOW)["id"])
        for i in range(40):
            service.clock.advance(20.0)
            service.decide(id_, f"u{i}", "0.25")
            service.sweep()
            if i % 2:
                service.outcome(id_, f"u{i - 1}", i % 4 // 2, action=None)
    else:
        id_ = driven(service)
    campaign = service.books.campaign(id_)
    kinds = [event.kind for event in service.books.ledger.events(campaign.key)]
    assert kinds.count(Kind.AGED) > 10
    for snapshot in (False, True):
        again = folded(service, campaign, snapshot)
        assert again.to_bytes() == campaign.to_bytes()
        for mine, other in zip(again.pending.kept(), campaign.pending.kept(), strict=True):
            np.testing.assert_array_equal(mine, other)
    later = campaign.now(service.clock()) + 300_000_000
    for each in (again, campaign):
        each.ageing(later, 10_000)
    assert again.to_bytes() == campaign.to_bytes()


def test_long_waits_are_cut_into_parts(service: Service) -> None:
    id_ = service.open(outcome_window_seconds=WINDOW)["id"]
    for i in range(30):
        service.decide(id_, f"u{i}", "0.01")
    campaign = service.books.campaign(id_)
    service.clock.advance(WINDOW / 2)
    event = campaign.ageing(service.clock(), 7)
    assert event.number == 7
    assert campaign.pending.is_due(float(service.clock()))


def test_a_start_in_the_middle_of_a_long_wait_continues_to_the_bit(service: Service) -> None:
    """After a long rest users pass the window before younger ages are looked at."""
    id_ = driven(service)
    campaign = service.books.campaign(id_)
    service.clock.advance(10 * WINDOW)
    service.run(
        service.engine.do(
            lambda books, at: books.record(campaign, books.campaign(id_).ageing(at, 70))
        )
    )
    assert not campaign.pending.is_open(60)
    assert campaign.pending.is_due(float(service.clock()))
    service.restart()
    service.decide(id_, "next", "0.25")
    service.sweep()
    campaign = service.books.campaign(id_)
    assert folded(service, campaign, snapshot=False).to_bytes() == campaign.to_bytes()


def test_a_cancelled_user_ages_no_more(service: Service) -> None:
    id_ = service.open(policy={"name": "treat-all"}, outcome_window_seconds=WINDOW)["id"]
    service.decide(id_, "a")
    service.done(f"{id_}/decisions/a/cancel")
    campaign = service.books.campaign(id_)
    before = campaign.machine.memory.copy()
    service.clock.advance(WINDOW / 2)
    service.sweep()
    np.testing.assert_array_equal(campaign.machine.memory, before)


def test_an_older_version_s_snapshot_is_continued(service: Service) -> None:
    """It has no users who wait: theirs count when they are reported, or when their window ends."""
    id_ = driven(service, users=10)
    campaign = service.books.campaign(id_)
    state = campaign.to_bytes()
    size = int.from_bytes(state[:8], "little")
    head = state[8 : 8 + size].replace(b',"waiting_from":', b',"waited_from":')
    head = head.replace(b',"measured":', b',"untold":')
    head = head.replace(b',"machine":', b',"whole":')
    machine = without_charges(campaign.machine.snapshot())[: campaign.machine.earlier_sizes[1]]
    older = Campaign(campaign.key, campaign.id, campaign.terms)
    assert older.restore(len(head).to_bytes(8, "little") + head + machine) == 0
    assert older.pending.began == 10
    known = service.books.ledger.known(campaign.key, ["u1"])["u1"]
    decided = Known.of(known)
    assert decided is not None
    before = older.machine.memory.copy()
    older.observing(service.clock(), decided, 1.0, decided.decision.action or 0)
    assert (older.machine.memory != before).any()


def test_all_campaigns_come_up_as_they_were(service: Service) -> None:
    id_ = driven(service)
    expected = service.books.campaign(id_).to_bytes()
    name = service.books.campaign(id_).terms.name
    service.stop()
    assert states(service.place)[name] == expected
    service.start()
