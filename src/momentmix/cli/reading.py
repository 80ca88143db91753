"""What commands read: rows of tables or of standard input, models, moments."""

from __future__ import annotations

import csv
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import typer

from momentmix.cli.console import reading_bar
from momentmix.distributions.accumulate import same_columns
from momentmix.distributions.mixture import Mixture
from momentmix.distributions.moment_tensors import MomentTensors
from momentmix.distributions.samples import Samples
from momentmix.files.tables import Table, ending_of, open_table
from momentmix.files.writing import naming
from momentmix.summary import Distribution

Files = Annotated[
    list[Path],
    typer.Argument(help="tables: .csv, .parquet, .npy or Arrow; - for standard input"),
]
Columns = Annotated[str | None, typer.Option(help="names of the columns to use: a,b,c")]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="a model file (.json)")]


class Rows(NamedTuple):
    """The rows of some tables."""

    X: np.ndarray  # (p, n)
    names: list[str] | None  # of the columns
    source: str  # what they are called


def column_names(columns: str | None) -> list[str] | None:
    """Names with commas between them; a name with a comma in it stands in quotes."""
    if columns is None:
        return None
    names = [name.strip() for name in next(csv.reader([columns], skipinitialspace=True))]
    twice = [name for i, name in enumerate(names) if name in names[:i]]
    if twice:
        raise ValueError(f"--columns names {twice[0]} twice")
    return names


@contextmanager
def open_tables(
    files: Sequence[Path],
    columns: Sequence[str] | None = None,
    preferred: Sequence[str] | None = None,
) -> Iterator[list[Table]]:
    """The tables of some files, one of which may be standard input.

    ``columns`` are chosen by the user, ``preferred`` ones by what the rows will meet. Where a table
    names its columns the two must agree, and the order is that of the latter.
    """
    with ExitStack() as stack:
        tables = []
        for file in files:
            path, label = file, None
            if str(file) == "-":
                path, label = stack.enter_context(_standard_input()), "standard input"
            table = open_table(path, columns, label)
            if preferred is not None and table.names is not None:
                if columns is not None and set(columns) != set(preferred):
                    raise ValueError(
                        f"--columns chooses {', '.join(columns)}, but the model has "
                        f"{', '.join(preferred)}"
                    )
                table = open_table(path, preferred, label)
            tables.append(table)
        same_columns(tables)
        yield tables


@contextmanager
def _standard_input() -> Iterator[Path]:
    """Standard input as a file, in the format that its first bytes tell."""
    stream = sys.stdin.buffer
    with tempfile.TemporaryDirectory(prefix="momentmix-") as folder:
        first = stream.read(16)
        if not first:
            raise ValueError("standard input: nothing came")
        path = Path(folder) / f"input{ending_of(first)}"
        with naming(f"the copy of standard input in {folder}"), open(path, "wb") as file:
            file.write(first)
            shutil.copyfileobj(stream, file, 1 << 20)
        yield path


def read_rows(
    files: Sequence[Path],
    columns: Sequence[str] | None = None,
    preferred: Sequence[str] | None = None,
    gap: str = "fill it or leave the row out",
) -> Rows:
    """All rows of some tables, in memory; ``gap`` is what to do about a missing number."""
    with open_tables(files, columns, preferred) as tables, reading_bar() as bar:
        task = bar.add_task("reading", total=sum(table.size for table in tables), rows=0)
        done, rows, pieces = 0, 0, []
        for table in tables:
            for piece in table.pieces():
                table.refuse_gaps(piece, missing=False, hint=gap)
                pieces.append(piece.rows)
                rows += len(piece.rows)
                bar.update(task, completed=int(done + piece.share * table.size), rows=rows)
            done += table.size
        if rows == 0:
            raise ValueError(f"{tables[0].label}: no rows")
        label = tables[0].label if len(tables) == 1 else f"{len(tables)} files"
        return Rows(np.concatenate(pieces), tables[0].columns, Path(label).name)


def rows_for(mixture: Mixture, files: Sequence[Path], columns: Sequence[str] | None) -> Rows:
    """The columns of the tables that a model speaks of: by its names, where both have names."""
    rows = read_rows(files, columns, mixture.feature_names)
    if rows.X.shape[1] != mixture.n_features:
        raise ValueError(
            f"{rows.source} has {rows.X.shape[1]} column(s), but the model has "
            f"{mixture.n_features}; choose them with --columns (by position, from 0, where a file "
            "has no names)"
        )
    return rows


def is_table(path: Path) -> bool:
    return path.suffix.lower() not in (".json", ".npz")


def read_distribution(
    path: Path, columns: Sequence[str] | None = None, preferred: Sequence[str] | None = None
) -> tuple[Distribution, Sequence[str] | None]:
    """A model (.json), moments (.npz) or the samples of a table, and the names of the columns."""
    if is_table(path):
        rows = read_rows([path], columns, preferred)
        return Samples(rows.X), rows.names
    if path.suffix.lower() == ".json":
        mixture = Mixture.load(path)
        return mixture, mixture.feature_names
    moments = MomentTensors.load(path)
    return moments, moments.feature_names
