"""Whether treated and untreated users are reported alike."""

from __future__ import annotations

import numpy as np
import pytest

from bccb.ledger.event import Event, Kind, Known
from bccb.serve import balance as module
from bccb.serve.balance import Balance, Side


def ended(kind: Kind, value: float | None, action: int | None) -> Known:
    return Known(
        Event(1, 2, 0, Kind.DECISION, "a", 1, 1), Event(1, 3, 0, kind, "a", 1, action, 0, value)
    )


def test_users_count_by_what_was_done_and_reported() -> None:
    balance = Balance()
    balance.note(ended(Kind.OUTCOME, 1.0, 1), 1)
    balance.note(ended(Kind.OUTCOME, 0.0, 0), 0)
    balance.note(ended(Kind.EXPIRY, 0.0, None), 1)
    balance.note(ended(Kind.CANCELLATION, None, None), 1)
    balance.note(ended(Kind.EXPIRY, 0.0, None), None)  # a shadow that does not know the action
    assert balance.treated == Side(2, 1, 1)
    assert balance.untreated == Side(1, 1, 0)


@pytest.mark.parametrize(
    ("treated", "untreated", "broken"),
    [
        (Side(), Side(1_000, 10, 10), False),
        # the policy treats those who convert often: this was so in a healthy campaign
        (Side(1_800, 257, 257), Side(4_200, 25, 25), False),
        (Side(5_000, 500, 500), Side(9_000, 0, 0), True),
        (Side(9_000, 0, 0), Side(5_000, 500, 500), True),
        (Side(5_000, 500, 500), Side(1_000, 0, 0), False),  # too few to tell
        (Side(1_000, 800, 40), Side(1_000, 700, 10), False),  # zeros are reported on both sides
        (Side(1_000, 800, 40), Side(1_000, 300, 10), True),
        # zeros of the treated alone: silence tells the same of the others
        (Side(1_000, 1_000, 50), Side(1_000, 10, 10), False),
    ],
)
def test_only_a_clear_difference_is_told(treated: Side, untreated: Side, broken: bool) -> None:
    assert (Balance(treated, untreated).fault() is not None) == broken


def test_equal_rates_are_never_told_apart() -> None:
    rng = np.random.default_rng(1)
    for rate in (0.001, 0.05, 0.9):
        for users in (50, 500, 50_000):
            for one, other in rng.binomial(users, rate, (300, 2)).tolist():
                assert Balance(Side(users, one, one), Side(users, other, other)).fault() is None
                zeros = Balance(Side(users, one, 0), Side(users, other, 0))
                assert zeros.fault() is None


def test_what_breaks_late_is_noticed_after_a_long_healthy_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "RECENT", 1_000)
    balance = Balance()

    def note(action: int, reported: bool) -> None:
        kind, value = (Kind.OUTCOME, 0.0) if reported else (Kind.EXPIRY, 0.0)
        balance.note(ended(kind, value, action), action)

    for number in range(20_000):
        note(number % 2, True)
    assert balance.fault() is None
    for number in range(2_000):
        note(number % 2, number % 2 == 1 or number % 8 == 0)
    assert balance.fault() is not None
