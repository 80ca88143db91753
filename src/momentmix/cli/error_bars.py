"""The option ``--errors``: which columns hold the error bars of which others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np
import typer

from momentmix.cli.console import note
from momentmix.cli.tables import split_names
from momentmix.files.columns import Wanted, is_pattern, matching_columns
from momentmix.files.table import Piece, Table

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
    more = f" and {len(pairs) - 6} more" if len(pairs) > 6 else ""
    exact = [name for name in used if name not in by_value]
    others = f"; taken to be exact: {', '.join(exact[:6])}" if exact else ""
    others += f" and {len(exact) - 6} more" if len(exact) > 6 else ""
    note(f"standard errors are read as {', '.join(pairs[:6])}{more}{others}.")


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
