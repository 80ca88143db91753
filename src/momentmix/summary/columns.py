"""The usual summary of each column of a table: mean, deviation, quantiles, gaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np


class ColumnSummary(NamedTuple):
    """One column of the rows that a fit saw.

    The last three say what gaps and error bars cost, as shares of the variance of the column.
    """

    name: str
    mean: float
    deviation: float
    minimum: float
    median: float
    maximum: float
    gaps: int  # empty cells
    rows: int  # that the gaps are counted among
    gaps_known: float = np.nan  # how much the other columns tell about a gap; NaN if none
    error_share: float = 0.0  # of the variance of the values, the share due to noise
    known: float = 1.0  # how much a row tells about this column, on average

    @property
    def gap_share(self) -> float:
        return self.gaps / self.rows if self.rows else 0.0


def column_summaries(
    X: np.ndarray,
    names: Sequence[str],
    gaps: Mapping[str, int] | None = None,
    rows: int | None = None,
) -> list[ColumnSummary]:
    """Summaries of the columns of X (p, n). ``gaps`` are counts; by default the NaN in X count.

    ``rows`` is the number of rows among which ``gaps`` were counted.
    """
    told = {} if gaps is None else gaps
    return [_summary(name, X[:, i], told.get(name), rows) for i, name in enumerate(names)]


def _summary(name: str, column: np.ndarray, gaps: int | None, rows: int | None) -> ColumnSummary:
    values = column[~np.isnan(column)]
    total, missing = len(column), len(column) - len(values)
    if gaps is not None:
        total, missing = total if rows is None else rows, gaps
    if len(values) == 0:
        return ColumnSummary(name, np.nan, np.nan, np.nan, np.nan, np.nan, missing, total)
    low, middle, high = float(np.min(values)), float(np.median(values)), float(np.max(values))
    mean, deviation = float(np.mean(values)), float(np.std(values))
    return ColumnSummary(name, mean, deviation, low, middle, high, missing, total)
