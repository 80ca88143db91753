"""Where a fit comes from: what it takes to make it again, and what was left out on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Origin:
    """What a command knows about a fit and a mixture does not.

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
        Columns that were used and have standard errors, and the columns that hold these.

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
