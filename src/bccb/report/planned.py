"""A plan in words, and as rows of text: what to expect, and what that rests on."""

from __future__ import annotations

from bccb.evaluate.assumptions import AssumedAmounts
from bccb.evaluate.planning import Outlook, Plan
from bccb.outcome import Kind
from bccb.policies import DEFAULT
from bccb.report.paying import payment_lines, price_of
from bccb.report.rows import decimals

MISSED = 1.1  # times the cap: what costs more does not keep it


def plan_lines(plan: Plan) -> list[str]:
    """What to expect of a campaign, how well it will be known, and what would show it."""
    usual, enough = plan.usual, plan.enough
    measured = ""
    if usual.measured is not None and not plan.has_losses:
        measured = f"; measured by random decisions alone, about {_measured(plan, usual)}"
    lines = [
        f"With {plan.budget:,.15g} for {plan.users:,} users {DEFAULT} is expected to cause "
        f"{_caused(plan, usual)}. At the end the estimate will be known to "
        f"± {_end(plan, usual.estimated_reach)}{measured}."
    ]
    lines += payment_lines(plan.payment, [(DEFAULT, plan.budget, usual.spend)], plan.kind)
    lines += _above_the_cap(plan)
    if plan.has_losses:
        lines.append(
            "Nothing will be measured by random decisions alone, because some amounts are below 0, "
            "which would count as 0 without a model: rely on the estimate."
        )
    elif not any(each.measured for each in plan.outlooks) and not usual.needed:
        lines.append(
            "What is measured by random decisions alone will be wider than all that treated users "
            "bring. Rely on the estimate, or plan for more users."
        )
    elif not any(each.measured for each in plan.outlooks):
        lines.append(
            f"Too few users will be treated to measure anything by random decisions alone: that "
            f"takes {usual.needed:,} with reserve={usual.reserve:g}. Rely on the estimate, or plan "
            "for more users."
        )
    elif enough is None:
        lines.append(
            f"No reserve up to {plan.outlooks[-1].reserve:g} makes the measured interval exclude 0 "
            "in most campaigns: the effect is too small for so few users. Rely on the estimate, or "
            "plan for more users."
        )
    elif enough is usual:
        lines.append("The default reserve is enough for the measured interval to exclude 0.")
    else:
        lost = max(usual.caused - enough.caused, 0.0)
        lines.append(
            f"With reserve={enough.reserve:g} the measured interval excludes 0 in "
            f"{enough.shown or 0.0:.0%} of campaigns; that costs {_figure(plan, lost)} of the "
            f"{'value of ' if _in_money(plan) else ''}{_figure(plan, usual.caused)}"
            f"{'' if _in_money(plan) else ' conversions'}."
        )
    return lines


def _caused(plan: Plan, outlook: Outlook) -> str:
    """What is caused: so many conversions, or so much value and what comes back for the money."""
    if not _in_money(plan):
        return f"{outlook.caused:,.1f} conversions"
    each = outlook.return_on_spend
    returned = "" if each is None else f", a return of {each:,.2f} on spend"
    return f"a value of {_figure(plan, outlook.caused)}{returned}"


def _above_the_cap(plan: Plan) -> list[str]:
    """Whether what is caused really costs more than the cap, and what to do."""
    cap, usual = plan.payment.cost_cap, plan.usual
    if cap is None or not usual.spend or usual.spend <= MISSED * cap * max(usual.caused, 0.0):
        return []
    what = "unit of value" if _in_money(plan) else "conversion"
    paid = "caused nothing for what they spent"
    if usual.caused > 0:
        paid = f"paid {usual.spend / usual.caused:,.2f} for each {what}, above the cap"
    return [
        f"The simulated campaigns {paid}: there are too few users worth it to learn who they are. "
        "Raise the cap, or plan for more users."
    ]


def _measured(plan: Plan, outlook: Outlook) -> str:
    """The ends of what is measured."""
    found = outlook.measured
    if found is None:
        return "too few users"
    return f"{_end(plan, found.low)} to {_end(plan, found.high)}"


def _end(plan: Plan, value: float) -> str:
    """An end of an interval, or how far it reaches: in money as exact as what is caused."""
    return _figure(plan, value) if _in_money(plan) else f"{value:,.0f}"


def _figure(plan: Plan, value: float) -> str:
    return f"{value:,.{decimals(plan.kind, plan.usual.caused)}f}"


def _in_money(plan: Plan) -> bool:
    return plan.kind == Kind.AMOUNT


def plan_remarks(plan: Plan) -> list[str]:
    """What a plan rests on."""
    rate, effect = plan.target
    lines = [
        f"Assumed: {rate:.3%} convert without treatment, treating everybody would add {effect:.3%} "
        "on average, and outcomes are known at once."
    ]
    if plan.worth is not None:
        lines += _worth_lines(plan.worth, plan.simulated)
    if not plan.simulated:
        lines.append(
            "Users and costs are drawn from your trial; each treatment is taken to multiply "
            "everybody's odds by the same factor."
        )
        return lines
    price = f"Simulated users stand for yours; {price_of(plan.payment, plan.cost)}"
    lines.append(f"{price}." if plan.cost is not None else f"{price}; --cost gives another.")
    return lines


def _worth_lines(worth: AssumedAmounts, simulated: bool) -> list[str]:
    """What conversions are assumed to bring, and which amounts count in what is measured."""
    where = "the same for all users" if simulated else "by features as in your trial"
    shape = "log-normal" if simulated else "drawn from those of your trial"
    lines = [
        f"A conversion brings {worth.amount:,.2f} on average, {where}; amounts are {shape}, with a "
        f"deviation of {worth.spread:.2f} of the logarithm."
    ]
    if worth.loses:
        apart = worth.lost_treated != worth.lost
        treated = f" without treatment, and {worth.lost_treated:.1%} with it" if apart else ""
        lines.append(
            f"As in your trial, losses are {worth.lost:.1%} of gains and losses together{treated}."
        )
    if worth.ratio is not None:
        ratio = worth.ratio
        same, none = "the plan assumes the same", "no clear difference, so that none is assumed"
        lines.append(
            f"In your trial amounts of treated users are {ratio.value - 1:+.1%} against those of "
            f"others (95 %: {ratio.low - 1:+.1%} to {ratio.high - 1:+.1%}): "
            f"{none if worth.factor == 1.0 else same}."
        )
    if not worth.loses:
        lines.append(
            f"Measuring needs a bound: each amount counts up to {worth.largest:,.15g} in it. "
            "--largest gives another; open the campaign with the same."
        )
    return lines


def outlook_rows(plan: Plan) -> list[dict[str, str]]:
    """One row for each share of decisions made at random."""
    shown = not plan.has_losses and any(each.measured for each in plan.outlooks)
    return [
        {
            "reserve": f"{each.reserve:g}",
            **_outlook(plan, each),
            **({} if _in_money(plan) else {"treated": f"{each.treated:,.0f}"}),  # too wide a table
            "spend": f"{each.spend:,.0f}",
            "estimated": f"± {_end(plan, each.estimated_reach)}",
            **(_shown(plan, each) if shown else {}),
        }
        for each in plan.outlooks
    ]


def _shown(plan: Plan, outlook: Outlook) -> dict[str, str]:
    """What is measured, and how often that shows an effect."""
    often = "" if outlook.shown is None else f"{outlook.shown:.0%}"
    return {"measured": _measured(plan, outlook), "effect shown": often}


def _outlook(plan: Plan, outlook: Outlook) -> dict[str, str]:
    """What is caused, and in money what comes back for each unit of spend."""
    digits = decimals(plan.kind, plan.usual.caused)
    caused = f"{outlook.caused:,.{digits}f}"
    if outlook.deviation is not None:
        caused += f" ± {outlook.deviation:{4 if digits == 1 else ''},.{digits}f}"
    if not _in_money(plan):
        return {"caused": caused}
    each = outlook.return_on_spend
    return {"caused value": caused, "return": "" if each is None else f"{each:,.2f}"}
