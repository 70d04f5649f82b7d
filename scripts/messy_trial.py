"""Write a coupon trial as a shop would export it: ``python -m scripts.messy_trial OUT.csv``.

20,000 customers got no coupon, one for 2 off or one for 4 off, by chance. The file has what such
files have: ids, dates, text with rare levels, missing ages, a few customers who spent most of the
money, columns that were measured after the mail, and a cost that was paid on redemption only. How
likely everybody was to buy with each coupon is known here, and not in the file.
"""

from __future__ import annotations

import argparse
from datetime import date, timedelta
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from bccb.types import Floats, Ints

ROWS = 20_000
COUPONS = ("none", "2 off", "4 off")
VALUES = np.array([0.0, 2.0, 4.0])
MAILED = date(2024, 9, 2)
CHANNELS = {"web": 0.47, "app": 0.34, "store": 0.17, "phone": 0.0185, "fax": 0.0015}
CITIES = 70  # the largest has two customers in five, the smallest some ten in all


class Trial(NamedTuple):
    """The file, and the truth behind it."""

    frame: pl.DataFrame
    rates: Floats  # (n, 3): how likely each customer is to buy with each coupon


def messy_trial(rows: int = ROWS, seed: int = 1) -> Trial:
    """Draw the trial.

    >>> trial = messy_trial(500, seed=3)
    >>> trial.frame.height, trial.rates.shape
    (500, (500, 3))
    """
    draw = np.random.default_rng(seed)
    channel = draw.choice(list(CHANNELS), rows, p=list(CHANNELS.values()))
    age = np.clip(draw.normal(44, 15, rows), 18, 95).round()
    spend = np.exp(draw.normal(3.5, 1.4, rows)).round(2)
    orders = draw.poisson(0.4 + 0.02 * np.minimum(spend, 200))
    rates = _rates(channel, age, spend)
    arm = draw.integers(0, len(COUPONS), rows)
    bought = draw.random(rows) < rates[np.arange(rows), arm]
    redeemed = bought & (arm > 0) & (draw.random(rows) < 0.85)
    signed_up = draw.integers(30, 1_500, rows)  # days before the mail
    weights = np.arange(1, CITIES + 1) ** -1.5
    columns = {
        "customer_id": [f"C-{number:06d}" for number in draw.permutation(900_000)[:rows]],
        "signup_date": _days_before(signed_up),
        "last_order": _days_before(np.where(orders > 0, draw.integers(1, 365, rows), -1)),
        "city": [f"city {c:02d}" for c in draw.choice(CITIES, rows, p=weights / weights.sum())],
        "channel": channel,
        "age": _missing(age, draw.random(rows) < np.where(channel == "store", 0.4, 0.08)),
        "newsletter": np.where(draw.random(rows) < 0.6, "yes", "no"),
        "past_spend": spend,
        "orders_last_year": orders,
        "country": np.full(rows, "NL"),
        "coupon": np.array(COUPONS)[arm],
        "pages_after_mail": draw.poisson(1.5 + 1.0 * (arm > 0) + 3.0 * bought),
        "days_to_redemption": _missing(draw.integers(0, 28, rows).astype(float), ~redeemed),
        "purchased": np.where(bought, "yes", "no"),
        "revenue": np.where(bought, np.exp(draw.normal(3.2, 0.6, rows)).round(2), 0.0),
        "coupon_cost": np.where(redeemed, VALUES[arm], 0.0),
    }
    return Trial(pl.DataFrame(columns), rates)


def _rates(channel: np.ndarray, age: Floats, spend: Floats) -> Floats:
    """A coupon wins young users of the app; those who spend much buy anyway, and it wins none."""
    score = -2.6 + 0.45 * (np.log(spend) - 3.5) + 0.3 * (channel == "web")
    wins = np.where((channel == "app") & (age < 40), 1.0, 0.12) * (spend < 150)
    rates: Floats = 1 / (1 + np.exp(-(score[:, None] + wins[:, None] * [0.0, 1.3, 1.8])))
    return rates


def _days_before(days: Ints) -> list[date | None]:
    """The dates so many days before the mail; none where it is negative."""
    return [MAILED - timedelta(days=int(n)) if n >= 0 else None for n in days]


def _missing(values: Floats, where: np.ndarray) -> list[float | None]:
    return [
        None if gone else value for value, gone in zip(values.tolist(), where.tolist(), strict=True)
    ]


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description="Write a coupon trial as a shop would export it.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    messy_trial(given.rows, given.seed).frame.write_csv(given.out)
    print(f"wrote {given.rows:,} rows to {given.out}")


if __name__ == "__main__":
    main()
