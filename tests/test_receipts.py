"""Receipts know the decisions of their policy that wait, and refuse all others."""

from __future__ import annotations

import numpy as np
import pytest

import bccb
from bccb.decision import Decision
from bccb.errors import StateError
from bccb.policy import Policy
from bccb.receipts import Receipts


def decided() -> tuple[Policy, Decision, Receipts]:
    """A policy after one decision, and receipts of their own for it."""
    policy = bccb.make("treat-all", budget=10, horizon=10, features=1, seed=1)
    decision = policy.decide([0.5], cost=0.25)
    receipts = Receipts(decision._origin, policy.counts, {})
    receipts.add(1, 250_000, decision._trace, decision.action)
    return policy, decision, receipts


def test_what_was_paid_is_told_of_a_decision_that_waits() -> None:
    _, decision, receipts = decided()
    assert receipts.paid(decision) == 250_000
    ((number, paid, _),) = receipts.rows().tolist()
    assert (number, paid) == (1, 250_000)


def test_a_decision_is_refused_if_it_was_changed_or_does_not_wait() -> None:
    policy, decision, receipts = decided()
    decision.cost = 9.0
    with pytest.raises(StateError, match="not made by this policy, or was changed since"):
        receipts.paid(decision)
    decision.cost = 0.25
    del receipts[1]
    with pytest.raises(StateError, match="decision 1 was observed or cancelled already"):
        receipts.paid(decision)
    decision.number = 2
    with pytest.raises(StateError, match="decision 2 was not made by this policy$"):
        receipts.paid(decision)
    policy.decide([0.5], cost=0.25)  # now there is a second one
    with pytest.raises(StateError, match="decision 2 was observed or cancelled already"):
        receipts.paid(decision)


def test_rows_are_in_the_order_of_the_numbers() -> None:
    policy, decision, receipts = decided()
    trace = np.zeros(3)
    for number in (7, 3):
        receipts.add(number, number, trace, 0)
    assert receipts.rows()[:, 0].tolist() == [1, 3, 7]
    assert Receipts(decision._origin, policy.counts, {}).rows().shape == (0, 3)
