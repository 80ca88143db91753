"""The option ``--missing``: what becomes of cells without a value, and what is said of them."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import numpy as np
import typer

from momentmix.cli.console import note, one_of
from momentmix.summary import counted

#: Rows with gaps are used for the values that they have, or left out, or refused.
Gaps: TypeAlias = Literal["keep", "drop", "error"]
Missing = Annotated[
    str,
    typer.Option(
        help="Rows with gaps: keep uses the values that they have, drop leaves the rows out, and "
        "error refuses them."
    ),
]
#: What to do about a gap that is refused.
HINT = "--missing keep uses the other values of the row, --missing drop leaves it out"


def gaps_option(text: str) -> Gaps:
    return one_of("--missing", text, "keep", "drop", "error")


def usable_rows(X: np.ndarray, gaps: Gaps, otherwise: str) -> np.ndarray:
    """Which rows of X can be used; a line counts gaps, and says what becomes of the other rows."""
    empty = np.isnan(X)
    some, none = empty.any(axis=1), empty.all(axis=1)
    if gaps == "drop":
        if some.any():
            note(f"{some.sum():,} of {len(X):,} rows have gaps and {otherwise}.")
        return ~some
    parts = []
    partly = some & ~none
    if partly.any():
        cells = int(empty[partly].sum())
        parts.append(
            f"{counted(cells, 'cell')} of {X.size:,}, in {partly.sum():,} of {len(X):,} rows, "
            f"{'is a gap' if cells == 1 else 'are gaps'}; the other values of these rows are used"
        )
    if none.any():
        parts.append(f"{none.sum():,} of {len(X):,} rows have no value and {otherwise}")
    if parts:
        note(f"{'. '.join(parts)}.")
    return ~none
