"""What the commands say, and how they fail: tables, one-line errors, bars for what takes long.

On a terminal tables are drawn and bars shown; into a pipe a table goes as tab-separated lines.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Annotated, Any, NoReturn

import numpy as np
import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table

out, err = Console(), Console(stderr=True)

Debug = Annotated[bool, typer.Option("--debug", help="show the traceback of an error")]
Json = Annotated[bool, typer.Option("--json", help="print JSON for machines")]

#: What a user or a file can have wrong; anything else is a mistake of the program.
KNOWN = (ValueError, OSError, MemoryError, ImportError, OverflowError, zipfile.BadZipFile)


@contextmanager
def plain_errors(debug: bool) -> Iterator[None]:
    """Errors as one line and an exit status: 1, or 130 after Ctrl-C. Warnings as one line each."""
    with warnings.catch_warnings():
        if not debug:
            setattr(warnings, "showwarning", _warned)  # noqa: B010
        try:
            yield
        except KeyboardInterrupt:
            fail("interrupted", 130)
        except BrokenPipeError:  # the reader has had enough, as `head` does
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(141) from None
        except KNOWN as error:
            if debug:
                raise
            fail(" ".join(str(error).split()) or type(error).__name__, 1)
        except Exception as error:
            if debug:
                raise
            what = " ".join(f"{type(error).__name__}: {error}".split())
            fail(f"internal error, {what}; --debug shows where", 70)


def _warned(message: Any, *place: Any) -> None:
    say(f"momentmix: {message}", err)


def fail(message: str, code: int) -> NoReturn:
    err.print(f"momentmix: {message}", style="red", markup=False, highlight=False, soft_wrap=True)
    raise SystemExit(code)


def say(message: str, console: Console = out) -> None:
    """One line as it is, however wide the terminal."""
    console.print(message, markup=False, highlight=False, soft_wrap=True)


def aside(message: str) -> None:
    """For a person: not said into a pipe."""
    if out.is_terminal:
        say(message)


def note(message: str) -> None:
    """What must not be missed, nor get between the lines of a table."""
    say(f"Note: {message}", err)


def show_table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if not out.is_terminal:
        for cells in (heads, *rows):
            sys.stdout.write("\t".join(" ".join(cell.split()) for cell in cells) + "\n")
        return
    table = Table(title=title, title_justify="left")
    for head in heads:
        table.add_column(_literal(head), justify="right")
    for cells in rows:
        table.add_row(*map(_literal, cells))
    out.print(table)


def _literal(text: str) -> Any:
    from rich.text import Text

    return Text(text)


def show_json(document: Any) -> None:
    """Numbers that are not finite become null: JSON has no word for them."""
    sys.stdout.write(json.dumps(_plain(document), allow_nan=False, ensure_ascii=False) + "\n")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value


def working(what: str) -> AbstractContextManager[Any]:
    """Shows on a terminal that something goes on whose end cannot be told."""
    return err.status(what) if err.is_terminal else nullcontext()


def reading_bar() -> Progress:
    # Before rich 14.3 a disabled bar still ends with an empty line, hence the quiet console.
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TextColumn("{task.fields[rows]:,} rows"),
        TimeRemainingColumn(),
        console=err if err.is_terminal else Console(quiet=True),
        transient=True,
        disable=not err.is_terminal,
    )
