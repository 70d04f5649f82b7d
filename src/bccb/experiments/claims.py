"""The paper's claims, with a verdict on each: holds, does not hold, or cannot tell."""

from __future__ import annotations

from collections.abc import Sequence

from bccb.evaluate.statistics import LEVEL, load_stats
from bccb.experiments.experiment import Claim, Verdict
from bccb.policies import DEFAULT, NAIVE
from bccb.report.looks import OURS
from bccb.report.rows import Row

RIVALS = ("thompson", "budgeted-thompson", "hte-greedy", "uplifting-bandit")
CROSSOVER = 7_500
RATIOS = (2.3, 3.6)
LEAST_SEEDS = 5
ROBUST = 0.3  # a coefficient of variation below this counts as robust
SAMPLE_ORDER = ("bccb", "budgeted-thompson", "hte-greedy", "thompson")


def best_at_every_budget(rows: Sequence[Row]) -> Claim:
    """Ours has the highest mean of the online methods at every budget, beyond chance."""
    behind, unsure = [], []
    for row in _rivals(rows):
        lead = _figure(rows, "mean", OURS, row["budget"]) - row["mean"]
        text = f"{row['policy']} at {row['budget']:,.0f} by {abs(lead):.1f} (p = {row['p']:.2g})"
        if row["p"] >= LEVEL:
            unsure.append(f"tied with {text}")
        elif lead < 0:
            behind.append(f"behind {text}")
    verdict: Verdict = "does not hold" if behind else "cannot tell" if unsure else "holds"
    figure = "; ".join(behind + unsure)
    return Claim("bccb is the best online method at every budget", verdict, figure or "all ahead")


def beyond_doubt(rows: Sequence[Row]) -> Claim:
    """P < 0.001 against each online method at every budget."""
    worst = max(_rivals(rows), key=lambda row: float(row["p"]))
    behind = any(row["mean"] > _figure(rows, "mean", OURS, row["budget"]) for row in _rivals(rows))
    verdict: Verdict = "holds" if worst["p"] < 0.001 and not behind else "does not hold"
    figure = f"largest p = {worst['p']:.2g}, {worst['policy']} at {worst['budget']:,.0f}"
    return Claim("the lead has p < 0.001 at every comparison", verdict, figure)


def crossover_point(rows: Sequence[Row], found_at: int | None) -> Claim:
    """Offline overtakes at n = 7,500."""
    text, sizes = "offline overtakes bccb at n = 7,500", [row["n"] for row in rows]
    if CROSSOVER not in sizes:
        return Claim(text, "cannot tell", f"the largest history is {max(sizes):,}")
    steps = abs(sizes.index(found_at) - sizes.index(CROSSOVER)) if found_at in sizes else None
    verdict: Verdict = "holds" if steps == 0 else "cannot tell" if steps == 1 else "does not hold"
    at = rows[sizes.index(CROSSOVER)]
    figure = f"found at {found_at:,}" if found_at else "none found"
    figure += f"; at {CROSSOVER:,} the difference is {at['difference']:+.1f}"
    return Claim(text, verdict, f"{figure} [{at['low']:+.1f}, {at['high']:+.1f}]")


def failure_on_little_history(rows: Sequence[Row], seeds: int) -> Claim:
    """Offline fits mostly fail up to n = 1,000."""
    failed = {row["n"]: row["failed_fits"] for row in rows if row["n"] <= 1_000}
    verdict: Verdict = (
        "holds" if all(2 * count > seeds for count in failed.values()) else "does not hold"
    )
    figure = ", ".join(f"{count} of {seeds} at {n:,}" for n, count in failed.items())
    return Claim("offline fits mostly fail up to n = 1,000", verdict, f"failed: {figure}")


def steadier(rows: Sequence[Row], seeds: int) -> Claim:
    """Ours varies 2.3 to 3.6 times less from run to run."""
    reach = float(load_stats().f.ppf(1 - LEVEL / 2, seeds - 1, seeds - 1)) ** 0.5
    text = "bccb's deviation is 2.3 to 3.6 times lower than offline's"
    ratios = [row["ratio"] for row in rows if row["ratio"] is not None]
    if not ratios:
        return Claim(text, "cannot tell", "no size to compare")
    inside = all(RATIOS[0] <= round(ratio, 1) <= RATIOS[1] for ratio in ratios)
    touching = all(ratio / reach <= RATIOS[1] and ratio * reach >= RATIOS[0] for ratio in ratios)
    verdict: Verdict = "holds" if inside else "cannot tell" if touching else "does not hold"
    figure = f"ratios {min(ratios):.2f} to {max(ratios):.2f}, each within a factor {reach:.2f}"
    return Claim(text, verdict, figure)


def robust(rows: Sequence[Row]) -> Claim:
    """Only the exploration weight needs care."""
    text = "bccb is robust to four of its five parameters"
    if any(row["cv"] is None for row in rows):
        return Claim(text, "cannot tell", "no conversions")
    variation = {row["parameter"]: row["cv"] for row in rows}
    fragile = [name for name, value in variation.items() if value >= ROBUST]
    verdict: Verdict = "holds" if fragile in ([], ["eta"]) else "does not hold"
    figure = ", ".join(f"{name} {value:.2f}" for name, value in variation.items())
    return Claim(text, verdict, f"variation, robust below {ROBUST:g}: {figure}")


def sample_order(rows: Sequence[Row]) -> Claim:
    """The order of effective sample sizes."""
    sizes = {row["policy"]: row["mean"] for row in rows}
    order = sorted(SAMPLE_ORDER, key=lambda name: -sizes[name])
    verdict: Verdict = "holds" if tuple(order) == SAMPLE_ORDER else "does not hold"
    figure = " > ".join(f"{name} {sizes[name]:,.0f}" for name in order)
    return Claim("sample sizes are ordered bccb, budgeted, greedy, Thompson", verdict, figure)


def same_ranking(treated: Sequence[Row], incremental: Sequence[Row]) -> Claim:
    """Ranking by treated conversions equals ranking by incremental ones."""
    apart, surely = [], []
    for row in _rivals(incremental):
        budget = row["budget"]
        gain = _figure(incremental, "mean", OURS, budget) - row["mean"]
        lead = _figure(treated, "mean", OURS, budget)
        lead -= _figure(treated, "mean", row["policy"], budget)
        if gain * lead < 0:
            apart.append(f"{row['policy']} at {budget:,.0f}")
            if max(row["p"], _figure(treated, "p", row["policy"], budget)) < LEVEL:
                surely.append(apart[-1])
    others = sum(row["rank_treated"] != row["rank_incremental"] for row in incremental)
    verdict: Verdict = "does not hold" if surely else "cannot tell" if others else "holds"
    against = f"against bccb {len(apart)}, surely {len(surely)}"
    figure = f"{others} of {len(incremental)} ranks differ; {against}"
    return Claim("treated and incremental conversions rank the methods alike", verdict, figure)


def beyond_naive(rows: Sequence[Row]) -> Claim:
    """Our default causes more than the policies that ignore effects, at every budget."""
    text, behind, unsure, ranges = f"{DEFAULT} causes more than by ignoring effects", [], [], []
    for rival in NAIVE:
        own = [row for row in rows if (row["policy"], row["against"]) == (DEFAULT, rival)]
        behind += [row for row in own if row["p"] < LEVEL and row["difference"] < 0]
        unsure += [row for row in own if row["p"] >= LEVEL]
        if own:
            gains = [float(row["difference"]) for row in own]
            worst = max(float(row["p"]) for row in own)
            span = f"{min(gains):+.1f} to {max(gains):+.1f}, largest p = {worst:.2g}"
            ranges.append(f"beside {rival} {span}")
    open_ = unsure or len(ranges) < len(NAIVE)
    verdict: Verdict = "does not hold" if behind else "cannot tell" if open_ else "holds"
    return Claim(text, verdict, "; ".join(ranges) or "not run")


def _rivals(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row["policy"] in RIVALS]


def _figure(rows: Sequence[Row], figure: str, policy: str, budget: float) -> float:
    return next(
        float(row[figure]) for row in rows if (row["policy"], row["budget"]) == (policy, budget)
    )
