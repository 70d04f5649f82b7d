"""One thread for scikit-learn, whose sums would otherwise be in another order on other machines."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from bccb.errors import MissingExtraError


def one_thread() -> AbstractContextManager[Any]:
    """Compute in one thread. Import what computes first: its libraries are looked up once."""
    return _libraries().limit(limits=1)  # type: ignore[no-any-return]


@cache
def _libraries() -> Any:
    """The libraries with threads that are loaded; to find them takes longer than a small fit."""
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        raise MissingExtraError("scikit-learn", "lab") from None
    return ThreadpoolController()
