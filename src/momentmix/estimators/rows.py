"""Rows and weights as users give them, checked and made into the data of a fit."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, validate_data

from momentmix.blocks.sources import refuse_unread
from momentmix.covariance import Covariance
from momentmix.data.content import LARGE_DATA, distinct_rows
from momentmix.data.observed import ObservedData
from momentmix.data.sources import AtomData
from momentmix.observed import ObservedRows

#: Rows as users have them: an array, a table of pandas or polars, a Dask array or DataFrame; and
#: the weights that go with them. Both are checked before anything is done with them.
Table: TypeAlias = Any
#: The squares of larger entries overflow, and those of differences below its inverse underflow.
HUGE = 1e150


def checked_rows(
    estimator: BaseEstimator, X: Table, sample_weight: Table, least: int = 1, reset: bool = True
) -> tuple[np.ndarray, np.ndarray | None]:
    """Rows as float64 or float32 and their weights, neither negative nor of any sum yet.

    NaN is a gap. With ``reset`` the estimator notes how many features there are, and their names.
    """
    refuse_unread(X)
    X = validate_data(
        estimator,
        X,
        reset=reset,
        dtype=[np.float64, np.float32],
        ensure_min_samples=least,
        ensure_all_finite="allow-nan",
    )
    weights = None
    if sample_weight is not None:
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if not np.any(weights):  # scikit-learn itself says so from 1.9 on
            raise ValueError("sample_weight must hold at least one non-zero number")
    return X, weights


def rows_to_fit(
    X: np.ndarray,
    counts: np.ndarray | None,
    m: int,
    noise: Covariance | None = None,
    names: np.ndarray | None = None,
) -> AtomData | ObservedData:
    """Checked rows as data of a fit of m components; ``names`` of features are for errors.

    Rows without weight and rows without any value are left out. The rows are distinct, unless
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


def _check_columns(X: np.ndarray, names: np.ndarray | None) -> None:
    empty = np.flatnonzero(np.all(np.isnan(X), axis=0))
    if len(empty):
        which = f"column {empty[0]}" if names is None else f"column {names[empty[0]]!r}"
        raise ValueError(f"{which} of X has no value in any row that counts; leave it out")


def _check_size(X: np.ndarray) -> None:
    """Refuse numbers whose squares are more, or the squares of whose differences less, than float64
    can hold.
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
