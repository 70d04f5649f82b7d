from __future__ import annotations

from html import unescape

import numpy as np
import pytest

from bccb.evaluate.advice import Advice, Rival, Setting
from bccb.evaluate.choice import Choice
from bccb.evaluate.compare import Summary
from bccb.evaluate.estimates import Estimate
from bccb.evaluate.evaluation import Evaluation
from bccb.evaluate.overlap import OutsideOverlap
from bccb.evaluate.statistics import Limits
from bccb.intervals import Interval
from bccb.report import result_page
from bccb.report.result_page import (
    advice_page,
    comparison_page,
    evaluation_page,
    segment_sections,
)
from bccb.report.results import headline_rows, rival_rows, summary_rows
from bccb.report.segmented import FeatureFigures, Segmented, SegmentFigures
from bccb.types import Log


def found(features: int = 3, treatments: int = 1) -> list[Segmented]:
    draw = np.random.default_rng(2)

    def segment(name: str, effect: float) -> SegmentFigures:
        reach, share = 0.004 + 0.004 * draw.random(), float(draw.random())
        return SegmentFigures(
            name, 1 / 3, Interval(effect, effect - reach, effect + reach), share, 1_000 * share
        )

    names = ["age", "spend <b>", "channel", "member", "visits", "city", "plan", "since", "device"]
    return [
        Segmented(
            treatment=f"coupon-{k}",
            average=Interval(0.01, 0.005, 0.015),
            features=tuple(
                FeatureFigures(
                    name,
                    place == 0,
                    tuple(
                        segment(label, 0.01 + (i - 1) * 0.02 / (1 + place))
                        for i, label in enumerate(("up to 35.5", "35.5 to 47", "above 47"))
                    ),
                )
                for place, name in enumerate(names[:features])
            ),
        )
        for k in range(1, treatments + 1)
    ]


def line(policy: str, budget: float, incremental: float) -> Summary:
    return Summary(policy, budget, 20, 90.0, 4.0, incremental, 3.0, budget, 5e4, 0.5, 0.01)


COMPARED = {"pooled-trees": 80.4, "hybrid": 83.0, "cheapest-first": 61.0, "treat-all": -7.5}


def test_a_comparison_has_the_words_and_figures_of_the_terminal() -> None:
    summary = [line(policy, 5_000.0, caused) for policy, caused in COMPARED.items()]
    page = unescape(comparison_page("simulator: 9 users", summary, ["hybrid: a note"]))
    assert "hybrid: a note" in page
    for row in summary_rows(summary):
        for text in row.values():
            assert text in page
    assert "5,000 spent" in page
    assert "Claims" not in page


def test_several_budgets_are_drawn_as_lines() -> None:
    summary = [
        line(policy, money, caused * money / 5_000)
        for money in (1_000.0, 5_000.0)
        for policy, caused in COMPARED.items()
    ]
    page = comparison_page("two budgets", summary, [])
    assert "Conversions caused against budget" in page
    assert "Budget (currency units)" in page


def trial(probabilities: bool, treatments: int = 1) -> Log:
    draw = np.random.default_rng(1)
    alone = 0.2 + 0.6 * draw.random(400)
    actions = (draw.random(400) > alone).astype(np.int64)
    return Log(
        features=draw.normal(size=(400, 2)),
        actions=actions,
        outcomes=(draw.random(400) < 0.3).astype(np.float64),
        micros=np.full((400, treatments), 500_000),
        probabilities=np.where(actions == 0, alone, 1 - alone) if probabilities else None,
    )


def evaluation(policy: str, value: float) -> Evaluation:
    estimates = tuple(
        Estimate(method, value, 4.0, value - 8.0, value + 8.0) for method in ("IPW", "SNIPS", "DR")
    )
    outside = OutsideOverlap(0.034, 0.05)
    return Evaluation(policy, 400, 180, 60.0, 90, 90.0, estimates, 77.0, outside, ())


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (trial(True), "Probability of being left alone"),
        (trial(False), "Every user had the same chance"),
        (trial(True, 2), "does not say how likely the others were"),
    ],
    ids=["probabilities", "a trial", "two treatments"],
)
def test_an_evaluation_shows_what_it_rests_on(
    log: Log, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_page, "segmented", lambda log, actions: found())
    evaluations = [evaluation("this log", 31.5), evaluation("treat-all", 12.25)]
    page = unescape(evaluation_page("log.csv: 400 users", log, evaluations, ["A sentence."]))
    for row in headline_rows(evaluations):
        for name in ("incremental (95 %)", "cost of each (95 %)"):
            assert row[name] in page
    assert words in page
    assert "3.4%" in page
    assert "A sentence." in page
    assert "Who is treated" in page


def test_advice_compares_all_with_the_leading_policy() -> None:
    setting = Setting(5_000.0, 100_000, 0, 5_000.0, 100_000, 0, 12, 1, "conversion")
    choice = Choice("hybrid", "hybrid", "pooled-trees", "hybrid", ("hybrid",))
    rivals = tuple(
        Rival(
            policy,
            caused,
            Limits(caused - 3.0, caused + 3.0),
            3.0,
            4_999.0,
            5e4,
            83 - caused,
            Limits(81 - caused, 85 - caused),
            (),
        )
        for policy, caused in sorted(COMPARED.items(), key=lambda item: -item[1])
    )
    advice = Advice(setting, choice, Limits(80.0, 86.0), None, rivals, ())
    page = unescape(advice_page(advice, 0, ["Use hybrid."]))
    assert "Use hybrid." in page
    assert "compared with hybrid" in page
    for row in rival_rows(advice):
        assert row["behind by (95 %)"] in page


def test_segments_are_shown_for_each_treatment_and_the_strongest_features_alone() -> None:
    sections = segment_sections(found(features=9, treatments=2), "Treated are some.")
    assert [section.name for section in sections] == ["segments-1", "segments-2"]
    first = sections[0]
    assert first.title == "Who is treated with coupon-1, and the effect by segment"
    assert "The effect differs clearly by age." in first.text
    assert "The figure shows the 8 that matter most." in first.text
    assert len(first.rows) == 27
    assert first.figure_svg is not None
    assert "since" in first.figure_svg
    assert "device" not in first.figure_svg
    assert "spend &lt;b&gt;" in first.figure_svg


def test_nothing_is_shown_where_nothing_could_be_learned() -> None:
    assert segment_sections([], "Treated are some.") == []
