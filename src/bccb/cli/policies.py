"""``bccb policies``: the table of policies, or one of them with its parameters."""

from __future__ import annotations

from typing import Annotated

import typer
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table

from bccb.cli.console import out
from bccb.policies import POLICIES, spec_of
from bccb.spec import Spec


def command(
    name: Annotated[str | None, typer.Argument(help="Show this one with its parameters.")] = None,
) -> None:
    """List the policies and what each is made of, or one with its parameters.

    **Examples**

    `bccb policies`

    `bccb policies bccb`
    """
    out.print(_table() if name is None else _details(spec_of(name)))


def _table() -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    for heading in ("policy", "estimator", "explorer", "pacer", "cost", "needs"):
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
    """The policy in a sentence, then a table of the parameters of each of its parts."""
    cost = "" if spec.composition.cost_aware else " It does not look at the cost."
    lines: list[RenderableType] = [f"{spec.name}: {spec.about}.{cost}"]
    kinds = ("estimator", "explorer", "pacer")
    for kind, part in zip(kinds, spec.composition.components, strict=True):
        lines.append(f"\n{kind}: {part.about}")
        table = Table(box=None, padding=(0, 1, 0, 2), show_header=False)
        for key, parameter in part.parameters.items():
            value = spec.parameters.get(key, parameter.default)
            limits = f"{parameter.least:g} to {parameter.most:g}"
            table.add_row(f"{key} = {value:g}", limits, parameter.about)
        lines.append(table)
    return Group(*lines)
