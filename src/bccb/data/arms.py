"""The arms of a log: which values of the treatment column are which action."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bccb.data.cells import check_type, present
from bccb.data.schema import Columns, one_of
from bccb.encoding import as_text
from bccb.errors import InputError
from bccb.types import Ints

if TYPE_CHECKING:
    import polars as pl

MOST_ARMS = 50


def select_arms(frame: pl.DataFrame, columns: Columns) -> tuple[pl.DataFrame, list[Any]]:
    """The rows of the arms of interest, or without an arm, and the values of the arms 0..K.

    In a log of decisions an arm may have no row yet: its probabilities are what counts.
    """
    arm = frame[columns.treatment]
    check_type(arm, "treatment", text_too=True)
    values = arm.filter(present(arm)).unique().to_list()
    if len(values) > MOST_ARMS:
        what = f"the number of values of treatment column {arm.name!r}"
        raise InputError(what, len(values), f"at most {MOST_ARMS}")
    named = {as_text(value): value for value in sorted(values)}
    spelled_out = set(named) <= {columns.control, *columns.treatments}
    for role, names in (("control", (columns.control,)), ("treatment", columns.treatments)):
        for name in names:
            if name not in named and not (spelled_out and columns.probability):
                raise InputError(role, name, f"a value of {arm.name!r}, {one_of(name, named)}")
    treatments = columns.treatments or [name for name in named if name != columns.control]
    if not treatments:
        what = f"the number of rows whose {arm.name!r} is not {columns.control!r}"
        raise InputError(what, 0, "at least 1")
    arms = [named.pop(name, name) for name in (columns.control, *treatments)]
    if named:  # what is left there are the arms that nobody asked for
        if columns.probability is not None:
            allowed = f"all values of {arm.name!r}, because the probabilities are of one among all"
            raise InputError("treatments", columns.treatments, allowed)
        frame = frame.filter(~arm.is_in(list(named.values())).fill_null(False))
    columns.check_arms([as_text(value) for value in arms])
    return frame, arms


def actions_of(arm: pl.Series, arms: list[Any], may_be_absent: bool) -> Ints:
    """The action of each row; an arm without rows is refused, except where it may be absent."""
    actions, values = np.zeros(arm.len(), dtype=np.int64), set(arm.unique())
    for action, value in enumerate(arms):
        if value in values:
            actions[(arm == value).to_numpy()] = action
        elif not may_be_absent:
            raise InputError(f"the number of rows of arm {as_text(value)!r}", 0, "at least 1")
    return actions
