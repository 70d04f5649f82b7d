"""``bccb policies``: the table of policies, or one of them with its parameters."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.padding import Padding

from bccb.cli.console import out, table
from bccb.policies import spec_of
from bccb.report.results import KINDS, needs_of, policy_rows
from bccb.spec import Spec


def command(
    name: Annotated[str | None, typer.Argument(help="Show this one with its parameters.")] = None,
) -> None:
    """List the policies and what each is made of, or one with its parameters.

    **Examples**

    `bccb policies`

    `bccb policies bccb`
    """
    out.print(table(policy_rows()) if name is None else _details(spec_of(name)), highlight=False)


def _details(spec: Spec) -> Group:
    """The policy in a sentence, then the parameters of each of its parts."""
    needs = f" It needs {needs_of(spec)}." if needs_of(spec) else ""
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
