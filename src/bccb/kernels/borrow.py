"""Borrowed arrays: the same memory, without reference counts.

Numba counts a reference for every view of an array and every state that is passed on: some forty
atomic operations per user, which take longer than the mathematics. A kernel whose caller keeps the
arrays alive does not need the counts. Borrow only arguments, never an array that the kernel made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba.core import types
from numba.extending import intrinsic, overload

A = TypeVar("A")


def borrow(array: A) -> A:
    """The same array, in compiled code without a reference count."""
    return array


@intrinsic
def _uncounted(typing_context: Any, array: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        owned = context.make_array(signature.args[0])(context, builder, arguments[0])
        owned.meminfo = owned.meminfo.type(None)  # the null pointer: no count is changed
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
