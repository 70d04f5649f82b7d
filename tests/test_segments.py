from __future__ import annotations

import numpy as np
import pytest

from bccb.encoding import Encoding, Feature, plain
from bccb.errors import InputError
from bccb.segments import named, segments_of
from bccb.types import Floats


def of_numbers(values: list[float] | Floats, weights: Floats | None = None) -> list[int]:
    """How many users each segment of a number has."""
    x = np.asarray(values, np.float64)[:, None]
    (only,) = segments_of(x, plain(["x"]), weights)
    return [int(n) for n in np.bincount(only.places(x), minlength=len(only.labels))]


def test_numbers_are_cut_into_thirds() -> None:
    assert of_numbers(np.random.default_rng(1).normal(size=300)) == [100, 100, 100]


def test_weights_move_the_cuts() -> None:
    weights = np.array([10.0, *[1.0] * 9])
    assert of_numbers(np.arange(10.0), weights) == [1, 3, 6]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.0] * 80 + list(range(1, 21)), [80, 20]),
        ([0.0] * 50 + list(range(1, 51)), [50, 17, 33]),
        ([99.0] * 80 + list(range(20)), [20, 80]),
        ([1.0, 2.0, 2.0, 3.0], [1, 2, 1]),
    ],
    ids=["mostly the least", "half the least", "mostly the largest", "few values"],
)
def test_equal_numbers_stay_together(values: list[float], expected: list[int]) -> None:
    assert of_numbers(values) == expected


def test_labels_have_as_few_digits_as_tell_them_apart() -> None:
    (only,) = segments_of(np.arange(99.0)[:, None] * 1e-4 + 100.0, plain(["x"]))
    assert only.labels == ("up to 100.003", "100.003 to 100.007", "above 100.007")
    (only,) = segments_of(np.arange(99.0)[:, None] * 1e3, plain(["x"]))
    assert only.labels == ("up to 32,000", "32,000 to 65,000", "above 65,000")


def test_missing_numbers_dates_and_levels_have_segments() -> None:
    encoding = Encoding(
        (
            Feature("age", fill=40.0),
            Feature("channel", "category", ("Phone", "Web", "Shop"), others=True),
            Feature("since", "date"),
        )
    )
    rows = [(float(i), ["Phone", "Web", "Tram"][i % 3], f"2030-01-{i + 1:02}") for i in range(9)]
    rows.append((None, "Web", "2030-01-01"))  # type: ignore[arg-type]
    x = np.array(
        [encoding.row(dict(zip(("age", "channel", "since"), r, strict=True))) for r in rows]
    )
    age, channel, since = segments_of(x, encoding)
    assert age.labels == ("up to 2", "2 to 5", "above 5", "(missing)")
    assert age.places(x).tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]
    assert channel.labels == ("Phone", "Web", "(other)")  # nobody came from a shop
    assert channel.places(x).tolist() == [0, 1, 2] * 3 + [1]
    assert since.labels == ("up to 2030-01-03", "2030-01-03 to 2030-01-06", "above 2030-01-06")
    new = encoding.row({"age": 3.0, "channel": "Shop", "since": "2031-01-01"})
    assert [each.places(np.array([new])).item() for each in (age, channel, since)] == [1, -1, 2]


def test_features_that_do_not_differ_are_left_out() -> None:
    x = np.column_stack((np.ones(5), np.arange(5.0)))
    assert [each.feature for each in segments_of(x, plain(["same", "other"]))] == ["other"]


def test_names_must_fit_the_columns() -> None:
    with pytest.raises(InputError, match="the number of feature names is 1, but must be 2"):
        segments_of(np.zeros((3, 2)), named(["age"], 2))
    with pytest.raises(InputError, match="names is 'age', but must be a list of names"):
        named("age", 1)
