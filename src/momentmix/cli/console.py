"""What commands print and write: tables, one-line errors, progress bars, files of rows.

On a terminal tables are drawn and bars shown; in a pipe, tables are tab-separated lines. Tables of
rows go to a file, by the ending of its name, or as CSV to a pipe.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sys
import time
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, NoReturn, TypeAlias, TypeVar

import numpy as np
import typer
from rich.box import SIMPLE_HEAVY
from rich.console import Console
from rich.table import Table
from rich.text import Text

from momentmix.files.folders import refuse_input
from momentmix.files.writing import check_writable, name_in_errors, written_whole
from momentmix.summary.components import listed, sentence

if TYPE_CHECKING:
    import pyarrow
    from rich.progress import Progress


out, err = Console(), Console(stderr=True)

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
    "n_clusters": "--clusters",
    "covariance_type": "--covariance",
    "random_state": "--seed",
    "max_iter": "--max-iter",
    "tol": "--tol",
    "prior": "--prior",
    "goal": "--goal",
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
    """Print one line, which a terminal wraps between words."""
    with name_in_errors(STANDARD_OUTPUT if console is out else "standard error"):
        console.print(_literal(message, style), soft_wrap=not console.is_terminal)


def some_of(names: Sequence[str], most: int = 6) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def aside(message: str) -> None:
    """Print a line on a terminal, and nothing in a pipe."""
    if out.is_terminal:
        say(message)


def tell_written(done: str, *paths: Path | None) -> None:
    """The last line on a terminal: what was done, and where it is."""
    written = listed([str(path) for path in paths if path is not None])
    aside(f"{done}; wrote {written}." if written else f"{done}.")


def note(message: str) -> None:
    """Print a note to standard error, where it does not mix with a table."""
    say(f"Note: {message}", err)


def show_table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if not out.is_terminal:
        lines = ("\t".join(visible(_on_one_line(cell)) for cell in c) for c in (heads, *rows))
        _write_out("".join(f"{line}\n" for line in lines))
        return
    table = Table(title=_literal(title), title_justify="left", box=SIMPLE_HEAVY, padding=0)
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
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

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


@dataclass
class Outcome:
    """What is known of some work when it is done."""

    notes: list[str] = field(default_factory=list)  # the warnings as sentences, each once
    seconds: float = 0.0


@contextmanager
def watched(names: Sequence[str] = ()) -> Iterator[Outcome]:
    """Time work of the library; its errors name the options that the user typed.

    Notes have ``names`` in place of the numbers of columns.
    """
    work, begin = Outcome(), time.perf_counter()
    with warnings.catch_warnings(record=True) as caught, in_terms_of_options():
        warnings.simplefilter("always")
        yield work
    work.seconds = time.perf_counter() - begin
    for warning in caught:
        text = sentence(_with_names(by_option(str(warning.message)), names))
        if text not in work.notes:
            work.notes.append(text)


def _with_names(text: str, names: Sequence[str]) -> str:
    """The text with names: "columns 0, 3, 2 more" becomes "columns age, income, 2 more"."""
    if not names:
        return text
    return re.sub(
        r"\bcolumns? \d+\b(, \d+\b)*( more)?",
        lambda span: re.sub(r"\b\d+\b(?! more)", lambda place: names[int(place[0])], span[0]),
        text,
    )


#: Some rows, column by column.
Columns: TypeAlias = Mapping[str, np.ndarray]
ENDINGS = (".csv", ".npy", ".parquet", ".arrow")
#: Rows are collected into groups of at least this many for Parquet and Arrow files. A round number
#: of usual size; it affects the size of files and the speed of reading.
_ROWS_TOGETHER = 1 << 17


def check_output(
    path: Path | None, inputs: Iterable[object], endings: Sequence[str] = ENDINGS
) -> None:
    """Raise now any error that writing to the path would raise after the work.

    An output that is one of the inputs is refused, because it would be written over; and standard
    output is, beside any other.
    """
    names = [str(each) for each in inputs]
    refuse_input(None, names)
    if path is None:
        return
    if path.suffix.lower() not in endings:
        raise ValueError(f"{path}: unknown ending {path.suffix!r}; known are {', '.join(endings)}")
    check_writable(path)
    refuse_input(path, names)
    if path.suffix.lower() in (".parquet", ".arrow"):
        try:
            import pyarrow  # noqa: F401
        except ImportError as error:
            raise ImportError(
                f"{path}: writing {path.suffix} files needs pyarrow: pip install 'momentmix[files]'"
            ) from error


@contextmanager
def table_writer(path: Path | None) -> Iterator[Callable[[Columns], None]]:
    """Give a function that appends columns of numbers or objects; without a path it prints them.

    Masked cells stay empty, or become NaN in .npy files, which hold numbers alone.

    A file appears only when all is written. Standard output gets each piece at once.
    """
    if path is None:
        shown = _CsvPieces(sys.stdout.buffer, in_csv)

        def write(columns: Columns) -> None:
            with name_in_errors(STANDARD_OUTPUT):
                shown.write({name: _harmless(column) for name, column in columns.items()})
                sys.stdout.flush()

        yield write
        return
    ending = path.suffix.lower()
    with written_whole(path) as file:
        pieces: _CsvPieces | _NpyPieces | _ArrowPieces
        if ending == ".csv":
            pieces = _CsvPieces(file)
        elif ending == ".npy":
            pieces = _NpyPieces(file)
        else:
            pieces = _ArrowPieces(file, parquet=ending == ".parquet")
        yield pieces.write
        pieces.close()


class _CsvPieces:
    """Writes CSV in which every float reads back exactly."""

    def __init__(self, file: BinaryIO, name: Callable[[str], str] = str) -> None:
        self._file, self._name, self._begun = file, name, False

    def write(self, columns: Columns) -> None:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if not self._begun:
            writer.writerow(map(self._name, columns))
            self._begun = True
        length = max(map(len, columns.values()))
        for start in range(0, length, 10_000):
            parts = [column[start : start + 10_000].tolist() for column in columns.values()]
            writer.writerows(zip(*parts, strict=True))
            self._file.write(text.getvalue().encode())
            text.seek(0)
            text.truncate()
        self._file.write(text.getvalue().encode())

    def close(self) -> None:
        pass


class _NpyPieces:
    """Writes rows of one array; the header, with their number, is rewritten at the end."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._rows = file, 0
        self._header: dict[str, object] = {}

    def write(self, columns: Columns) -> None:
        part = np.column_stack([*map(_with_nan, columns.values())])
        if not self._header:
            self._header = {"descr": part.dtype.str, "fortran_order": False}
            self._shape = part.shape[1:]
            self._write_header()
        self._rows += len(part)
        self._file.write(np.ascontiguousarray(part, dtype=str(self._header["descr"])).data)

    def _write_header(self) -> None:
        # NumPy pads the header with room for any number of rows.
        header = self._header | {"shape": (self._rows, *self._shape)}
        np.lib.format.write_array_header_1_0(self._file, header)

    def close(self) -> None:
        self._file.seek(0)
        self._write_header()
        self._file.seek(0, os.SEEK_END)


class _ArrowPieces:
    """Writes a Parquet or Arrow file, joining short pieces."""

    def __init__(self, file: BinaryIO, parquet: bool) -> None:
        self._file, self._parquet = file, parquet
        self._writer: Any = None
        self._waiting: list[pyarrow.Table] = []

    def write(self, columns: Columns) -> None:
        import pyarrow as pa

        arrays = [
            pa.array(np.ma.getdata(column), mask=np.ma.getmaskarray(column))
            for column in columns.values()
        ]
        self._waiting.append(pa.table(arrays, names=[*columns]))
        if sum(map(len, self._waiting)) >= _ROWS_TOGETHER:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        if not self._waiting:
            return
        table = pa.concat_tables(self._waiting).combine_chunks()
        self._waiting = []
        if self._writer is None:
            make = parquet.ParquetWriter if self._parquet else pa.ipc.new_file
            self._writer = make(self._file, table.schema)
        self._writer.write_table(table)

    def close(self) -> None:
        self._flush()
        if self._writer is not None:
            self._writer.close()


def _harmless(column: np.ndarray) -> np.ndarray:
    """A column for standard output, without control sequences of the terminal."""
    if column.dtype.kind != "O":
        return column
    cells = [in_csv(cell) if isinstance(cell, str) else cell for cell in column]
    return np.array([*cells, None], dtype=object)[:-1]


def _with_nan(column: np.ndarray) -> np.ndarray:
    if not np.ma.getmaskarray(column).any():
        return np.ma.getdata(column)
    return np.where(np.ma.getmaskarray(column), np.nan, np.ma.getdata(column))
