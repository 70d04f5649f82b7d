"""The log of a policy is tested for randomisation given its probabilities, not without them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bccb.data.chances import fit_to_probabilities
from bccb.data.describe import check_balance, chi_square_tail, describe
from bccb.types import Log


def decided(
    rng: np.random.Generator, users: int, treatments: int, reserve: float, wrong: float = 0.0
) -> Log:
    """Decisions by features, of which a share is random; ``wrong`` bends the draws, not p."""
    x = rng.normal(size=(users, 4))
    best = np.column_stack((np.zeros(users), x[:, :treatments])).argmax(axis=1)
    p = np.full((users, treatments + 1), reserve / (treatments + 1))
    p[np.arange(users), best] += 1 - reserve
    drawn = p * np.exp(wrong * np.outer(x[:, 3], np.arange(treatments + 1) > 0))
    drawn /= drawn.sum(axis=1, keepdims=True)
    actions = (drawn.cumsum(axis=1) < rng.random((users, 1))).sum(axis=1).clip(max=treatments)
    return Log(
        features=x,
        actions=actions,
        outcomes=np.zeros(users),
        micros=np.full((users, treatments), 500_000),
        probabilities=p[np.arange(users), actions],
    )


@pytest.mark.parametrize("treatments", [1, 2])
def test_a_policys_own_log_is_random_given_its_probabilities_alone(treatments: int) -> None:
    log = decided(np.random.default_rng(1), 5_000, treatments, 0.3)
    given = check_balance(log)
    assert given.looks_randomised
    assert given.verdict.startswith("looks randomised, given the probabilities of the log (p = ")
    assert describe(log).balance == given
    without = check_balance(replace(log, probabilities=None))
    assert not without.looks_randomised
    assert without.verdict.startswith("does not look randomised: feature x")


def test_with_one_treatment_it_is_the_score_test() -> None:
    log = decided(np.random.default_rng(2), 2_000, 1, 0.4)
    assert log.probabilities is not None
    score, variance = np.zeros(5), np.zeros((5, 5))
    for x, action, taken in zip(log.features, log.actions, log.probabilities, strict=True):
        p = taken if action else 1 - taken
        z = np.append(1.0, x)
        score += (action - p) * z
        variance += p * (1 - p) * np.outer(z, z)
    fit = fit_to_probabilities(log)
    assert fit.degrees == 5
    assert fit.statistic == pytest.approx(score @ np.linalg.solve(variance, score))


@pytest.mark.parametrize(("treatments", "users"), [(1, 1_000), (2, 2_000)])
def test_the_test_has_its_size_and_power(treatments: int, users: int) -> None:
    """Over 300 logs; the bounds are 4 standard errors off 5 %."""
    rng = np.random.default_rng(3)

    def share_below(level: float, wrong: float, times: int) -> float:
        fits = [
            fit_to_probabilities(decided(rng, users, treatments, 0.4, wrong)) for _ in range(times)
        ]
        return float(np.mean([chi_square_tail(f.statistic, f.degrees) < level for f in fits]))

    assert 0.0 < share_below(0.05, 0.0, 300) < 0.10
    assert share_below(0.05, 1.0, 40) > 0.9


def test_wrong_probabilities_are_named() -> None:
    log = decided(np.random.default_rng(4), 5_000, 1, 0.5, wrong=1.0)
    verdict = check_balance(log).verdict
    assert verdict.startswith("does not look randomised, given the probabilities of the log: feat")
    assert "feature x3 differs by" in verdict
    coin = np.random.default_rng(5).random(2_000) < 0.9
    half = Log(
        features=np.zeros((2_000, 1)),
        actions=coin.astype(np.int64),
        outcomes=np.zeros(2_000),
        micros=np.ones((2_000, 1), dtype=np.int64),
        probabilities=np.full(2_000, 0.5),
    )
    balance = check_balance(half)
    assert not balance.looks_randomised
    assert "treatment-1 was chosen 1.8 times as often as they say" in balance.verdict


@pytest.mark.parametrize("treatments", [1, 2])
def test_what_cannot_be_checked_is_said(treatments: int) -> None:
    log = decided(np.random.default_rng(6), 200, treatments, 0.001)
    sure = replace(log, probabilities=np.ones(200))
    for one in (log, sure):
        verdict = check_balance(one).verdict
        assert verdict == (
            "cannot be checked, given the probabilities of the log: too few decisions were left "
            "to chance"
        )


def test_a_large_log_is_tested_on_a_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bccb.data.chances.MOST_ROWS", 500)
    log = decided(np.random.default_rng(7), 2_000, 1, 0.5)
    assert fit_to_probabilities(log).degrees == 5
