"""What commands read: rows of tables or of standard input, models, moments."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, TypeAlias

import numpy as np
import typer

from momentmix.cli.console import note, reading_bar
from momentmix.cli.tables import TableOptions
from momentmix.distributions.mixture import Mixture
from momentmix.distributions.moment_tensors import MomentTensors
from momentmix.distributions.samples import Samples
from momentmix.files.columns import NUMBERS, Wanted
from momentmix.files.tables import Table, choose_from, open_table
from momentmix.files.writing import naming
from momentmix.summary import Distribution

TABLES = "Tables of numbers: text, Excel, Parquet, Arrow or .npy files; - is standard input."
Files = Annotated[list[Path], typer.Argument(help=TABLES, metavar="TABLES")]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file (.json).")]
Missing = Annotated[
    str, typer.Option(help="Rows with gaps: drop leaves them out, error refuses them.")
]
#: So many different whole numbers may be labels.
FEW_VALUES = 5
#: What becomes of rows with gaps: they are left out, refused, or kept as they are.
Gaps: TypeAlias = Literal["drop", "error", "keep"]


class Rows(NamedTuple):
    """The rows of some tables, and what became of the rest of these."""

    X: np.ndarray  # (p, n)
    names: list[str] | None  # of the columns
    source: str  # what they are called
    left_out: Sequence[tuple[str, str]] = ()  # columns, and why
    gaps: Counter[str] = Counter()  # by column  # noqa: RUF012
    read: int = 0  # rows in the tables
    notes: Sequence[str] = ()  # what one should know before trusting a fit of them

    @property
    def columns(self) -> list[str]:
        """A name for each column, which may be its position."""
        return self.names or [str(i) for i in range(self.X.shape[1])]

    @property
    def dropped(self) -> int:
        """Rows that were left out because of gaps."""
        return self.read - len(self.X)


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
    free: bool = True,
) -> Rows:
    """All rows of some tables, in memory.

    ``preferred`` are the columns of what the rows will meet, which are taken by name where they
    can. Otherwise, if the choice is ``free``, columns that cannot be meant are left out, with a
    line about it.
    """
    with open_files(files, options) as tables, reading_bar() as bar:
        wanted = _wanted(tables[0], options.wanted, preferred)
        if not free:
            wanted = wanted._replace(keep_all=True)
        free = wanted.columns is None and not wanted.keep_all
        left_out = choose(tables, wanted)
        task = bar.add_task("reading", total=sum(table.size for table in tables), rows=0)
        done, rows, pieces = 0, 0, []
        for table in tables:
            for piece in table.pieces():
                table.refuse_gaps(piece, missing=gaps != "error")
                pieces.append(piece.rows)
                rows += len(piece.rows)
                bar.update(task, completed=int(done + piece.share * table.size), rows=rows)
            done += table.size
        if rows == 0:
            raise ValueError(f"{tables[0].label}: no rows")
        label = tables[0].label if len(tables) == 1 else f"{len(tables)} files"
        found = Rows(
            np.concatenate(pieces), tables[0].columns, Path(label).name, left_out, read=rows
        )
        known = tables[0].known
    if free:
        found = _without(found, "empty", np.isnan(found.X).all(axis=0), known)
    found = _without_gaps(found, gaps)
    if free and len(found.X) > 1:
        found = _without(found, "constant", np.ptp(found.X, axis=0) == 0, known)
    tell_left_out(found.left_out)
    return found._replace(notes=_few_values(found)) if free else found


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
        names=[name for name, out in zip(names, which, strict=True) if not out],
        left_out=[*rows.left_out, *left_out],
    )


def _few_values(rows: Rows) -> list[str]:
    """A note on columns that look like labels, whose values a mixture would follow."""
    if len(rows.X) < 10 * FEW_VALUES:
        return []
    names = rows.columns
    counts = {
        name: len(np.unique(column))
        for name, column in zip(names, rows.X[:10_000].T, strict=True)
        if np.all(column == np.floor(column))
    }
    few = {name: count for name, count in counts.items() if count <= FEW_VALUES}
    if not few or len(few) == len(names):
        return []
    shown = ", ".join(f"{name} ({count})" for name, count in [*few.items()][:6])
    return [
        f"Some columns have few different values: {shown}. If these are labels, the components "
        f"follow them; --exclude {','.join([*few][:6])} leaves them out."
    ]


def _without_gaps(rows: Rows, gaps: Gaps) -> Rows:
    """Rows that have all their numbers, with a line about the others."""
    empty = np.isnan(rows.X)
    bad = empty.any(axis=1)
    if gaps != "drop" or not bad.any():
        return rows
    columns = zip(rows.columns, empty.sum(axis=0), strict=True)
    counts = Counter({name: int(count) for name, count in columns if count})
    name, most = counts.most_common(1)[0]
    if bad.all():
        raise ValueError(
            f"{rows.source}: every row has a gap, {most:,} of {len(bad):,} in column {name}; leave "
            f"it out with --exclude {name}"
        )
    line = f"{int(bad.sum()):,} of {len(bad):,} rows have gaps and were left out"
    if 5 * bad.sum() > len(bad):
        line += f"; column {name} has {most:,} gaps, and --exclude {name} keeps these rows"
    note(f"{line}.")
    return rows._replace(X=rows.X[~bad], gaps=counts)


def rows_for(mixture: Mixture, files: Sequence[Path], options: TableOptions, gaps: Gaps) -> Rows:
    """The columns of the tables that a model speaks of: by its names, where both have names."""
    rows = read_rows(files, options, gaps, mixture.feature_names, free=False)
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
