"""Fit the simulator's parameters on the Criteo uplift trial and write them as JSON.

The file holds derived figures alone (shares, quantiles, correlations, coefficients), never rows.
See :mod:`bccb.data.simulator` for the model. The same input gives the same bytes.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import norm, rankdata
from sklearn.linear_model import LogisticRegression

from bccb.data.simulator import Model, Pattern, draw_features, parse_model, response_basis
from bccb.types import Floats, Ints

Flags: TypeAlias = npt.NDArray[np.bool_]

NAMES = tuple(f"f{j}" for j in range(12))
GRID = np.array([-3.5, -2.0, -1.25, -0.6, 0.0, 0.6, 1.25, 2.0, 3.5])  # of G_sj, normal scale
TAIL = 3.9  # normal scores end here
LEAST_PATTERN = 40  # rarer patterns are left out: their figures would be single users'
LEAST_ATOM = 0.01  # a value with this share of the active users is kept as such
BASE_PENALTY, SHIFT_PENALTY = 3.0, 150.0  # ridge on standardised columns
PATTERN_USERS, CORRELATION_ROUNDS = 30_000, 6


def main() -> None:
    """Read the trial, fit, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "trial", type=Path, help="Parquet file: f0..f11, treatment, conversion, visit"
    )
    parser.add_argument("parameters", type=Path, help="JSON file to write")
    arguments = parser.parse_args()
    table = pl.read_parquet(arguments.trial)
    parameters = fit(table)
    text = json.dumps(parameters, indent=1)
    # One line for each list of numbers keeps the file small and its differences readable.
    text = re.sub(r"\[[^\[\]{}]*\]", lambda match: " ".join(match.group().split()), text)
    arguments.parameters.write_text(text + "\n", encoding="utf-8")


def fit(table: pl.DataFrame) -> dict[str, Any]:
    """All parameters, as ``criteo.json`` has them."""
    features = table.select(NAMES).to_numpy().astype(np.float64)
    actions = table["treatment"].to_numpy().astype(np.int64)
    visits = table["visit"].to_numpy().astype(np.int64)
    conversions = table["conversion"].to_numpy().astype(np.int64)
    modes = np.array([_mode(column) for column in features.T])
    active = features != modes
    scales = np.array([np.std(x[a]) for x, a in zip(features.T, active.T, strict=True)])
    scores = np.column_stack([_scores(x, a) for x, a in zip(features.T, active.T, strict=True)])
    basis = response_basis(features, modes, scales)
    visited = visits == 1
    parameters = {
        "source": f"Criteo Uplift v2.1 trial (CC-BY-NC-SA 4.0), {len(actions)} users",
        "treated_share": round(float(actions.mean()), 4),
        "grid": _rounded(GRID, 2),
        "features": [
            {"name": name, "mode": round(float(mode), 6), "scale": round(float(scale), 5)}
            | _quantiles(column[rows])
            for name, mode, scale, column, rows in zip(
                NAMES, modes, scales, features.T, active.T, strict=True
            )
        ],
        "patterns": _patterns(active, scores),
        "visit": _response(basis, actions, visits),
        "conversion": _response(basis[visited], actions[visited], conversions[visited]),
    }
    _match_correlations(parameters, features, active)
    rates = np.array([[y[actions == a].mean() for a in (0, 1)] for y in (visits, conversions)])
    _calibrate(parameters, rates)
    return parameters


def _rounded(values: Floats, digits: int) -> list[float]:
    return [round(float(value), digits) + 0.0 for value in values]


def _mode(values: Floats) -> float:
    levels, counts = np.unique(values, return_counts=True)
    return float(levels[np.argmax(counts)])


def _scores(values: Floats, rows: Flags) -> Floats:
    """Normal scores of the active values, ties spread at random; NaN for the others."""
    scores = np.full(values.shape, np.nan)
    low = rankdata(values[rows], method="min") - 1
    high = rankdata(values[rows], method="max")
    ranks = low + (high - low) * np.random.default_rng(0).random(len(low))
    scores[rows] = np.clip(norm.ppf(ranks / len(ranks)), -TAIL, TAIL)
    return scores


def _quantiles(values: Floats) -> dict[str, list[float]]:
    """The quantile function: linear pieces, and a flat one for each value that is an atom."""
    values = np.sort(values)
    levels, counts = np.unique(values, return_counts=True)
    ends = np.cumsum(counts) / len(values)
    atoms = counts >= LEAST_ATOM * len(values)
    starts = ends - counts / len(values)
    smooth = norm.cdf(np.linspace(-TAIL, TAIL, 40))
    inside = ((smooth[:, None] >= starts[atoms]) & (smooth[:, None] <= ends[atoms])).any(axis=1)
    smooth = smooth[~inside]
    points = np.concatenate((smooth, starts[atoms], ends[atoms]))
    heights = np.concatenate((np.quantile(values, smooth), levels[atoms], levels[atoms]))
    order = np.lexsort((heights, points))
    scores = np.clip(norm.ppf(points[order]), -TAIL, TAIL)
    return {"scores": _rounded(scores, 4), "values": _rounded(heights[order], 6)}


def _patterns(active: Flags, scores: Floats) -> list[dict[str, Any]]:
    """Share, active features, knots and correlations of each pattern, the largest first."""
    codes = active @ (1 << np.arange(active.shape[1]))
    kinds, counts = np.unique(codes, return_counts=True)
    patterns = []
    for kind, count in sorted(zip(kinds, counts, strict=True), key=lambda pair: -pair[1]):
        if count < LEAST_PATTERN:
            continue
        columns = np.flatnonzero((kind >> np.arange(active.shape[1])) & 1)
        inside = scores[np.ix_(codes == kind, columns)]
        patterns.append(
            {
                "share": round(count / len(codes), 6),
                "active": [int(column) for column in columns],
                "knots": [_rounded(np.quantile(z, norm.cdf(GRID)), 3) for z in inside.T],
                "correlation": [0.0] * (len(columns) * (len(columns) - 1) // 2),
            }
        )
    return patterns


def _match_correlations(parameters: dict[str, Any], features: Floats, active: Flags) -> None:
    """Set each copula so that the features correlate as in the trial.

    Ties and bent marginals weaken a copula's correlation on the way to the features. So each
    round adds what is missing: R <- R + corr(trial) - corr(simulated).
    """
    model = parse_model(parameters)
    for pattern, described in zip(model.patterns, parameters["patterns"], strict=True):
        columns, size = pattern.active, len(pattern.active)
        if size < 2:
            continue
        rows = (active == np.isin(np.arange(active.shape[1]), columns)).all(axis=1)
        target = _correlation(features[rows][:, columns])
        copula = _positive(target)
        for _ in range(CORRELATION_ROUNDS):
            alone = pattern._replace(root=np.asarray(np.linalg.cholesky(copula), np.float64))
            draws = _draw_pattern(model, alone, np.random.default_rng(0))
            copula = _positive(copula + target - _correlation(draws[:, columns]))
        described["correlation"] = _rounded(copula[np.tril_indices(size, -1)], 3)


def _draw_pattern(model: Model, pattern: Pattern, generator: np.random.Generator) -> Floats:
    """Users of one pattern alone."""
    alone = model._replace(shares=np.ones(1), patterns=(pattern,))
    return draw_features(alone, PATTERN_USERS, generator)


def _correlation(features: Floats) -> Floats:
    return np.atleast_2d(np.corrcoef(features, rowvar=False))


def _positive(matrix: Floats) -> Floats:
    """The matrix with its eigenvalues raised to 0.01 and its diagonal to 1."""
    values, vectors = np.linalg.eigh(matrix)
    raised = (vectors * np.maximum(values, 0.01)) @ vectors.T
    scale = np.sqrt(np.diag(raised))
    return np.asarray(raised / np.outer(scale, scale))


def _response(basis: Floats, actions: Ints, outcomes: Ints) -> dict[str, Any]:
    """Ridge logistic regression on (b, h) and a (b, h), the penalty on the latter the heavier."""
    spread = np.maximum(basis.std(axis=0), 1e-3)
    base = basis / spread
    shrink = np.sqrt(BASE_PENALTY / SHIFT_PENALTY)
    columns = np.hstack((base, shrink * actions[:, None] * base, actions[:, None]))
    model = LogisticRegression(C=1 / BASE_PENALTY, solver="newton-cholesky", tol=1e-9)
    model.fit(columns, outcomes)
    width = basis.shape[1]
    coefficients = model.coef_[0]
    return {
        "intercepts": [0.0, 0.0],
        "base": _rounded(coefficients[:width] / spread, 4),
        "shift": _rounded(shrink * coefficients[width : 2 * width] / spread, 4),
    }


def _calibrate(parameters: dict[str, Any], rates: Floats) -> None:
    """Set the intercepts so that simulated users visit and convert at the trial's rates.

    As many users of every pattern, weighted by its share: most conversions are in rare patterns.
    """
    model = parse_model(parameters)
    generator = np.random.default_rng(0)
    features = np.vstack([_draw_pattern(model, one, generator) for one in model.patterns])
    basis = response_basis(features, model.modes, model.scales)
    reached = np.tile(np.repeat(model.shares / PATTERN_USERS, PATTERN_USERS), (2, 1))
    for stage, field in enumerate(("visit", "conversion")):
        response = getattr(model, field)
        for arm in (0, 1):
            logits = basis @ (response.base + arm * response.shift)
            intercept = _intercept(logits, reached[arm], rates[stage, arm])
            parameters[field]["intercepts"][arm] = intercept
            reached[arm] *= expit(logits + intercept)


def _intercept(logits: Floats, weights: Floats, rate: float) -> float:
    """The intercept with which the weighted mean of the probabilities is the rate."""
    return round(float(brentq(lambda a: weights @ expit(logits + a) - rate, -20.0, 20.0)), 4)


if __name__ == "__main__":
    main()
