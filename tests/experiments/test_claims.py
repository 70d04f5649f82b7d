"""Verdicts follow from the figures: each claim is made to hold, to fail and to be open."""

from __future__ import annotations

from typing import Any

import pytest

from bccb.experiments import claims
from bccb.experiments.claims import RIVALS
from bccb.experiments.experiment import Claim
from bccb.policies import DEFAULT

Rows = list[dict[str, Any]]


def online(lead: float, p: float) -> Rows:
    rows: Rows = [{"budget": 10.0, "policy": "bccb", "mean": 50.0, "p": None}]
    rows += [{"budget": 10.0, "policy": name, "mean": 20.0, "p": 1e-6} for name in RIVALS]
    rows[1] |= {"mean": 50.0 - lead, "p": p}
    return rows


def sizes(found_at: int, failed: int) -> Rows:
    answers = {"difference": 1.0, "low": -1.0, "high": 3.0}
    return [
        {"n": n, **answers, "failed_fits": failed if n <= 1_000 else 0}
        for n in (500, 1_000, 5_000, 7_500, 10_000, 15_000)
    ]


def ratios(*values: float) -> Rows:
    return [{"n": i, "ratio": value} for i, value in enumerate(values)]


def variations(**values: float) -> Rows:
    plain = dict.fromkeys(("eta", "threshold", "least_pace", "prior_effect", "warm_up"), 0.01)
    return [{"parameter": name, "cv": value} for name, value in {**plain, **values}.items()]


def samples(*names: str) -> Rows:
    return [{"policy": name, "mean": 1_000.0 * (9 - i)} for i, name in enumerate(names)]


def naive(**gains: tuple[float, float]) -> Rows:
    """The default's difference to each naive rival, and p."""
    row = {"budget": 10.0, "policy": DEFAULT}
    return [
        {**row, "against": name.replace("_", "-"), "difference": gain, "p": p}
        for name, (gain, p) in gains.items()
    ]


ORDER = claims.SAMPLE_ORDER
AHEAD, TIED, BEHIND = (20.0, 1e-6), (0.4, 0.7), (-9.0, 0.01)


@pytest.mark.parametrize(
    ("claim", "verdict"),
    [
        (claims.best_at_every_budget(online(30, 1e-6)), "holds"),
        (claims.best_at_every_budget(online(1, 0.4)), "cannot tell"),
        (claims.best_at_every_budget(online(-9, 0.01)), "does not hold"),
        (claims.beyond_doubt(online(30, 1e-6)), "holds"),
        (claims.beyond_doubt(online(30, 0.002)), "does not hold"),
        (claims.beyond_doubt(online(-9, 1e-6)), "does not hold"),
        (claims.crossover_point(sizes(0, 0)[:3], None), "cannot tell"),
        (claims.steadier([{"n": 1, "ratio": None}], 20), "cannot tell"),
        (claims.steadier(ratios(3.62, 2.34), 20), "holds"),
        (claims.steadier(ratios(0.0, 3.0), 20), "does not hold"),
        (claims.robust([{"parameter": "eta", "cv": None}]), "cannot tell"),
        (claims.crossover_point(sizes(0, 0), 7_500), "holds"),
        (claims.crossover_point(sizes(0, 0), 10_000), "cannot tell"),
        (claims.crossover_point(sizes(0, 0), 15_000), "does not hold"),
        (claims.crossover_point(sizes(0, 0), None), "does not hold"),
        (claims.failure_on_little_history(sizes(0, 11), 20), "holds"),
        (claims.failure_on_little_history(sizes(0, 10), 20), "does not hold"),
        (claims.steadier(ratios(2.4, 3.5), 20), "holds"),
        (claims.steadier(ratios(2.0, 3.0), 20), "cannot tell"),
        (claims.steadier(ratios(1.1, 3.0), 20), "does not hold"),
        (claims.robust(variations(eta=0.5)), "holds"),
        (claims.robust(variations(eta=0.5, threshold=0.4)), "does not hold"),
        (claims.beyond_naive(naive(cheapest_first=AHEAD, response_first=AHEAD)), "holds"),
        (claims.beyond_naive(naive(cheapest_first=AHEAD, response_first=TIED)), "cannot tell"),
        (claims.beyond_naive(naive(cheapest_first=AHEAD)), "cannot tell"),
        (claims.beyond_naive([]), "cannot tell"),
        (claims.beyond_naive(naive(cheapest_first=BEHIND, response_first=TIED)), "does not hold"),
        (claims.sample_order(samples(*ORDER)), "holds"),
        (claims.sample_order(samples(*reversed(ORDER))), "does not hold"),
    ],
)
def test_a_verdict_follows_from_the_figures(claim: Claim, verdict: str) -> None:
    assert claim.verdict == verdict
    assert claim.figure


@pytest.mark.parametrize(
    ("gain", "p", "verdict"),
    [(30, 1e-6, "holds"), (-1, 0.6, "cannot tell"), (-9, 1e-3, "does not hold")],
)
def test_rankings_agree_or_not(gain: float, p: float, verdict: str) -> None:
    treated, incremental = online(30, 1e-6), online(gain, p)
    for row in incremental:
        row |= {"rank_treated": 1, "rank_incremental": 1 if gain > 0 else 2}
    assert claims.same_ranking(treated, incremental).verdict == verdict
