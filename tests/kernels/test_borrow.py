from __future__ import annotations

import sys

import numpy as np
import pytest
from numba import TypingError

from bccb.kernels.borrow import borrow
from bccb.kernels.jit import jit
from bccb.types import Floats


@jit
def write_through_a_borrowed_view(array: Floats, at: int, value: float) -> float:
    view = borrow(array)[at:].reshape(-1, 2)
    view[0, 1] = value
    return float(view.sum())


def test_plain_python_borrows_the_array_itself() -> None:
    array = np.zeros(3)
    assert borrow(array) is array


def test_borrowed_array_is_the_same_memory() -> None:
    array = np.arange(6.0)
    assert write_through_a_borrowed_view(array, 2, 10.0) == 2.0 + 10.0 + 4.0 + 5.0
    assert array.tolist() == [0.0, 1.0, 2.0, 10.0, 4.0, 5.0]


def test_borrowing_leaves_the_owners_count_as_it_was() -> None:
    array = np.arange(6.0)
    before = sys.getrefcount(array)
    for _ in range(100):
        write_through_a_borrowed_view(array, 2, 1.0)
    assert sys.getrefcount(array) == before
    assert array.sum() == 13.0


@pytest.mark.compiled
def test_only_arrays_can_be_borrowed() -> None:
    @jit
    def borrow_a_number(number: float) -> float:
        return borrow(number)

    with pytest.raises(TypingError):
        borrow_a_number(1.0)
