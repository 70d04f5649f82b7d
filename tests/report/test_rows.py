from __future__ import annotations

from bccb.report.rows import extremes, joined, split


def test_means_and_intervals_become_one_cell_where_their_first_half_stood() -> None:
    row = {"n": "5", "mean": "1", "p": "0.1", "deviation": "2", "low": "0", "high": "3"}
    assert joined(row) == {
        "n": "5",
        "mean ± deviation": "1 ± 2",
        "p": "0.1",
        "low to high": "0 to 3",
    }


def test_halves_of_different_things_stay_apart() -> None:
    row = {"ours_mean": "1", "offline_deviation": "2", "low": "3"}
    assert joined(row) == row


def test_a_figure_stands_with_its_standard_error() -> None:
    row = {"value": "96.1", "value_se": "1.0", "share": "0.97"}
    assert joined(row) == {"value ± se": "96.1 ± 1.0", "share": "0.97"}


def test_rows_are_split_by_a_column_and_lose_it() -> None:
    rows = [{"users": 20_000, "world": "a"}, {"users": 5, "world": "b"}]
    assert split(rows, "users") == [
        ("users: 20,000", [{"world": "a"}]),
        ("users: 5", [{"world": "b"}]),
    ]
    assert split(rows, "") == [("", rows)]


def test_the_best_and_the_worst_of_the_ranked_figures_are_marked() -> None:
    row = {"a": 0.1, "b": 0.9, "c": -0.2, "error": 5.0}
    assert extremes(row, ("a", "b", "c", "absent")) == {"b": "best", "c": "worst"}
    assert extremes(row, ()) == {}
    assert extremes({"a": 1.0, "b": 1.0}, ("a", "b")) == {"a": "best", "b": "best"}
