"""The output of commands: tables, one-line errors, and progress bars.

On a terminal tables are drawn and bars shown; in a pipe, tables are tab-separated lines.
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

from momentmix.files.writing import name_in_errors

out, err = Console(), Console(stderr=True)

Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]

#: What :func:`show_json` accepts: JSON, NumPy arrays and NumPy numbers.
JsonValue: TypeAlias = (
    "bool | float | str | np.ndarray | np.generic | Sequence[JsonValue] "
    "| Mapping[str, JsonValue] | None"
)

Word = TypeVar("Word", bound=str)

STANDARD_OUTPUT = "standard output"
#: Characters that are escaped: control characters, line and paragraph separators, marks that change
#: the direction of writing, and lone surrogates, which no stream can encode.
_UNSAFE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
#: Exceptions that a user or a file can cause; any other is a bug of the program.
USER_ERRORS = (ValueError, OSError, MemoryError, ImportError, OverflowError, zipfile.BadZipFile)


#: Parameters of the library, and the options of the command that set them.
_OPTIONS = {
    "n_components": "-k",
    "covariance_type": "--covariance",
    "random_state": "--seed",
    "max_iter": "--max-iter",
    "tol": "--tol",
    "prior": "--prior",
    "method": "--method",
    "outliers": "--outliers",
    "order": "--order",
}


def by_option(message: str) -> str:
    """A message of the library with parameters replaced by the options that set them.

    scikit-learn's "The 'tol' parameter of GaussianMixture must be …" becomes "--tol must be …".
    """
    message = re.sub(r"The '(\w+)' parameter of \w+ must", r"\1 must", message)
    for name, option in _OPTIONS.items():
        # A name without an underscore may be an ordinary word.
        after = "" if "_" in name else "(?= must| \\(now|=)"
        message = re.sub(rf"\b{name}\b{after}", option, message)
        message = re.sub(rf"{option}=(\S)", rf"{option} \1", message)
        message = re.sub(rf"({option} (?:must.* or )?)None\b", r"\1none", message)
    return message


@contextmanager
def in_terms_of_options() -> Iterator[None]:
    """Make errors of the library name the option that the user typed."""
    try:
        yield
    except ValueError as error:
        raise ValueError(by_option(str(error))) from error


@contextmanager
def plain_errors(debug: bool) -> Iterator[None]:
    """Print errors and warnings as one line each; exit with 1, or with 130 after Ctrl-C."""
    with warnings.catch_warnings():
        if not debug:
            setattr(warnings, "showwarning", _print_warning)  # noqa: B010
        try:
            yield
            with name_in_errors(STANDARD_OUTPUT):
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
    """Discard what is left to write, or Python would report the closed pipe again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_warning(message: Warning | str, *place: object) -> None:
    say(f"momentmix: {_on_one_line(message)}", err)


def fail(message: str, code: int) -> NoReturn:
    say(f"momentmix: {_on_one_line(message)}", err, style="red")
    raise SystemExit(code)


def one_of(option: str, word: str, *known: Word) -> Word:
    """The word given to an option, which must be one of ``known``."""
    for each in known:
        if word == each:
            return each
    raise ValueError(f"{option} is {', '.join(known[:-1])} or {known[-1]}, got {word!r}")


def _on_one_line(message: object) -> str:
    return " ".join(str(message).split())


def say(message: str, console: Console = out, style: str = "") -> None:
    """Print one line, unwrapped however narrow the terminal is."""
    with name_in_errors(STANDARD_OUTPUT if console is out else "standard error"):
        console.print(_literal(message, style), soft_wrap=True)


def aside(message: str) -> None:
    """Print a line on a terminal, and nothing in a pipe."""
    if out.is_terminal:
        say(message)


def note(message: str) -> None:
    """Print a note to standard error, where it does not mix with a table."""
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
    """Text without markup of rich or control sequences of the terminal."""
    return Text(visible(text), style=style)


def visible(text: str) -> str:
    """The text, with characters that a terminal would obey or hide replaced by their codes."""
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def in_csv(name: str) -> str:
    """A name for CSV on standard output; in a pipe it keeps its line ends and tabs."""
    return "".join(c if c in "\n\r\t" and not out.is_terminal else visible(c) for c in name)


def _write_out(text: str) -> None:
    with name_in_errors(STANDARD_OUTPUT):
        sys.stdout.write(text)


def show_json(document: JsonValue) -> None:
    """Print JSON; numbers that are not finite become null, because JSON cannot hold them."""
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
    """On a terminal, show that work of unknown length is going on."""
    return err.status(what) if err.is_terminal else nullcontext()


def reading_bar(wanted: bool = True, rows: bool = False) -> Progress:
    """A progress bar of bytes or rows; it is hidden off a terminal or if not ``wanted``."""
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
