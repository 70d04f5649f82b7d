r"""Two-model SGD (section 4.1 of the paper): one logistic model an arm, tau_k = f_k(x) - f_0(x).

Each model takes one gradient step an observation of its arm,

    eta_t = 1 / (alpha (t0 + t)),    w <- (1 - alpha eta_t) w - eta_t (f(z) - y) z,

with the intercept not decayed. These are the defaults of scikit-learn's ``SGDClassifier``
(log loss, L2 penalty 1e-4, "optimal" step, whose t0 is 1,000 for this loss and penalty). Scores
come from a copy of the weights that is refreshed every ``refresh`` observations of the arm. Until
every arm has ``warm_up`` observations the effect is the optimistic ``prior_effect``.
"""

from __future__ import annotations

from typing import NamedTuple

from bccb.kernels.component import Component, Parameter
from bccb.kernels.jit import jit
from bccb.kernels.linalg import copy, dot, fill, row_dot, sigmoid
from bccb.kernels.soundness import LARGE, counted, within
from bccb.types import Floats

T0 = 1_000.0


class State(NamedTuple):
    """Two copies of the weights, and the observations of each arm."""

    alpha: float
    refresh: float
    warm_up: float
    prior_effect: float
    seen: Floats  # (K+1,)
    live: Floats  # (K+1, d+1), the intercept last
    scoring: Floats  # (K+1, d+1)


def size(d: int, K: int) -> int:
    """The number of slots."""
    return 4 + (K + 1) * (1 + 2 * (d + 1))


def sound(memory: Floats, d: int, K: int) -> bool:
    """Whether these can be weights and numbers of users."""
    state = view_estimator(memory, d, K)
    weights = within(state.live, -LARGE, LARGE) and within(state.scoring, -LARGE, LARGE)
    return weights and counted(state.seen)


@jit
def view_estimator(memory: Floats, d: int, K: int) -> State:
    """See the memory as State."""
    A, m = K + 1, d + 1
    weights = memory[4 + A : 4 + A + 2 * A * m].reshape(2, A, m)
    return State(
        memory[0], memory[1], memory[2], memory[3], memory[4 : 4 + A], weights[0], weights[1]
    )


@jit
def predict(estimator: State, z: Floats, effect: Floats, spread: Floats) -> bool:
    """tau_k = f_k - f_0, or the optimistic prior while any arm is in warm-up."""
    fill(spread, 0.0)
    for arm in range(estimator.seen.shape[0]):
        if estimator.seen[arm] < estimator.warm_up:
            fill(effect, estimator.prior_effect)
            return False
    f_0 = sigmoid(row_dot(estimator.scoring, 0, z))
    for k in range(effect.shape[0]):
        effect[k] = sigmoid(row_dot(estimator.scoring, k + 1, z)) - f_0
    return True


@jit
def learn_estimator(estimator: State, z: Floats, arm: int, y: float) -> None:
    """One gradient step of the arm's model."""
    w = estimator.live[arm]
    eta = 1.0 / (estimator.alpha * (T0 + estimator.seen[arm]))
    estimator.seen[arm] += 1.0
    gradient = eta * (sigmoid(dot(w, z)) - y)
    decay = 1.0 - estimator.alpha * eta
    d = z.shape[0] - 1
    for j in range(d):
        w[j] = decay * w[j] - gradient * z[j]
    w[d] -= gradient
    if estimator.seen[arm] % estimator.refresh == 0.0:
        copy(estimator.scoring[arm], w)


TWO_MODEL = Component(
    name="two-model",
    about="two-model SGD",
    parameters={
        "alpha": Parameter(1e-4, 1e-12, 1e3),
        "refresh": Parameter(50.0, 1.0, 1e9),
        "warm_up": Parameter(50.0, 0.0, 1e9),
        "prior_effect": Parameter(0.002, -1e6, 1e6),
    },
    size=size,
    sound=sound,
    reads="standardised",
    kernels={
        "view_estimator": view_estimator,
        "predict": predict,
        "learn_estimator": learn_estimator,
    },
)
