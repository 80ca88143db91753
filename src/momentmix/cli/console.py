"""What the commands say, and how they fail: tables, one-line errors, bars for what takes long.

On a terminal tables are drawn and bars shown; into a pipe a table goes as tab-separated lines.
"""

from __future__ import annotations

import json
import os
import re
import sys
import warnings
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Annotated, NoReturn, TypeAlias, TypeVar

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
from rich.text import Text

from momentmix.files.writing import naming

out, err = Console(), Console(stderr=True)

Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]

#: What :func:`show_json` takes: JSON, arrays and the numbers in them.
JsonValue: TypeAlias = (
    "bool | float | str | np.ndarray | np.generic | Sequence[JsonValue] "
    "| Mapping[str, JsonValue] | None"
)

Word = TypeVar("Word", bound=str)

STANDARD_OUTPUT = "standard output"
#: Control characters, line and paragraph ends, marks that turn the direction of writing, and halves
#: of characters, which no stream takes.
_UNSAFE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
#: What a user or a file can have wrong; anything else is a mistake of the program.
USER_ERRORS = (ValueError, OSError, MemoryError, ImportError, OverflowError, zipfile.BadZipFile)


#: Parameters of the library, and the options of the command that set them.
_OPTIONS = {
    "n_components": "-k",
    "covariance_type": "--covariance",
    "random_state": "--seed",
    "max_iter": "--max-iter",
    "tol": "--tol",
    "prior": "--prior",
    "polish": "--polish",
    "outliers": "--outliers",
    "order": "--order",
}


def by_option(message: str) -> str:
    """A message of the library in which a parameter is called by its option."""
    for name, option in _OPTIONS.items():
        # Without an underscore it may be just a word.
        after = "" if "_" in name else "(?= must| \\(now|=)"
        message = re.sub(rf"\b{name}\b{after}", option, message)
        message = re.sub(rf"{option}=(\S)", rf"{option} \1", message)
    return message


@contextmanager
def in_terms_of_options() -> Iterator[None]:
    """What is wrong with a value is said of the option that the user typed."""
    try:
        yield
    except ValueError as error:
        raise ValueError(by_option(str(error))) from error


@contextmanager
def plain_errors(debug: bool) -> Iterator[None]:
    """Errors as one line and an exit status: 1, or 130 after Ctrl-C. Warnings as one line each."""
    with warnings.catch_warnings():
        if not debug:
            setattr(warnings, "showwarning", _print_warning)  # noqa: B010
        try:
            yield
            with naming(STANDARD_OUTPUT):
                sys.stdout.flush()
        except KeyboardInterrupt:
            fail("interrupted", 130)
        except BrokenPipeError:  # the reader has had enough, as `head` does
            _close_output()
            raise SystemExit(141) from None
        except USER_ERRORS as error:
            if getattr(error, "filename", None) == STANDARD_OUTPUT:
                _close_output()
            if debug:
                raise
            fail(str(error) or type(error).__name__, 1)
        except Exception as error:
            if debug:
                raise
            fail(f"internal error, {type(error).__name__}: {error}; --debug shows where", 70)


def _close_output() -> None:
    """What is left to write goes nowhere, or Python would complain once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_warning(message: Warning | str, *place: object) -> None:
    say(f"momentmix: {_on_one_line(message)}", err)


def fail(message: str, code: int) -> NoReturn:
    say(f"momentmix: {_on_one_line(message)}", err, style="red")
    raise SystemExit(code)


def one_of(option: str, word: str, *known: Word) -> Word:
    """The word that was given to an option, which must be one of the known ones."""
    for each in known:
        if word == each:
            return each
    raise ValueError(f"{option} is {', '.join(known[:-1])} or {known[-1]}, got {word!r}")


def _on_one_line(message: object) -> str:
    return " ".join(str(message).split())


def say(message: str, console: Console = out, style: str = "") -> None:
    """One line as it is, however wide the terminal."""
    with naming(STANDARD_OUTPUT if console is out else "standard error"):
        console.print(_literal(message, style), soft_wrap=True)


def aside(message: str) -> None:
    """For a person: not said into a pipe."""
    if out.is_terminal:
        say(message)


def note(message: str) -> None:
    """What must not be missed, nor get between the lines of a table."""
    say(f"Note: {message}", err)


def show_table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if not out.is_terminal:
        lines = ("\t".join(visible(_on_one_line(cell)) for cell in c) for c in (heads, *rows))
        _write_out("".join(f"{line}\n" for line in lines))
        return
    table = Table(title=_literal(title), title_justify="left")
    for head in heads:
        table.add_column(_literal(head), justify="right")
    for cells in rows:
        table.add_row(*map(_literal, cells))
    out.print(table)


def _literal(text: str, style: str = "") -> Text:
    """Text in which neither rich nor the terminal finds a command."""
    return Text(visible(text), style=style)


def visible(text: str) -> str:
    """With characters that would act on a terminal, or hide what is there, as their codes."""
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def in_csv(name: str) -> str:
    """A name for CSV on standard output; into a pipe, line ends and tabs in it stay as they are."""
    return "".join(c if c in "\n\r\t" and not out.is_terminal else visible(c) for c in name)


def _write_out(text: str) -> None:
    with naming(STANDARD_OUTPUT):
        sys.stdout.write(text)


def show_json(document: JsonValue) -> None:
    """Numbers that are not finite become null: JSON has no word for them."""
    plain = not (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    text = json.dumps(_json_ready(document), allow_nan=False, ensure_ascii=plain)
    _write_out(_UNSAFE.sub(lambda found: json.dumps(found[0])[1:-1], text) + "\n")


def _json_ready(value: JsonValue) -> JsonValue:
    """The same in the types that Python's ``json`` writes."""
    if isinstance(value, Mapping):
        return {str(key): _json_ready(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_ready(item) for item in value]
    if isinstance(value, np.ndarray):
        return _json_ready(value.tolist())
    if isinstance(value, np.generic):
        return _json_ready(value.item())
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value


def working(what: str) -> AbstractContextManager[object]:
    """Shows on a terminal that something goes on whose end cannot be told."""
    return err.status(what) if err.is_terminal else nullcontext()


def reading_bar(wanted: bool = True, rows: bool = False) -> Progress:
    """A bar on a terminal for those who wait, unless it is not wanted; of bytes, or of rows."""
    shown = wanted and err.is_terminal
    # Before rich 14.3 a disabled bar still ends with an empty line, hence the quiet console.
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        *(() if rows else (DownloadColumn(binary_units=True),)),
        TextColumn("{task.fields[rows]:,} rows"),
        TimeRemainingColumn(),
        console=err if shown else Console(quiet=True),
        transient=True,
        disable=not shown,
    )
