"""``bccb policies``: the table of policies."""

from __future__ import annotations

from rich.table import Table

from bccb.cli.console import out
from bccb.policies import POLICIES


def command() -> None:
    """List the policies and what each is made of."""
    table = Table(title="policy = estimator x explorer x pacer")
    for heading in ("policy", "estimator", "explorer", "pacer", "cost", "needs", "parameters"):
        table.add_column(heading, no_wrap=heading == "policy")
    for spec in POLICIES.values():
        parts = spec.composition.components
        defaults = {key: value for part in parts for key, value in part.defaults.items()}
        settings = {**defaults, **spec.parameters}
        table.add_row(
            spec.name,
            *(part.about for part in parts),
            "yes" if spec.composition.cost_aware else "no",
            "" if spec.needs == "nothing" else spec.needs,
            ", ".join(f"{key}={value:g}" for key, value in settings.items()),
        )
    out.print(table)
