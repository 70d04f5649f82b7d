"""The options that name the columns of a log."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Annotated, Any

import typer

from bccb.cli.console import notes
from bccb.data import Columns, preset
from bccb.data.describe import check_balance
from bccb.data.leakage import Leak, leaks
from bccb.data.readers import Reading
from bccb.errors import InputError

MOST_SHOWN = 20  # names of features

PresetOption = Annotated[
    str | None,
    typer.Option("--preset", help="Columns of a public trial: criteo, hillstrom, starbucks."),
]


def takes_columns(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of :func:`columns_from` in place of its parameter ``columns``.

    Typer reads the options of a command from its signature, so that is what is rewritten.
    """
    own = inspect.signature(command, eval_str=True).parameters
    options = inspect.signature(columns_from, eval_str=True).parameters

    @wraps(command)
    def wrapped(**given: Any) -> None:
        columns = columns_from(**{name: given[name] for name in options})
        command(columns=columns, **{name: given[name] for name in own if name in given})

    shared = [option for name, option in options.items() if name not in own]
    listed: list[inspect.Parameter] = []
    for parameter in own.values():
        listed += shared if parameter.name == "columns" else [parameter]
    wrapped.__signature__ = inspect.Signature(listed)  # type: ignore[attr-defined]
    return wrapped


def columns_from(
    preset_name: PresetOption = None,
    treatment: Annotated[
        str | None, typer.Option("--treatment", metavar="COL", help="Column that tells the arm.")
    ] = None,
    control: Annotated[
        str | None, typer.Option("--control", metavar="VALUE", help="Its value for 'left alone'.")
    ] = None,
    arms: Annotated[
        str | None,
        typer.Option(
            "--arms", metavar="A,B", help="Its values that count as treatments; default all."
        ),
    ] = None,
    outcome: Annotated[
        str | None,
        typer.Option("--outcome", metavar="COL", help="Outcome column: 0 to 1, yes/no or text."),
    ] = None,
    positive: Annotated[
        str | None,
        typer.Option("--positive", metavar="VALUE", help="Its text that counts as outcome 1."),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            "--features", metavar="A,B,C", help="Feature columns; default all other columns."
        ),
    ] = None,
    cost: Annotated[
        str | None,
        typer.Option(
            "--cost",
            metavar="COL|N",
            help="Cost column, or one cost for everybody; default the paper's log-normal costs.",
        ),
    ] = None,
    probability: Annotated[
        str | None,
        typer.Option(
            "--probability",
            metavar="COL",
            help="Column with the probability of what was done, in a log of decisions.",
        ),
    ] = None,
) -> Columns | None:
    """The columns that the options name, over those of the preset."""
    given: dict[str, Any] = {"treatment": treatment, "control": control, "outcome": outcome}
    given |= {"features": _names(features), "treatments": _names(arms), "cost": _cost(cost)}
    given |= {"probability": probability, "positive": positive}
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


def tell_of(reading: Reading, columns: Columns | None) -> None:
    """Say how a log was read, and warn where its arms do not look randomised or where a feature
    alone tells the outcome.
    """
    log, unfinished = reading.log, reading.unfinished
    if reading.outcome_values:
        notes.print(outcome_note(reading.outcome_values))
    if unfinished:
        counts = ", ".join(f"{count:,} {status}" for status, count in unfinished.items())
        notes.print(f"left out, because their outcome is not known: {counts}.", style="yellow")
    if "open" in unfinished:
        notes.print(
            "Where conversions are told sooner than their absence, what is left converts too "
            "often: read the log again when no decision is open.",
            style="yellow",
        )
    shown = ", ".join(log.feature_names[:MOST_SHOWN])
    more = len(log.feature_names) - MOST_SHOWN
    notes.print(f"features: {shown}{f' and {more} more' if more > 0 else ''}")
    if columns is not None and columns.cost is None:
        notes.print("costs: none given with --cost, so the paper's log-normal ones, mean 0.77")
    if log.probabilities is None and log.features.shape[1]:
        balance = check_balance(log)
        if not balance.looks_randomised:
            notes.print(
                f"{balance.verdict}. A feature measured after the treatment must be left out with "
                "--features, and a log of decisions needs --probability: without that, do not "
                "trust these figures.",
                style="yellow",
            )
    for leak in leaks(log):
        notes.print(leak_note(leak), style="yellow", soft_wrap=True)


def outcome_note(values: dict[str, int]) -> str:
    """Which text of the outcome column counts as what.

    >>> outcome_note({"yes": 1, "no": 0})
    "outcome: 'yes' counts as 1, 'no' counts as 0"
    """
    return "outcome: " + ", ".join(f"{text!r} counts as {value}" for text, value in values.items())


def leak_note(leak: Leak) -> str:
    """A warning of one line, and what to do about it."""
    return (
        f"warning: {leak.warning}. If it is measured after the treatment, it is not known when you "
        "decide: leave it out with --features."
    )
