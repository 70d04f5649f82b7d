r"""Pooled trees: the pooled logistic regression, with two scores of boosted trees as more features.

When the number of outcomes has doubled, trees are fitted on all that is in the store, with the arm
as one more feature: F(x, k). Their scores

    base score F(x, 0),    lift score of treatment k F(x, k) - F(x, 0),

each less its average, become features of the pooled model (:mod:`.pooled_logistic`): u(z) has the
base score, r(z) of treatment k its lift score. The model learns all rows again, from the prior, and
goes on from there. So it keeps what it is good at, exploration, calibration and probabilities, and
where trees know nothing their weights stay near zero.

Trees that have seen a row know its outcome. So the rows are in FOLDS folds, each with trees fitted
on the others: a row in the store has the scores of the trees that did not see it, and a new user
has the average over all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, NamedTuple

import numpy as np

from bccb.errors import FitError
from bccb.estimators import pooled_logistic, pooled_prior, trees
from bccb.estimators.pooled_logistic import (
    PARAMETERS,
    kernels_with,
    write_base,
    write_features,
)
from bccb.estimators.pooled_prior import Prior, prior_mean
from bccb.estimators.pooled_prior import prior_variance as pooled_variance
from bccb.estimators.trees import raw_score, value_of
from bccb.kernels.component import FIRST_FIT, Component, Parameter
from bccb.kernels.jit import bind, jit
from bccb.kernels.layout import Layout
from bccb.kernels.linalg import fill
from bccb.kernels.scaling import Scaler, standardise_and_keep, view_scaler
from bccb.kernels.soundness import LARGE, counted, within
from bccb.kernels.store import Rows
from bccb.types import Flags, Floats, Ints

FOLDS, TREES, DEPTH, RATE = 3, 60, 4, 0.2
LEAVES = 1 << DEPTH
FORKS = LEAVES - 1
FAR_SCORE = 4.0  # logits at which scores are cut


class State(NamedTuple):
    """The pooled model's, with m = 2d + 2 and q = d + 3, and trees."""

    base_spread: float
    lift: float
    lift_spread: float
    lift_variation: float
    lift_slope: float
    prior_strength: float
    optimism: float
    forgetting: float
    score_spread: float
    lift_score_spread: float
    first_fit: float
    theta: Annotated[Floats, "D"]
    covariance: Annotated[Floats, "D", "D"]
    variances: Annotated[Floats, "K", "q - 1"]
    step: Annotated[Floats, "1"]
    base: Annotated[Floats, "3"]
    treated: Annotated[Floats, "K"]
    effect: Annotated[Floats, "K"]
    gradient: Annotated[Floats, "K", "q"]
    grown: Annotated[Floats, "1"]  # 1 once there are trees
    centre: Annotated[Floats, "K + 1"]  # the average of each score
    start: Annotated[Floats, "FOLDS"]
    feature: Annotated[Floats, "FOLDS", "TREES", "FORKS"]  # of d features, then the arm
    threshold: Annotated[Floats, "FOLDS", "TREES", "FORKS"]
    leaf: Annotated[Floats, "FOLDS", "TREES", "LEAVES"]
    asking: Annotated[Floats, "FOLDS", "TREES + 1"]  # how many trees compare the arm, and which
    u: Annotated[Floats, "m"]  # work space
    r: Annotated[Floats, "q"]  # work space
    g: Annotated[Floats, "q"]  # work space
    column: Annotated[Floats, "D"]  # work space
    x: Annotated[Floats, "d + 1"]  # work space: features as given, then an arm
    scores: Annotated[Floats, "K + 1"]  # work space: the scores of x
    fresh: Annotated[Floats, "1"]  # work space: 1 if they are those of x by all trees


LAYOUT = Layout(State, m="2 * d + 2", q="d + 3", D="m + K * q")


# Inputs


@jit
def write_scores(state: State, fold: int) -> None:
    """Write the scores of x by the trees of one fold, or of all if it is negative.

    Most trees do not compare the arm, and have no part in lifts.
    """
    x, scores, d = state.x, state.scores, state.x.shape[0] - 1
    first, last = (0, FOLDS) if fold < 0 else (fold, fold + 1)
    share = 1.0 / (last - first)
    fill(scores, 0.0)
    for f in range(first, last):
        feature, threshold, leaf = state.feature[f], state.threshold[f], state.leaf[f]
        x[d] = 0.0
        scores[0] += share * raw_score(state.start[f], feature, threshold, leaf, x, DEPTH)
        for i in range(int(state.asking[f, 0])):
            t = min(int(state.asking[f, 1 + i]), TREES - 1)
            x[d] = 0.0
            alone = value_of(t, feature, threshold, leaf, x, DEPTH)
            for arm in range(1, scores.shape[0]):
                x[d] = arm
                treated = value_of(t, feature, threshold, leaf, x, DEPTH)
                scores[arm] += share * (treated - alone)


@jit
def write_inputs(state: State, z: Floats) -> float:
    """Write u(z) and r(z), with scores by all trees; return the base score w . u.

    Going down all trees takes as long as the rest. Who was decided on last is often who is learned
    from next, so that the last scores are kept.
    """
    d = (z.shape[0] - 1) // 2
    if state.grown[0] > 0.0:
        same = state.fresh[0] > 0.0
        for j in range(d):
            same = same and state.x[j] == z[d + 1 + j]
            state.x[j] = z[d + 1 + j]
        if not same:
            write_scores(state, -1)
            state.fresh[0] = 1.0
    return write_given(state, z)


@jit
def write_given(state: State, z: Floats) -> float:
    """Write u(z) and r(z), with scores that are given; return the base score w . u."""
    d = (z.shape[0] - 1) // 2
    write_features(state, z, d)
    state.u[2 * d] = min(max(state.scores[0] - state.centre[0], -FAR_SCORE), FAR_SCORE)
    return write_base(state, d)


@jit
def write_lift(state: State, k: int) -> None:
    """Write the lift score of treatment k + 1."""
    score = state.scores[k + 1] - state.centre[k + 1]
    state.r[state.r.shape[0] - 2] = min(max(score, -FAR_SCORE), FAR_SCORE)


# The prior


@jit
def default_variance(state: State, place: int) -> float:
    """The first prior variance at a place of r(z): a feature, the base score, the lift score."""
    d = state.r.shape[0] - 3
    if place == d + 1:
        return state.lift_score_spread**2
    return state.lift_slope**2 if place == d else state.lift_variation**2 / d


@jit
def prior_variance(state: State, i: int) -> float:
    """The prior variance of weight i."""
    if i == state.u.shape[0] - 2:
        return state.score_spread**2
    return pooled_variance(state, i)


PRIOR = Prior(prior_mean, prior_variance, default_variance)
OWN = {
    "write_inputs": write_inputs,
    "write_lift": write_lift,
    "prior_variance": prior_variance,
    "default_variance": default_variance,
}
KERNELS = kernels_with("pooled-trees", OWN)
learn_given: Callable[..., None] = bind(
    pooled_logistic.learn_estimator, "pooled-trees-given", {**KERNELS, "write_inputs": write_given}
)


def start(memory: Floats, d: int, K: int) -> None:
    """The prior, without trees."""
    pooled_prior.begin(LAYOUT.view(memory, d, K), PRIOR)


def sound(memory: Floats, d: int, K: int) -> bool:
    """Whether memory holds a posterior, averages over users, and trees."""
    state = LAYOUT.view(memory, d, K)
    return (
        pooled_prior.is_sound(state, PRIOR)
        and trees.sound(state.start, state.feature, state.leaf, d)
        and counted(state.asking.ravel())
        and within(state.asking, 0.0, TREES)
        and within(np.append(state.grown, state.fresh), 0.0, 1.0)
        and within(state.centre, -LARGE, LARGE)
        and within(state.scores, -LARGE, LARGE)
    )


# Fitting


def refit(estimator: Floats, scaler: Floats, d: int, K: int, rows: Rows) -> Floats:
    """A new memory: trees fitted on the rows, and a pooled model that has learned them again."""
    folds = rows.number % FOLDS
    check(d, K, rows, folds)
    memory = np.zeros(LAYOUT.size(d, K))
    memory[: len(POOLED_TREES.parameters)] = estimator[: len(POOLED_TREES.parameters)]
    start(memory, d, K)
    state = LAYOUT.view(memory, d, K)
    inputs: Floats = np.column_stack((rows.x, rows.arm.astype(np.float64)))
    edges = [trees.edges_of(inputs[:, j]) for j in range(d + 1)]
    inputs = trees.binned(inputs, edges)
    for fold in range(FOLDS):
        own = state.feature[fold], state.threshold[fold], state.leaf[fold]
        y, x, weights = labelled(inputs, rows, folds != fold)
        model = trees.classifier(x, y, TREES, DEPTH, weights, RATE)
        state.start[fold] = trees.write(model, *own, edges)
        asking = np.flatnonzero((state.feature[fold] == d).any(axis=1))
        state.asking[fold, 0] = len(asking)
        state.asking[fold, 1 : 1 + len(asking)] = asking
    state.grown[0] = 1.0
    scores = np.empty((len(rows.b), K + 1))
    score_rows(state, rows.x, folds, scores)
    state.centre[:] = np.average(scores, axis=0, weights=rows.b)
    learn_rows(state, view_scaler(scaler, d), rows.x, rows.arm, rows.a, rows.b, scores)
    return memory


def check(d: int, K: int, rows: Rows, folds: Ints) -> None:
    """Refuse rows that do not allow a fit."""
    if d == 0:
        raise FitError("there are no features: nothing to fit")
    for fold in range(FOLDS):
        others = folds != fold
        missing = np.setdiff1d(np.arange(K + 1), rows.arm[others])
        if missing.size:
            raise FitError(f"no user in arm {missing[0]}: nothing to fit")
        if not (rows.a[others] > 0.0).any() or not (rows.a[others] < rows.b[others]).any():
            raise FitError("all users have the same outcome: nothing to fit")


def labelled(inputs: Floats, rows: Rows, chosen: Flags) -> tuple[Floats, Floats, Floats]:
    """Outcomes, inputs and weights: evidence (a, b) is a conversions and b - a others."""
    yes, no = chosen & (rows.a > 0.0), chosen & (rows.a < rows.b)
    y = np.repeat([1.0, 0.0], [np.count_nonzero(yes), np.count_nonzero(no)])
    weights = np.concatenate((rows.a[yes], (rows.b - rows.a)[no]))
    return y, np.concatenate((inputs[yes], inputs[no])), weights


@jit
def score_rows(state: State, xs: Floats, folds: Ints, scores: Floats) -> None:
    """The scores of rows, each by the trees that did not see it."""
    for i in range(xs.shape[0]):
        for j in range(xs.shape[1]):
            state.x[j] = xs[i, j]
        write_scores(state, folds[i])
        for arm in range(scores.shape[1]):
            scores[i, arm] = state.scores[arm]


@jit
def learn_rows(
    state: State, scaler: Scaler, xs: Floats, arms: Ints, a: Floats, b: Floats, scores: Floats
) -> None:
    """Learn rows with given scores, one after the other."""
    z = np.empty(2 * xs.shape[1] + 1)
    for i in range(xs.shape[0]):
        standardise_and_keep(scaler, xs[i], z)
        for arm in range(scores.shape[1]):
            state.scores[arm] = scores[i, arm]
        learn_given(state, z, arms[i], a[i], b[i])


POOLED_TREES = Component(
    name="pooled-trees",
    about="pooled trees",
    parameters={
        **PARAMETERS,
        "score_spread": Parameter(
            1.0, 1e-6, 1e3, "how much the trees' base score may count, in logits per logit"
        ),
        "lift_score_spread": Parameter(
            0.7, 1e-6, 1e3, "how much the trees' lift score may count, in logits per logit"
        ),
        FIRST_FIT: Parameter(
            2_000.0,
            10.0,
            1e9,
            "outcomes before trees are fitted for the first time; then whenever there are twice as "
            "many",
        ),
    },
    layout=LAYOUT,
    start=start,
    sound=sound,
    reads="robust and raw",
    refit=refit,
    check_installed=trees.check_installed,
    kernels={
        key: KERNELS[key]
        for key in ("predict", "learn_estimator", "rate_of", "effect_of", "sum_effects")
    },
)
