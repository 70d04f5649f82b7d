"""Layouts: how the fields of a named tuple are placed in a block of memory.

The fields follow one another. A ``float`` takes one number. An array is annotated with its shape,
in terms of d features, K treatments, the layout's own dimensions and constants of its module:

    class State(NamedTuple):
        eta: float
        weights: Annotated[Floats, "K + 1", "m"]

    LAYOUT = Layout(State, m="d + 1")

``LAYOUT.size(d, K)`` is the size of the block, here 1 + (K + 1)(d + 1), and the kernel
``LAYOUT.view(memory, d, K)`` returns a block as a ``State`` that shares its memory.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Generic, TypeVar, get_type_hints

from bccb.kernels.jit import jit

S = TypeVar("S")


class Layout(Generic[S]):
    """The places of the fields of ``state``; ``dimensions`` are named lengths in d and K."""

    def __init__(self, state: type[S], arguments: str = "d, K", **dimensions: str) -> None:
        self.state = state
        shapes = {
            name: getattr(hint, "__metadata__", ())
            for name, hint in get_type_hints(state, include_extras=True).items()
        }
        self.scalars = tuple(name for name, shape in shapes.items() if not shape)
        lines = [f"{name} = {length}" for name, length in dimensions.items()]
        fields, at = [], "0"
        for i, shape in enumerate(shapes.values()):
            if not shape:
                fields.append(f"memory[{at}]")
            else:
                reshaped = f".reshape({', '.join(shape)})" if len(shape) > 1 else ""
                fields.append(f"memory[{at} : at_{i}]{reshaped}")
            lines.append(f"at_{i} = {at} + {' * '.join(f'({n})' for n in shape) or '1'}")
            at = f"at_{i}"
        make = ", ".join(fields)
        self.size: Callable[..., int] = self._function("size", arguments, lines, at)
        self.view: Callable[..., S] = jit(
            self._function("view", f"memory, {arguments}", lines, f"State({make})")
        )

    def _function(self, kind: str, arguments: str, lines: list[str], value: str) -> Any:
        """A function from generated source, so that the shapes are declared only once.

        Its file is that of the state, where Numba's cache looks for changes.
        """
        module = sys.modules[self.state.__module__]
        body = "\n    ".join([*lines, f"return {value}"])
        source = f"def {kind}({arguments}):\n    {body}\n"
        names = {**vars(module), "State": self.state}
        exec(compile(source, str(module.__file__), "exec"), names)
        function = names[kind]
        function.__qualname__ = f"{kind}_{self.state.__name__}"
        return function
