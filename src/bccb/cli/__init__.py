"""The command line, ``bccb``: one command a file."""

from __future__ import annotations

import sys
from io import TextIOWrapper
from typing import Annotated

from bccb import __version__
from bccb.errors import BccbError, MissingExtraError

try:
    import typer

    from bccb.cli import (
        advise,
        compare,
        describe,
        drive,
        evaluate,
        keys,
        ledger,
        paper,
        policies,
        serve,
        simulate,
        trust,
    )
    from bccb.cli.console import notes, out
except ImportError as error:  # the core is installed without the command line's libraries
    sys.exit(f"error: {MissingExtraError(str(error.name), 'lab')}")

app = typer.Typer(
    name="bccb",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        out.print(f"bccb {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", is_eager=True, callback=_print_version
        ),
    ] = False,
) -> None:
    """Budget-constrained causal bandits: whom to treat, under a budget that is never exceeded."""


app.command("advise")(advise.command)
app.command("compare")(compare.command)
app.command("drive")(drive.command)
app.command("evaluate")(evaluate.command)
app.command("paper")(paper.command)
app.command("policies")(policies.command)
app.command("simulate")(simulate.command)
app.command("trust")(trust.command)
data = typer.Typer(help="Look at the logs of trials.", no_args_is_help=True)
data.command("describe")(describe.command)
app.add_typer(data, name="data")
app.command("serve")(serve.command)
app.add_typer(keys.app, name="keys")
app.add_typer(ledger.app, name="ledger")


def main() -> None:
    """Run the command line; an error of ours is one line and exit status 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # where a terminal cannot show ±
    try:
        app()
    except BccbError as error:
        notes.print(f"error: {error}", style="red", highlight=False, soft_wrap=True)
        sys.exit(2)
    except OSError as error:  # of the output itself; errors of files are ours
        notes.print(f"error: cannot write the output ({error})", style="red")
        sys.exit(1)
    except MemoryError:
        notes.print("error: not enough memory for this many users", style="red")
        sys.exit(1)
