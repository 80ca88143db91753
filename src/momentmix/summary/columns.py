"""The columns of a table by the numbers that everybody asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np


class ColumnSummary(NamedTuple):
    """One column of the rows that a fit saw."""

    name: str
    mean: float
    deviation: float
    minimum: float
    median: float
    maximum: float
    gaps: int  # empty cells


def column_summaries(
    X: np.ndarray, names: Sequence[str], gaps: Mapping[str, int] | None = None
) -> list[ColumnSummary]:
    """Of rows X (p, n), column by column; gaps are those that are told, or else the NaN in X."""
    told = {} if gaps is None else gaps
    return [_summary(name, X[:, i], told.get(name)) for i, name in enumerate(names)]


def _summary(name: str, column: np.ndarray, gaps: int | None) -> ColumnSummary:
    known = column[~np.isnan(column)]
    missing = len(column) - len(known) if gaps is None else gaps
    if len(known) == 0:
        return ColumnSummary(name, np.nan, np.nan, np.nan, np.nan, np.nan, missing)
    low, middle, high = float(np.min(known)), float(np.median(known)), float(np.max(known))
    return ColumnSummary(
        name, float(np.mean(known)), float(np.std(known)), low, middle, high, missing
    )
