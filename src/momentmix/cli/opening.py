"""Tables opened by commands: which of their columns are read, and their rows in blocks."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import typer

from momentmix.cli.console import note, reading_bar
from momentmix.cli.error_bars import error_columns, split_errors, tell_errors, without_errors
from momentmix.cli.gaps import HINT, Gaps
from momentmix.cli.tables import TableOptions
from momentmix.files.columns import NUMBERS, Wanted
from momentmix.files.folders import open_all
from momentmix.files.tables import Table, choose_from, open_table
from momentmix.files.writing import name_in_errors
from momentmix.observed import noise_of_errors

TABLES = (
    "Tables of numbers: text, Excel, Parquet, Arrow or .npy files, patterns such as 'part-*.csv', "
    "folders, or duckdb:QUERY; - is standard input."
)
Files = Annotated[list[str], typer.Argument(help=TABLES, metavar="TABLES")]


class Block(NamedTuple):
    """Consecutive rows."""

    X: np.ndarray  # (p, n)
    errors: np.ndarray | None = None  # (p, n) error bars, 0 for exact values

    @property
    def noise(self) -> np.ndarray | None:
        """The error bars as the noise variances that the library takes."""
        return None if self.errors is None else noise_of_errors(self.errors)

    def some(self, which: np.ndarray | slice) -> Block:
        """Some of the rows, by a mask (p,) or a slice."""
        return Block(self.X[which], None if self.errors is None else self.errors[which])

    def parts(self, most: int) -> Iterator[Block]:
        """The same rows in blocks of at most ``most``."""
        for start in range(0, len(self.X), most):
            yield self.some(slice(start, start + most))


class OpenTables(NamedTuple):
    """Tables whose columns are chosen.

    ``free`` is true if the user has named no columns, so that some may still be left out.
    """

    tables: list[Table]
    names: list[str] | None  # of the columns read
    by_value: dict[str, str]  # for each of these with error bars, the column that holds them
    left_out: list[tuple[str, str]]  # columns, and why
    free: bool

    @property
    def used(self) -> list[str]:
        """The names of the columns read, or their positions."""
        return self.names or self.tables[0].known

    @property
    def source(self) -> str:
        """What messages call the tables."""
        return self.tables[0].title if len(self.tables) == 1 else f"{len(self.tables)} files"

    def blocks(self, gaps: Gaps, what: str = "reading", bar: bool = True) -> Iterator[Block]:
        """All rows, a piece of a table at a time, with a progress bar.

        With ``gaps="error"`` a gap is an error, and so is a source without rows.
        """
        total = sum(table.size for table in self.tables)
        done, rows = 0, 0
        with reading_bar(bar) as progress:
            task = progress.add_task(what, total=total or None, rows=0)
            for table in self.tables:
                for piece in table.pieces():
                    errors = None
                    if self.by_value:
                        X, errors = split_errors(table, piece, self.used, self.by_value)
                        piece = piece._replace(rows=X)
                    table.refuse_gaps(piece, missing=gaps != "error", hint=HINT)
                    rows += len(piece.rows)
                    progress.update(task, completed=int(done + piece.share * table.size), rows=rows)
                    yield Block(piece.rows, errors)
                done += table.size
        if rows == 0:
            raise ValueError(f"{self.tables[0].label}: no rows")


@contextmanager
def open_rows(
    files: Sequence[str],
    options: TableOptions,
    preferred: Sequence[str] | None = None,
    *,
    errors: str | None = None,
    keep_all: bool = False,
) -> Iterator[OpenTables]:
    """Open tables, choose their columns, and print lines about how they are read.

    ``preferred`` are the columns of the model that the rows are for; they are matched by name if
    possible. Otherwise columns that are not measurements are left out, unless ``keep_all``.
    ``errors`` names the columns of error bars, as the user typed them.
    """
    with open_files(files, options) as tables:
        first = tables[0]
        wanted = _wanted(first, options.wanted, preferred)
        if keep_all:
            wanted = wanted._replace(keep_all=True)
        free = wanted.columns is None and not wanted.keep_all
        named = None if errors is None else error_columns(first, errors)
        if named is not None:
            wanted = without_errors(first, wanted, named)
        left_out = choose(tables, wanted)
        names, used = first.columns, first.columns or first.known
        by_value = {} if named is None else named.by_value(used)
        if by_value:
            tell_errors(by_value, used)
            for table in tables:
                table.choose([*used, *dict.fromkeys(by_value.values())])
        yield OpenTables(tables, names, by_value, left_out, free)


@contextmanager
def open_files(files: Sequence[str], options: TableOptions) -> Iterator[list[Table]]:
    """Open the tables behind names, one of which may be standard input; choose no columns yet."""
    with ExitStack() as stack:
        tables: list[Table] = []
        for name in files:
            if name == "-":
                path = stack.enter_context(_standard_input())
                tables.append(open_table(path, label="standard input", options=options.options))
            else:
                tables += open_all(name, options.options)
        yield tables


@contextmanager
def _standard_input() -> Iterator[Path]:
    """Standard input, copied to a temporary file."""
    stream = sys.stdin.buffer
    with tempfile.TemporaryDirectory(prefix="momentmix-") as folder:
        first = stream.read(16)
        if not first:
            raise ValueError("standard input: nothing came")
        path = Path(folder) / "input"
        with name_in_errors(f"the copy of standard input in {folder}"), open(path, "wb") as file:
            file.write(first)
            shutil.copyfileobj(stream, file, 1 << 20)
        yield path


def choose(tables: Sequence[Table], wanted: Wanted) -> list[tuple[str, str]]:
    """Choose the wanted columns, print how files are read, and return what is left out."""
    left_out = choose_from(tables, wanted).left_out
    for line in dict.fromkeys(line for table in tables for line in table.said):
        note(f"{line}.")
    return left_out


def tell_left_out(left_out: Sequence[tuple[str, str]]) -> None:
    """Print one line about columns that are not used."""
    if not left_out:
        return
    by_reason: dict[str, list[str]] = {}
    for name, reason in left_out:
        by_reason.setdefault(reason, []).append(name)
    parts = [f"{_some(names)} ({reason})" for reason, names in by_reason.items()]
    more = "; --all-columns keeps all numbers" if {*by_reason} & NUMBERS else ""
    note(f"left out {', '.join(parts)}{more}.")


def _some(names: Sequence[str], most: int = 6) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _wanted(table: Table, wanted: Wanted, preferred: Sequence[str] | None) -> Wanted:
    """The columns of the model if the table may have them, else those that the user wants."""
    if preferred is None:
        return wanted
    if table.names is None and not all(name in table.known for name in preferred):
        if wanted.columns is None and len(table.known) == len(preferred):
            note(f"{table.label} has no names; its columns are taken for {', '.join(preferred)}.")
        return wanted
    if wanted.columns is not None and table.names is None:
        return wanted
    if wanted.columns is not None and set(wanted.columns) != set(preferred):
        raise ValueError(
            f"--columns chooses {', '.join(wanted.columns)}, but the model has "
            f"{', '.join(preferred)}"
        )
    return Wanted(preferred, by="the model")
