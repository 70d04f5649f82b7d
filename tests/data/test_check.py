"""A first look at any file proposes the right roles, or says what it cannot tell."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tables import write_csv, write_gzip, write_lines, write_parquet
from test_presets import real
from test_service_logs import COLUMNS as CAMPAIGN
from test_service_logs import ROWS as DECISIONS

from bccb.data import Check, Columns, check, preset, read_log, simulate, write_log
from bccb.data import look as looking
from bccb.errors import InputError
from bccb.types import Floats
from scripts.messy_trial import messy_trial

ROWS = 4_000
PRICED = Columns(cost=0.5)


def parts(checked: Check) -> dict[str, str]:
    return {role.column: role.part for role in checked.roles}


def others(checked: Check) -> dict[str, str]:
    """The parts of columns that are no features."""
    return {name: part for name, part in parts(checked).items() if part != "feature"}


def asked(checked: Check) -> list[str]:
    return [question.option for question in checked.questions]


def said(checked: Check) -> str:
    return "\n".join(problem.text for problem in checked.problems)


def shop(rows: int = ROWS, **changes: Any) -> pl.DataFrame:
    """A clean trial, in the words of another shop; changes replace or add columns, None drops."""
    draw = np.random.default_rng(5)
    arm = draw.integers(0, 2, rows)
    converted = draw.random(rows) < 0.2 + 0.1 * arm
    columns: dict[str, Any] = {
        "user": [f"u{number}" for number in range(rows)],
        "visits_before": draw.poisson(3, rows),
        "income": draw.lognormal(10, 1, rows).round(),
        "plan": draw.choice(["free", "basic", "pro"], rows),
        "group": np.where(arm == 1, "test", "control"),
        "converted": converted,
        "spend": np.where(converted, draw.lognormal(3, 1, rows), 0.0),
    }
    columns |= changes
    return pl.DataFrame({name: values for name, values in columns.items() if values is not None})


def arms(rows: int = ROWS) -> np.ndarray:
    return np.asarray((shop(rows)["group"] == "test").to_numpy().astype(int))


def noise(seed: int = 0, rows: int = ROWS) -> Floats:
    return np.random.default_rng(seed).normal(size=rows)


@pytest.mark.parametrize(
    ("write", "suffix"),
    [
        (write_csv, "csv"),
        (write_gzip, "csv.gz"),
        (write_parquet, "parquet"),
        (write_lines, "ndjson"),
    ],
)
def test_the_messy_trial_in_every_format(
    write: Callable[[pl.DataFrame, Path], None], suffix: str, tmp_path: Path
) -> None:
    path = tmp_path / f"trial.{suffix}"
    write(messy_trial().frame, path)
    checked = check(path)
    assert parts(checked) == {
        "customer_id": "id",
        "signup_date": "date",
        "last_order": "date",
        "city": "feature",
        "channel": "feature",
        "age": "feature",
        "newsletter": "feature",
        "past_spend": "feature",
        "orders_last_year": "feature",
        "country": "constant",
        "coupon": "arm",
        "pages_after_mail": "after treatment",
        "days_to_redemption": "after treatment",
        "purchased": "outcome",
        "revenue": "leak",
        "coupon_cost": "paid",
    }
    assert (checked.control, checked.cost, checked.questions) == ("none", (2.0, 4.0), ())
    assert checked.columns is not None
    assert checked.columns.impute
    assert "age is missing in 2,669 rows (13.3%); --impute puts the median there" in said(checked)
    assert "coupon_cost is what was paid, and a policy needs what treating would cost" in said(
        checked
    )
    assert "city has 70 levels; the rare ones (" in said(checked)
    log = read_log(path, checked.columns)
    assert (log.users, log.treatment_names) == (20_000, ("2 off", "4 off"))
    assert np.unique(log.micros, axis=0).tolist() == [[2_000_000, 4_000_000]]


@pytest.mark.parametrize("seed", [2, 3])
def test_what_was_measured_after_the_mail_is_found_without_its_name(seed: int) -> None:
    frame = messy_trial(seed=seed).frame.rename(
        {"pages_after_mail": "pages", "days_to_redemption": "waited", "coupon_cost": "money"}
    )
    found = parts(check(frame))
    assert found["pages"] == "after treatment"
    assert {found["waited"], found["money"]} <= {"leak", "after treatment"}
    assert [name for name, part in found.items() if part in ("feature", "date")] == [
        "signup_date", "last_order", "city", "channel", "age", "newsletter", "past_spend",
        "orders_last_year",
    ]  # fmt: skip


def test_other_words_for_the_same_things() -> None:
    checked = check(shop())
    assert parts(checked) == {
        "user": "id",
        "visits_before": "feature",
        "income": "feature",
        "plan": "feature",
        "group": "arm",
        "converted": "outcome",
        "spend": "leak",
    }
    assert (checked.control, checked.cost) == ("control", None)
    assert check(shop(), PRICED).columns == Columns(
        "group", "control", "converted", cost=0.5, excluded=("user", "spend")
    )


def test_a_cost_that_no_column_tells_is_asked_for_and_not_made_up() -> None:
    checked = check(shop())
    assert (asked(checked), checked.columns) == (["--cost PRICE"], None)
    assert checked.questions[0].text.startswith("no column tells what a treatment would cost")


@pytest.mark.parametrize(
    ("values", "control"),
    [
        (lambda arm: arm, "0"),
        (lambda arm: arm * 2, "0"),
        (lambda arm: arm.astype(bool), "false"),
        (lambda arm: np.where(arm, "10% off, today", "No coupon"), "No coupon"),
        (lambda arm: np.where(arm, "B", "holdout"), "holdout"),
    ],
)
def test_the_control_is_known_by_its_word(
    values: Callable[[np.ndarray], np.ndarray], control: str
) -> None:
    checked = check(shop(group=None, variant=values(arms())), PRICED)
    assert parts(checked)["variant"] == "arm"
    assert checked.control == control
    assert checked.columns is not None


def test_a_control_without_a_word_is_asked_for_and_not_guessed() -> None:
    frame = shop(group=None, variant=np.where(arms(), "B", "A"))
    checked = check(frame, PRICED)
    assert (asked(checked), checked.columns) == (["--control VALUE"], None)
    assert checked.questions[0].candidates == ("A", "B")
    answered = check(frame, replace(PRICED, control="A"))
    assert answered.columns is not None
    assert answered.columns.control == "A"


def test_a_control_without_a_word_is_where_nothing_was_paid() -> None:
    arm = arms()
    paid = np.where(arm == 1, 0.5, 0.0)
    checked = check(shop(group=None, variant=np.where(arm, "B", "A"), cost=paid))
    assert checked.control == "A"
    assert (checked.cost, parts(checked)["cost"]) == (0.5, "copy of arm")


def test_two_columns_that_may_be_the_arm_are_asked_about() -> None:
    other = np.where(noise() > 0, "control", "x")
    checked = check(shop(variant=other))
    assert (asked(checked)[0], checked.columns) == ("--treatment COL", None)
    assert set(checked.questions[0].candidates) == {"group", "variant"}
    answered = check(shop(variant=other), replace(PRICED, treatment="group"))
    assert answered.columns is not None
    assert answered.columns.treatment == "group"
    assert parts(answered)["variant"] == "feature"


def test_of_two_columns_that_tell_the_arm_the_finer_one_is_taken() -> None:
    arm = arms()
    finer = np.where(arm == 0, "none", np.where(noise() > 0, "10", "20"))
    checked = check(shop(group=None, treated=arm, coupon=finer))
    assert parts(checked)["coupon"] == "arm"
    assert parts(checked)["treated"] == "copy of arm"


def test_two_outcomes_are_asked_about_and_visits_give_way_to_conversions() -> None:
    converted = shop()["converted"].to_numpy()
    visited = converted | (noise() > 0)
    checked = check(shop(visit=visited))
    assert parts(checked)["converted"] == "outcome"
    assert parts(checked)["visit"] == "after treatment"
    checked = check(shop(purchased=visited))
    assert (asked(checked), checked.columns) == (["--outcome COL"], None)
    answered = check(shop(purchased=visited), replace(PRICED, outcome="purchased"))
    assert parts(answered)["converted"] == "after treatment"
    assert answered.columns is not None


def test_what_was_bought_before_is_a_feature_and_not_the_outcome() -> None:
    found = parts(check(shop(purchased_last_year=noise() > 0)))
    assert found["purchased_last_year"] == "feature"
    assert found["converted"] == "outcome"


def test_money_alone_is_asked_about_and_taken_when_named() -> None:
    checked = check(shop(converted=None, plan=None))
    assert asked(checked) == ["--outcome COL"]
    assert checked.questions[0].candidates == ("spend",)
    assert "'spend' may be amounts" in checked.questions[0].text
    checked = check(shop(converted=None, plan=None), Columns(outcome="spend", cost=1.0))
    assert checked.columns is not None
    assert checked.columns.outcome == "spend"


def test_money_beside_a_conversion_is_proposed_as_an_outcome() -> None:
    said = [one.text for one in check(shop(plan=None)).problems]
    (line,) = (text for text in said if "--outcome" in text)
    assert line == (
        "spend is what each 'converted' brought. To count money instead of conversions, use "
        "--outcome spend."
    )
    # what is not 0 elsewhere, too, was not brought by conversions
    other = np.where(np.arange(len(shop())) % 3 == 0, 20.0, 0.0)
    assert not any("--outcome" in one.text for one in check(shop(spend=other)).problems)


def test_an_outcome_that_is_one_or_missing_is_not_taken_for_complete() -> None:
    won = [1 if one else None for one in shop()["converted"]]
    checked = check(shop(converted=None, purchase=won))
    assert (
        checked.questions[0].text
        == "'purchase' is '1' or missing: write 0 there if missing means no"
    )


def test_texts_of_which_none_is_a_word_for_yes_are_asked_about() -> None:
    stayed = np.where(shop()["converted"].to_numpy(), "stayed", "left")
    checked = check(shop(converted=None, outcome=stayed))
    assert asked(checked) == ["--positive VALUE"]
    answered = check(shop(converted=None, outcome=stayed), replace(PRICED, positive="stayed"))
    assert answered.columns is not None
    assert answered.columns.positive == "stayed"


def test_a_cost_that_is_the_same_for_all_arms_is_the_cost() -> None:
    checked = check(shop(cost=np.exp(noise()).clip(0.05, 5)))
    assert (parts(checked)["cost"], checked.cost) == ("cost", "cost")


def test_a_cost_that_depends_on_the_arm_or_the_outcome_is_not() -> None:
    arm, price = arms(), np.exp(noise()).clip(0.05, 5)
    won = shop()["converted"].to_numpy()
    for paid in (price * arm, price * won, price * (1 + 2 * arm), np.where(arm, price, np.nan)):
        checked = check(shop(cost=paid))
        assert parts(checked)["cost"] == "paid"
        assert "what treating would cost" in said(checked)
        with pytest.raises(InputError, match="--cost is 'cost', but must be another column or a"):
            check(shop(cost=paid), Columns(cost="cost"))


def test_a_price_that_goes_along_with_the_outcome_only_is_a_cost() -> None:
    """Those who convert may cost more: that depends on the user, and not on the outcome."""
    won = shop()["converted"].to_numpy()
    checked = check(shop(price=np.exp(0.3 * won + 0.5 * noise())))
    assert parts(checked)["price"] == "cost"


def test_costs_of_several_treatments_are_told_by_their_names() -> None:
    arm = np.random.default_rng(1).choice(["control", "mail", "call"], ROWS)
    prices: dict[str, Any] = {
        "cost_mail": np.exp(noise(1)) + 0.1,
        "cost_call": np.exp(noise(2)) + 0.1,
    }
    checked = check(shop(group=arm, **prices))
    assert checked.cost == ("cost_call", "cost_mail")
    assert asked(check(shop(bid=prices["cost_mail"], fee=prices["cost_call"]))) == ["--cost COL"]
    renamed = shop(group=arm, **prices).rename({"cost_mail": "cost_a", "cost_call": "cost_b"})
    assert asked(check(renamed)) == ["--cost COL"]
    assert check(renamed, Columns(cost=("cost_b", "cost_a"))).columns is not None


def test_a_log_of_decisions_is_recognised_by_its_probabilities() -> None:
    price = np.random.default_rng(0).uniform(0.2, 0.8, ROWS)
    checked = check(shop(propensity=price, income=np.exp(noise()) + 2 * arms()), PRICED)
    assert parts(checked)["propensity"] == "probability"
    assert parts(checked)["income"] == "feature"  # arms may differ where a policy chose them
    assert checked.columns is not None
    assert checked.columns.probability == "propensity"


def test_arms_that_chance_did_not_choose_are_reported() -> None:
    shifted: dict[str, Any] = {f"x{number}": noise(number) + arms() for number in range(4)}
    checked = check(shop(**shifted))
    assert "the arms were not chosen by chance" in said(checked)
    assert parts(checked)["x0"] == "feature"


def test_numbers_that_name_their_row_are_ids_and_amounts_are_not() -> None:
    draw = np.random.default_rng(7)
    account, order = draw.permutation(10**6)[:ROWS], np.arange(ROWS) + 17
    store = draw.integers(0, 60, ROWS)
    found = parts(check(shop(account=account, order_no=order, store_id=store)))
    assert (found["account"], found["order_no"], found["store_id"]) == ("id", "id", "id")
    few = shop(200, cents=draw.permutation(90_000)[:200], row=range(200))
    assert parts(check(few))["cents"] == "feature"
    assert parts(check(few))["row"] == "id"


def test_columns_that_cannot_be_read_are_named() -> None:
    income = [f"{number:,.2f}" for number in shop()["income"]]
    dates = [f"{1 + number % 28:02d}.{1 + number % 12:02d}.2024" for number in range(ROWS)]
    stray = [str(number) if number % 500 else "unknown" for number in range(ROWS)]
    lists = [[1.0, 2.0]] * ROWS
    checked = check(shop(income=income, joined=dates, points=stray, basket=lists), PRICED)
    for name in ("income", "joined", "points", "basket"):
        assert parts(checked)[name] == "unreadable", name
    assert "numbers written as text, such as '21,599.00'; write them as 1234.5" in said(checked)
    assert "joined is left out: dates such as '01.01.2024'; write them as 2030-01-31" in said(
        checked
    )
    assert "points is left out: numbers, but text in 8 rows, such as 'unknown'" in said(checked)
    assert checked.columns is not None
    assert check(shop(income=income), replace(PRICED, excluded=("income",))).columns is not None


def test_a_cost_that_goes_with_the_arm_is_told_for_each_treatment() -> None:
    calls = ["No call", "Script A", "Script B", "Script C"]
    prices = [0.0, 3.2, 4.5, 2.1]
    turn = np.random.default_rng(1).integers(4, size=ROWS)
    frame = shop(script=[calls[one] for one in turn], call_cost=[prices[one] for one in turn])
    checked = check(frame.drop("group").rename({"converted": "retained"}))
    assert checked.columns is not None
    assert (checked.columns.treatment, checked.columns.outcome) == ("script", "retained")
    assert checked.columns.cost == (3.2, 4.5, 2.1)
    listed = "3.2 for 'Script A', 4.5 for 'Script B' and 2.1 for 'Script C'"
    assert checked.cost_reason == f"the values of 'call_cost': {listed}"


def test_numbers_as_text_of_which_none_is_wrong_are_named() -> None:
    checked = check(shop(points=["1.5", "1e3", "-2.5e-07", "12345.5"] * (ROWS // 4)))
    assert "points is left out: numbers written as text, such as '1.5'" in said(checked)


def test_missing_arms_and_outcomes_stop_it() -> None:
    for name in ("group", "converted"):
        values = shop()[name].to_list()
        values[7] = None
        changes: dict[str, Any] = {name: values}
        checked = check(shop(**changes))
        assert checked.columns is None
        assert f"{name} is missing in 1 row (" in said(checked)


def test_few_rows_few_conversions_and_small_arms_are_reported() -> None:
    arm = np.where(np.arange(ROWS) < 20, "mail", shop()["group"].to_numpy())
    rare = np.random.default_rng(3).random(ROWS) < 0.01
    text = said(check(shop(group=arm, converted=rare, spend=None)))
    assert "arm 'mail' has 20 of 4,000 rows" in text
    assert "few conversions: " in text
    assert "120 rows are few" in said(check(shop(120)))


@pytest.mark.parametrize("treatments", [1, 2])
def test_simulated_logs(treatments: int, tmp_path: Path) -> None:
    log = simulate(20_000, seed=1, outcome="visit", treatments=treatments)
    for suffix in ("csv", "parquet"):
        path = tmp_path / f"log.{suffix}"
        write_log(log, path)
        checked = check(path)
        assert checked.columns is not None
        assert checked.described == (suffix == "parquet")
        again = read_log(path, checked.columns)
        np.testing.assert_array_equal(again.features, log.features)
        np.testing.assert_array_equal(again.actions, log.actions)
        np.testing.assert_array_equal(again.micros, log.micros)


@pytest.mark.parametrize("suffix", ["parquet", "ndjson"])
def test_the_log_of_a_campaign_tells_its_own_columns(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"log.{suffix}"
    status = ["observed"] * 4 + ["cancelled", "open"]
    frame = pl.concat([pl.DataFrame(DECISIONS | {"status": status})] * 100)
    if suffix == "parquet":
        frame.write_parquet(path, metadata=CAMPAIGN.metadata())
    else:
        frame.write_ndjson(path)
    checked = check(path)
    found = parts(checked)
    assert found["age"] == "feature"
    assert (found["probability"], found["status"]) == ("probability", "status")
    assert (found["cost"], found["price"], found["decision_id"]) == ("cost", "excluded", "excluded")
    assert (checked.described, checked.control) == (True, "control")
    assert "200 of 600 decisions have no outcome. Some are open still: --closed" in said(checked)
    assert checked.columns is not None
    assert read_log(path, checked.columns).users == 4


def test_a_large_file_is_looked_at_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "MOST_ROWS", 2_000)
    turns = np.where(np.arange(ROWS) % 2, "test", "control")  # arms that come in turns
    income = shop()["income"].to_list()
    income[5] = None
    path = tmp_path / "trial.csv"
    shop(group=turns, income=income).write_csv(path)
    checked = check(path)
    assert checked.rows == ROWS
    assert 1_700 < checked.looked_at < 2_300
    assert parts(checked)["group"] == "arm"
    assert "income is missing in 1 row (" in said(checked)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "path is .* but must be a complete and readable .csv file"),
        ("arm,sale\n", "the number of rows of 'trial.csv' is 0, but must be at least 1"),
        ("arm,arm\n1,2\n", "a name that no other column has: rename one of the two columns"),
        ("arm,sale\n1\n1,2,3,4\n", "a complete and readable .csv file"),
    ],
)
def test_broken_files_are_refused_in_a_sentence(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "trial.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        check(path)


def test_a_broken_archive_and_an_unknown_ending_are_refused(tmp_path: Path) -> None:
    broken = tmp_path / "trial.csv.gz"
    broken.write_bytes(gzip.compress(b"arm,sale\n" + b"1,0\n" * 5_000)[:60])
    with pytest.raises(InputError, match="a complete and readable .csv.gz file"):
        check(broken)
    (tmp_path / "trial.xlsx").write_bytes(b"PK")
    with pytest.raises(InputError, match="a file that ends in"):
        check(tmp_path / "trial.xlsx")


@pytest.mark.parametrize("rows", [1, 2, 3, 10])
def test_tiny_files_give_an_answer(rows: int) -> None:
    checked = check(shop(ROWS).head(rows))
    assert checked.rows == rows
    assert "rows are few" in said(checked)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"treatment": "grup"}, "--treatment is 'grup', but must be one of .*did you mean 'group'"),
        ({"treatment": "income"}, "--treatment is 'income', but must be a column with 2 to 12"),
        ({"control": "ctrl"}, "--control is 'ctrl', but must be one of"),
        ({"outcome": "sale"}, "--outcome is 'sale', but must be one of"),
        ({"cost": "plan"}, "--cost is 'plan', but must be a column of numbers"),
        ({"cost": (1.0, 2.0)}, "--cost is '1.0,2.0', but must be one, or one for each of 'test'"),
        ({"probability": "p"}, "--probability is 'p', but must be one of"),
        ({"features": ("x",)}, "--features is 'x', but must be one of"),
        ({"treatments": ("x",)}, "--arms is 'x', but must be one of 'test'"),
        ({"excluded": ("x",)}, "--exclude is 'x', but must be one of"),
    ],
)
def test_wrong_options_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        check(shop(), Columns(**given))


def test_what_is_given_is_taken_as_it_is() -> None:
    checked = check(shop(), Columns(outcome="converted", cost=0.5, excluded=("plan",)))
    by_name = {role.column: role for role in checked.roles}
    assert (by_name["converted"].confidence, by_name["plan"].part) == ("given", "excluded")
    assert checked.columns is not None
    assert (checked.columns.cost, checked.columns.excluded) == (0.5, ("user", "plan", "spend"))
    assert isinstance(asdict(checked)["roles"], tuple)


def test_features_and_arms_that_are_given() -> None:
    arm = np.random.default_rng(1).choice(["control", "mail", "call"], ROWS)
    given = replace(PRICED, features=("plan", "spend"), treatments=("mail",))
    checked = check(shop(group=arm), given)
    assert parts(checked)["spend"] == "feature"
    assert parts(checked)["income"] == "excluded"
    assert checked.columns is not None
    assert read_log(shop(group=arm), checked.columns).treatment_names == ("mail",)


@pytest.mark.data
def test_criteo() -> None:
    checked = check(real("criteo_uplift_200k.parquet"))
    wanted = {f"f{number}": "feature" for number in range(12)}
    wanted |= {"treatment": "arm", "conversion": "outcome", "visit": "after treatment"}
    assert parts(checked) == wanted
    assert checked.control == "0"
    assert "differ" not in said(checked)


@pytest.mark.data
def test_hillstrom() -> None:
    checked = check(real("hillstrom.csv.gz"))
    assert others(checked) == {
        "segment": "arm",
        "conversion": "outcome",
        "visit": "after treatment",
        "spend": "leak",
    }
    assert checked.control == "No E-Mail"
    found = parts(check(real("hillstrom.csv.gz"), Columns(outcome="visit")))
    assert (found["conversion"], found["spend"]) == ("after treatment", "leak")


@pytest.mark.data
@pytest.mark.parametrize("outcome", ["visit", "spend"])
def test_a_preset_excludes_all_outcomes_except_the_one_that_counts(outcome: str) -> None:
    columns = replace(preset("hillstrom"), outcome=outcome)
    found = parts(check(real("hillstrom.csv.gz"), columns))
    assert found[outcome] == "outcome"
    assert found["conversion"] == "excluded"
    assert parts(check(real("criteo_uplift_200k.parquet"), preset("criteo")))["f0"] == "feature"


@pytest.mark.data
def test_starbucks() -> None:
    checked = check(real("starbucks_promotion.parquet"))
    assert others(checked) == {
        "ID": "id",
        "Promotion": "arm",
        "purchase": "outcome",
        "split": "split",
    }
    assert (checked.control, asked(checked)) == ("No", ["--cost PRICE"])
