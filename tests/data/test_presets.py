"""The real trials, read with their presets."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tables import write_gzip

from bccb.data import preset, read_log


def real(name: str) -> Path:
    folder = os.environ.get("BCCB_DATA")
    if not folder:
        pytest.skip("BCCB_DATA does not name the folder with the real trials")
    if not (Path(folder) / name).exists():
        pytest.skip(f"{name} is not in the folder that BCCB_DATA names")
    return Path(folder) / name


@pytest.mark.data
def test_criteo_is_read_with_its_known_rates() -> None:
    path = real("criteo_uplift_200k.parquet")
    log = read_log(path, preset("criteo"))
    assert (log.users, log.treatments, log.features.shape[1]) == (200_000, 1, 12)
    assert log.shares[1] == pytest.approx(0.8504, abs=5e-5)
    rates = [log.outcomes[log.actions == arm].mean() for arm in (0, 1)]
    assert rates == pytest.approx([0.00184, 0.00309], abs=5e-6)
    visits = read_log(path, replace(preset("criteo"), outcome="visit"))
    rates = [visits.outcomes[visits.actions == arm].mean() for arm in (0, 1)]
    assert rates == pytest.approx([0.0381, 0.0486], abs=5e-5)
    np.testing.assert_array_equal(log.costs, visits.costs)


@pytest.mark.data
def test_criteo_is_read_as_published(tmp_path: Path) -> None:
    frame = pl.read_parquet(real("criteo_uplift_200k.parquet")).with_columns(exposure=pl.lit(0))
    write_gzip(frame, tmp_path / "criteo.csv.gz")
    published = read_log(tmp_path / "criteo.csv.gz", preset("criteo"))
    log = read_log(real("criteo_uplift_200k.parquet"), preset("criteo"))
    np.testing.assert_allclose(published.features, log.features, rtol=1e-6)
    np.testing.assert_array_equal(published.outcomes, log.outcomes)
    np.testing.assert_array_equal(published.actions, log.actions)


@pytest.mark.data
def test_hillstrom_is_read_with_two_treatments_or_one() -> None:
    path = real("hillstrom.csv.gz")
    log = read_log(path, preset("hillstrom"))
    assert log.users == 64_000
    assert log.treatment_names == ("Mens E-Mail", "Womens E-Mail")
    assert np.bincount(log.actions).tolist() == [21_306, 21_307, 21_387]
    assert {"channel=Phone", "channel=Multichannel", "zip_code=Rural"} <= set(log.feature_names)
    assert "channel=Web" not in log.feature_names  # the most frequent one
    womens = read_log(path, replace(preset("hillstrom"), treatments=("Womens E-Mail",)))
    assert np.bincount(womens.actions).tolist() == [21_306, 21_387]
    spend = read_log(path, replace(preset("hillstrom"), outcome="spend"))
    assert spend.amounts
    assert np.count_nonzero(spend.outcomes) == 578
    assert float(spend.outcomes.mean()) == pytest.approx(1.0509, abs=1e-4)


@pytest.mark.data
def test_starbucks_is_read_with_its_known_rates() -> None:
    log = read_log(real("starbucks_promotion.parquet"), preset("starbucks"))
    assert log.users == 126_184
    assert log.feature_names == tuple(f"V{j}" for j in range(1, 8))
    rates = [log.outcomes[log.actions == arm].mean() for arm in (0, 1)]
    assert rates == pytest.approx([0.0073, 0.0168], abs=5e-5)
