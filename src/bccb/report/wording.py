"""Wording: advice as a sentence, what it rests on, and how to go on."""

from __future__ import annotations

from collections.abc import Sequence

from bccb.caused import Caused
from bccb.data import costs
from bccb.evaluate.advice import Advice, Rival
from bccb.evaluate.rivals import rival_of, rivals_of
from bccb.evaluate.statistics import Limits
from bccb.intervals import Interval
from bccb.outcome import Kind
from bccb.policies import CHEAPEST_FIRST, DEFAULT, NAIVE, RESPONSE_FIRST, TREAT_ALL, spec_of, takes
from bccb.report.paying import (
    CHARGE_ESTIMATED,
    NO_CAP_APPLIES,
    UNSPENT,
    arguments_of,
    payment_lines,
    price_of,
)
from bccb.report.rows import decimals

MATTERS = {
    "effects matter": "Effects matter here",
    "effects do not matter": "Effects do not matter here, ignoring them is as good",
    "cannot tell": "These data do not show whether effects matter",
}
OVER = 1.05  # times the budget, beyond which it is said what an estimate would spend
RATES = {"conversion": "0.2 to 0.3 % of them convert", "visit": "4 to 5 % of them visit"}


def sentence(advice: Advice) -> str:
    """What to use, what it is expected to cause, and how much more than others."""
    choice, setting = advice.choice, advice.setting
    own, runner_up = advice.rival(choice.leading), advice.rival(choice.runner_up)
    size = f"with {setting.budget:,.0f} for {setting.users:,} users"
    caused = f"{_caused(advice, own.incremental)} {_range(advice.incremental, _digits(advice))}"
    if setting.scale > 1:
        caused += f", measured on {setting.measured_users:,} users and scaled to {setting.users:,}"
    if choice.recommended is None:
        harms = "does harm" if advice.incremental.high < 0 else "is not shown to help"
        text = f"Treat nobody: {size} even {own.policy} {harms}"
        return f"{text}, and is expected to cause {caused}."
    text = f"Use {own.policy}: {size} it is expected to cause {caused}"
    if own.spend > OVER * setting.budget:  # what is charged on conversion is an estimate
        text += f" for {own.spend:,.0f}, so that the budget buys less of it"
    if not advice.is_distinct:
        text += f". No policy is clearly better here: it is {_against(runner_up, _digits(advice))}"
        return f"{text}, and named{_reason(advice)}."
    digits = _digits(advice)
    text += f", {_against(runner_up, digits)}, the best of the others"
    if CHEAPEST_FIRST not in (own.policy, runner_up.policy) and advice.has(CHEAPEST_FIRST):
        text += f", and {_against(advice.rival(CHEAPEST_FIRST), digits)}, the simplest"
    if choice.recommended != choice.best:
        text += (
            f". It is as good as the best, as far as these data show, and chosen{_reason(advice)}"
        )
    return f"{text}."


def amounts_lines(kind: str, asked: Sequence[str]) -> list[str]:
    """What values are, and which of the policies asked for cannot decide by them."""
    if kind != Kind.AMOUNT:
        return []
    lines = [
        "Outcomes are amounts: caused value is what the treatments brought in more, and return "
        "is the return on spend, that value for each unit of money spent."
    ]
    blind = [name for name in asked if not takes(name, kind)]
    if blind:
        lines.append(f"Left out, because they learn rates and not amounts: {', '.join(blind)}.")
    return lines


def worth_lines(advice: Advice) -> list[str]:
    """Whether learning effects pays here, and which policies are worse than ignoring them."""
    lines, worth, digits = [], advice.worth, _digits(advice)
    if worth is not None:
        low, high = worth.interval
        lines.append(
            f"{MATTERS[worth.verdict]}: compared with {worth.rival}, the better of the policies "
            f"that ignore them, {worth.policy} causes "
            f"{worth.gain:+,.{digits}f} ({low:+,.{digits}f} to {high:+,.{digits}f})."
        )
    needed, first = advice.seeds_to_tell, advice.seeds[0]
    if needed is not None:
        lines.append(
            f"{advice.estimating} seeds are too few to say whether effects matter, or which "
            f"policies are behind: use more, such as --seeds {first}:{first + needed}."
        )
    for naive in NAIVE:
        behind = [rival.policy for rival in advice.rivals if naive in rival.clearly_behind]
        if behind:
            lines.append(f"Clearly behind {naive}: {', '.join(behind)}.")
    return lines


def replay_lines(users: int, paid: float | None, shared: int | None) -> list[str]:
    """What the figures of a replay stand for; ``paid`` is the share of proposals paid for.

    >>> replay_lines(20_000, 0.5, shared=None)[0].split(": ")[1]
    'these 20,000 users stand for about 10,000 live ones with the same money.'
    """
    lines = []
    if paid is not None:
        lines.append(
            f"A replay pays only for those proposals that the trial followed, {paid:.0%} of them: "
            f"these {users:,} users stand for about {float(f'{users * paid:.3g}'):,.0f} live ones "
            "with the same money."
        )
    if shared is not None:
        lines.append(
            f"All seeds stream the same {shared:,} rows. The 95 % intervals go row by row, so that "
            "they hold for new users like these, not for these rows alone."
        )
    return lines


def caused_lines(caused: Caused, kind: str = Kind.CONVERSION) -> list[str]:
    """What treatments caused, by a model and without one, with one sentence on how they differ."""
    lines = []
    if caused.estimated is not None:
        said = _figure(caused.estimated, kind)
        lines.append(f"Caused, estimated: {said}, if the model is right.")
    if kind == Kind.AMOUNT:
        lines.append(
            "Caused, measured: not given of amounts of money, as without a model it needs a "
            "largest amount that counts; bccb.make(..., largest=) measures with one."
        )
    elif caused.measured is None:
        lines.append(
            "Caused, measured: not known, as the log does not tell that every user had a chance "
            "of being left alone."
        )
    elif caused.needed:
        lines.append(
            f"Caused, measured: too few users yet. Until {caused.needed:,} were treated, its "
            "interval excludes next to nothing."
        )
    else:
        lines.append(
            f"Caused, measured: {_figure(caused.measured, kind)}, by the random decisions "
            "alone: wide, but its 95 % hold however often you look, whatever the model thinks."
        )
    return lines


def _figure(interval: Interval, kind: str) -> str:
    digits = decimals(kind, interval.value, interval.low, interval.high)
    low, high = f"{interval.low:,.{digits}f}", f"{interval.high:,.{digits}f}"
    return f"{interval.value:,.{digits}f} (95 %: {low} to {high})"


def _digits(advice: Advice) -> int:
    """How many decimals the figures have."""
    return decimals(advice.setting.kind, advice.rivals[0].incremental, *advice.incremental)


def _caused(advice: Advice, incremental: float) -> str:
    """What is caused: so many conversions, or so much value."""
    if advice.setting.kind == Kind.AMOUNT:
        return f"a value of {incremental:,.{_digits(advice)}f}"
    return f"{incremental:,.1f} {advice.setting.outcome or 'conversion'}s"


def _against(rival: Rival, digits: int) -> str:
    """How the recommended policy stands to another."""
    behind, (low, high) = rival.behind, rival.interval
    if low > 0:
        return f"{behind:,.{digits}f} more {_range(rival.interval, digits)} than {rival.policy}"
    if high < 0:
        fewer = _range(Limits(-high, -low), digits)
        less = "fewer" if digits == 1 else "less"
        return f"{-behind:,.{digits}f} {less} {fewer} than {rival.policy}"
    difference = f"{behind:+,.{digits}f}, {low:,.{digits}f} to {high:,.{digits}f}"
    return f"not clearly different from {rival.policy} ({difference})"


def _range(interval: Limits, digits: int) -> str:
    return f"({interval.low:,.{digits}f} to {interval.high:,.{digits}f})"


def _reason(advice: Advice) -> str:
    """Why this one of several that are tied."""
    spec, tied = spec_of(advice.choice.leading), advice.choice.tied
    reasons = []
    if spec.is_like(spec_of(DEFAULT)):
        after = ", with your history" if spec.needs_history else ""
        reasons.append(f"it is the default{after}")
    elif not spec.needs_history and any(spec_of(other).needs_history for other in tied):
        reasons.append("it needs no history")
    return f" because {' and '.join(reasons) or 'its mean is the highest'}"


def remarks(advice: Advice) -> list[str]:
    """What the sentence rests on, and what to be careful about."""
    setting = advice.setting
    lines = _simulated(advice) if setting.outcome else _logged(advice)
    lines += payment_lines(
        setting.payment,
        [(rival.policy, setting.budget, rival.spend) for rival in advice.rivals],
        setting.kind,
    )
    lines += amounts_lines(setting.kind, rivals_of(setting.measured_history))
    if setting.payment.on_conversion:
        lines.append(CHARGE_ESTIMATED)
    lines.append(
        "Policies were shown outcomes of those users alone for whom the trial did as they proposed "
        "(learned). Live a policy sees all: those that learn should do better than here."
    )
    if setting.history:
        lines.append(f"{RESPONSE_FIRST} learned from the same history, to differ in effects alone.")
    ahead = [rival.policy for rival in advice.rivals if rival.interval.high < 0]
    if ahead:
        lines.append(f"{', '.join(ahead)} did better than the choice made: more seeds would tell.")
    if setting.payment.cost_cap is not None:
        able = rivals_of(setting.measured_history, setting.kind)
        free = [name for name in able if not advice.has(name)]
        lines.append(f"Left out, because {NO_CAP_APPLIES}: {', '.join(free)}.")
    elif (
        # charged on conversion it is an estimate, and below the budget by chance, too
        not setting.payment.on_conversion
        and (everybody := advice.rival(TREAT_ALL).spend) < UNSPENT * setting.budget
    ):
        lines.append(f"Money is not scarce here: treating everybody costs {everybody:,.0f}.")
    return lines + [f"{rival.policy}: {rival.note}" for rival in advice.rivals if rival.note]


def _simulated(advice: Advice) -> list[str]:
    setting = advice.setting
    each = setting.budget / setting.users
    seeds = len(advice.seeds)
    share = ""
    if not setting.payment.on_conversion:
        share = f"{each:,.3g} per user treats {min(each / costs.MEAN, 1):.1%} of them at that cost."
        share += " That share matters most: "
    lines = [
        f"Simulated users stand for yours: {RATES[str(setting.outcome)]}, and "
        f"{price_of(setting.payment)}. {share or 'What matters most: '}if it costs you twice as "
        "much, ask with half the budget.",
        f"The figures are true effects. {seeds // 2} seeds chose, {seeds - seeds // 2} others "
        "estimate, so luck in the choice does not count.",
    ]
    if setting.history:
        lines.append("History is that of a randomised trial on such users, and must be so for you.")
    return lines


def _logged(advice: Advice) -> list[str]:
    setting = advice.setting
    seeds = len(advice.seeds)
    lines = [
        "The users of your trial stand for those to come. Each seed streams "
        f"{setting.measured_users:,} of its rows: measured with {setting.measured_history:,} rows "
        f"of history, you would have {setting.history:,}.",
        f"The figures are doubly robust estimates, means over {seeds} seeds. The intervals go row "
        "by row, so that they hold for new users like these and not for these rows alone; those of "
        f"differences allow for {len(advice.rivals) - 1} comparisons.",
    ]
    if setting.measured_users < setting.users:
        lines.append(
            f"The trial has no stream of {setting.users:,} users. {setting.measured_users:,} were "
            f"run with {setting.measured_budget:,.0f}, the same money for each user, and all "
            f"figures are multiplied by {setting.scale:.3g}. Policies that learn should do better "
            "than that, because more users teach them more."
        )
    return lines


def code(advice: Advice) -> list[str]:
    """How to go on, in Python."""
    setting = advice.setting
    if advice.recommended is None:
        return []
    several = f", treatments={setting.treatments}" if setting.treatments > 1 else ""
    several += arguments_of(setting.payment, setting.kind)
    yours = "  # as many features as you have" if setting.outcome else ""
    lines = [
        f'policy = bccb.make("{advice.recommended}", budget={setting.budget:.15g}, '
        f"horizon={setting.users}, features={setting.features}{several}){yours}"
    ]
    if rival_of(advice.recommended, setting.history).needs_history:
        lines.append("policy.learn(history)  # a log, as bccb.data.read_log returns it")
    return lines
