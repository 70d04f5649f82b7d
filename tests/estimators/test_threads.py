"""One thread while scikit-learn computes, and afterwards as many as before."""

from __future__ import annotations

from sklearn.linear_model import LogisticRegression  # loads the libraries
from threadpoolctl import threadpool_info, threadpool_limits

from bccb.estimators.threads import one_thread


def threads() -> list[int]:
    return [library["num_threads"] for library in threadpool_info()]


def test_every_library_has_one_thread_and_gets_its_own_back() -> None:
    assert LogisticRegression
    with threadpool_limits(2):
        before = threads()
        assert 2 in before
        for _ in range(2):
            with one_thread():
                assert {*threads()} == {1}
            assert threads() == before
