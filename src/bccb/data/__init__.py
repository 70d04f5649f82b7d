"""Logs of trials: their columns, files, costs and descriptions, and a simulator."""

from bccb.data.check import Check, check
from bccb.data.costs import constant, lognormal
from bccb.data.describe import Description, describe, describe_file
from bccb.data.readers import read_log
from bccb.data.schema import PRESETS, Columns, preset
from bccb.data.simulator import simulate
from bccb.data.writers import write_log

__all__ = [
    "PRESETS",
    "Check",
    "Columns",
    "Description",
    "check",
    "constant",
    "describe",
    "describe_file",
    "lognormal",
    "preset",
    "read_log",
    "simulate",
    "write_log",
]
