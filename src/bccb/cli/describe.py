"""``bccb data describe``: what a log looks like."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from bccb.cli.columns import (
    ArmsOption,
    ControlOption,
    CostOption,
    FeaturesOption,
    OutcomeOption,
    PresetOption,
    TreatmentOption,
    columns_from,
)
from bccb.cli.console import out
from bccb.data import Description, describe_file


def command(
    file: Annotated[Path, typer.Argument(help="Log of a trial: .csv, .csv.gz or .parquet.")],
    preset_name: PresetOption = None,
    treatment: TreatmentOption = None,
    control: ControlOption = None,
    arms: ArmsOption = None,
    outcome: OutcomeOption = None,
    features: FeaturesOption = None,
    cost: CostOption = None,
) -> None:
    """Print arms, rates, missing values and balance, and say whether the log looks randomised.

    **Example**

    `bccb data describe hillstrom.csv.gz --preset hillstrom`
    """
    columns = columns_from(preset_name, treatment, control, arms, outcome, features, cost)
    _print_description(describe_file(file, columns))


def _print_description(found: Description) -> None:
    table = Table(title=f"{found.users:,} users")
    for heading in ("arm", "users", "share", "rate", "95 % interval", "effect", "95 % interval"):
        table.add_column(heading, justify="left" if heading == "arm" else "right")
    for arm in found.arms:
        effect = arm.effect
        table.add_row(
            arm.name,
            f"{arm.users:,}",
            f"{arm.share:.4f}",
            f"{arm.rate.value:.4%}",
            f"{arm.rate.low:.4%} to {arm.rate.high:.4%}",
            "" if effect is None else f"{effect.value:+.4%}",
            "" if effect is None else f"{effect.low:+.4%} to {effect.high:+.4%}",
        )
    out.print(table)
    balance = Table(title="standardised differences to the control")
    balance.add_column("feature")
    for treatment in found.balance.differences:
        balance.add_column(treatment, justify="right")
    for feature in next(iter(found.balance.differences.values())):
        values = [by_name[feature] for by_name in found.balance.differences.values()]
        balance.add_row(feature, *(f"{value:+.3f}" for value in values))
    out.print(balance)
    missing = {name: count for name, count in found.missing.items() if count}
    listed = ", ".join(f"{name} {count:,}" for name, count in missing.items())
    if missing:
        out.print(f"missing values: {listed}; {found.incomplete:,} rows left out above")
    else:
        out.print("missing values: none")
    out.print(found.balance.verdict, style="green" if found.balance.looks_randomised else "red")
