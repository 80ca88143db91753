"""The command ``momentmix``: a file for each group of commands, thin layers over the library.

Commands are imported only when called, so that ``--help`` and ``--version`` answer at once.
"""

from __future__ import annotations

import io
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

import momentmix

#: The file of each command, and its one-line help.
COMMANDS = {
    "fit": ("fit", "Fit a mixture to the rows of tables, or to moments."),
    "select": ("select", "Compare numbers of components and shapes, and tell which fits best."),
    "predict": ("use", "Name the most probable component of every row, and its probability."),
    "score": ("use", "Tell how likely rows are under a model."),
    "impute": ("use", "Fill the gaps of tables with what a model expects there."),
    "sample": ("use", "Draw random rows from a model."),
    "moments": ("moments", "Read tables once and keep their moments."),
    "compare": ("moments", "Tell how far apart the moments of two models are."),
    "show": ("use", "Show the components of a model."),
    "demo": ("use", "Fit the earthquakes that come with momentmix, and draw the fit."),
}


class _Commands(TyperGroup):
    """Lists the commands from ``COMMANDS`` and imports only the one that is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*COMMANDS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        return TyperCommand(cmd_name, help=COMMANDS[cmd_name][1])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, None if command is None else _import(str(name)), rest


#: What help shows in the place of a value.
_WORDS = {int: "NUMBER", float: "NUMBER", Path: "FILE"}


def _import(name: str) -> Any:
    module = import_module(f"momentmix.cli.{COMMANDS[name][0]}")
    alone = typer.Typer(add_completion=False, rich_markup_mode="markdown")
    alone.command(name)(getattr(module, name))
    found = typer.main.get_command(alone)
    for option in found.params:  # new releases of typer show Python's types, such as <list[str]>
        kind: Any = getattr(getattr(option, "type_descriptor", None), "annotation", None)
        if isinstance(option, TyperArgument):
            vars(option)["display_type"] = lambda ctx: None
        elif option.metavar is None and kind is not bool:
            option.metavar = _WORDS.get(kind, "TEXT")
    return found


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Try: `momentmix fit data.csv -k auto --report report.html`",
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"momentmix {momentmix.__version__}")
        raise typer.Exit


@app.callback()
def _commands(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Find the groups in a table: fit, compare and use Gaussian mixtures."""


def _ready_streams() -> None:
    """Streams that are closed lead nowhere, and what a stream cannot encode is replaced."""
    for name, flags in (("stdin", os.O_RDONLY), ("stdout", os.O_WRONLY), ("stderr", os.O_WRONLY)):
        stream = getattr(sys, name)
        if stream is None:  # the lowest number is free, so that no file of ours gets it
            setattr(sys, name, open(os.open(os.devnull, flags), "w" if flags else "r"))  # noqa: SIM115
        elif name == "stdout" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def main() -> None:
    _ready_streams()
    try:
        app()
    except OSError as error:  # help and the version could not be written
        from momentmix.cli.console import plain_errors

        with plain_errors("--debug" in sys.argv):
            raise error
