from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from bccb.errors import FitError
from bccb.estimators.frozen import FROZEN, fit, predict, view_estimator
from bccb.types import Floats, Log


def history(n: int, d: int, K: int, seed: int = 0) -> Log:
    rng = np.random.default_rng(seed)
    features, actions = rng.normal(1.0, 2.0, (n, d)), rng.integers(0, K + 1, n)
    rates = 1.0 / (1.0 + np.exp(1.5 - features[:, 0] - 0.5 * actions))
    outcomes = (rng.random(n) < rates).astype(float)
    return Log(features, actions, outcomes, np.full((n, K), 0.5))


def with_outcomes(log: Log, arm: int, outcomes: float | Floats) -> Log:
    changed = log.outcomes.copy()
    changed[log.actions == arm] = outcomes
    return Log(log.features, log.actions, changed, log.costs)


def memory_for(d: int, K: int) -> Floats:
    return np.full(FROZEN.size(d, K), 7.0)


@pytest.mark.parametrize(("d", "K"), [(1, 1), (5, 1), (3, 2)])
def test_effect_is_that_of_scikit_learns_logistic_regressions(d: int, K: int) -> None:
    log, memory = history(1_000, d, K), memory_for(d, K)
    fit(memory, log)
    models = []
    for arm in range(K + 1):
        rows = log.actions == arm
        models.append(LogisticRegression().fit(log.features[rows], log.outcomes[rows]))
    effect, spread = np.empty(K), np.empty(K)
    for x in log.features[:50]:
        assert predict(view_estimator(memory, d, K), np.append(x, 1.0), effect, spread)
        f = [model.predict_proba(x[None])[0, 1] for model in models]
        np.testing.assert_allclose(effect, [f[k] - f[0] for k in range(1, K + 1)], atol=1e-12)
        assert not spread.any()


@pytest.mark.parametrize(
    ("arm", "outcome", "message"),
    [
        (0, 0.0, r"^history of \d+ rows in the control has only outcome 0: nothing to fit$"),
        (1, 1.0, r"^history of \d+ rows in treatment 1 has only outcome 1: nothing to fit$"),
        (2, 0.0, r"^history of \d+ rows in treatment 2 has only outcome 0: nothing to fit$"),
        (2, 0.5, r"^history of \d+ rows in treatment 2 has only outcome 0.5: nothing to fit$"),
    ],
)
def test_history_with_one_class_in_an_arm_is_refused_by_the_arms_name(
    arm: int, outcome: float, message: str
) -> None:
    memory = memory_for(3, 2)
    with pytest.raises(FitError, match=message):
        fit(memory, with_outcomes(history(300, 3, 2), arm, outcome))
    assert (memory == 7.0).all()


def test_history_without_rows_in_an_arm_is_refused() -> None:
    log, memory = history(300, 3, 2), memory_for(3, 2)
    with pytest.raises(FitError, match="0 rows in treatment 2 has no rows: nothing to fit"):
        fit(memory, log.take(np.flatnonzero(log.actions < 2)))
    assert (memory == 7.0).all()


def test_history_with_fractional_outcomes_is_refused() -> None:
    log, memory = history(300, 3, 1), memory_for(3, 1)
    rates = np.random.default_rng(1).random(int((log.actions == 1).sum()))
    with pytest.raises(FitError, match="treatment 1 has outcomes other than 0 and 1"):
        fit(memory, with_outcomes(log, 1, rates))
    assert (memory == 7.0).all()


def test_fit_that_stops_at_its_last_iteration_is_kept_in_silence() -> None:
    log, memory = history(1_000, 12, 1), memory_for(12, 1)
    uneven = Log(log.features * np.logspace(0, 3, 12), log.actions, log.outcomes, log.costs)
    rows = uneven.actions == 0
    with pytest.warns(ConvergenceWarning):
        model = LogisticRegression().fit(uneven.features[rows], uneven.outcomes[rows])
    fit(memory, uneven)  # where a warning would be an error
    weights = view_estimator(memory, 12, 1).weights[0]
    np.testing.assert_allclose(weights, [*model.coef_[0], model.intercept_[0]], rtol=1e-12)
