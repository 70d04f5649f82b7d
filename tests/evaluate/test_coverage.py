"""Bias and coverage of the estimators where the truth is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bccb.evaluate.coverage import Finding, simulate_decisions, summarise, try_once
from bccb.evaluate.estimates import Estimate


@pytest.mark.compiled
@pytest.mark.slow_first(10)
def test_estimates_are_unbiased_and_intervals_cover_the_truth() -> None:
    """Within 4 standard errors of 200 repetitions: from 89 % to all of them."""
    result = summarise(one for seed in range(7, 207) for one in try_once(1_900, seed))
    assert [(line.policy, line.method) for line in result] == [
        (policy, method)
        for policy in ("this log", "a fixed target", "log of pooled-trees")
        for method in ("IPW", "SNIPS", "DR")
    ]
    for line in result:
        assert line.repetitions == 200
        assert abs(line.bias) < 4 * line.bias_se, line
        assert abs(line.covered - 0.95) < 4 * math.sqrt(0.95 * 0.05 / 200), line
    for policy in (result[:3], result[3:6]):
        assert policy[2].width < min(policy[0].width, policy[1].width)  # the model helps


def test_decisions_have_the_probabilities_they_say() -> None:
    log = simulate_decisions(40_000, seed=1)
    assert log.probabilities is not None
    chance = np.where(log.actions == 1, log.probabilities, 1 - log.probabilities)
    assert 0.2 <= chance.min() < chance.max() <= 0.8
    errors = log.actions - chance
    assert abs(errors.sum()) < 4 * math.sqrt((chance * (1 - chance)).sum())
    assert abs(errors @ chance) < 4 * math.sqrt((chance**3 * (1 - chance)).sum())


def test_a_summary_is_the_mean_over_repetitions() -> None:
    findings = [
        Finding("p", 10.0, Estimate("DR", 12.0, 1.0, 9.0, 15.0)),
        Finding("p", 10.0, Estimate("DR", 14.0, 1.0, 11.0, 16.0)),
    ]
    (line,) = summarise(findings)
    assert (line.bias, line.covered, line.width) == (3.0, 0.5, 5.5)
    assert line.bias_se == pytest.approx(1 / math.sqrt(2))
