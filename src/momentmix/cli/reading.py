"""What commands read: rows of tables or of standard input, models, moments."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, NamedTuple

import numpy as np
import typer

from momentmix.cli.console import note, reading_bar
from momentmix.cli.errors import error_columns, split_errors, tell_errors, without_errors
from momentmix.cli.gaps import HINT, Gaps, usable_rows
from momentmix.cli.tables import TableOptions
from momentmix.distributions.mixture import Mixture
from momentmix.distributions.moment_tensors import MomentTensors
from momentmix.distributions.samples import Samples
from momentmix.files.columns import NUMBERS, Wanted
from momentmix.files.tables import Table, choose_from, open_table
from momentmix.files.whole import WholeTable, whole_table
from momentmix.files.writing import naming
from momentmix.observed import noise_of_errors
from momentmix.summary import Distribution

TABLES = "Tables of numbers: text, Excel, Parquet, Arrow or .npy files; - is standard input."
Files = Annotated[list[Path], typer.Argument(help=TABLES, metavar="TABLES")]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file (.json).")]
#: So many different whole numbers may be labels.
FEW_VALUES = 5


class Rows(NamedTuple):
    """The rows of some tables, and what became of the rest of these."""

    X: np.ndarray  # (p, n)
    names: list[str] | None  # of the columns
    source: str  # what they are called
    left_out: Sequence[tuple[str, str]] = ()  # columns, and why
    gaps: Counter[str] = Counter()  # by column, where rows were left out  # noqa: RUF012
    read: int = 0  # rows in the tables
    numbers: np.ndarray | None = None  # (p,) of the rows in the tables, where some were left out
    empty: int = 0  # of those that were left out, rows without any value
    notes: Sequence[str] = ()  # what one should know before trusting a fit of them
    errors: np.ndarray | None = None  # (p, n) standard errors, 0 where there are none
    error_columns: Mapping[str, str] = MappingProxyType({})  # of the columns that have one
    table: WholeTable | None = None  # all columns, where they are asked for

    @property
    def columns(self) -> list[str]:
        """A name for each column, which may be its position."""
        return self.names or [str(i) for i in range(self.X.shape[1])]

    @property
    def dropped(self) -> int:
        """Rows that were left out because of gaps."""
        return self.read - len(self.X)

    @property
    def noise(self) -> np.ndarray | None:
        """The errors as the library takes them."""
        return None if self.errors is None else noise_of_errors(self.errors)

    def some(self, which: np.ndarray) -> Rows:
        """Some of the rows, by a mask (p,)."""
        errors = None if self.errors is None else self.errors[which]
        return self._replace(X=self.X[which], errors=errors)


@contextmanager
def open_files(files: Sequence[Path], options: TableOptions) -> Iterator[list[Table]]:
    """The tables of some files, one of which may be standard input; no columns are chosen yet."""
    with ExitStack() as stack:
        tables = []
        for file in files:
            path, label = file, None
            if str(file) == "-":
                path, label = stack.enter_context(_standard_input()), "standard input"
            tables.append(open_table(path, label=label, options=options.options))
        yield tables


@contextmanager
def _standard_input() -> Iterator[Path]:
    """Standard input as a file."""
    stream = sys.stdin.buffer
    with tempfile.TemporaryDirectory(prefix="momentmix-") as folder:
        first = stream.read(16)
        if not first:
            raise ValueError("standard input: nothing came")
        path = Path(folder) / "input"
        with naming(f"the copy of standard input in {folder}"), open(path, "wb") as file:
            file.write(first)
            shutil.copyfileobj(stream, file, 1 << 20)
        yield path


def choose(tables: Sequence[Table], wanted: Wanted) -> list[tuple[str, str]]:
    """Have tables read the columns that are wanted, and tell how; returns what is left out."""
    left_out = choose_from(tables, wanted).left_out
    for line in dict.fromkeys(line for table in tables for line in table.said):
        note(f"{line}.")
    return left_out


def tell_left_out(left_out: Sequence[tuple[str, str]]) -> None:
    """One line about columns that are not used."""
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


def read_rows(
    files: Sequence[Path],
    options: TableOptions,
    gaps: Gaps,
    preferred: Sequence[str] | None = None,
    *,
    errors: str | None = None,
    all_rows: bool = False,
    whole: bool = False,
) -> Rows:
    """All rows of some tables, in memory.

    ``preferred`` are the columns of what the rows will meet, which are taken by name where they
    can. Otherwise columns that cannot be meant are left out, with a line about it, and so are rows
    that cannot be used, unless ``all_rows`` are to be kept, with all columns of numbers.
    ``errors`` are the columns of standard errors, as the user names them. ``whole`` keeps the other
    columns of the tables too.
    """
    with open_files(files, options) as tables, reading_bar() as bar:
        first = tables[0]
        wanted = _wanted(first, options.wanted, preferred)
        if all_rows:
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
        task = bar.add_task("reading", total=sum(table.size for table in tables), rows=0)
        done, rows = 0, 0
        pieces: list[np.ndarray] = []
        deviations: list[np.ndarray] = []
        for table in tables:
            for piece in table.pieces():
                if by_value:
                    X, E = split_errors(table, piece, used, by_value)
                    piece = piece._replace(rows=X)
                    deviations.append(E)
                table.refuse_gaps(piece, missing=gaps != "error", hint=HINT)
                pieces.append(piece.rows)
                rows += len(piece.rows)
                bar.update(task, completed=int(done + piece.share * table.size), rows=rows)
            done += table.size
        if rows == 0:
            raise ValueError(f"{first.label}: no rows")
        label = first.label if len(tables) == 1 else f"{len(tables)} files"
        found = Rows(
            np.concatenate(pieces),
            names,
            Path(label).name,
            left_out,
            read=rows,
            errors=np.concatenate(deviations) if by_value else None,
            error_columns=by_value,
            table=whole_table(tables, used, rows) if whole else None,
        )
        known = first.known
    if free:
        found = _without(found, "empty", np.isnan(found.X).all(axis=0), known)
    if free and gaps != "drop":
        found = _without(found, "constant", _is_constant(found.X), known)
    if not all_rows:
        found = _usable(found, gaps)
    if free and gaps == "drop":  # what is left of a column may be
        found = _without(found, "constant", _is_constant(found.X), known)
    tell_left_out(found.left_out)
    return found._replace(notes=_few_values(found)) if free else found


def _is_constant(X: np.ndarray) -> np.ndarray:
    """Which columns have no two different values; (n,)."""
    highest = np.where(np.isnan(X), -np.inf, X).max(axis=0)
    lowest = np.where(np.isnan(X), np.inf, X).min(axis=0)
    return np.asarray(highest <= lowest)


def _wanted(table: Table, wanted: Wanted, preferred: Sequence[str] | None) -> Wanted:
    """The columns of what the rows will meet, where the table can have them; or the user's."""
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


def _without(rows: Rows, reason: str, which: np.ndarray, known: Sequence[str]) -> Rows:
    """Rows without some columns, unless these are all."""
    if not which.any() or which.all():
        return rows
    names = list(known) if rows.names is None else rows.names
    left_out = [(name, reason) for name, out in zip(names, which, strict=True) if out]
    return rows._replace(
        X=rows.X[:, ~which],
        errors=None if rows.errors is None else rows.errors[:, ~which],
        names=[name for name, out in zip(names, which, strict=True) if not out],
        left_out=[*rows.left_out, *left_out],
    )


def _few_values(rows: Rows) -> list[str]:
    """A note on columns that look like labels, whose values a mixture would follow."""
    if len(rows.X) < 10 * FEW_VALUES:
        return []
    names = rows.columns
    counts = {
        name: len(np.unique(column[~np.isnan(column)]))
        for name, column in zip(names, rows.X[:10_000].T, strict=True)
        if np.all(np.isnan(column) | (column == np.floor(column)))
    }
    few = {name: count for name, count in counts.items() if count <= FEW_VALUES}
    if not few or len(few) == len(names):
        return []
    shown = ", ".join(f"{name} ({count})" for name, count in [*few.items()][:6])
    return [
        f"Some columns have few different values: {shown}. If these are labels, the components "
        f"follow them; --exclude {','.join([*few][:6])} leaves them out."
    ]


def _usable(rows: Rows, gaps: Gaps) -> Rows:
    """Rows that can be fitted, with a line about gaps."""
    empty = np.isnan(rows.X)
    if not empty.any():
        return rows
    columns = zip(rows.columns, empty.sum(axis=0), strict=True)
    counts = Counter({name: int(count) for name, count in columns if count})
    name, most = counts.most_common(1)[0]
    if gaps == "drop" and empty.any(axis=1).all():
        raise ValueError(
            f"{rows.source}: every row has a gap, {most:,} of {len(empty):,} in column {name}; "
            f"--missing keep uses the values that are there, --exclude {name} leaves the column out"
        )
    usable = usable_rows(rows.X, gaps, "were left out")
    if not usable.any():
        raise ValueError(f"{rows.source}: no row has any value in a column that is used")
    if most == len(empty):
        raise ValueError(
            f"{rows.source}: column {name} has no value in any row; --exclude {name} leaves it out"
        )
    found = rows.some(usable)._replace(
        empty=int(empty.all(axis=1).sum()), numbers=np.flatnonzero(usable)
    )
    return found._replace(gaps=counts) if gaps == "drop" else found


def rows_for(
    mixture: Mixture,
    files: Sequence[Path],
    options: TableOptions,
    gaps: Gaps,
    errors: str | None = None,
    whole: bool = False,
) -> Rows:
    """The columns of the tables that a model speaks of: by its names, where both have names."""
    names = mixture.feature_names
    rows = read_rows(files, options, gaps, names, errors=errors, all_rows=True, whole=whole)
    if rows.X.shape[1] != mixture.n_features:
        raise ValueError(
            f"{rows.source} has {rows.X.shape[1]} column(s), but the model has "
            f"{mixture.n_features}; choose them with --columns"
        )
    return rows


def is_table(path: Path) -> bool:
    return path.suffix.lower() not in (".json", ".npz")


def read_distribution(
    path: Path, options: TableOptions, preferred: Sequence[str] | None = None
) -> tuple[Distribution, Sequence[str] | None]:
    """A model (.json), moments (.npz) or the samples of a table, and the names of the columns."""
    if is_table(path):
        rows = read_rows([path], options, "drop", preferred)
        return Samples(rows.X), rows.names
    if path.suffix.lower() == ".json":
        mixture = Mixture.load(path)
        return mixture, mixture.feature_names
    moments = MomentTensors.load(path)
    return moments, moments.feature_names
