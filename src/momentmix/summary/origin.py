"""Rows as they were read: their error bars, and what a command knows of where they come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True)
class MeasuredRows:
    """Rows, and the error bars of their values if they have any."""

    X: np.ndarray  # (p, n), NaN in a gap
    errors: np.ndarray | None = None  # (p, n) standard deviations, 0 for exact values

    @property
    def noise(self) -> np.ndarray | None:
        """The error bars as the noise variances that the library takes."""
        from momentmix.observed import noise_of_errors

        return None if self.errors is None else noise_of_errors(self.errors)

    def some(self, which: np.ndarray | slice) -> Self:
        """Some of the rows, by a mask (p,), positions or a slice."""
        errors = None if self.errors is None else self.errors[which]
        return replace(self, X=self.X[which], errors=errors)

    def parts(self, most: int) -> Iterator[Self]:
        """The same rows in blocks of at most ``most``."""
        for start in range(0, len(self.X), most):
            yield self.some(slice(start, start + most))


@dataclass(frozen=True)
class Origin:
    """What a command knows about a fit beyond its mixture.

    Parameters
    ----------
    command : str, optional
        The command line as typed.
    seed : int, optional
    settings : mapping of str to str
        Options and their values, as text.
    rows_read : int, optional
        Rows of the table before those with gaps were dropped.
    rows_dropped : int
        Rows that were left out because of gaps.
    rows_empty : int
        Of these, rows without any value.
    row_numbers : array of int, optional
        Where each row that was used stands among those read, from 0; by default all were used.
    gaps : mapping of str to int
        Empty cells among the rows read, for each column used, where rows with gaps were dropped.
    left_out : sequence of (str, str)
        Columns that were not used, each with a reason such as "words" or "constant".
    errors : mapping of str to str
        For each column used that has error bars, the column that holds them.

    Examples
    --------
    >>> from momentmix.summary import Origin
    >>> origin = Origin(seed=0, rows_read=150, left_out=[("species", "words")])
    >>> origin.rows_dropped
    0
    """

    command: str | None = None
    seed: int | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    rows_read: int | None = None
    rows_dropped: int = 0
    rows_empty: int = 0
    row_numbers: np.ndarray | None = None
    gaps: Mapping[str, int] = field(default_factory=dict)
    left_out: Sequence[tuple[str, str]] = ()
    errors: Mapping[str, str] = field(default_factory=dict)
