"""The options that name the columns of a log, and what is printed when one is read."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from bccb.cli.console import notes
from bccb.data import Columns, lognormal, preset
from bccb.data.describe import check_balance
from bccb.data.leakage import Leak, leaks
from bccb.data.readers import Reading, read_finished
from bccb.data.schema import one_of
from bccb.errors import InputError
from bccb.types import Log

MOST_SHOWN = 20  # names of features

# Parameter of the command: its option, what the option takes, and its help.
OPTIONS = {
    "preset_name": ("--preset", None, "Columns of a public trial: criteo, hillstrom, starbucks."),
    "treatment": ("--treatment", "COL", "Column with the arm."),
    "control": ("--control", "VALUE", "Its value for 'left alone'."),
    "treatments": ("--arms", "A,B", "Its values that count as treatments; default all."),
    "outcome": ("--outcome", "COL", "Outcome column: 0 to 1, yes/no or text, or amounts."),
    "positive": ("--positive", "VALUE", "Its text that counts as outcome 1."),
    "kind": (
        "--kind",
        "KIND",
        "What the outcomes are: conversion or amount; default what their values look like.",
    ),
    "features": ("--features", "A,B,C", "Feature columns; default all other columns."),
    "excluded": ("--exclude", "A,B,C", "Columns that are no features: ids, what came later."),
    "cost": (
        "--cost",
        "COL|N",
        "What treating a user costs: a column or a number, or for each treatment one of them: "
        "COL,COL or 0.5,1.2.",
    ),
    "probability": (
        "--probability",
        "COL",
        "Column with the probability of what was done, in a log of decisions.",
    ),
}
FLAGS = {
    "impute": ("--impute", "Fill in missing features: median or a level of its own, and marked."),
    "closed": ("--closed", "Read only the decisions before the oldest that is open."),
}


def takes_columns(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command these options in place of its parameter ``columns``.

    Typer reads the options of a command from its signature, so that is what is rewritten.
    """

    @wraps(command)
    def wrapped(**given: Any) -> None:
        columns = columns_from(**{name: given.pop(name) for name in (*OPTIONS, *FLAGS)})
        command(columns=columns, **given)

    listed: list[inspect.Parameter] = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        listed += _parameters() if parameter.name == "columns" else [parameter]
    wrapped.__signature__ = inspect.Signature(listed)  # type: ignore[attr-defined]
    return wrapped


def _parameters() -> list[inspect.Parameter]:
    kinds: dict[str, tuple[object, Any]] = {
        name: (None, Annotated[str | None, typer.Option(option, metavar=takes, help=text)])
        for name, (option, takes, text) in OPTIONS.items()
    }
    for name, (option, text) in FLAGS.items():
        kinds[name] = (False, Annotated[bool, typer.Option(option, help=text)])
    return [
        inspect.Parameter(
            name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=annotation
        )
        for name, (default, annotation) in kinds.items()
    ]


def columns_from(preset_name: str | None, **named: str | bool | None) -> Columns | None:
    """The columns that the options name, over those of the preset or, by and by, of the file."""
    given: dict[str, Any] = {field: value for field, value in named.items() if value}
    for field in ("features", "treatments", "excluded"):
        if field in given:
            given[field] = _names(given[field])
    if "cost" in given:
        given["cost"] = _cost(given["cost"])
    if preset_name is None:
        return Columns(**given) if given else None
    known = preset(preset_name)
    if "excluded" in given:
        kept = _without(given["excluded"], known)
        given = {"features": kept} | given | {"excluded": (*known.excluded, *given["excluded"])}
    return replace(known, **given)


def _without(excluded: tuple[str, ...], known: Columns) -> tuple[str, ...]:
    """The features of a preset without some."""
    for name in excluded:
        if name not in known.features:
            raise InputError(
                "--exclude", name, f"a feature of the preset, {one_of(name, known.features)}"
            )
    return tuple(name for name in known.features if name not in excluded)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(","))


def _cost(text: str) -> str | float | tuple[str | float, ...]:
    costs = tuple(map(_price, _names(text)))
    return costs if len(costs) > 1 else costs[0]


def _price(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def read_with_notes(path: Path, columns: Columns | None) -> Log:
    """Read a log, and print how it was read."""
    reading = read_finished(path, columns)
    print_notes(reading, columns)
    return reading.log


def _has_fractions(log: Log) -> bool:
    return bool(((log.outcomes > 0.0) & (log.outcomes < 1.0)).any())


def print_notes(reading: Reading, columns: Columns | None) -> None:
    """Print how a log was read, and warn where its arms do not look randomised or where a feature
    alone tells the outcome.
    """
    log, unfinished = reading.log, reading.unfinished
    if reading.outcome_values:
        notes.print(outcome_note(reading.outcome_values))
    elif not (log.amounts or reading.kind_given) and _has_fractions(log):
        notes.print(fractions_note(_outcome_of(columns)), style="yellow", soft_wrap=True)
    if log.amounts:
        notes.print(amounts_note(_outcome_of(columns), log), highlight=False, soft_wrap=True)
    if unfinished:
        counts = ", ".join(f"{count:,} {status}" for status, count in unfinished.items())
        notes.print(f"left out, because their outcome is not known: {counts}.", style="yellow")
    shown = ", ".join(log.feature_names[:MOST_SHOWN])
    more = len(log.feature_names) - MOST_SHOWN
    notes.print(f"features: {shown}{f' and {more} more' if more > 0 else ''}")
    for note in reading.notes:
        notes.print(note, style="yellow", highlight=False, soft_wrap=True)
    if columns is not None and columns.cost is lognormal:
        notes.print(
            "costs: the preset's, the paper's log-normal ones, mean 0.77; --cost names others"
        )
    balance = check_balance(log)
    if not balance.looks_randomised and log.probabilities is not None:
        notes.print(
            f"{balance.verdict}. Estimates rest on these probabilities: without right ones, do not "
            "trust these figures.",
            style="yellow",
        )
    elif not balance.looks_randomised:
        notes.print(
            f"{balance.verdict}. A feature measured after the treatment must be left out with "
            "--exclude, and a log of decisions needs --probability: without that, do not "
            "trust these figures.",
            style="yellow",
        )
    for leak in leaks(log):
        notes.print(leak_note(leak), style="yellow", soft_wrap=True)


def _outcome_of(columns: Columns | None) -> str:
    return columns.outcome if columns is not None and columns.outcome else "outcome"


def amounts_note(name: str, log: Log) -> str:
    """That the outcomes are money, and what they are like.

    >>> log = Log(np.zeros((4, 1)), [0, 1, 1, 0], [0, 30.0, 0, 10], np.ones((4, 1)), kind="amount")
    >>> amounts_note("revenue", log)
    'outcome revenue: amounts of money, 50.0 % not 0, mean 10.00, largest 30.00'
    """
    y = log.outcomes
    share, largest = 100 * float((y != 0.0).mean()), float(y[np.abs(y).argmax()])
    said = f"{share:.3g}" if share < 1 else f"{share:.1f}"
    figures = f"{said} % not 0, mean {y.mean():,.2f}, largest {largest:,.2f}"
    return f"outcome {name}: amounts of money, {figures}"


def fractions_note(name: str) -> str:
    """That outcomes between 0 and 1 are not taken for money.

    >>> fractions_note("paid").split(":")[0]
    'outcome paid'
    """
    return (
        f"outcome {name}: all from 0 to 1, so each counts as that share of a conversion. If these "
        "are amounts of money, use --kind amount."
    )


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
        "decide: leave it out with --exclude."
    )
