from __future__ import annotations

from bccb.report.rows import joined


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
