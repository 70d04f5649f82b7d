"""Money: decimal text to micros and back, against the decimal module."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bccb.errors import InputError
from bccb.money import MICROS, as_text, budget_down, costs_up

texts = st.from_regex(r"[0-9]{1,10}(\.[0-9]{1,12})?", fullmatch=True)
micros = st.integers(0, 9 * 10**15)


@given(texts)
def test_costs_round_up_and_budgets_down(text: str) -> None:
    exact = Decimal(text) * MICROS
    assert costs_up("cost", text) == int(exact.to_integral_value(ROUND_CEILING))
    assert budget_down("budget", text) == int(exact.to_integral_value(ROUND_FLOOR))


@given(texts)
def test_a_budget_never_pays_for_more_than_it_says(text: str) -> None:
    assert budget_down("budget", text) <= costs_up("cost", text) <= budget_down("budget", text) + 1


@given(micros)
def test_text_tells_every_micro(amount: int) -> None:
    text = as_text(amount)
    assert Decimal(text) * MICROS == amount
    assert costs_up("cost", text) == budget_down("budget", text) == amount
    _, _, part = text.partition(".")
    assert len(part) >= 2
    assert part[2:] == part[2:].rstrip("0")


@given(micros, micros)
def test_text_is_one_for_each_amount(one: int, other: int) -> None:
    assert (as_text(one) == as_text(other)) == (one == other)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            ".",
            ".5",
            "-1",
            "+1",
            "1e3",
            "1,5",
            " 1",
            "1 ",
            "1_0",
            "0x1",
            "nan",
            "1.2.3",
            "1.-5",
        ),
        *("١", "1.٣", "²", "1.²", "１"),
    ],
)
@pytest.mark.parametrize("read", [costs_up, budget_down])
def test_what_is_not_plain_decimal_text_is_refused(read: object, text: str) -> None:
    assert callable(read)
    with pytest.raises(InputError, match=r"^price is .*, but must be decimal text"):
        read("price", text)
