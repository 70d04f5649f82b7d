"""A simulator with known truth, calibrated on the Criteo uplift trial.

A feature of that trial sits at one value, its mode, for most users; it is *active* where it does
not. Which features are active says most about a user, so the model has two levels:

1. pattern s (which features are active) ~ Categorical(shares);
2. within a pattern a Gaussian copula: e ~ N(0, R_s), then x_j = Q_j(G_sj(e_j)) for the active
   features, with Q_j the quantile function of the active values of feature j and G_sj what
   pattern s does to it, both of them piecewise linear on the normal scale; x_j = mode_j for the
   others.

With b_j = 1[x_j != mode_j], h_j = log(1 + |x_j - mode_j| / scale_j) and a = 0, 1 the arm,

    logit P(visit | x, a)                = alpha_a + (b, h) . beta  + a (b, h) . gamma
    logit P(conversion | visit, x, a)    = alpha'_a + (b, h) . beta' + a (b, h) . gamma'

and there is no conversion without a visit. With drift the second half of the users responds in
another way: with p(x) the rate of the treated above and q(x) the same with the coefficients of the
features in reverse order, the user who ranks i-th by q(x) / p(x) has both rates of the user who
ranks i-th by p(x). So those who responded most respond least, rates and effects are as they were
in the mean and in their spread, and they can be learned as well as before.

``scripts/fit_simulator.py`` fits the parameters, ``criteo.json`` holds them.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from bccb import checks
from bccb.data import costs
from bccb.errors import InputError
from bccb.types import Floats, Ints, Log

Outcome: TypeAlias = Literal["conversion", "visit"]

BLOCK = 50_000  # users drawn at a time: work arrays stay small whatever the number of users
MOST_USERS = 1_000_000_000
STREAM = 1  # keeps these draws apart from those of the costs, which use the seed alone
WEAKER, CHEAPER = 0.7, 0.5  # each further treatment against the one before: effect, cost


def simulate(
    users: int,
    seed: int = 0,
    outcome: Outcome = "conversion",
    treatments: int = 1,
    drift: bool = False,
) -> Log:
    """Draw the log of a randomised trial whose true effects are known.

    Treatment 1 is the trial's own. Treatment k has 0.7^(k-1) of its effect on every user, at
    costs that are 0.5^(k-1) of the paper's. The treatments share the treated part equally.
    With ``drift`` others respond from the middle of the log on; the effects are the true ones.

    >>> log = simulate(1000, seed=7)
    >>> log.features.shape, log.known_shares.round(4).tolist(), log.effects.shape
    ((1000, 12), [0.1496, 0.8504], (1000, 1))
    """
    _check(users, seed, outcome, treatments)
    model = load_model()
    generator = np.random.default_rng((seed, STREAM))
    features, rates = _draw_users(model, users, outcome, generator)
    if drift:
        second = slice(users // 2, users)
        rates[:, second] = changed_rates(model, features[second], rates[:, second], outcome)
    control, treated = rates
    power = np.arange(treatments)
    effects = (treated - control)[:, None] * WEAKER**power
    shares = np.full(treatments + 1, model.treated_share / treatments)
    shares[0] = 1 - model.treated_share
    actions = np.searchsorted(np.cumsum(shares)[:-1], generator.random(users), side="right")
    shifts = np.column_stack((np.zeros(users), effects))
    rate = control + shifts[np.arange(users), actions]
    return Log(
        features=features,
        actions=actions,
        outcomes=generator.random(users) < rate,
        micros=costs.lognormal(
            users, treatments, seed, scale=np.power(CHEAPER, power, dtype=np.float64)
        ),
        feature_names=model.names,
        known_shares=shares,
        effects=effects,
    )


def _check(users: int, seed: int, outcome: str, treatments: int) -> None:
    for field, value, least, most in (
        ("users", users, 1, MOST_USERS),
        ("seed", seed, 0, 2**63 - 1),
        ("treatments", treatments, 1, 100),
    ):
        checks.whole(field, value, least, most)
    if not isinstance(outcome, str) or outcome not in get_args(Outcome):
        raise InputError("outcome", outcome, "'conversion' or 'visit'")


class Pattern(NamedTuple):
    """Users with the same active features: m of them active, q points of the normal scale."""

    active: Ints  # (m,), which features
    knots: Floats  # (m, q), G_sj at the model's grid
    root: Floats  # (m, m), the Cholesky factor of the copula's correlation R_s


class Response(NamedTuple):
    """A logistic response: the intercept of each arm, and the coefficients of (b, h)."""

    intercepts: Floats  # (2,), control and treated
    base: Floats  # (2 d,), beta
    shift: Floats  # (2 d,), gamma, what the treatment adds


class Model(NamedTuple):
    """The parameters of the simulator, d features."""

    names: tuple[str, ...]
    treated_share: float
    modes: Floats  # (d,)
    scales: Floats  # (d,)
    quantiles: tuple[tuple[Floats, Floats], ...]  # Q_j: normal scores and values, for each feature
    grid: Floats  # (q,), the points of the normal scale at which G_sj is given
    shares: Floats  # of the patterns
    patterns: tuple[Pattern, ...]
    visit: Response
    conversion: Response  # given a visit


@cache
def load_model() -> Model:
    """The committed parameters."""
    text = (resources.files("bccb") / "data" / "criteo.json").read_text(encoding="utf-8")
    return parse_model(json.loads(text))


def parse_model(parameters: dict[str, Any]) -> Model:
    """The model that the parameters, as ``criteo.json`` has them, describe."""
    features, patterns = parameters["features"], parameters["patterns"]
    shares = np.array([pattern["share"] for pattern in patterns])
    return Model(
        names=tuple(feature["name"] for feature in features),
        treated_share=parameters["treated_share"],
        modes=np.array([feature["mode"] for feature in features]),
        scales=np.array([feature["scale"] for feature in features]),
        quantiles=tuple(
            (np.array(feature["scores"]), np.array(feature["values"])) for feature in features
        ),
        grid=np.array(parameters["grid"]),
        shares=shares / shares.sum(),
        patterns=tuple(_parse_pattern(pattern) for pattern in patterns),
        visit=_parse_response(parameters["visit"]),
        conversion=_parse_response(parameters["conversion"]),
    )


def _parse_pattern(pattern: dict[str, Any]) -> Pattern:
    size = len(pattern["active"])
    correlation = np.eye(size)
    correlation[np.tril_indices(size, -1)] = pattern["correlation"]
    # Cholesky reads the lower triangle alone.
    root = np.asarray(np.linalg.cholesky(correlation), dtype=np.float64)
    return Pattern(np.array(pattern["active"], np.int64), np.array(pattern["knots"]), root)


def _parse_response(response: dict[str, Any]) -> Response:
    return Response(*(np.array(response[field]) for field in Response._fields))


def _draw_users(
    model: Model, users: int, outcome: Outcome, generator: np.random.Generator
) -> tuple[Floats, Floats]:
    """Features, of shape (n, d), and rates of both arms, of shape (2, n), a block at a time."""
    features, rates = np.empty((users, len(model.modes))), np.empty((2, users))
    for start in range(0, users, BLOCK):
        rows = slice(start, min(start + BLOCK, users))
        features[rows] = draw_features(model, rows.stop - start, generator)
        rates[:, rows] = outcome_rates(model, features[rows], outcome)
    return features, rates


def draw_features(model: Model, users: int, generator: np.random.Generator) -> Floats:
    """Draw the features of users from the patterns and their copulas, of shape (n, d)."""
    bounds = np.cumsum(model.shares)[:-1]
    pattern_of = np.searchsorted(bounds, generator.random(users), side="right")
    noise = generator.standard_normal((users, len(model.modes)))
    scores = np.full(noise.shape, np.nan)
    order = np.argsort(pattern_of, kind="stable")
    ends = np.cumsum(np.bincount(pattern_of, minlength=len(model.patterns)))
    for pattern, rows in zip(model.patterns, np.split(order, ends[:-1]), strict=True):
        correlated = noise[rows, : len(pattern.active)] @ pattern.root.T
        for column, (feature, knots) in enumerate(zip(pattern.active, pattern.knots, strict=True)):
            scores[rows, feature] = np.interp(correlated[:, column], model.grid, knots)
    features = np.tile(model.modes, (users, 1))
    for feature, (points, values) in enumerate(model.quantiles):
        active = ~np.isnan(scores[:, feature])
        features[active, feature] = np.interp(scores[active, feature], points, values)
    return features


def outcome_rates(model: Model, features: Floats, outcome: Outcome) -> Floats:
    """P(outcome | x, a) for the arms a = 0 (control) and 1 (treated), of shape (2, n)."""
    basis = response_basis(features, model.modes, model.scales)
    rates = _response_rates(model.visit, basis)
    if outcome == "conversion":
        rates *= _response_rates(model.conversion, basis)
    return rates


def changed_rates(model: Model, features: Floats, rates: Floats, outcome: Outcome) -> Floats:
    """The same rates, of shape (2, n), handed round among the users, as after a drift."""
    visit, conversion = _reversed(model.visit), _reversed(model.conversion)
    other = model._replace(visit=visit, conversion=conversion)
    ratio = np.empty(len(features))
    for start in range(0, len(features), BLOCK):
        rows = slice(start, start + BLOCK)
        ratio[rows] = outcome_rates(other, features[rows], outcome)[1] / rates[1, rows]
    changed = np.empty_like(rates)
    takers, givers = (np.argsort(index, kind="stable") for index in (ratio, rates[1]))
    changed[:, takers] = rates[:, givers]
    return changed


def _reversed(response: Response) -> Response:
    """Each feature with the coefficients of its opposite: the first with those of the last."""
    base, shift = (part.reshape(2, -1)[:, ::-1].ravel() for part in (response.base, response.shift))
    return Response(response.intercepts, base, shift)


def response_basis(features: Floats, modes: Floats, scales: Floats) -> Floats:
    """The columns (b, h): is the feature active, and how far from its mode, of shape (n, 2 d)."""
    distances = np.abs(features - modes)
    return np.hstack((distances > 0, np.log1p(distances / scales)))


def _response_rates(response: Response, basis: Floats) -> Floats:
    base, shift = basis @ response.base, basis @ response.shift
    logits = np.stack((base, base + shift)) + response.intercepts[:, None]
    return np.asarray(1 / (1 + np.exp(-logits)))
