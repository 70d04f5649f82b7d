"""What the columns of all tables mean: one description each, for pages, Markdown and terminals."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from bccb.policies import POLICIES


class Column(NamedTuple):
    """A column of a table."""

    about: str
    text: bool = False  # words, which stand left; figures stand right
    key: bool = False  # identifies the row: shown as it is, and matched with published rows


COLUMNS: Mapping[str, Column] = MappingProxyType(
    {
        "n": Column("rows of history", key=True),
        "budget": Column("money to spend", key=True),
        "policy": Column("the policy", text=True, key=True),
        "against": Column("the policy that it is compared with", text=True, key=True),
        "parameter": Column("the parameter that is changed", text=True, key=True),
        "value": Column("the parameter's value", key=True),
        "value ± se": Column("what a policy causes ± standard error"),
        "estimator": Column("what estimates the effects", text=True, key=True),
        "explorer": Column("what explores", text=True, key=True),
        "pacer": Column("what spreads the budget", text=True, key=True),
        "method": Column("the estimator of a log's incremental value", text=True),
        "by": Column("the estimator of a log's incremental value", text=True),
        "arm": Column("control, or a treatment", text=True),
        "feature": Column("the feature", text=True),
        "segment": Column("users who are alike in the feature", text=True),
        "effective_users": Column("how many users with equal chances would tell as much"),
        "without_overlap": Column("share of the treated whom nobody can be compared with"),
        "cost": Column("whether it looks at the cost of a treatment", text=True),
        "needs": Column("what it must be given before it begins", text=True),
        "test": Column("the statistical test", text=True),
        "figure": Column("the figure that is compared or decides", text=True),
        "text": Column("the claim", text=True),
        "claim": Column("the claim", text=True),
        "verdict": Column("holds, does not hold, or cannot tell", text=True),
        "mean": Column("mean over seeds"),
        "deviation": Column("standard deviation over seeds"),
        "se": Column("standard error"),
        "difference": Column("mean difference over seeds"),
        "low": Column("lower end of the 95 % interval"),
        "high": Column("upper end of the 95 % interval"),
        "low_to_high": Column("95 % interval"),
        "p": Column("p-value of the paired t-test"),
        "p_holm": Column("p with Holm's correction over the table"),
        "cv": Column("coefficient of variation of the means"),
        "failed_fits": Column("seeds whose fit failed"),
        "offline": Column("standard deviation of the offline pipeline"),
        "ours": Column("standard deviation of bccb"),
        "ratio": Column("ratio of the two standard deviations"),
        "proposed": Column("share of users for whom treatment was proposed"),
        "realised": Column("share of treated users among those matched"),
        "share": Column("share of all users (in replay) or of what the oracle causes (live)"),
        "conversions": Column("conversions of treated users, caused or not"),
        "incremental": Column("conversions that the treatments caused"),
        "spend": Column("money spent"),
        "treated_value": Column("what treated users brought, caused or not"),
        "caused_value": Column("the value that the treatments caused"),
        "return": Column("return on spend: caused value for each unit of money"),
        "value_each": Column("mean value of a user"),
        "treated": Column("users treated"),
        "rank_treated": Column("rank by treated conversions"),
        "rank_incremental": Column("rank by incremental conversions"),
        "rate": Column("mean outcome"),
        "effect": Column("rate of the treatment, less that of the control"),
        "matched": Column("users for whom the log did what the policy proposed"),
        "learned": Column("users whose outcome the policy could learn from"),
        "behind": Column("how many more conversions the policy in the first row caused"),
        "cost_of_each": Column("money spent for each conversion that was caused"),
        "caused": Column("conversions that the treatments caused, mean ± deviation over seeds"),
        "reserve": Column("share of decisions made at random", key=True),
        "estimated": Column("half the width of the model's 95 % interval at the end"),
        "measured": Column("the 95 % interval at the end by random decisions alone"),
        "shows_an_effect": Column("share of campaigns whose measured interval excludes 0"),
        "seconds": Column("time of one run"),
        "users": Column("number of users"),
        "seeds": Column("number of seeds"),
        "regret": Column("what the oracle causes, less what the policy causes"),
        "exponent": Column("slope of log regret on log users"),
        "late": Column("the exponent over the last decade of users"),
        "outcome": Column("what users do, or do not", text=True),
        "delays": Column("the delays of reports", text=True),
        "at_once": Column("share of the oracle's value, all outcomes known at once"),
        "earlier": Column("the same, zeros learned when the window ends"),
        "ageing": Column("the same, with evidence that ages"),
        "gain": Column("ageing less earlier, or amounts less rates"),
        "kept": Column("ageing as a share of at once"),
        "whole_cost": Column("share of the oracle's value, by the whole cost of a treatment"),
        "expected_cost": Column("the same, by what a treatment is expected to be charged"),
        "variation": Column("how much features move the logarithm of amounts", key=True),
        "orders": Column("the amounts in the stream", text=True),
        "amounts": Column("share of the oracle's value in money, learning amounts"),
        "rates": Column("the same, counting conversions"),
        "ceiling": Column("the same, of the oracle that counts conversions"),
        "spent": Column("share of the budget that was spent"),
        "cap": Column("the most that one more conversion may cost"),
        "relative_cost": Column("money spent for each caused conversion, as a share of the cap"),
        "left": Column("share of the budget that was left over"),
        "truth": Column("the true value, mean over repetitions"),
        "bias": Column("mean error of the estimates"),
        "width": Column("mean width of the 95 % intervals"),
        "covered": Column("share of intervals that hold the truth"),
        "treatments": Column("number of treatments", key=True),
        "reports": Column("when outcomes are known", text=True),
        "worlds": Column("number of worlds"),
        "world": Column("the kind of users", text=True, key=True),
        "error": Column("the largest standard error of the figures in the row"),
        "held": Column("share of worlds where measured held at all of 60 looks"),
        "measured_low_to_high": Column("mean ends of the measured 95 % intervals"),
        "relative_width": Column("width as a share of the measured width"),
        "comparisons": Column("number of comparisons"),
        "differ": Column("share of comparisons with a significant difference"),
        **dict.fromkeys(POLICIES, Column("what a policy causes, as a share of the oracle's")),
    }
)
UNKNOWN = Column("")


def column(name: str) -> Column:
    """The column of a heading, also of one with a prefix, an error or an interval.

    >>> column("offline_mean").about, column("mean ± deviation").about
    ('mean over seeds', 'mean over seeds ± standard deviation over seeds')
    """
    if name in COLUMNS:
        return COLUMNS[name]
    first, _, error = name.partition(" ± ")
    words = first.split(", ")[0].split(" (")[0].removesuffix(" by").replace(" ", "_")
    entry = COLUMNS.get(words) or COLUMNS.get(words.rpartition("_")[2]) or UNKNOWN
    return entry._replace(about=f"{entry.about} ± {COLUMNS[error].about}") if error else entry


def is_text(name: str) -> bool:
    """Whether a column holds words."""
    return column(name).text


def is_key(name: str) -> bool:
    """Whether a column identifies the row."""
    return name in COLUMNS and COLUMNS[name].key
