from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from bccb.errors import FitError
from bccb.estimators.frozen import FROZEN, LAYOUT, fit, predict
from bccb.types import Floats, Log


def history(n: int, d: int, K: int, seed: int = 0) -> Log:
    rng = np.random.default_rng(seed)
    features, actions = rng.normal(1.0, 2.0, (n, d)), rng.integers(0, K + 1, n)
    rates = 1.0 / (1.0 + np.exp(1.5 - features[:, 0] - 0.5 * actions))
    outcomes = (rng.random(n) < rates).astype(float)
    return Log(features, actions, outcomes, np.full((n, K), 500_000))


def memory_for(d: int, K: int) -> Floats:
    return np.full(FROZEN.layout.size(d, K), 7.0)


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
        assert predict(LAYOUT.view(memory, d, K), np.append(x, 1.0), effect, spread)
        f = [model.predict_proba(x[None])[0, 1] for model in models]
        np.testing.assert_allclose(effect, [f[k] - f[0] for k in range(1, K + 1)], atol=1e-12)
        assert not spread.any()


def test_history_that_cannot_be_fitted_in_one_arm_writes_nothing() -> None:
    log, memory = history(300, 3, 2), memory_for(3, 2)
    barren = np.where(log.actions == 2, 0.0, log.outcomes)
    with pytest.raises(FitError, match="treatment 2 has only outcome 0"):
        fit(memory, Log(log.features, log.actions, barren, log.micros))
    assert (memory == 7.0).all()


def test_fit_that_stops_at_its_last_iteration_is_kept_in_silence() -> None:
    log, memory = history(1_000, 12, 1), memory_for(12, 1)
    uneven = Log(log.features * np.logspace(0, 3, 12), log.actions, log.outcomes, log.micros)
    rows = uneven.actions == 0
    with pytest.warns(ConvergenceWarning):
        model = LogisticRegression().fit(uneven.features[rows], uneven.outcomes[rows])
    fit(memory, uneven)  # where a warning would be an error
    weights = LAYOUT.view(memory, 12, 1).weights[0]
    np.testing.assert_allclose(weights, [*model.coef_[0], model.intercept_[0]], rtol=1e-12)
