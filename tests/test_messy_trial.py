"""The messy trial is messy in the ways it says, and its truth is in its rows."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from scripts import messy_trial
from scripts.messy_trial import COUPONS


def test_rows_follow_the_rates_of_the_truth() -> None:
    trial = messy_trial.messy_trial()
    bought = (trial.frame["purchased"] == "yes").to_numpy()
    for arm, coupon in enumerate(COUPONS):
        rows = (trial.frame["coupon"] == coupon).to_numpy()
        error = np.sqrt(0.25 / rows.sum())
        assert 0.3 < rows.mean() < 0.36
        assert abs(bought[rows].mean() - trial.rates[rows, arm].mean()) < 3 * error


def test_whom_to_treat_matters() -> None:
    effects = np.diff(messy_trial.messy_trial().rates[:, :2])[:, 0]
    best = np.sort(effects)[-1_000:]
    assert best.mean() > 5 * effects.mean() > 0


def test_it_is_messy() -> None:
    frame = messy_trial.messy_trial().frame
    spend, paid = frame["past_spend"].to_numpy(), frame["coupon_cost"].to_numpy()
    assert frame.height == frame["customer_id"].n_unique() == 20_000
    assert 0 < (frame["channel"] == "fax").sum() < 50
    assert 0.05 < frame["age"].null_count() / frame.height < 0.3
    assert spend.max() > 50 * spend.mean()
    assert not paid[(frame["coupon"] == "none").to_numpy()].any()
    assert set(paid.tolist()) == {0.0, 2.0, 4.0}


def test_the_script_writes_the_same_file_for_the_same_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = []
    for seed in ("1", "1", "2"):
        path = tmp_path / "trial.csv"
        monkeypatch.setattr(sys, "argv", ["", str(path), "--rows", "300", "--seed", seed])
        messy_trial.main()
        written.append(path.read_bytes())
    assert written[0] == written[1] != written[2]
