"""The option ``--missing``: how rows with gaps are treated, and how they are reported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

import numpy as np
import typer

from momentmix.cli.console import note, one_of
from momentmix.summary import counted

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
