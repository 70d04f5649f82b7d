"""What ``bccb trust`` found, as a page of Markdown and as one of HTML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bccb.evaluate.statistics import LEVEL
from bccb.experiments.trust_claims import COVERED
from bccb.policies import DEFAULT
from bccb.report.html import Section, report
from bccb.report.markdown import table
from bccb.report.trust_figures import regret_curves, share_intervals

TITLE = "What can be trusted"
TITLES = {
    "values": "What every policy causes",
    "exponents": "How regret grows",
    "estimators": "Are the estimates right?",
    "twins": "Do equals look equal?",
    "curves": "Value and regret at every size",
}
TEXTS = {
    "values": (
        "Users are decided on live: a policy pays for every treatment and learns the outcome of "
        "every decision. value is the sum of the true effects over the users it treated, share "
        "that of the oracle's, which knows the effects and has the best fixed price; regret is "
        "what is missing. conversions are those of treated users, caused or not. ± is the standard "
        "error over seeds. pooled-no-reserve is pooled-bayes that draws no decision at random "
        "(reserve=0): what is between the two is the price of keeping overlap in the log."
    ),
    "exponents": (
        "Mean regret at each number of users T, with the same money for each user, and the "
        "exponent b of regret ~ T^b: the slope of log regret on log T by least squares over all T, "
        "with its standard error, and late, the same over the last decade of T alone, with the "
        "standard error that the seeds leave. 1 is a policy that goes on losing as much on each "
        "user; below 1 it learns. A reserve of random choices loses a fixed share of the value, "
        "and so does a model that cannot become the truth: at a low level their exponents rise "
        "towards 1 in the end."
    ),
    "estimators": (
        "Logs of decisions are simulated, and what they caused is estimated. bias is the mean "
        "error ± its standard error, covered the share of 95 % intervals that hold the truth, with "
        "the binomial interval of that share; width is that of the intervals of the estimates."
    ),
    "twins": (
        "Two copies of one policy, which differ in their own draws alone, are compared over 20 "
        "streams by our paired tests. differ is the share of comparisons with p < 0.05, or whose "
        "bootstrap interval leaves out 0, with its binomial interval; it should be 5 %. The "
        "bootstrap takes expanded percentiles, which allow for 20 pairs; heavy tails, which the "
        "differences of pooled-bayes have on short streams, are not allowed for."
    ),
    "curves": "The figures behind the exponents. ± is the standard error over seeds.",
}

RULES = (
    "A claim cannot be told where a figure lies within chance of its limit, or there are fewer "
    "than 5 seeds, fewer than 500 repetitions, or so few comparisons that the interval of their "
    "share is wider than 5 points. A claim about several figures shares its 5 % among them."
)


def render(results: Mapping[str, Any]) -> str:
    """The page in Markdown; ``results`` has ``setup``, ``claims`` and ``tables``."""
    parts = [f"# {TITLE}", f"{_intro(results)} Written by the command itself; do not edit."]
    parts += ["## What held", RULES, table(results["claims"])]
    for name, rows in results["tables"].items():
        parts += [f"## {TITLES[name]}", TEXTS[name], table(rows)]
    return "\n\n".join(parts) + "\n"


def draw(tables: Mapping[str, Any]) -> dict[str, str]:
    """The figures, as SVG, by the name of their table."""
    return {
        "exponents": regret_curves(tables["curves"]),
        "estimators": share_intervals(tables["estimators"], "covered", COVERED),
        "twins": share_intervals(tables["twins"], "differ", (0.0, LEVEL)),
    }


def page(results: Mapping[str, Any], drawn: Mapping[str, str]) -> str:
    """The page in HTML, with what ``draw`` drew."""
    claims = [
        {"claim": claim["text"], "verdict": claim["verdict"], "figure": claim["figure"]}
        for claim in results["claims"]
    ]
    sections = [
        Section(name, TITLES[name], TEXTS[name], rows, None, drawn.get(name), DEFAULT)
        for name, rows in results["tables"].items()
    ]
    return report(TITLE, [_intro(results).replace("`", ""), RULES], claims, sections)


def _intro(results: Mapping[str, Any]) -> str:
    setup = results["setup"]
    seeds = {row["users"]: row["seeds"] for row in results["tables"]["curves"]}
    told = ", ".join(f"{users:,} ({count})" for users, count in seeds.items())
    return (
        "`bccb trust` on simulated users, whose truth is known. Users (and seeds): "
        f"{told}; a budget of {setup['money']:g} for each user; the table of values is at "
        f"{setup['middle']:,} users. Policies that need history have {setup['history']:,} rows."
    )
