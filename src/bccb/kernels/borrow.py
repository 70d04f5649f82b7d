"""Borrowed arrays: the same memory, without reference counts.

Numba counts a reference whenever a view of an array is made or a state is passed on: some forty
atomic operations a user, more time than the mathematics takes. A kernel whose caller keeps the
arrays alive can do without. Borrow arguments only, never an array that the kernel itself made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba.core import types
from numba.extending import intrinsic, overload

A = TypeVar("A")


def borrow(array: A) -> A:
    """The same array, uncounted where compiled."""
    return array


@intrinsic
def _uncounted(typing_context: Any, array: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        owned = context.make_array(signature.args[0])(context, builder, arguments[0])
        owned.meminfo = owned.meminfo.type(None)  # the null pointer: nobody's count goes up
        owned.parent = owned.parent.type(None)
        return owned._getvalue()

    return array(array), generate


@overload(borrow)
def _borrow(array: Any) -> Callable[[Any], Any] | None:
    if not isinstance(array, types.Array):
        return None

    def implementation(array: Any) -> Any:
        return _uncounted(array)  # type: ignore[call-arg]

    return implementation
