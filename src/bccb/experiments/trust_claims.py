"""The claims that ``bccb trust`` judges: holds, does not hold, or cannot tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bccb.evaluate.statistics import LEVEL, load_stats, paired_t, share_interval
from bccb.experiments.experiment import Claim, Verdict
from bccb.experiments.trust import LEAST_SEEDS, ORACLE, UNRESERVED, Setup, begins_cold
from bccb.experiments.trust_caused import AFTER_HISTORY
from bccb.experiments.trust_tables import NAMES, over_seeds
from bccb.experiments.trust_worlds import cells_of, shares
from bccb.policies import DEFAULT, NAIVE
from bccb.report.rows import Row
from bccb.types import Floats

SMALL = 0.01  # of the oracle's value: what is known to be below it is no worse
KEPT = 0.95
DEAR = 0.05  # a larger share of the value would be too much for the reserve
LEAST_REPETITIONS = 500
NORMAL = 1.96  # standard errors either side of a 95 % interval
LARGE = 2.64  # standard errors: one of six estimates is that far off by chance in 5 % of runs
COVERED = (0.93, 0.97)
ALWAYS = 0.95  # of worlds, at every look
NARROWER = 1 / 3  # of the width of what is measured
NARROW = 0.05  # an interval this wide separates a level of 5 % from one twice as large


def percent(share: float, digits: int = 0) -> str:
    """A share in words.

    >>> percent(0.95), percent(0.0081, 1)
    ('95 %', '0.8 %')
    """
    return f"{100 * share:.{digits}f} %"


def below_the_oracle(rows: Sequence[Row]) -> Claim:
    """No run passes the bound that holds for all policies."""
    bounds = {(row["users"], row["seed"]): row["bound"] for row in rows if row["policy"] == ORACLE}
    others = [row for row in rows if row["policy"] != ORACLE]
    above = sum(row["value"] > bounds[row["users"], row["seed"]] for row in others)
    verdict: Verdict = "does not hold" if above else "holds"
    figure = f"{above} of {len(others):,} runs above the bound"
    return Claim("no policy causes more than the oracle could", verdict, figure)


def least_regret(setup: Setup, rows: Sequence[Row]) -> Claim:
    """Our default causes the most of the policies that begin without history."""
    text, users = f"{DEFAULT} has the least regret without history", setup.middle
    ours = over_seeds(rows, users, DEFAULT)
    verdict: Verdict = "holds"
    rivals = {
        name: over_seeds(rows, users, name)
        for name in NAMES
        if name not in (ORACLE, DEFAULT) and begins_cold(name)
    }
    next_best = max(rivals, key=lambda name: float(rivals[name].mean()))
    p = paired_t(ours, rivals[next_best])
    if len(ours) < LEAST_SEEDS or p >= LEVEL:
        verdict = "cannot tell"
    elif rivals[next_best].mean() > ours.mean():
        verdict = "does not hold"
    figure = f"{ours.mean():.1f} caused against {rivals[next_best].mean():.1f} by {next_best}"
    return Claim(text, verdict, f"{figure}, p = {p:.2g}, {len(ours)} seeds of {users:,} users")


def slower_than_users(exponents: Sequence[Row]) -> Claim:
    """Our default's regret for each user falls, to the end: judged by the last decade of users."""
    text = f"the regret of {DEFAULT} grows more slowly than the number of users"
    row = next(row for row in exponents if row["policy"] == DEFAULT)
    if row["late"] is None:
        return Claim(text, "cannot tell", "no two sizes with regret")
    reach = NORMAL * row["late_se"]
    verdict: Verdict = "cannot tell"
    if abs(row["late"] - 1) > reach:
        verdict = "holds" if row["late"] < 1 else "does not hold"
    figure = f"exponent {row['late']:.2f} ± {reach:.2f} (95 %) in the last decade of users"
    over_all = row["exponent"]
    return Claim(text, verdict, figure + (f", {over_all:.2f} over all" if over_all else ""))


def cost_of_the_reserve(setup: Setup, rows: Sequence[Row]) -> Claim:
    """What drawing a share of the decisions at random costs."""
    text = f"the reserve of random choices costs at most {percent(DEAR)} of what {DEFAULT} causes"
    with_it, without = (over_seeds(rows, setup.middle, name) for name in (DEFAULT, UNRESERVED))
    lost = without - with_it
    share = float(lost.mean() / without.mean())
    reach = float(NORMAL * lost.std(ddof=1) / np.sqrt(len(lost)) / without.mean())
    verdict: Verdict = "cannot tell"
    if len(lost) >= LEAST_SEEDS and abs(share - DEAR) > reach:
        verdict = "holds" if share < DEAR else "does not hold"
    figure = f"{lost.mean():.2f} of {without.mean():.1f} caused: {percent(share, 1)}"
    return Claim(text, verdict, f"{figure} ± {percent(reach, 1)} (95 %)")


def no_worse_late(late: Sequence[Row], worlds: int) -> Claim:
    """No learner causes less with ageing than with the earlier rule."""
    text = "where outcomes are late, no learner is worse with ageing than with the earlier rule"
    reach = _reach(worlds, len(late))
    worse = [row for row in late if row["gain"] + reach * row["gain_se"] < 0]
    unsure = [row for row in late if row["gain"] - reach * row["gain_se"] < -SMALL]
    least = min(late, key=lambda row: float(row["gain"]))
    verdict: Verdict = "does not hold" if worse else "cannot tell" if unsure else "holds"
    if worlds < LEAST_SEEDS:
        verdict = "cannot tell"
    figure = f"smallest gain: {least['policy']}, {least['outcome']}s, "
    figure += f"{least['gain']:+.3f} ± {reach * least['gain_se']:.3f} of the oracle's value"
    return Claim(text, verdict, f"{figure}, {worlds} worlds")


def keeps_late(delays: Sequence[Row], worlds: int) -> Claim:
    """Our default loses little where outcomes are late, whatever the delays."""
    text = f"where outcomes are late, {DEFAULT} keeps {percent(KEPT)} of what it causes otherwise"
    reach = _reach(worlds, len(delays))
    short = [row for row in delays if row["kept"] + reach * row["kept_se"] < KEPT]
    unsure = [row for row in delays if row["kept"] - reach * row["kept_se"] < KEPT]
    least = min(delays, key=lambda row: float(row["kept"]))
    verdict: Verdict = "does not hold" if short else "cannot tell" if unsure else "holds"
    if worlds < LEAST_SEEDS:
        verdict = "cannot tell"
    figure = f"least: {percent(least['kept'], 1)} ± {percent(reach * least['kept_se'], 1)}"
    which = f"{least['outcome']}s, {least['delays']}"
    return Claim(text, verdict, f"{figure} ({which}), {worlds} worlds")


def harms_nowhere(rows: Sequence[Row]) -> Claim:
    """Our default causes more than treating nobody, in every world."""
    text = f"{DEFAULT} causes more than treating nobody in every world"
    gains = {cell: shares(rows, *cell, DEFAULT) for cell in cells_of(rows)}
    return _in_every_world(text, "share of the oracle's", gains)


def ahead_of_naive(rows: Sequence[Row]) -> Claim:
    """Our default causes more than the better of those that ignore effects, in every world."""
    gains = {}
    for cell in cells_of(rows):
        rivals = [shares(rows, *cell, name) for name in NAIVE]
        gains[cell] = shares(rows, *cell, DEFAULT) - max(
            rivals, key=lambda each: float(each.mean())
        )
    text = f"{DEFAULT} causes more than by ignoring effects in every world"
    return _in_every_world(text, "lead", gains)


def _in_every_world(text: str, what: str, gains: Mapping[tuple[int, str], Floats]) -> Claim:
    """Whether all of these are above zero."""
    users, world = cell = min(gains, key=lambda cell: float(gains[cell].mean()))
    seeds, means = len(gains[cell]), [float(each.mean()) for each in gains.values()]
    below = sum(mean <= 0 for mean in means)
    figure = f"not so in {below} of {len(gains)}; least {what}: {min(means):+.2f}"
    where = f"{world}, {users:,} users, {seeds} seed{'s'[: seeds - 1]}"
    if seeds < 2:
        return Claim(text, "cannot tell", f"{figure} ({where})")
    reach = _reach(seeds, len(gains)) / seeds**0.5
    ends = [(float(each.mean()), reach * float(each.std(ddof=1))) for each in gains.values()]
    surely = any(mean + error < 0 for mean, error in ends)
    unsure = any(mean - error <= 0 for mean, error in ends)
    verdict: Verdict = "does not hold" if surely else "cannot tell" if unsure else "holds"
    return Claim(text, verdict, f"{figure} ± {min(ends)[1]:.2f} ({where})")


def _reach(worlds: int, figures: int) -> float:
    """Standard errors either side of a 95 % interval that several figures share."""
    return float(load_stats().t.ppf(1 - LEVEL / 2 / figures, worlds - 1))


def unbiased(estimators: Sequence[Row], repetitions: int) -> Claim:
    """Each mean error is within chance of zero."""
    text = f"estimators show no bias: each mean error is within {LARGE} of its standard errors"
    worst = max(estimators, key=lambda row: abs(row["bias"]) / row["bias_se"])
    size = abs(worst["bias"]) / worst["bias_se"]
    few = repetitions < LEAST_REPETITIONS
    verdict: Verdict = "does not hold" if size > LARGE else "cannot tell" if few else "holds"
    share = abs(worst["bias"] / worst["truth"])
    figure = f"largest: {worst['method']} of {worst['policy']}, {size:.1f}"
    figure += f" ({percent(share, 1)} of the truth)"
    return Claim(text, verdict, f"{figure}, in {repetitions:,} repetitions")


def covering(estimators: Sequence[Row], repetitions: int) -> Claim:
    """Intervals hold the truth as often as they say.

    On the log of our own policy, where few are left to chance, they may hold it more often.
    """
    least, most = COVERED
    text = f"95 % intervals hold the truth in {percent(least)} to {percent(most)} of repetitions"
    estimators = [row for row in estimators if not row["policy"].endswith(DEFAULT)]
    outside = any(not least <= row["covered"] <= most for row in estimators)
    surely = any(row["high"] < least or row["low"] > most for row in estimators)
    unsure = outside or repetitions < LEAST_REPETITIONS
    verdict: Verdict = "does not hold" if surely else "cannot tell" if unsure else "holds"
    shares = [row["covered"] for row in estimators]
    figure = (
        f"{percent(min(shares), 1)} to {percent(max(shares), 1)} in {repetitions:,} repetitions"
    )
    return Claim(text, verdict, figure)


def covering_own_log(estimators: Sequence[Row], repetitions: int) -> Claim:
    """Intervals from the log of our default policy are not too narrow."""
    least, _ = COVERED
    text = f"on the log of {DEFAULT} they hold it in at least {percent(least)}"
    own = [row for row in estimators if row["policy"].endswith(DEFAULT)]
    if not own:
        return Claim(text, "cannot tell", "no such log was made")
    surely = any(row["high"] < least for row in own)
    unsure = min(row["covered"] for row in own) < least or repetitions < LEAST_REPETITIONS
    verdict: Verdict = "does not hold" if surely else "cannot tell" if unsure else "holds"
    shares = [row["covered"] for row in own]
    return Claim(text, verdict, f"{percent(min(shares), 1)} to {percent(max(shares), 1)}")


def estimate_covers(caused: Sequence[Row]) -> Claim:
    """What a policy estimates that it caused holds the truth."""
    least, _ = COVERED
    text = f"what is estimated as caused holds the truth in at least {percent(least)} of worlds"
    return _covers(text, caused, "covered", least)


def estimate_covers_after_history(caused: Sequence[Row]) -> Claim:
    """The same where history was of another time."""
    least, _ = COVERED
    text = "after a history of other rates and twice the effects, it holds it in at least "
    text += f"{percent(least)}"
    after = [row for row in caused if row["reports"] == AFTER_HISTORY]
    return _covers(text, after, "covered", least, AFTER_HISTORY)


def measure_covers(caused: Sequence[Row]) -> Claim:
    """What is measured holds what was caused, however often one looks."""
    text = "what is measured as caused holds it at all of 60 looks in at least "
    text += f"{percent(ALWAYS)} of worlds"
    return _covers(text, caused, "held", ALWAYS)


def _covers(
    text: str, caused: Sequence[Row], covered: str, least: float, reports: str = "at once"
) -> Claim:
    """Judged by all worlds with such reports together; the worst row of all is named."""
    known = [row for row in caused if row["reports"] == reports]
    worlds = sum(row["worlds"] for row in known)
    hits = sum(round(row[covered] * row["worlds"]) for row in known)
    low, high = share_interval(hits, worlds)
    verdict: Verdict = "cannot tell"
    if not low < least <= high:
        verdict = "holds" if low >= least else "does not hold"
    worst = min(caused, key=lambda row: float(row[covered]))
    figure = f"{percent(hits / worlds, 1)} of {worlds:,} worlds"
    figure += f" ({percent(low, 1)} to {percent(high, 1)})"
    return Claim(text, verdict, f"{figure}; worst: {percent(worst[covered], 1)}, {_cell(worst)}")


def estimate_is_narrow(caused: Sequence[Row]) -> Claim:
    """The estimate says three times as much as the measurement, in every kind of campaign."""
    text = "what is estimated as caused is at most a third as wide as what is measured"
    worlds = min(row["worlds"] for row in caused)
    reach = _reach(worlds, len(caused))
    ends = [(row["relative_width"], reach * row["relative_width_se"], _cell(row)) for row in caused]
    wide = any(ratio - error > NARROWER for ratio, error, _ in ends)
    unsure = any(ratio + error > NARROWER for ratio, error, _ in ends)
    verdict: Verdict = "does not hold" if wide else "cannot tell" if unsure else "holds"
    if worlds < LEAST_SEEDS:
        verdict = "cannot tell"
    ratio, error, cell = max(ends)
    return Claim(text, verdict, f"widest: {percent(ratio, 1)} ± {percent(error, 1)}, {cell}")


def _cell(row: Row) -> str:
    treatments = "1 treatment" if row["treatments"] == 1 else f"{row['treatments']} treatments"
    reports = row["reports"] if row["reports"] == AFTER_HISTORY else f"outcomes {row['reports']}"
    return f"{row['outcome']}s, {treatments}, {reports}"


def copies_seldom_differ(twins: Sequence[Row], test: str) -> Claim:
    """Copies of one policy differ significantly as seldom as they should."""
    rows = [row for row in twins if row["test"] == test]
    wide = any(row["high"] - row["low"] > NARROW for row in rows)
    often = any(_least_share(row, LEVEL / len(rows)) > LEVEL for row in rows)
    verdict: Verdict = "cannot tell" if wide else "does not hold" if often else "holds"
    shares = [row["differ"] for row in rows]
    figure = f"{percent(min(shares), 1)} to {percent(max(shares), 1)}"
    figure += f" of {rows[0]['comparisons']:,} comparisons"
    text = f"two copies of one policy differ in at most {percent(LEVEL)} of comparisons by {test}"
    return Claim(text, verdict, figure)


def _least_share(row: Row, level: float) -> float:
    """The lower end of the interval at this level, which allows for several rows."""
    n = row["comparisons"]
    return share_interval(round(row["differ"] * n), n, level).low
