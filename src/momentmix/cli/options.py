"""The options that commands share: tables, error bars, gaps, outliers, how to fit, the device."""

from __future__ import annotations

import csv
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeAlias,
    TypeVar,
    get_type_hints,
)

import numpy as np
import typer

from momentmix.cli.console import JsonValue, note, one_of, plain_errors, some_of
from momentmix.files.columns import EVERY_NUMBER, Wanted, is_pattern, matching_columns
from momentmix.files.table import FIND_OUT, Piece, ReadOptions, Table
from momentmix.summary.components import counted
from momentmix.support.array import Array, as_like
from momentmix.support.device import device_named

# The help of a command needs none of the mathematics, so commands import it when they run.
if TYPE_CHECKING:
    from momentmix.distributions.mixture import Mixture
    from momentmix.summary.rows import Outliers

_PANEL = "Tables"
Word = TypeVar("Word")


class TableOptions(NamedTuple):
    """Which columns are wanted, and how to read the files."""

    wanted: Wanted = EVERY_NUMBER
    options: ReadOptions = FIND_OUT
    logs: tuple[str, ...] = ()  # columns to take logarithms of, as typed


def _option(text: str, *names: str) -> Any:
    return typer.Option(*names, help=text, rich_help_panel=_PANEL)


def _table_options(
    columns: Annotated[
        str | None,
        _option("The columns to use: names, patterns such as 'bill_*', or positions from 0."),
    ] = None,
    exclude: Annotated[
        str | None, _option("Columns to leave out, written in the same way.")
    ] = None,
    all_columns: Annotated[
        bool,
        _option(
            "Use every column of numbers, also constant ones and row numbers.", "--all-columns"
        ),
    ] = False,
    log: Annotated[
        str | None,
        _option(
            "Columns to take logarithms of, written in the same way; of 1 + x where there are "
            "zeros. A model remembers them."
        ),
    ] = None,
    sep: Annotated[
        str | None, _option("What separates the cells of text: ',', ';', tab, '|' or space.")
    ] = None,
    decimal: Annotated[str | None, _option("The decimal mark of text: '.' or ','.")] = None,
    encoding: Annotated[
        str | None, _option("The encoding of text, such as utf-8 or latin-1.")
    ] = None,
    na: Annotated[
        str | None, _option("More words or numbers that stand for a gap, such as 'unknown,-999'.")
    ] = None,
    header: Annotated[
        str | None, _option("yes or no: whether the first line of text names the columns.")
    ] = None,
    sheet: Annotated[str | None, _option("The sheet of an Excel workbook to read.")] = None,
) -> TableOptions:
    wanted = Wanted(
        None if columns is None else split_names(columns, "--columns"),
        split_names(exclude or "", "--exclude"),
        all_columns,
    )
    words = {"tab": "\t", "\\t": "\t", "space": " ", "blank": " ", "comma": ",", "semicolon": ";"}
    options = ReadOptions(
        separator=None if sep is None else words.get(sep, sep),
        decimal={"comma": ",", "point": "."}.get(decimal or "", decimal),
        encoding=encoding,
        gaps=split_names(na or "", "--na"),
        header=None if header is None else one_of("--header", header, "yes", "no") == "yes",
        sheet=sheet,
    )
    return TableOptions(wanted, options, split_names(log or "", "--log"))


def split_names(text: str, option: str) -> tuple[str, ...]:
    """Split words at commas; a word that contains a comma must be quoted."""
    cells = next(csv.reader([text], skipinitialspace=True), [])
    names = [name.strip() for name in cells if name.strip()]
    twice = [name for i, name in enumerate(names) if name in names[:i]]
    if twice:
        raise ValueError(f"{option} names {twice[0]} twice")
    if text and not names:
        raise ValueError(f"{option} names nothing")
    return tuple(names)


def command(function: Callable[..., None]) -> Callable[..., None]:
    """A command whose errors are one line each, unless ``--debug`` asks for the traceback.

    If it has an argument ``tables``, it gets the options of tables, and they are parsed for it.
    """
    own = inspect.signature(function).parameters
    shared: list[Callable[..., object]] = [_table_options] if "tables" in own else []
    parameters = [
        p.replace(annotation=types[p.name], kind=p.KEYWORD_ONLY)
        for each in (function, *shared)
        for types in [get_type_hints(each, include_extras=True)]
        for p in inspect.signature(each).parameters.values()
        if p.name != "tables"
    ]
    option = typer.Option("--debug", help="Show the traceback of an error.")
    kind = inspect.Parameter.KEYWORD_ONLY
    parameters.append(
        inspect.Parameter("debug", kind, default=False, annotation=Annotated[bool, option])
    )

    def run(debug: bool, **given: Any) -> None:
        with plain_errors(debug):
            if shared:
                others = {name: given.pop(name) for name in [*given] if name not in own}
                given["tables"] = _table_options(**others)
            function(**given)

    run.__doc__, run.__name__ = function.__doc__, function.__name__
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    signature = inspect.Signature(parameters, return_annotation=None)
    setattr(run, "__signature__", signature)  # noqa: B010  (mypy does not know the attribute)
    return run


SeedOption = Annotated[int, typer.Option("--seed", help="The seed of all that is random.")]
PriorOption = Annotated[
    str,
    typer.Option(
        "--prior",
        help="How firmly covariances are held together: auto, cv, none or a number of rows.",
    ),
]


GoalOption = Annotated[
    str,
    typer.Option("--goal", help="What the fit is for: density (the likelihood) or clusters."),
]


def goal_setting(text: str) -> Literal["density", "clusters"]:
    return one_of("--goal", text, "density", "clusters")


def prior_setting(text: str) -> float | Literal["auto", "cv"] | None:
    words: dict[str, Literal["auto", "cv"] | None] = {"auto": "auto", "cv": "cv", "none": None}
    return _word_or_number("--prior is auto, cv, none or a number of rows", text, words)


def _word_or_number(rule: str, text: str, words: Mapping[str, Word]) -> Word | float:
    if text in words:
        return words[text]
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{rule}, got {text!r}") from None


#: How a fit is made: the first three maximise the likelihood, "moments" matches moments.
FitMethod: TypeAlias = Literal["auto", "em", "newton", "moments"]


METHODS: tuple[FitMethod, ...] = ("auto", "em", "newton", "moments")


#: The tolerance unless another is asked for: that of GaussianMixture.
TOL = 1e-6


ErrorsOption = Annotated[
    str | None,
    typer.Option(
        "--errors",
        help="Columns with the standard errors of the columns used: one for each in their order, "
        "pairs such as 'a=a_err', or a pattern such as '*_err'.",
    ),
]


class ErrorColumns(NamedTuple):
    """The columns of error bars, as the user named them."""

    columns: list[str]  # all of them; none is used as a feature
    of: dict[str, str] | None  # from value to error bar; None if in the order of the values
    partial: bool = False  # whether some may belong to columns that are not used

    def by_value(self, used: Sequence[str]) -> dict[str, str]:
        """From each used column that has error bars to the column that holds them."""
        if self.of is None:
            if len(self.columns) != len(used):
                raise ValueError(
                    f"--errors names {len(self.columns)} column(s) ({', '.join(self.columns)}), "
                    f"but {len(used)} are used ({', '.join(used)}); name one for each, or write "
                    f"pairs such as {used[0]}={self.columns[0]}"
                )
            return dict(zip(used, self.columns, strict=True))
        strange = [name for name in self.of if name not in used]
        if strange and not self.partial:
            raise ValueError(
                f"--errors has errors of {', '.join(strange)}, but the columns used are "
                f"{', '.join(used)}"
            )
        found = {name: self.of[name] for name in used if name in self.of}
        if not found:
            raise ValueError(
                f"--errors has no errors of the columns used, which are {', '.join(used)}"
            )
        return found


def error_columns(table: Table, option: str) -> ErrorColumns:
    """Parse ``--errors`` for a table."""
    texts, known = split_names(option, "--errors"), set(table.known)
    if any("=" in text and text not in known for text in texts):
        pairs: dict[str, str] = {}
        for text in texts:
            value, equals, error = (part.strip() for part in text.partition("="))
            if not (value and equals and error):
                raise ValueError(
                    f"--errors has pairs such as a=a_err, but also {text!r}; write all as pairs"
                )
            value, error = (matching_columns(table, [x], "--errors")[0] for x in (value, error))
            pairs[value] = error
        return ErrorColumns([*dict.fromkeys(pairs.values())], pairs)
    if len(texts) == 1 and texts[0].count("*") == 1 and texts[0] not in known:
        before, after = texts[0].split("*")
        found = {x: before + x + after for x in table.known if before + x + after in known}
        found = {value: error for value, error in found.items() if value != error}
        if not found:
            raise ValueError(
                f"--errors {texts[0]}: no two columns of {table.label} are named x and "
                f"{texts[0].replace('*', 'x')}; it has {table.listing}"
            )
        # The pattern may match more columns; none of them is used as a feature.
        return ErrorColumns(matching_columns(table, texts, "--errors"), found, partial=True)
    if not texts:
        raise ValueError("--errors names nothing")
    return ErrorColumns(matching_columns(table, texts, "--errors"), None)


def without_errors(table: Table, wanted: Wanted, errors: ErrorColumns) -> Wanted:
    """The wanted columns without those of error bars."""
    named = [text for text in wanted.columns or () if text in table.known or not is_pattern(text)]
    both = set(matching_columns(table, named, wanted.by)) & set(errors.columns)
    if both:
        raise ValueError(
            f"{', '.join(sorted(both))} cannot be both a column to use (for {wanted.by}) and one "
            "of errors (for --errors)"
        )
    return wanted._replace(exclude=[*wanted.exclude, *errors.columns])


def tell_errors(by_value: dict[str, str], used: Sequence[str]) -> None:
    """Print one line that says which column holds the error bars of which."""
    pairs = [f"{value} ± {error}" for value, error in by_value.items()]
    exact = [name for name in used if name not in by_value]
    others = f"; taken to be exact: {some_of(exact)}" if exact else ""
    note(f"standard errors are read as {some_of(pairs)}{others}.")


def split_errors(
    table: Table, piece: Piece, used: Sequence[str], by_value: dict[str, str]
) -> tuple[np.ndarray, np.ndarray]:
    """The values (k, n) of a piece and their error bars (k, n), 0 for exact values and gaps.

    The piece holds the columns used, followed by those of the error bars, each once.
    """
    n, places = len(used), {name: i for i, name in enumerate(dict.fromkeys(by_value.values()))}
    X = piece.rows[:, :n]
    errors = np.zeros(X.shape)
    for i, name in enumerate(used):
        if name not in by_value:
            continue
        at = n + places[by_value[name]]
        column, there = piece.rows[:, at], ~np.isnan(X[:, i])
        bad = there & ~(np.isfinite(column) & (column >= 0))
        if bad.any():
            row = int(np.argmax(bad))
            hint = (
                f"{name} has a value there; give its standard error, or 0 if it is exact"
                if np.isnan(column[row])
                else f"a standard error of {name} is a number of at least 0; mend it"
            )
            raise table.refusal(piece, row, at, hint)
        errors[:, i] = np.where(there, column, 0.0)
    return X, errors


#: Rows with gaps are used for the values that they have, left out, or refused.
Gaps: TypeAlias = Literal["keep", "drop", "error"]
Missing = Annotated[
    str,
    typer.Option(
        help="Rows with gaps: keep uses the values that they have, drop leaves the rows out, and "
        "error refuses them."
    ),
]
#: What errors advise about a gap.
HINT = "--missing keep uses the other values of the row, --missing drop leaves it out"


def gaps_option(text: str) -> Gaps:
    return one_of("--missing", text, "keep", "drop", "error")


@dataclass
class GapCount:
    """Counts of cells and rows with gaps, added up over blocks."""

    gaps: Gaps
    rows: int = 0
    cells: int = 0  # in all rows
    partial: int = 0  # rows with gaps and values
    empty: int = 0  # rows without any value
    missing: int = 0  # cells that are gaps, in rows that have values

    def usable(self, X: np.ndarray) -> np.ndarray:
        """Which rows of a block can be used; all of them are counted."""
        gaps = np.isnan(X)
        some, none = gaps.any(axis=1), gaps.all(axis=1)
        partly = some & ~none
        self.rows, self.cells = self.rows + len(X), self.cells + X.size
        self.partial, self.empty = self.partial + int(partly.sum()), self.empty + int(none.sum())
        self.missing += int(gaps[partly].sum())
        return ~some if self.gaps == "drop" else ~none

    @property
    def left(self) -> int:
        """The number of usable rows."""
        return self.rows - self.empty - (self.partial if self.gaps == "drop" else 0)

    def tell(self, otherwise: str) -> None:
        """Print a line on gaps, with ``otherwise`` for what happens to unusable rows."""
        if self.gaps == "drop":
            if self.left < self.rows:
                note(f"{self.rows - self.left:,} of {self.rows:,} rows have gaps and {otherwise}.")
            return
        parts = []
        if self.partial:
            are = "is a gap" if self.missing == 1 else "are gaps"
            parts.append(
                f"{counted(self.missing, 'cell')} of {self.cells:,}, in {self.partial:,} of "
                f"{self.rows:,} rows, {are}; the other values of these rows are used"
            )
        if self.empty:
            parts.append(f"{self.empty:,} of {self.rows:,} rows have no value and {otherwise}")
        if parts:
            note(f"{'. '.join(parts)}.")


DeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device",
        help="PyTorch device to run on, e.g. cuda. Default: CPU.",
        show_default=False,
    ),
]


class WorkPlace:
    """Where computations run: on the CPU with NumPy, or on a device."""

    def __init__(self, name: str | None) -> None:
        try:
            self.device: Array | None = None if name is None else device_named(name)
        except ValueError as error:
            raise ValueError(str(error).replace("leave device out", "leave --device out")) from None
        except ImportError as error:
            raise ImportError(str(error).replace("device=", "--device ")) from None

    def rows(self, X: np.ndarray) -> Array:
        """The rows, moved there."""
        return X if self.device is None else as_like(X, self.device)

    def model(self, mixture: Mixture) -> Mixture:
        """The model, moved there."""
        return mixture if self.device is None else mixture.on(self.device)


#: The parameter ``outliers`` of GaussianMixture.
OutlierSetting: TypeAlias = float | Literal["auto", "uniform"] | None
OutliersOption = Annotated[
    str,
    typer.Option(
        "--outliers",
        help="Rows that belong to no component: auto finds them, uniform looks in the box of all "
        "rows, a number such as 0.05 is the largest share that they may have, and none (the "
        "default) fits every row.",
    ),
]


def outlier_setting(text: str) -> OutlierSetting:
    words: dict[str, OutlierSetting] = {"none": None, "auto": "auto", "uniform": "uniform"}
    rule = "--outliers is auto, uniform, none or a share of the rows such as 0.05"
    return _word_or_number(rule, text, words) or None


def outliers_document(outliers: Outliers | None) -> JsonValue:
    """For ``--json``: how many there are, and the numbers of those that lie farthest out."""
    if outliers is None:
        return None
    return {
        "share": outliers.share,
        "rows": outliers.rows,
        "numbers": [row.number for row in outliers.worst],
    }


ClustersOption = Annotated[
    str | None,
    typer.Option(
        "--clusters",
        help="Merge components that overlap into so many clusters, or auto: into as many as there "
        "seem to be.",
    ),
]


def clusters_setting(text: str | None) -> int | Literal["auto"] | None:
    """As typed; None if clusters were not asked for."""
    if text is None:
        return None
    if text == "auto":
        return "auto"
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"--clusters is auto or a whole number from 1 on, got {text!r}")
    return int(text)
