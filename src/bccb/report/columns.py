"""What the columns of all tables mean: one description each, for pages, Markdown and terminals."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Column(NamedTuple):
    """A column of a table."""

    about: str
    text: bool = False  # words, which stand left; figures stand right
    key: bool = False  # says which row it is: shown as it is, and compared with published rows


COLUMNS: Mapping[str, Column] = MappingProxyType(
    {
        "n": Column("rows of history", key=True),
        "budget": Column("money to spend", key=True),
        "policy": Column("the policy", text=True, key=True),
        "against": Column("the policy that it is compared with", text=True, key=True),
        "parameter": Column("the parameter that is changed", text=True, key=True),
        "value": Column("of the parameter; or what a policy causes", key=True),
        "estimator": Column("what estimates the effects", text=True, key=True),
        "explorer": Column("what explores", text=True, key=True),
        "pacer": Column("what spreads the budget", text=True, key=True),
        "method": Column("the estimator of a log's incremental value", text=True),
        "test": Column("the statistical test", text=True),
        "figure": Column("the figure that is compared, or that decides a claim", text=True),
        "text": Column("the claim", text=True),
        "claim": Column("the claim", text=True),
        "verdict": Column("holds, does not hold, or cannot tell", text=True),
        "mean": Column("mean over seeds"),
        "deviation": Column("standard deviation over seeds"),
        "se": Column("standard error"),
        "difference": Column("mean difference over seeds"),
        "low": Column("lower end of the 95 % interval"),
        "high": Column("upper end of the 95 % interval"),
        "p": Column("p-value of the paired t-test"),
        "p_holm": Column("the same with Holm's correction over the table"),
        "cv": Column("coefficient of variation of the means"),
        "failed_fits": Column("seeds whose fit failed"),
        "offline": Column("standard deviation of the offline pipeline"),
        "ours": Column("standard deviation of bccb"),
        "ratio": Column("of the two standard deviations"),
        "proposed": Column("share of users for whom treatment was proposed"),
        "realised": Column("share of treated users among those matched"),
        "share": Column("of all users; or of what the oracle causes"),
        "conversions": Column("conversions of treated users, caused or not"),
        "incremental": Column("conversions that the treatments caused"),
        "spend": Column("money spent"),
        "treated": Column("users treated"),
        "rank_treated": Column("rank by treated conversions"),
        "rank_incremental": Column("rank by incremental conversions"),
        "users": Column("users in a stream"),
        "seeds": Column("streams of that size"),
        "regret": Column("what the oracle causes, less what the policy causes"),
        "exponent": Column("slope of log regret on log users"),
        "late": Column("the same over the last decade of users"),
        "truth": Column("the true value, mean over repetitions"),
        "bias": Column("mean error of the estimates"),
        "width": Column("mean width of the 95 % intervals"),
        "covered": Column("share of intervals that hold the truth"),
        "comparisons": Column("how many were made"),
        "differ": Column("share of comparisons with a significant difference"),
    }
)
UNKNOWN = Column("")


def column(name: str) -> Column:
    """The description of a column, also of one with a prefix or joined with its error.

    >>> column("offline_mean").about, column("low to high").about
    ('mean over seeds', 'lower end of the 95 % interval')
    """
    first = name.split(" ± ")[0].split(" to ")[0].strip()
    found = COLUMNS.get(first) or COLUMNS.get(first.replace(" ", "_"))
    if found is None:
        found = COLUMNS.get(first.replace(" ", "_").rpartition("_")[2])
    return found or UNKNOWN


def is_text(name: str) -> bool:
    """Whether a column holds words."""
    return column(name).text


def is_key(name: str) -> bool:
    """Whether a column says which row it is."""
    return name in COLUMNS and COLUMNS[name].key
