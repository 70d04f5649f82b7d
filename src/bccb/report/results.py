"""Results as rows of text, for the tables that commands print. `columns` describes each column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bccb.data.describe import Arm, Balance, Description
from bccb.evaluate.advice import Advice, Rival
from bccb.evaluate.compare import Summary
from bccb.evaluate.estimates import Estimate
from bccb.evaluate.evaluation import Evaluation
from bccb.evaluate.live_comparison import LiveSummary
from bccb.evaluate.overlap import FEWEST_USERS, UNBALANCED
from bccb.evaluate.statistics import Limits
from bccb.intervals import Interval
from bccb.outcome import Kind
from bccb.policies import POLICIES
from bccb.report.rows import decimals
from bccb.spec import Spec

KINDS = ("estimator", "explorer", "pacer")


def summary_rows(summary: Sequence[Summary]) -> list[dict[str, str]]:
    """One row for each policy and budget; the budget is a column where there are several.

    Where all seeds share the rows of a log, their deviation would look like certainty: an interval
    takes its place, and that of columns which would make the table too wide.
    """
    several = len({line.budget for line in summary}) > 1
    return [
        {
            **({"budget": f"{line.budget:,.0f}"} if several else {}),
            "policy": line.policy,
            **_replayed(line),
        }
        for line in summary
    ]


def _replayed(line: Summary) -> dict[str, str]:
    money = {"spend": f"{line.spend:,.0f}", "matched": f"{line.matched:,.0f}"}
    if line.interval is not None and line.kind == Kind.AMOUNT:
        return {**_value(line, line.interval), "spend": money["spend"]}
    if line.interval is not None:
        incremental = {"incremental (95 %)": _ranged(line.incremental, line.interval)}
        return {**incremental, "conversions": f"{line.conversions:,.1f}", **money}
    return {
        "conversions": _spread(line.conversions, line.conversions_deviation),
        "incremental": _spread(line.incremental, line.incremental_deviation),
        **money,
        "proposed": f"{line.proposed:.3f}",
        "seconds": f"{line.seconds:.3f}",
    }


def _value(line: Summary, interval: Limits) -> dict[str, str]:
    """What was caused in money, of which each unit of spend brings so much."""
    caused, each = _ranged(line.incremental, interval, line.kind), line.return_on_spend
    returned = "" if each is None else _ranged(line.incremental / line.spend, each, line.kind)
    if line.withheld:
        caused, returned = "withheld: too few amounts", ""
    return {
        "caused value (95 %)": caused,
        "return (95 %)": returned,
        "treated value": _money(line.conversions),
    }


def live_rows(summary: Sequence[LiveSummary], capped: bool = False) -> list[dict[str, str]]:
    """The same of live runs; with late outcomes also what would be caused if they were not, and
    with a cost cap what each caused conversion cost.
    """
    several = len({line.budget for line in summary}) > 1
    late = any(line.share != line.at_once for line in summary)
    return [
        {
            **({"budget": f"{line.budget:,.0f}"} if several else {}),
            "policy": line.policy,
            **_lived(line),
            "share": f"{line.share:.3f}",
            **({"at once": f"{line.at_once:.3f}"} if late else {}),
            **_brought(line),
            "spend": f"{line.spend:,.0f}",
            **({"cost of each": _each(line)} if capped and line.kind != Kind.AMOUNT else {}),
            "treated": f"{line.treated:,.0f}",
        }
        for line in summary
    ]


def _lived(line: LiveSummary) -> dict[str, str]:
    """What was caused: conversions, or value and what came back for each unit of spend."""
    if line.kind != Kind.AMOUNT:
        return {"incremental": _spread(line.incremental, line.incremental_deviation)}
    value, deviation = line.incremental, line.incremental_deviation
    digits = decimals(line.kind, value)
    caused = f"{value:,.{digits}f}"
    caused += "" if deviation is None else f" ± {deviation:,.{digits}f}"
    returned = f"{value / line.spend:,.2f}" if line.spend else ""
    return {"caused value": caused, "return": returned}


def _brought(line: LiveSummary) -> dict[str, str]:
    """What treated users brought, caused or not."""
    if line.kind == Kind.AMOUNT:
        return {"treated value": _money(line.conversions)}
    return {"conversions": f"{line.conversions:,.1f}"}


def _each(line: LiveSummary) -> str:
    return _money(line.spend / line.incremental) if line.incremental > 0 else "none caused"


def rival_rows(advice: Advice) -> list[dict[str, str]]:
    """One row for each rival, with what the leading policy causes more."""

    def behind(rival: Rival) -> str:
        own = rival.policy == advice.choice.leading
        return "" if own else _ranged(rival.behind, rival.interval, kind)

    kind = advice.setting.kind
    amounts = kind == Kind.AMOUNT
    caused = "caused value" if amounts else "incremental"
    return [
        {
            "policy": rival.policy,
            f"{caused} (95 %)": _ranged(rival.incremental, rival.own_interval, kind),
            "behind by (95 %)": behind(rival),
            "spend": f"{rival.spend:,.0f}",
            **({"return": _returned(rival)} if amounts else {}),
            "learned": f"{rival.learned:,.0f}",
        }
        for rival in advice.rivals
    ]


def _returned(rival: Rival) -> str:
    return f"{rival.incremental / rival.spend:,.2f}" if rival.spend else ""


def headline_rows(evaluations: Sequence[Evaluation]) -> list[dict[str, str]]:
    """One row for each policy, with the estimate to go by."""
    return [
        {
            "policy": one.policy,
            "treated": _count(one.treated),
            "spend": _spend(one),
            **_caused(one, one.headline),
        }
        for one in evaluations
    ]


def evaluation_rows(evaluations: Sequence[Evaluation]) -> tuple[list[dict[str, str]], list[str]]:
    """Three rows for each policy, one for each method; and the policy that each row is about."""
    rows, policies = [], []
    for one in evaluations:
        learned = "" if one.learned is None else f", learned {_count(one.learned)}"
        about = [one.policy, f" {_count(one.treated)} for {_spend(one, ranged=True)}"]
        about += [f" ESS {_count(one.effective_users)}{learned}"]
        lines = [(line.method, _caused(one, line)) for line in one.shown]
        if not lines:
            about, lines = ["\n".join(about)], [("", _caused(one, None))]
        for text, (method, caused) in zip(about, lines, strict=True):
            rows.append({"policy, treated, spend": text, "by": method, **caused})
            policies.append(one.policy)
    return rows, policies


def arm_rows(description: Description) -> list[dict[str, str]]:
    """One row for each arm of a trial."""
    return [
        {
            "arm": arm.name,
            "users": f"{arm.users:,}",
            "share": f"{arm.share:.4f}",
            **_arm_figures(arm, description.kind),
        }
        for arm in description.arms
    ]


def _arm_figures(arm: Arm, kind: str) -> dict[str, str]:
    """The rate of an arm, or its mean value, and the effect."""
    shown, name = (_amount, "value each") if kind == Kind.AMOUNT else (_percent, "rate")
    effect = "" if arm.effect is None else shown(arm.effect, "+")
    return {f"{name}, 95 % interval": shown(arm.rate, ""), "effect, 95 % interval": effect}


def balance_rows(balance: Balance) -> list[dict[str, str]]:
    """One row for each feature, with its standardised difference in each treatment."""
    by_treatment = balance.differences
    return [
        {"feature": feature}
        | {name: f"{differences[feature]:+.3f}" for name, differences in by_treatment.items()}
        for feature in next(iter(by_treatment.values()))
    ]


def policy_rows() -> list[dict[str, Any]]:
    """One row for each policy of the library."""
    return [
        {
            "policy": spec.name,
            **{
                kind: part.about
                for kind, part in zip(KINDS, spec.composition.components, strict=True)
            },
            "cost": "yes" if spec.composition.cost_aware else "no",
            "needs": needs_of(spec),
        }
        for spec in POLICIES.values()
    ]


def needs_of(spec: Spec) -> str:
    """What a policy needs besides users: the true effects, history or nothing."""
    if spec.needs_effects:
        return "effects"
    return "history" if spec.needs_history else ""


def _ranged(value: float, interval: Limits, kind: str = Kind.CONVERSION) -> str:
    digits = decimals(kind, value, *interval)
    ends = f"{interval.low:,.{digits}f} to {interval.high:,.{digits}f}"
    return f"{value:,.{digits}f} ({ends})"


def _caused(one: Evaluation, line: Estimate | None) -> dict[str, str]:
    """What was caused, and what each cost or, in money, what came back for it."""
    if one.kind != Kind.AMOUNT:
        return {
            "incremental (95 %)": _incremental(one, line),
            "cost of each (95 %)": _cost(one, line),
        }
    each = None if line is None else one.return_on_spend(line)
    returned = "" if each is None else _ranged(each.value, Limits(each.low, each.high), one.kind)
    return {"caused value (95 %)": _incremental(one, line), "return (95 %)": returned}


def _spread(mean: float, deviation: float | None) -> str:
    return f"{mean:.1f}" if deviation is None else f"{mean:.1f} ± {deviation:4.1f}"


def _incremental(evaluation: Evaluation, line: Estimate | None) -> str:
    if line is None:
        users = evaluation.effective_users
        why = f"ESS {users:,.1f}, needs {FEWEST_USERS}" if users else "nobody to compare"
        if users >= FEWEST_USERS:
            unbalanced = UNBALANCED in evaluation.withheld
            why = "weights do not add up" if unbalanced else "too few amounts"
        return f"withheld: {why}" if evaluation.treated else "treats nobody"
    return _ranged(line.incremental, Limits(line.low, line.high), evaluation.kind)


def _cost(evaluation: Evaluation, line: Estimate | None) -> str:
    if line is None:
        return ""
    each = evaluation.cost_per_incremental(line)
    if each is not None:
        return f"{_money(each.value)} ({_money(each.low)} to {_money(each.high)})"
    if line.high <= 0:
        return "none caused"
    return f"at least {_money(evaluation.compared_spend / line.high)}"


def _spend(one: Evaluation, ranged: bool = False) -> str:
    """What was spent; an estimate is withheld where all are, and has an interval on request."""
    if one.charged is None:
        return f"{one.spend:,.2f}" if ranged else _money(one.spend)
    if one.withheld:
        return "withheld" if one.treated else "0"
    others = one.spend - one.charged.value  # on users outside the overlap, as a model expects it
    low, high = (_money(end + others) for end in (one.charged.low, one.charged.high))
    interval = f" ({low} to {high})"
    return _money(one.spend) + (interval if ranged else "")


def _money(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:,.2f}"


def _count(number: float) -> str:
    return f"{number:,.0f}" if number < 100_000 else f"{number / 1000:,.0f}k"


def _amount(estimate: Interval, sign: str) -> str:
    ends = f"[{estimate.low:{sign},.3f}, {estimate.high:{sign},.3f}]"
    return f"{estimate.value:{sign},.3f} {ends}"


def _percent(estimate: Interval, sign: str) -> str:
    ends = f"[{100 * estimate.low:{sign}.3f}, {100 * estimate.high:{sign}.3f}]"
    return f"{100 * estimate.value:{sign}.3f} % {ends}"
