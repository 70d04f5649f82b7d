"""Columns are checked when they are made, and presets name what is no feature."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bccb.data.schema import PRESETS, Columns, one_of, preset, quoted
from bccb.errors import InputError

PLAIN = Columns(treatment="arm", control="none", outcome="sale")


def test_without_named_features_all_remaining_columns_are_features() -> None:
    columns = replace(PLAIN, cost="price", effects=("lift",), excluded=("id",))
    present = ["id", "age", "arm", "price", "sale", "lift", "visits"]
    assert columns.features_among(present) == ("age", "visits")


def test_named_features_keep_their_order() -> None:
    columns = replace(PLAIN, features=("b", "a"))
    assert columns.features_among(["a", "b", "c", "arm", "sale"]) == ("b", "a")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"treatment": "arms"}, "treatment column is 'arms', but must be one of .*mean 'arm'"),
        ({"outcome": "sales"}, "outcome column is 'sales', but must be one of .*mean 'sale'"),
        ({"cost": "prize"}, "cost column is 'prize', but must be one of .*mean 'price'"),
        ({"cost": ("price", "q")}, "cost column is 'q', but must be one of 'age', 'arm'"),
        ({"effects": ("lift",)}, "effect column is 'lift', but must be one of"),
        ({"status": "state"}, "status column is 'state', but must be one of"),
        ({"features": ("age", "agee")}, "feature column is 'agee', but must be .*mean 'age'"),
        ({"excluded": ("agee",)}, "excluded column is 'agee', but must be .*mean 'age'"),
    ],
)
def test_an_absent_column_is_named_with_those_present(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(PLAIN, **change).features_among(["age", "arm", "price", "sale"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"outcome": None}, "outcome is None, but must be a name"),
        ({"status": ""}, "status is '', but must be a name"),
        ({"impute": 1}, "impute is 1, but must be true or false"),
        ({"cost": ("price", "price")}, "cost is .*, but must be names, not empty and all diff"),
        ({"cost": (0.5, 0.0)}, "cost is 0.0, but must be at least"),
        ({"cost": ()}, r"cost is \(\), but must be a column, a number, a list"),
        ({"cost": print}, "cost is <.*, but must be a column, a number, a list"),
        ({"outcome": "arm"}, "outcome is 'arm', but must be another column than the treatment"),
        ({"features": ("age", "sale")}, "feature is 'sale', but must be none of 'arm', 'sale'"),
        ({"features": ("id",), "excluded": ("id",)}, "feature is 'id', but must be none of"),
        ({"features": ("age", "age")}, "features is .*, but must be names, not empty and all"),
        ({"treatments": ("a", "none")}, "control is 'none', but must be none of 'a', 'none'"),
        ({"probability": "arm"}, "probability is 'arm', but must be another column than the tr"),
        ({"probability": "p", "features": ("p",)}, "feature is 'p', but must be none of 'arm'"),
        ({"status": "s", "features": ("s",)}, "feature is 's', but must be none of 'arm', 'sale'"),
        ({"cost": 0.0}, "cost is 0.0, but must be at least"),
        ({"cost": float("nan")}, "cost is nan, but must be a finite number"),
        ({"shares": (0.5, 0.4)}, r"shares is \(0.5, 0.4\), but must be all above 0, with the sum"),
        ({"shares": (1.0, 0.0)}, "shares is .*, but must be all above 0"),
    ],
)
def test_columns_that_contradict_themselves_are_refused(
    change: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        replace(PLAIN, **change)


@pytest.mark.parametrize(
    "change", [{"cost": ("a", "b", "c")}, {"effects": ("e",)}, {"shares": (0.5, 0.5)}]
)
def test_costs_effects_and_shares_must_be_as_many_as_the_arms_demand(
    change: dict[str, Any],
) -> None:
    replace(PLAIN, cost=("a", "b"), effects=("e", "f"), shares=(0.2, 0.4, 0.4)).check_arms(
        ["none", "mail", "call"]
    )
    with pytest.raises(InputError, match="values, for the arms 'none', 'mail', 'call'"):
        replace(PLAIN, **change).check_arms(["none", "mail", "call"])


@pytest.mark.parametrize(
    ("name", "forbidden"),
    [
        ("criteo", ("conversion", "visit", "exposure", "treatment")),
        ("hillstrom", ("visit", "conversion", "spend", "segment")),
        ("starbucks", ("ID", "split", "purchase", "Promotion")),
    ],
)
def test_no_preset_takes_an_outcome_or_identifier_as_feature(
    name: str, forbidden: tuple[str, ...]
) -> None:
    # Even a user who asks for "all remaining columns" does not get them.
    everything = replace(preset(name), features=())
    present = [*preset(name).features, *forbidden]
    assert everything.features_among(present) == preset(name).features
    for column in forbidden:
        with pytest.raises(InputError, match=f"feature is '{column}', but must be none of"):
            replace(preset(name), features=(column,))


def test_criteo_can_be_read_with_visits_as_outcome() -> None:
    columns = replace(preset("criteo"), outcome="visit")
    assert columns.outcome == "visit"
    assert "conversion" not in columns.features_among(
        [*columns.features, "treatment", "conversion", "visit", "exposure"]
    )


def test_an_unknown_preset_is_refused_with_the_known_ones() -> None:
    message = "preset is 'critoe', but must be one of 'criteo', 'hillstrom', 'starbucks'; did you"
    with pytest.raises(InputError, match=message):
        preset("critoe")
    assert set(PRESETS) == {"criteo", "hillstrom", "starbucks"}


def test_long_lists_of_names_are_cut_in_messages() -> None:
    names = [f"column{j}" for j in range(50)]
    assert quoted(names).endswith("'column19' and 30 more")
    # The one that was probably meant is found among all of them.
    assert one_of("colum49", names).endswith("did you mean 'column49'?")
