"""Rows in memory as data of a fit: only rows that count, and each distinct row once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from momentmix.covariance import Covariance
from momentmix.data.content import LARGE_DATA, distinct_rows
from momentmix.data.observed import ObservedData
from momentmix.data.sources import AtomData
from momentmix.observed import ObservedRows

#: Larger entries, and differences below its inverse, are refused. Squares overflow in float64 from
#: 1.3e154 on and lose digits below about 1e-154; the rest is a margin for sums over rows.
HUGE = 1e150


def rows_to_fit(
    X: np.ndarray,
    counts: np.ndarray | None,
    m: int,
    noise: Covariance | None = None,
    names: Sequence[str] | np.ndarray | None = None,
) -> AtomData | ObservedData:
    """Rows, checked, as data for a fit of m components; ``names`` of features are for errors.

    Rows without weight and rows without any value are left out. Equal rows are merged, unless
    there are very many (content.py).
    """
    table = ObservedRows(X.astype(np.float64, copy=False), noise)
    told = np.any(table.seen, axis=1)
    if counts is not None:
        told &= counts > 0
    if not np.all(told):
        table = table.take(np.flatnonzero(told))
        counts = None if counts is None else counts[told]
    if len(table) < m:
        shown = "" if len(table) == len(X) else ", not counting rows without weight or values"
        raise ValueError(
            f"Expected n_samples >= n_components but got n_components = {m}, n_samples = "
            f"{len(table)}{shown}"
        )
    X = table.X
    _check_columns(X, names)
    _check_size(X)
    exact = noise is None and bool(table.seen.all())
    if X.size <= LARGE_DATA:
        content = X if exact else table.content()
        first, counts = distinct_rows(content, counts)
        if exact:
            X = X[first]
        else:
            table = table.take(first)
    count, weights = float(len(X)), None
    if counts is not None:
        with np.errstate(over="ignore"):
            count = float(counts.sum())
        if not np.isfinite(count):
            raise ValueError("the sum of sample_weight overflows; scale the weights down")
        weights = None if np.all(counts == counts[0]) else counts / count
    return AtomData.of_rows(X, weights, count) if exact else ObservedData(table, weights, count)


def _check_columns(X: np.ndarray, names: Sequence[str] | np.ndarray | None) -> None:
    empty = np.flatnonzero(np.all(np.isnan(X), axis=0))
    if len(empty):
        which = f"column {empty[0]}" if names is None else f"column {names[empty[0]]!r}"
        raise ValueError(f"{which} of X has no value in any row that counts; leave it out")


def _check_size(X: np.ndarray) -> None:
    """Refuse numbers whose squares overflow float64, or whose differences have squares that
    underflow.
    """
    lowest, highest = np.nanmin(X, axis=0), np.nanmax(X, axis=0)
    largest = max(-float(lowest.min()), float(highest.max()))
    spans = highest - lowest
    if largest > HUGE:
        raise ValueError(f"X holds {largest:.3g}, whose square overflows; rescale the features")
    if np.any((spans > 0) & (spans < 1 / HUGE)):
        raise ValueError(
            f"a feature of X varies by {spans[spans > 0].min():.3g}, whose square underflows; "
            "rescale the features"
        )
