"""The results of ``bccb compare``, ``evaluate`` and ``advise`` as one page."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bccb.charge import AT_ONCE, TREATMENT, Payment
from bccb.evaluate.advice import Advice
from bccb.evaluate.compare import Summary
from bccb.evaluate.evaluation import Evaluation
from bccb.evaluate.live_comparison import LiveSummary
from bccb.evaluate.overlap import chance_of
from bccb.evaluate.trials import LoggedTrials, Trial
from bccb.intervals import Interval
from bccb.outcome import Kind
from bccb.policies import DEFAULT, spec_of
from bccb.report.figures import conversions_by_budget
from bccb.report.html import Section, page
from bccb.report.result_figures import MOST_FEATURES, Bar, interval_bars, overlap, segments
from bccb.report.results import headline_rows, live_rows, rival_rows, summary_rows
from bccb.report.segmented import Segmented, replayed, segmented
from bccb.report.wording import code
from bccb.types import Log

CAUSED = {Kind.CONVERSION: "Conversions caused", Kind.AMOUNT: "Value caused"}
LEARNED = (
    f"Effects are those that {DEFAULT} learns from all rows: as good as its model, with 95 % "
    "intervals. One feature in twenty that has nothing to do with the effect looks clear by chance."
)


def comparison_page(
    title: str,
    summary: Sequence[Summary | LiveSummary],
    said: Sequence[str],
    more: Sequence[Section] = (),
    *,
    capped: bool = False,
) -> str:
    """Policies side by side: what they caused, by budget where there are several."""
    budgets = {line.budget for line in summary}
    logged = any(isinstance(line, Summary) and line.interval for line in summary)
    band_of = "95 % interval" if logged else "mean ± 1 deviation over seeds"
    ranked = sorted(summary, key=lambda line: -line.incremental)
    bars = [_summary_bar(line) for line in ranked if not _is_withheld(line)]
    caused = CAUSED[_kind_of(summary)]
    if len(budgets) > 1:
        rows = [
            {"policy": line.policy, "budget": line.budget, "mean": bar.value, "deviation": half}
            for line in summary
            if not _is_withheld(line)
            for bar in [_summary_bar(line)]
            for half in [0.0 if bar.low is None or bar.high is None else (bar.high - bar.low) / 2]
        ]
        figure = conversions_by_budget(rows, caused, "currency units", band_of)
    else:
        figure = interval_bars(caused, bars, f"{caused} ({band_of})")
    first = Section(
        name="caused",
        title="What each policy caused",
        text="At the right: the money that was spent." if len(budgets) == 1 else "",
        rows=_comparison_rows(summary, capped),
        figure_svg=figure,
        ours=DEFAULT,
    )
    return page(title, said, (), [first, *more])


def comparison_segments(
    trials: Callable[[int], Trial],
    summary: Sequence[Summary],
    seed: int,
    payment: Payment = AT_ONCE,
) -> list[Section]:
    """Whom the best of the policies treats, in the replay of one seed with the most money."""
    most = max(line.budget for line in summary)
    own = [
        line for line in summary if line.budget == most and not spec_of(line.policy).needs_effects
    ]
    if not own:
        return []
    best = max(own, key=lambda line: line.incremental)
    return _replayed(trials(seed), best.policy, most, seed, payment)


def _replayed(trial: Trial, name: str, budget: float, seed: int, payment: Payment) -> list[Section]:
    made = replayed(trial, name, budget, seed, payment)
    if made is None:
        return []
    who = f"Treated are those for whom {name} proposes it with {budget:,.0f}, in one replay."
    return segment_sections(segmented(*made), who, payment.charge, made[0].kind)


def _comparison_rows(
    summary: Sequence[Summary | LiveSummary], capped: bool
) -> list[dict[str, str]]:
    replays = [line for line in summary if isinstance(line, Summary)]
    lives = [line for line in summary if isinstance(line, LiveSummary)]
    return summary_rows(replays) if replays else live_rows(lives, capped)


def _kind_of(summary: Sequence[Summary | LiveSummary]) -> Kind:
    """The kind of outcomes, the same in all lines."""
    return Kind(next((line.kind for line in summary), Kind.CONVERSION))


def _is_withheld(line: Summary | LiveSummary) -> bool:
    return isinstance(line, Summary) and bool(line.withheld)


def _summary_bar(line: Summary | LiveSummary) -> Bar:
    deviation, mean = line.incremental_deviation, line.incremental
    spent = f"{line.spend:,.0f} spent"
    if isinstance(line, Summary) and line.interval is not None:
        return Bar(line.policy, mean, line.interval.low, line.interval.high, spent)
    if deviation is None:
        return Bar(line.policy, mean, beside=spent)
    return Bar(line.policy, mean, mean - deviation, mean + deviation, spent)


def evaluation_page(
    title: str,
    log: Log,
    evaluations: Sequence[Evaluation],
    said: Sequence[str],
    charge: str = TREATMENT,
) -> str:
    """What the decisions of a log caused, what others would have, and what that rests on."""
    bars = [
        Bar(one.policy, line.incremental, line.low, line.high, f"{one.spend:,.0f} spent")
        for one in evaluations
        for line in [one.headline]
        if line is not None
    ]
    caused = CAUSED[Kind(log.kind)]
    sections = [
        Section(
            name="caused",
            title="What was caused, and what others would have caused",
            text="By the doubly robust estimate; at the right, the money spent.",
            rows=headline_rows(evaluations),
            figure_svg=interval_bars(caused, bars, f"{caused} (95 % interval)") if bars else None,
            ours=evaluations[0].policy,
        ),
        _overlap_section(log, evaluations),
    ]
    treated = "Treated are those whom this log treated."
    who = segment_sections(segmented(log, log.actions), treated, charge, log.kind)
    return page(title, said, (), [*sections, *who])


def _overlap_section(log: Log, evaluations: Sequence[Evaluation]) -> Section:
    """How well the log can tell: chances of being left alone, and effective users."""
    rows = [
        {
            "policy": one.policy,
            "effective users": f"{one.effective_users:,.0f}",
            "without overlap": "" if one.outside is None else f"{one.outside.users:.1%}",
        }
        for one in evaluations
    ]
    alone, figure = chance_of(log, 0), None
    text = "Every user had the same chance of being left alone: all can be compared."
    if log.probabilities is not None and alone.min() == alone.min():  # not NaN
        text = "Users can be compared where both groups reach over the same probabilities."
        figure = overlap("Chance of being left alone", alone, log.actions > 0)
    elif log.probabilities is not None:
        text = "With several treatments the log does not say how likely the others were."
    return Section(
        name="overlap",
        title="Overlap",
        text=text,
        rows=rows,
        figure_svg=figure,
        ours=evaluations[0].policy,
    )


def advice_page(advice: Advice, history: Log | int, said: Sequence[str]) -> str:
    """The recommended policy beside its rivals; whom it treats, where a trial is the history."""
    leading, setting = advice.choice.leading, advice.setting
    title = f"Advice: {setting.budget:,.0f} for {setting.users:,} users"
    bars = [
        Bar(one.policy, -one.behind, -one.interval.high, -one.interval.low)
        for one in advice.rivals
        if one.policy != leading
    ]
    across = f"{CAUSED[Kind(setting.kind)]}, compared with {leading} (95 % interval)"
    first = Section(
        name="policies",
        title=f"All policies, compared with {leading}",
        text=f"Left of zero: clearly worse than {leading} where the bar does not touch zero.",
        rows=rival_rows(advice),
        figure_svg=interval_bars("Policies compared", bars, across),
        ours=leading,
    )
    more: list[Section] = []
    if isinstance(history, Log):
        seed = advice.runs[0].seed
        trial = LoggedTrials(history, setting.measured_users, setting.measured_history)(seed)
        more = _replayed(trial, leading, setting.measured_budget, seed, setting.payment)
    return page(title, said, (), [first, *more], code(advice))


def segment_sections(
    found: Sequence[Segmented],
    who: str,
    charge: str = TREATMENT,
    kind: str = Kind.CONVERSION,
) -> list[Section]:
    """Who is treated and the effect by segment, a section for each treatment.

    What a segment costs is left out where costs are charged on conversion: of users for whom the
    log did otherwise it is not known.
    """
    sections, shown_as = [], _amount if kind == Kind.AMOUNT else _points
    for number, one in enumerate(found, 1):
        if not one.features:
            continue
        name = f" with {one.treatment}" if len(found) > 1 else ""
        title = f"Who is treated{name}, and the effect by segment"
        clear = [each.feature for each in one.features if each.is_clear]
        matters = f"The effect differs clearly by {', '.join(clear)}." if clear else NOTHING_CLEAR
        more = len(one.features) > MOST_FEATURES
        shown = f" The figure shows the {MOST_FEATURES} that matter most." if more else ""
        average = f"Average effect: {_ranged(one.average, shown_as)}."
        sections.append(
            Section(
                name=f"segments-{number}",
                title=title,
                text=f"{who} {average} {matters}{shown}\n{LEARNED}",
                rows=_segment_rows(one, charge, shown_as),
                figure_svg=segments(title, one, kind),
            )
        )
    return sections


NOTHING_CLEAR = "These data do not show that it differs by any feature."


def _segment_rows(
    one: Segmented, charge: str, shown_as: Callable[[float], str]
) -> list[dict[str, str]]:
    return [
        {
            "feature": feature.feature,
            "segment": segment.name,
            "users": f"{segment.share:.1%}",
            "effect (95 %)": _ranged(segment.effect, shown_as),
            "treated": f"{segment.treated:.1%}",
            **({"spend": f"{segment.spend:,.0f}"} if charge == TREATMENT else {}),
        }
        for feature in one.features
        for segment in feature.segments
    ]


def _ranged(effect: Interval, shown_as: Callable[[float], str]) -> str:
    return f"{shown_as(effect.value)} ({shown_as(effect.low)} to {shown_as(effect.high)})"


def _amount(value: float) -> str:
    """An effect on the value of a user."""
    return f"{value:+,.2f}"


def _points(value: float) -> str:
    """An effect as a change of a rate, in percentage points."""
    return f"{100 * value:+.2f} %"
