"""The command line, ``bccb``: one file for each command."""

from __future__ import annotations

import ast
import sys
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

from bccb import __version__
from bccb.data.schema import one_of
from bccb.errors import BccbError, InputError, MissingExtraError

try:
    import typer
    from typer.core import TyperCommand, TyperGroup
    from typer.main import get_command

    from bccb.cli.console import SETTINGS, notes, out
except ImportError as error:  # the core is installed without the command line's libraries
    sys.exit(f"error: {MissingExtraError(str(error.name), 'lab')}")

LAB, SERVE = "lab", "serve"  # the extras that bring what a command needs
COMMANDS = {
    "check": LAB,
    "compare": LAB,
    "advise": LAB,
    "plan": LAB,
    "evaluate": LAB,
    "policies": LAB,
    "simulate": LAB,
    "data": LAB,
    "paper": LAB,
    "trust": LAB,
    "serve": SERVE,
    "open": SERVE,
    "drive": SERVE,
    "keys": SERVE,
    "ledger": SERVE,
}
PANELS = {LAB: "The lab", SERVE: "The service"}


class Commands(TyperGroup):
    """One command for each module of this package, imported when it is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        """All names, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a module, or one that says what is missing."""
        if cmd_name not in COMMANDS:
            raise InputError("the command", cmd_name, one_of(cmd_name, COMMANDS))
        extra = COMMANDS[cmd_name]
        try:
            module = import_module(f"bccb.cli.{cmd_name}")
        except MissingExtraError as error:
            command: Any = _missing(cmd_name, error)
        except ModuleNotFoundError as error:
            command = _missing(cmd_name, MissingExtraError(str(error.name), extra))
        else:
            own = module.app if hasattr(module, "app") else _alone(cmd_name, module)
            command = get_command(own)
            _tidy_help(command)
        command.name, command.rich_help_panel = cmd_name, PANELS[extra]
        return command

    def get_params(self, ctx: Any) -> list[Any]:
        """The options of ``bccb`` itself."""
        return flags_without_type(super().get_params(ctx))


def flags_without_type(options: list[Any]) -> list[Any]:
    """The same options; the help of a flag shows no <bool>, because a flag takes no value."""
    for option in options:
        if getattr(option, "is_flag", False) and option.metavar is None:
            option.metavar = ""
    return options


def _tidy_help(command: Any) -> None:
    """The same for all the options of a command and of those below it."""
    flags_without_type(
        command.get_params(command.context_class(command, **SETTINGS["context_settings"]))
    )
    for below in getattr(command, "commands", {}).values():
        _tidy_help(below)


def _alone(name: str, module: ModuleType) -> typer.Typer:
    """An application with nothing but one command."""
    app = typer.Typer(**{**SETTINGS, "no_args_is_help": False})
    app.command(name)(module.command)
    return app


def _missing(name: str, error: MissingExtraError) -> TyperCommand:
    def refuse(**_: object) -> None:
        raise error

    context = {"ignore_unknown_options": True, "allow_extra_args": True}
    return TyperCommand(name, callback=refuse, help=_description(name), context_settings=context)


def _description(name: str) -> str:
    """The help of a command whose module cannot be imported, read from its source."""
    source = Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8")
    functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    helps = {function.name: ast.get_docstring(function) for function in functions}
    return helps.get("command") or helps.get("group") or ""


app = typer.Typer(name="bccb", cls=Commands, **SETTINGS)


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
