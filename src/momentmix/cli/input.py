"""The input of commands: rows of tables or of standard input, in memory or in blocks; models."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np
import typer

import momentmix as mm
from momentmix.cli.console import note, reading_bar, some_of
from momentmix.cli.options import (
    HINT,
    GapCount,
    Gaps,
    TableOptions,
    error_columns,
    split_errors,
    tell_errors,
    without_errors,
)
from momentmix.distributions.units import Units, log_for
from momentmix.files.columns import NUMBERS, Wanted, matching_columns
from momentmix.files.folders import open_all
from momentmix.files.opening import Piece, Table, TableError, choose_from, open_table
from momentmix.files.query_table import is_query
from momentmix.files.writing import WholeTable, name_in_errors, whole_table
from momentmix.summary.origin import MeasuredRows, Origin

if TYPE_CHECKING:
    from momentmix.goodness.comparison import Distribution

TABLES = (
    "Tables of numbers: text, Excel, Parquet, Arrow or .npy files, patterns such as 'part-*.csv', "
    "folders, or duckdb:QUERY; - is standard input."
)
Files = Annotated[list[str], typer.Argument(help=TABLES, metavar="TABLES")]


class OpenTables(NamedTuple):
    """Tables whose columns are chosen.

    ``free`` is true if the user has named no columns, so that some may still be left out.
    """

    tables: list[Table]
    names: list[str] | None  # of the columns read
    by_value: dict[str, str]  # for each of these with error bars, the column that holds them
    left_out: list[tuple[str, str]]  # columns, and why
    free: bool
    logs: dict[str, str] = {}  # noqa: RUF012  (it is never changed) columns in logarithms

    @property
    def used(self) -> list[str]:
        """The names of the columns read, or their positions."""
        return self.names or self.tables[0].known

    @property
    def units(self) -> Units:
        """How the features of a fit are computed from the columns read."""
        return Units(self.used, [self.logs.get(name, "") for name in self.used])

    @property
    def features(self) -> list[str] | None:
        """The names of the features of a fit, if the tables have names or some are logarithms."""
        return self.units.features if self.names or self.logs else None

    @property
    def source(self) -> str:
        """What messages call the tables."""
        return self.tables[0].title if len(self.tables) == 1 else f"{len(self.tables)} files"

    def blocks(
        self, gaps: Gaps, what: str = "reading", bar: bool = True, most: int | None = None
    ) -> Iterator[MeasuredRows]:
        """All rows, at most a piece of a table or ``most`` at a time, with a progress bar.

        With ``gaps="error"`` a gap is an error, and so is a source without rows.
        """
        total = sum(table.size for table in self.tables)
        done, rows, units = 0, 0, self.units
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
                    found = MeasuredRows(_logged(table, piece, units), errors)
                    yield from [found] if most is None else found.parts(most)
                done += table.size
        if rows == 0:
            raise ValueError(f"{self.tables[0].label}: no rows")


def _logged(table: Table, piece: Piece, units: Units) -> np.ndarray:
    """The rows of a piece as features of a fit; an error for a number without a logarithm."""
    if not units:
        return piece.rows
    Z = units.from_data(piece.rows)
    bad = np.argwhere(~np.isfinite(Z) & ~np.isnan(piece.rows))
    if len(bad):
        row, column = map(int, bad[0])
        hint = f"{units.features[column]} is needed, and there is none; leave the row out"
        raise table.refusal(piece, row, column, hint)
    return Z


def _logs(tables: Sequence[Table], used: Sequence[str], texts: Sequence[str]) -> dict[str, str]:
    """The columns of ``--log``, each with its logarithm, which depends on its least value."""
    if not texts:
        return {}
    chosen: list[str] = []
    for text in texts:
        found = [name for name in matching_columns(tables[0], [text], "--log") if name in used]
        if not found:
            raise ValueError(f"--log names {text}, but the columns used are {', '.join(used)}")
        chosen += [name for name in found if name not in chosen]
    least = np.full(len(chosen), np.inf)
    for table in tables:
        table.choose(chosen)
        for piece in table.pieces():
            least = np.fmin(least, np.fmin.reduce(piece.rows, axis=0, initial=np.inf))
        table.choose(used)
    return {name: log_for(name, float(low)) for name, low in zip(chosen, least, strict=True)}


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
        model = Units.of_features(preferred or (), first.known)
        wanted = _wanted(first, options.wanted, preferred and model.columns)
        if keep_all:
            wanted = wanted._replace(keep_all=True)
        free = wanted.columns is None and not wanted.keep_all
        named = None if errors is None else error_columns(first, errors)
        if named is not None:
            wanted = without_errors(first, wanted, named)
        left_out = choose(tables, wanted)
        names, used = first.columns, first.columns or first.known
        if preferred is None:
            logs = _logs(tables, used, options.logs)
        else:  # by position, because the tables may have no names
            logs = {name: log for name, log in zip(used, model.logs, strict=False) if log}
            if options.logs:
                raise ValueError("--log is for fits: a model knows which columns are logarithms")
        if logs and named is not None:
            raise ValueError(
                f"--errors are errors of the numbers as they stand, but {', '.join(logs)} "
                f"{'is' if len(logs) == 1 else 'are'} fitted in logarithms; leave one out"
            )
        by_value = {} if named is None else named.by_value(used)
        if by_value:
            tell_errors(by_value, used)
            for table in tables:
                table.choose([*used, *dict.fromkeys(by_value.values())])
        yield OpenTables(tables, names, by_value, left_out, free, logs)


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
    parts = [f"{some_of(names)} ({reason})" for reason, names in by_reason.items()]
    more = "; --all-columns keeps all numbers" if {*by_reason} & NUMBERS else ""
    more += "; --na takes words for gaps" if "numbers and words" in by_reason else ""
    note(f"left out {', '.join(parts)}{more}.")


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


#: Cells of columns that are not fitted are read up to so many. A round number that bounds memory.
_MOST_CELLS = 5_000_000
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file (.json).")]
#: Numbers in a block of rows and probabilities, 8 MiB. It affects memory and speed only.
NUMBERS_AT_ONCE = 1 << 20
#: A column with at most this many different whole numbers may hold labels, and gets a note. A round
#: number; it affects the note alone.
FEW_VALUES = 5
#: Names of columns whose whole numbers are often labels, codes or years. It affects the note alone.
_LABELS = re.compile(
    r"(.*[\s_.-])?(year|yr|county|fips|zip|zipcode|postcode|state|region|district|code|icd|sic|"
    r"naics|class|group|cluster|sex|gender|race|cohort|month|weekday)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class TableRows(MeasuredRows):
    """The rows of some tables, where they come from, and what was left out."""

    names: list[str] | None = None  # of the columns
    source: str = ""  # what messages call the tables
    origin: Origin = field(default_factory=Origin)
    notes: Sequence[str] = ()  # remarks on the rows
    table: WholeTable | None = None  # all columns, if asked for

    @property
    def columns(self) -> list[str]:
        """The names of the columns, or their positions."""
        return self.names or [str(i) for i in range(self.X.shape[1])]


def rows_of(opened: OpenTables, gaps: Gaps, *, whole: bool = False) -> TableRows:
    """All rows of open tables, in memory.

    Columns and rows that cannot be used are left out, with a line about it. With ``whole`` all rows
    and all columns of numbers are kept, and the other columns of the tables besides.
    """
    known, free = opened.tables[0].known, opened.free
    blocks = [*opened.blocks(gaps)]
    deviations = [block.errors for block in blocks if block.errors is not None]
    X = np.concatenate([block.X for block in blocks])
    del blocks
    found = TableRows(
        X,
        np.concatenate(deviations) if deviations else None,
        opened.features,
        opened.source,
        Origin(rows_read=len(X), left_out=opened.left_out, errors=opened.by_value),
        table=whole_table(opened.tables, opened.used, len(X)) if whole else None,
    )
    if whole:
        return found
    if free:
        found = _without(found, "empty", np.isnan(found.X).all(axis=0), known)
    if free and gaps != "drop":
        found = _without(found, "constant", _is_constant(found.X), known)
    found = _usable(found, gaps)
    if free and gaps == "drop":  # without those rows, more columns may be constant
        found = _without(found, "constant", _is_constant(found.X), known)
    tell_left_out(found.origin.left_out)
    return replace(found, notes=few_values(found.X, found.columns)) if free else found


def other_columns(opened: OpenTables, origin: Origin) -> dict[str, np.ndarray]:
    """The cells of columns that are not fitted, such as words, in the rows that are.

    None are read of a source whose rows may differ next time, or if they are very many.
    """
    names = {name for table in opened.tables for name in table.known}
    others = len(names) - len(opened.used) - len(opened.by_value)
    rows, used = origin.rows_read or 0, [*opened.used, *opened.by_value.values()]
    if not others or rows * others > _MOST_CELLS:
        return {}
    try:
        table = whole_table(opened.tables, used, rows)
    except TableError:  # the fit does not need them
        return {}
    which = slice(None) if origin.row_numbers is None else origin.row_numbers
    return {name: cells[which] for name, cells in table.others.items()}


def _is_constant(X: np.ndarray) -> np.ndarray:
    """Which columns have a single value; (n,)."""
    highest = np.where(np.isnan(X), -np.inf, X).max(axis=0)
    lowest = np.where(np.isnan(X), np.inf, X).min(axis=0)
    return np.asarray(highest <= lowest)


def _without(rows: TableRows, reason: str, which: np.ndarray, known: Sequence[str]) -> TableRows:
    """The rows without some columns, unless no column would be left."""
    if not which.any() or which.all():
        return rows
    names = list(known) if rows.names is None else rows.names
    left_out = [(name, reason) for name, out in zip(names, which, strict=True) if out]
    return replace(
        rows,
        X=rows.X[:, ~which],
        errors=None if rows.errors is None else rows.errors[:, ~which],
        names=[name for name, out in zip(names, which, strict=True) if not out],
        origin=replace(rows.origin, left_out=[*rows.origin.left_out, *left_out]),
    )


def few_values(X: np.ndarray, names: Sequence[str]) -> list[str]:
    """Notes on columns that look like labels, because components would follow them."""
    if len(X) < 10 * FEW_VALUES:
        return []
    whole = {
        name: column[~np.isnan(column)]
        for name, column in zip(names, X[:10_000].T, strict=True)
        if np.all(np.isnan(column) | (column == np.floor(column)))
    }
    counts = {name: len(np.unique(column)) for name, column in whole.items()}
    few = {name: f"{name} ({k})" for name, k in counts.items() if k <= FEW_VALUES}
    called = {name: f"{name} ({x.min():g} to {x.max():g})" for name, x in whole.items()
              if _LABELS.fullmatch(name) and name not in few}  # fmt: skip
    notes = {"Some columns have few different values": few,
             "By their names, some columns may hold labels, codes or years": called}  # fmt: skip
    return [
        f"{what}: {some_of([*found.values()])}. If these are labels, the components follow them; "
        f"--exclude {','.join([*found][:6])} leaves them out."
        for what, found in notes.items()
        if found and len(found) < len(names)
    ]


def _usable(rows: TableRows, gaps: Gaps) -> TableRows:
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
    origin = replace(
        rows.origin,
        rows_dropped=count.rows - count.left,
        rows_empty=count.empty,
        row_numbers=np.flatnonzero(usable),
        gaps=counts if gaps == "drop" else {},
    )
    return replace(rows.some(usable), origin=origin)


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


@contextmanager
def open_for(
    mixture: mm.Mixture, files: Sequence[str], options: TableOptions, errors: str | None = None
) -> Iterator[OpenTables]:
    """Tables in the columns of a model, matched by name if both have names."""
    names = mixture.feature_names
    with open_rows(files, options, names, errors=errors, keep_all=True) as opened:
        if len(opened.used) != mixture.n_features:
            raise ValueError(
                f"{opened.source} has {len(opened.used)} column(s), but the model has "
                f"{mixture.n_features}; choose them with --columns"
            )
        tell_left_out(opened.left_out)
        yield opened


def rows_at_once(mixture: mm.Mixture) -> int:
    """How many rows to process together, so that memory stays flat with many components."""
    return max(1, NUMBERS_AT_ONCE // (mixture.n_components + mixture.n_features))


def is_table(name: str) -> bool:
    return is_query(name) or Path(name).suffix.lower() not in (".json", ".npz")


def read_distribution(
    name: str, options: TableOptions, preferred: Sequence[str] | None = None
) -> tuple[Distribution, Sequence[str] | None]:
    """A model (.json), moments (.npz) or the samples of a table, and the names of the columns."""
    if is_table(name):
        with open_rows([name], options, preferred) as opened:
            rows = rows_of(opened, "drop")
        return mm.Samples(rows.X), rows.names
    if Path(name).suffix.lower() == ".json":
        mixture = mm.Mixture.load(name)
        return mixture, mixture.feature_names
    moments = mm.MomentTensors.load(name)
    return moments, moments.feature_names
