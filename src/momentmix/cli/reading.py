"""The input of commands: rows of tables or of standard input, models, moments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, NamedTuple

import numpy as np
import typer

from momentmix.cli.gaps import GapCount, Gaps
from momentmix.cli.opening import OpenTables, open_rows, tell_left_out
from momentmix.cli.tables import TableOptions
from momentmix.distributions.mixture import Mixture
from momentmix.distributions.moment_tensors import MomentTensors
from momentmix.distributions.samples import Samples
from momentmix.files.query_table import is_query
from momentmix.files.whole import WholeTable, whole_table
from momentmix.observed import noise_of_errors
from momentmix.summary import Distribution

ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file (.json).")]
#: Numbers in a block of rows and probabilities, 8 MiB. It affects memory and speed only.
NUMBERS_AT_ONCE = 1 << 20
#: A column with at most this many different whole numbers may hold labels, and gets a note. A round
#: number; it affects the note alone.
FEW_VALUES = 5


class Rows(NamedTuple):
    """The rows of some tables, and a record of what was left out."""

    X: np.ndarray  # (p, n)
    names: list[str] | None  # of the columns
    source: str  # what messages call the tables
    left_out: Sequence[tuple[str, str]] = ()  # columns, and why
    gaps: Counter[str] = Counter()  # by column, if rows were left out  # noqa: RUF012
    read: int = 0  # rows in the tables
    numbers: np.ndarray | None = None  # (p,) positions in the tables, if some rows were left out
    empty: int = 0  # rows left out because they have no value
    notes: Sequence[str] = ()  # remarks on the rows
    errors: np.ndarray | None = None  # (p, n) error bars, 0 for exact values
    error_columns: Mapping[str, str] = MappingProxyType({})  # value to error bar
    table: WholeTable | None = None  # all columns, if asked for

    @property
    def columns(self) -> list[str]:
        """The names of the columns, or their positions."""
        return self.names or [str(i) for i in range(self.X.shape[1])]

    @property
    def dropped(self) -> int:
        """Rows that were left out because of gaps."""
        return self.read - len(self.X)

    @property
    def noise(self) -> np.ndarray | None:
        """The error bars as the noise variances that the library takes."""
        return None if self.errors is None else noise_of_errors(self.errors)

    def some(self, which: np.ndarray) -> Rows:
        """Some of the rows, by a mask (p,)."""
        errors = None if self.errors is None else self.errors[which]
        return self._replace(X=self.X[which], errors=errors)


def read_rows(
    files: Sequence[str],
    options: TableOptions,
    gaps: Gaps,
    preferred: Sequence[str] | None = None,
    *,
    errors: str | None = None,
    all_rows: bool = False,
    whole: bool = False,
) -> Rows:
    """All rows of some tables, in memory.

    ``preferred`` are the columns of the model that the rows are for; they are matched by name if
    possible. Otherwise columns that are not measurements and rows that cannot be used are left out,
    with a line about it, unless ``all_rows`` keeps all rows and all columns of numbers. ``errors``
    names the columns of error bars, as the user typed them. ``whole`` also keeps the other columns
    of the tables.
    """
    with open_rows(files, options, preferred, errors=errors, keep_all=all_rows) as opened:
        return rows_of(opened, gaps, all_rows=all_rows, whole=whole)


def rows_of(opened: OpenTables, gaps: Gaps, *, all_rows: bool = False, whole: bool = False) -> Rows:
    """All rows of open tables, in memory; see :func:`read_rows`."""
    known, free = opened.tables[0].known, opened.free
    blocks = [*opened.blocks(gaps)]
    deviations = [block.errors for block in blocks if block.errors is not None]
    X = np.concatenate([block.X for block in blocks])
    del blocks
    found = Rows(
        X,
        opened.names,
        opened.source,
        opened.left_out,
        read=len(X),
        errors=np.concatenate(deviations) if deviations else None,
        error_columns=opened.by_value,
        table=whole_table(opened.tables, opened.used, len(X)) if whole else None,
    )
    if free:
        found = _without(found, "empty", np.isnan(found.X).all(axis=0), known)
    if free and gaps != "drop":
        found = _without(found, "constant", _is_constant(found.X), known)
    if not all_rows:
        found = _usable(found, gaps)
    if free and gaps == "drop":  # without those rows, more columns may be constant
        found = _without(found, "constant", _is_constant(found.X), known)
    tell_left_out(found.left_out)
    return found._replace(notes=few_values(found.X, found.columns)) if free else found


def _is_constant(X: np.ndarray) -> np.ndarray:
    """Which columns have a single value; (n,)."""
    highest = np.where(np.isnan(X), -np.inf, X).max(axis=0)
    lowest = np.where(np.isnan(X), np.inf, X).min(axis=0)
    return np.asarray(highest <= lowest)


def _without(rows: Rows, reason: str, which: np.ndarray, known: Sequence[str]) -> Rows:
    """The rows without some columns, unless no column would be left."""
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


def few_values(X: np.ndarray, names: Sequence[str]) -> list[str]:
    """A note on columns that look like labels, because components would follow them."""
    if len(X) < 10 * FEW_VALUES:
        return []
    counts = {
        name: len(np.unique(column[~np.isnan(column)]))
        for name, column in zip(names, X[:10_000].T, strict=True)
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
    """The rows that can be fitted; prints a line about gaps."""
    empty = np.isnan(rows.X)
    if not empty.any():
        return rows
    columns = zip(rows.columns, empty.sum(axis=0), strict=True)
    counts = Counter({name: int(count) for name, count in columns if count})
    count = GapCount(gaps)
    usable = count.usable(rows.X)
    refuse_unusable(rows.source, gaps, counts, count.rows, count.left)
    count.tell("were left out")
    found = rows.some(usable)._replace(empty=count.empty, numbers=np.flatnonzero(usable))
    return found._replace(gaps=counts) if gaps == "drop" else found


def refuse_unusable(source: str, gaps: Gaps, counts: Counter[str], read: int, left: int) -> None:
    """Raise an error if no usable row is left, or if a column has no value.

    ``counts`` are the gaps of each column that has some, among all rows ``read``.
    """
    name, most = next(iter(counts.most_common(1)), ("", 0))
    if gaps == "drop" and left == 0:
        raise ValueError(
            f"{source}: every row has a gap, {most:,} of {read:,} in column {name}; "
            f"--missing keep uses the values that are there, --exclude {name} leaves the column out"
        )
    if left == 0:
        raise ValueError(f"{source}: no row has any value in a column that is used")
    if most == read:
        raise ValueError(
            f"{source}: column {name} has no value in any row; --exclude {name} leaves it out"
        )


def check_count(components: int, rows: int, source: str) -> None:
    """Raise an error for more components than rows, and for a single row."""
    if components > rows:
        raise ValueError(
            f"-k {components} asks for more components than {source} has rows ({rows})"
        )
    if rows < 2:
        raise ValueError(f"{source}: a mixture needs two rows at least, and there is one")


def rows_for(
    mixture: Mixture,
    files: Sequence[str],
    options: TableOptions,
    gaps: Gaps,
    errors: str | None = None,
    whole: bool = False,
) -> Rows:
    """The rows of the tables in the columns of a model, matched by name if both have names."""
    names = mixture.feature_names
    rows = read_rows(files, options, gaps, names, errors=errors, all_rows=True, whole=whole)
    _check_columns(rows.source, rows.X.shape[1], mixture)
    return rows


@contextmanager
def rows_in_blocks(
    mixture: Mixture, files: Sequence[str], options: TableOptions, errors: str | None = None
) -> Iterator[OpenTables]:
    """The same columns, for reading a block at a time."""
    names = mixture.feature_names
    with open_rows(files, options, names, errors=errors, keep_all=True) as opened:
        _check_columns(opened.source, len(opened.used), mixture)
        tell_left_out(opened.left_out)
        yield opened


def rows_at_once(mixture: Mixture) -> int:
    """How many rows to process together, so that memory stays flat with many components."""
    return max(1, NUMBERS_AT_ONCE // (mixture.n_components + mixture.n_features))


def _check_columns(source: str, columns: int, mixture: Mixture) -> None:
    if columns != mixture.n_features:
        raise ValueError(
            f"{source} has {columns} column(s), but the model has {mixture.n_features}; choose "
            "them with --columns"
        )


def is_table(name: str) -> bool:
    return is_query(name) or Path(name).suffix.lower() not in (".json", ".npz")


def read_distribution(
    name: str, options: TableOptions, preferred: Sequence[str] | None = None
) -> tuple[Distribution, Sequence[str] | None]:
    """A model (.json), moments (.npz) or the samples of a table, and the names of the columns."""
    if is_table(name):
        rows = read_rows([name], options, "drop", preferred)
        return Samples(rows.X), rows.names
    if Path(name).suffix.lower() == ".json":
        mixture = Mixture.load(name)
        return mixture, mixture.feature_names
    moments = MomentTensors.load(name)
    return moments, moments.feature_names
