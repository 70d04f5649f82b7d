"""The options that name the columns of a log."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import typer

from bccb.data import Columns, preset
from bccb.errors import InputError

PresetOption = Annotated[
    str | None,
    typer.Option("--preset", help="Columns of a public trial: criteo, hillstrom, starbucks."),
]
TreatmentOption = Annotated[
    str | None, typer.Option("--treatment", metavar="COL", help="Column that tells the arm.")
]
ControlOption = Annotated[
    str | None, typer.Option("--control", metavar="VALUE", help="Its value for 'left alone'.")
]
ArmsOption = Annotated[
    str | None,
    typer.Option("--arms", metavar="A,B", help="Its values that count as treatments; default all."),
]
OutcomeOption = Annotated[
    str | None, typer.Option("--outcome", metavar="COL", help="Column of outcomes from 0 to 1.")
]
FeaturesOption = Annotated[
    str | None,
    typer.Option("--features", metavar="A,B,C", help="Feature columns; default all other columns."),
]
CostOption = Annotated[
    str | None,
    typer.Option(
        "--cost",
        metavar="COL|N",
        help="Cost column, or one cost for everybody; default the paper's log-normal costs.",
    ),
]


def columns_from(
    preset_name: str | None,
    treatment: str | None,
    control: str | None,
    arms: str | None,
    outcome: str | None,
    features: str | None,
    cost: str | None,
) -> Columns | None:
    """The columns that the options name, over those of the preset."""
    given: dict[str, Any] = {"treatment": treatment, "control": control, "outcome": outcome}
    given |= {"features": _names(features), "treatments": _names(arms), "cost": _cost(cost)}
    given = {field: value for field, value in given.items() if value is not None}
    if preset_name is not None:
        return replace(preset(preset_name), **given)
    if not given:
        return None
    missing = [f"--{field}" for field in ("treatment", "control", "outcome") if field not in given]
    if missing:
        raise InputError("an option", " and ".join(missing), "given, or a --preset")
    return Columns(**given)


def _names(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(name.strip() for name in text.split(","))


def _cost(text: str | None) -> str | float | tuple[str, ...] | None:
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        return _names(text) if "," in text else text
