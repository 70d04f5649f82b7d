"""Proposals on a log against a loop through the library's own calls."""

from __future__ import annotations

import pytest

import bccb
from bccb import InputError, Log, StateError
from bccb.data import simulate
from bccb.evaluate.evaluation import unsuitable
from bccb.evaluate.proposals import propose_on
from bccb.policies import POLICIES

LOG = {k: simulate(700, seed=3, outcome="visit", treatments=k) for k in (1, 2)}
NAMES = [name for name in POLICIES if not unsuitable(name)]


def fresh(name: str, log: Log, budget: float = 60.0) -> bccb.Policy:
    return bccb.make(
        name, budget=budget, horizon=700, features=12, treatments=log.treatments, seed=11
    )


def naive(policy: bccb.Policy, log: Log) -> tuple[list[int], int]:
    actions, learned = [], 0
    for row in range(log.users):
        if policy.remaining < log.costs.min():
            actions.append(0)
            continue
        decision = policy.decide(log.features[row], log.costs[row])  # which pays
        actions.append(decision.action)
        if decision.action == log.actions[row]:
            policy.observe(decision, log.outcomes[row])
            learned += 1
    return actions, learned


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("treatments", [1, 2])
def test_proposals_equal_those_of_a_live_policy_that_sees_matched_outcomes(
    name: str, treatments: int
) -> None:
    log = LOG[treatments]
    live = fresh(name, log)
    actions, learned = naive(live, log)
    result = propose_on(fresh(name, log), log)
    assert result.actions.tolist() == actions
    assert result.learned == learned
    assert result.spend == pytest.approx(live.spent, abs=1e-9)


def test_every_proposal_is_paid_for_whether_or_not_the_log_followed_it() -> None:
    log = LOG[1]
    result = propose_on(fresh("treat-all", log, budget=1e6), log)
    assert result.actions.tolist() == [1] * log.users
    assert result.spend == pytest.approx(log.costs.sum(), abs=1e-3)
    assert result.learned == (log.actions == 1).sum()


def test_a_policy_that_does_not_fit_the_log_is_refused() -> None:
    with pytest.raises(InputError, match="the number of treatments in the log is 2, but must be 1"):
        propose_on(fresh("bccb", LOG[1]), LOG[2])
    with pytest.raises(StateError, match="offline-uplift has learned nothing"):
        propose_on(fresh("offline-uplift", LOG[1]), LOG[1])
