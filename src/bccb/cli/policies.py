"""``bccb policies``: the table of policies, or one of them with its parameters."""

from __future__ import annotations

from typing import Annotated

import typer
from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table

from bccb.cli.console import out
from bccb.policies import POLICIES, spec_of
from bccb.spec import Spec

KINDS = ("estimator", "explorer", "pacer")


def command(
    name: Annotated[str | None, typer.Argument(help="Show this one with its parameters.")] = None,
) -> None:
    """List the policies and what each is made of, or one with its parameters.

    **Examples**

    `bccb policies`

    `bccb policies bccb`
    """
    out.print(_table() if name is None else _details(spec_of(name)), highlight=False)


def _table() -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    for heading in ("policy", *KINDS, "cost", "needs"):
        table.add_column(heading, no_wrap=True)
    for spec in POLICIES.values():
        table.add_row(
            spec.name,
            *(part.about for part in spec.composition.components),
            "yes" if spec.composition.cost_aware else "no",
            _needs(spec),
        )
    return table


def _needs(spec: Spec) -> str:
    if spec.needs_effects:
        return "effects"
    return "history" if spec.needs_history else ""


def _details(spec: Spec) -> Group:
    """The policy in a sentence, then the parameters of each of its parts."""
    needs = f" It needs {_needs(spec)}." if _needs(spec) else ""
    cost = "" if spec.composition.cost_aware else " It ignores the cost."
    parts: list[RenderableType] = [spec.name, Padding(f"{spec.about}.{needs}{cost}", (0, 0, 0, 2))]
    for kind, part in zip(KINDS, spec.composition.components, strict=True):
        parts.append(f"\n{kind}: {part.about}")
        for key, parameter in part.parameters.items():
            value = spec.parameters.get(key, parameter.default)
            limits = f"from {_number(parameter.least)} to {_number(parameter.most)}"
            parts.append(Padding(f"{key} = {value:g}   ({limits})", (0, 0, 0, 2)))
            parts.append(Padding(parameter.about, (0, 0, 0, 6)))
    return Group(*parts)


def _number(value: float) -> str:
    """As people write it: 1,000,000, but 1e-12."""
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"
