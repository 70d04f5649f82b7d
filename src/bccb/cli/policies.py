"""``bccb policies``: the table of policies, or one of them with its parameters."""

from __future__ import annotations

from typing import Annotated

import typer
from rich import box
from rich.table import Table

from bccb.cli.console import out
from bccb.policies import POLICIES, Spec, spec_of


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


def _details(spec: Spec) -> str:
    lines = [f"{spec.name}: {spec.about}"]
    kinds = ("estimator", "explorer", "pacer")
    for kind, part in zip(kinds, spec.composition.components, strict=True):
        lines.append(f"  {kind}: {part.about}")
        for key, parameter in part.parameters.items():
            lines.append(f"    {key} = {spec.parameters.get(key, parameter.default):g}")
    lines.append(f"  looks at cost: {'yes' if spec.composition.cost_aware else 'no'}")
    return "\n".join(lines)
