"""The peers of the benchmark do the job that bccb does; nothing here looks at a clock."""

import numpy as np
import pytest

from bccb.evaluate.replay import replay
from bench import report, rounds
from bench.__main__ import interleaved
from bench.learners import ScikitLearn, VowpalWabbit, labelled_texts, texts_of
from bench.loops import LoopResult, replay_in_python, stream_of
from bench.sizes import SEED, Sizes, log_of, policy_for

USERS = 3_000
SOON = {"prior_effect": 5e-4}  # leaves half the users alone, so that warm-up ends early
GREEDY = {**SOON, "eta": 0.0}
TINY = Sizes(users=200, rounds=20, slow_rounds=10, repeats=2)


def scikit_tally(parameters: dict[str, float]) -> LoopResult:
    log = log_of(USERS)
    policy = policy_for(log, parameters=parameters)
    learner = ScikitLearn(log, policy.parameters)
    return replay_in_python(learner, stream_of(log), policy.budget, policy.parameters, SEED)


def bccb_tally(parameters: dict[str, float]) -> LoopResult:
    log = log_of(USERS)
    result = replay(policy_for(log, parameters=parameters), log)
    return LoopResult(
        result.encountered, result.matched, result.treated, result.conversions, result.spend
    )


def test_scikit_loop_decides_as_replay_does_where_nothing_is_drawn() -> None:
    pytest.importorskip("sklearn")
    ours, theirs = bccb_tally(GREEDY), scikit_tally(GREEDY)
    assert ours[:4] == theirs[:4]
    assert ours.spend == pytest.approx(theirs.spend, abs=0.01)


def test_scikit_loop_matches_and_treats_about_as_many_with_other_draws() -> None:
    pytest.importorskip("sklearn")
    ours, theirs = bccb_tally(SOON), scikit_tally(SOON)
    assert ours.encountered == theirs.encountered
    assert ours.matched == pytest.approx(theirs.matched, rel=0.25)
    assert ours.treated == pytest.approx(theirs.treated, rel=0.25)


def test_scikit_loop_fits_both_arms() -> None:
    pytest.importorskip("sklearn")
    log = log_of(USERS)
    policy = policy_for(log, parameters=SOON)
    learner = ScikitLearn(log, policy.parameters)
    replay_in_python(learner, stream_of(log), policy.budget, policy.parameters, SEED)
    assert all(np.any(model.coef_) for model in learner.models)


def test_vowpal_loop_learns_and_keeps_to_the_budget() -> None:
    pytest.importorskip("vowpalwabbit", reason="vowpalwabbit is not installed")
    log = log_of(USERS)
    policy = policy_for(log, parameters=SOON)
    learner = VowpalWabbit(labelled_texts(log))
    tally = replay_in_python(learner, stream_of(log), policy.budget, policy.parameters, SEED)
    assert 0 < tally.treated < tally.matched < tally.encountered
    assert tally.spend <= policy.budget
    learner.see(0)
    untaught = VowpalWabbit(labelled_texts(log))
    untaught.see(0)
    assert learner.effect() != untaught.effect() == 0.0


def test_vowpal_example_means_the_same_to_both_models() -> None:
    pytest.importorskip("vowpalwabbit", reason="vowpalwabbit is not installed")
    learner = VowpalWabbit(labelled_texts(log_of(100)))
    for row in range(100):
        learner.see(row)
        learner.learn(0, 0.0)
        learner.learn(1, 0.0)
    assert learner.effect() == 0.0


def test_texts_carry_every_feature() -> None:
    log = log_of(3)
    text = texts_of(log)[1]
    assert [float(part.split(":")[1]) for part in text.split()[1:]] == pytest.approx(
        log.features[1].tolist(), rel=1e-5
    )


@pytest.mark.parametrize("name", rounds.CONTESTANTS)
def test_every_round_runs(name: str) -> None:
    package = name.removeprefix("round: ").split(",")[0]
    if not package.startswith("pooled-"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    assert rounds.CONTESTANTS[name](TINY) > 0.0


def test_missing_peer_is_reported_and_the_others_are_measured() -> None:
    def absent(sizes: Sizes) -> float:
        raise ModuleNotFoundError("No module named 'river'")

    samples, missing = interleaved(
        {"round: bccb": lambda _: 1e-6, "round: river": absent}, TINY, lambda _: None
    )
    assert samples["round: bccb"] == [1e-6, 1e-6]
    assert missing == {"round: river": "No module named 'river'"}


def test_report_judges_by_the_target_and_names_what_is_not_installed() -> None:
    samples = {
        **{name: [3e-7, 1e-7] for name in ("replay: bccb", "replay: bccb, shuffled")},
        "replay: bccb, grown": [1.2e-7],
        "replay: bccb, grown and shuffled": [1.2e-7],
        "replay: scikit-learn": [1e-4],
        "replay: pooled-bayes": [5e-7],
        "round: pooled-bayes": [5e-6],
        "round: pooled-trees": [7e-6],
        **{name: [4e-6] for name in ("round: bccb", "round: bccb, from a list")},
        "memory: data": [1.0],
        "memory: replay": [1.5],
        "memory: simulate and replay": [2.0],
        "import": [0.6],
        "first decision": [1.0],
        "first decision, nothing cached": [9.0],
    }
    names = ("replay: vowpalwabbit", "round: vowpalwabbit", "round: river", "round: mabwiser")
    rows = report.rows_of(samples, dict.fromkeys(names, "no wheel"), TINY)
    cells = {row.what: row.cells()[1:] for row in rows}
    assert cells["replay of bccb, a user"] == ("0.1 µs", "at most 0.2 µs", "yes")
    assert cells["  over bccb"] == ("1,000 x", "at least 500 x", "yes")
    assert cells["import bccb"] == ("0.6 s", "at most 0.5 s", "no")
    assert cells["VW's predict + learn"] == ("not installed: no wheel", "", "")
    assert cells["time for 2,000 users over 200"] == ("12 x", "at most 11 x", "no")
