"""The command ``momentmix``: one file a group of commands, each a thin layer over the library."""

from __future__ import annotations

from typing import Annotated

import typer

import momentmix
from momentmix.cli import compare, fit, moments, show, use

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    epilog="From a table to a page about it: `momentmix fit data.csv -k auto --report report.html`",
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"momentmix {momentmix.__version__}")
        raise typer.Exit


@app.callback()
def _commands(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="show the version")
    ] = False,
) -> None:
    """Gaussian mixtures through their moments."""


for command in (
    fit.fit,
    use.predict,
    use.score,
    use.sample,
    moments.moments,
    compare.compare,
    show.show,
    show.demo,
):
    app.command()(command)


def main() -> None:
    app()
