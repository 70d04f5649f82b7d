"""The options that several commands share, and the checks of their values."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Annotated

import typer

from bccb.charge import CONVERSION, charge_code, share_in_millionths
from bccb.errors import InputError
from bccb.money import cap_in_micros
from bccb.policies import spec_of

MOST_SEEDS = 10_000
MOST_SPAN = 1e12  # users
FORMATS = ".csv, .csv.gz, .ndjson or .parquet"


def parse_seeds(text: str) -> list[int]:
    """``42:62`` is 42 to 61, as in Python; ``1,5,9`` is these three."""
    allowed = "first:last+1, such as 42:62, or a list, such as 42,43"
    try:
        if ":" in text:
            first, last = (int(part) for part in text.split(":"))
            seeds = list(range(first, min(last, first + MOST_SEEDS + 1)))
        else:
            seeds = [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError("--seeds", text, allowed) from None
    if not 1 <= len(seeds) <= MOST_SEEDS or min(seeds) < 0 or len(set(seeds)) < len(seeds):
        allowed += f"; from 1 to {MOST_SEEDS:,} of them, none below 0, none twice"
        raise InputError("--seeds", text, allowed)
    return seeds


def _check_jobs(jobs: int) -> int:
    """Refuse fewer than one process."""
    if jobs < 1:
        raise InputError("--jobs", jobs, "1 or above")
    return jobs


def _check_file(option: typer.CallbackParam, path: Path | None) -> Path | None:
    """Refuse a file that cannot be written, before the work."""
    if path is not None:
        folder = path.parent
        if path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
            allowed = "a file in a folder that can be written to"
            raise InputError(option.opts[0], str(path), allowed)
    return path


def _check_charge(charge: str) -> str:
    """Refuse a word that is no charge."""
    charge_code(charge, "--charge")
    return charge


def _check_cap(cap: float | None) -> float | None:
    """Refuse a cap of nothing, or of more than there can be."""
    if cap is not None:
        cap_in_micros(cap, "--cost-cap")
    return cap


def _check_share(share: float | None) -> float | None:
    """Refuse a share that is none; whether it may be given is known later."""
    share_in_millionths(share, CONVERSION, "--share")
    return share


def check_policies(names: list[str]) -> None:
    """Refuse a name that is no policy, or one that is given twice."""
    for name in names:
        spec_of(name)
    if len(set(names)) < len(names):
        raise InputError("--policy", names, "named once each")


def check_within(option: str, value: float, least: float, most: float) -> None:
    """Refuse a value that is out of range."""
    if not least <= value <= most:
        raise InputError(option, value, f"from {least} to {most:,.0f}")


def parse_span(option: str, text: str, users: int) -> float:
    """A time in users who come meanwhile: ``5000`` of them, or ``10%`` of all users."""
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        number = math.nan
    span = number / 100.0 * users if text.endswith("%") else number
    if not 1.0 <= span <= MOST_SPAN:
        allowed = f"from 1 to {MOST_SPAN:g} users, such as 5000, or a share of all, such as 10%"
        raise InputError(option, text, allowed)
    return span


DataFile = Annotated[Path | None, typer.Option("--data", help=f"Log of a trial: {FORMATS}.")]
Seeds = Annotated[str, typer.Option("--seeds", help="First:last+1, or a list.")]
Jobs = Annotated[
    int,
    typer.Option(
        "--jobs", help="Processes; default all cores.", callback=_check_jobs, show_default=False
    ),
]
Charge = Annotated[
    str,
    typer.Option(
        "--charge",
        metavar="WHEN",
        help="When a cost is due: on treatment, or only on conversion.",
        callback=_check_charge,
    ),
]
CostCap = Annotated[
    float | None,
    typer.Option(
        "--cost-cap",
        metavar="MONEY",
        help="Buy nothing that is expected to cost more than this per conversion, or per unit of "
        "value; money may be left over.",
        callback=_check_cap,
    ),
]
Share = Annotated[
    float | None,
    typer.Option(
        "--share",
        metavar="SHARE",
        help="Charge this share of the amount, at most the cost: 0.2 is 20 % off.",
        callback=_check_share,
    ),
]
JsonFile = Annotated[
    Path | None,
    typer.Option("--json", help="Write every figure here.", callback=_check_file),
]
HtmlFile = Annotated[
    Path | None,
    typer.Option("--html", help="Write a page with tables and figures here.", callback=_check_file),
]
ResultsFolder = Annotated[Path, typer.Option("--out", help="Folder for results.")]
LedgerFile = Annotated[
    str,
    typer.Option(
        "--ledger",
        metavar="PLACE",
        help="A SQLite file, or a URL: postgresql://USER@HOST/DATABASE.",
        envvar="BCCB_LEDGER",
    ),
]
SEEDS = "42:62"
LEDGER = "bccb.sqlite"
CORES = os.cpu_count() or 1
