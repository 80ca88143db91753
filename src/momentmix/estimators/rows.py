"""Rows and weights as users give them, checked and made into the data of a fit."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, validate_data

from momentmix.data.content import LARGE_DATA, distinct_rows
from momentmix.data.sources import AtomData

#: Rows as users have them: an array, a table of pandas or polars, a Dask array or DataFrame; and
#: the weights that go with them. Both are checked before anything is done with them.
Table: TypeAlias = Any
#: The squares of larger entries overflow, and those of differences below its inverse underflow.
HUGE = 1e150


def checked_rows(
    estimator: BaseEstimator, X: Table, sample_weight: Table, least: int = 1, reset: bool = True
) -> tuple[np.ndarray, np.ndarray | None]:
    """Rows as float64 or float32 and their weights, neither negative nor of any sum yet.

    With ``reset`` the estimator notes how many features there are, and their names.
    """
    X = validate_data(
        estimator, X, reset=reset, dtype=[np.float64, np.float32], ensure_min_samples=least
    )
    weights = None
    if sample_weight is not None:
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if not np.any(weights):  # scikit-learn itself says so from 1.9 on
            raise ValueError("sample_weight must hold at least one non-zero number")
    return X, weights


def rows_to_fit(X: np.ndarray, counts: np.ndarray | None, m: int) -> AtomData:
    """Checked rows as data of a fit of m components, those without weight left out.

    The rows are distinct, unless there are very many (content.py).
    """
    X = X.astype(np.float64, copy=False)
    if counts is not None:
        X, counts = X[counts > 0], counts[counts > 0]
    if len(X) < m:
        raise ValueError(
            f"Expected n_samples >= n_components but got n_components = {m}, n_samples = {len(X)}"
        )
    _check_size(X)
    if X.size <= LARGE_DATA:
        X, counts = distinct_rows(X, counts)
    if counts is None:
        return AtomData.of_rows(X, None, float(len(X)))
    with np.errstate(over="ignore"):
        count = float(counts.sum())
    if not np.isfinite(count):
        raise ValueError("the sum of sample_weight overflows; scale the weights down")
    even = bool(np.all(counts == counts[0]))
    return AtomData.of_rows(X, None if even else counts / count, count)


def _check_size(X: np.ndarray) -> None:
    """Refuse numbers whose squares are more, or the squares of whose differences less, than float64
    can hold.
    """
    lowest, highest = X.min(axis=0), X.max(axis=0)
    largest = max(-float(lowest.min()), float(highest.max()))
    spans = highest - lowest
    if largest > HUGE:
        raise ValueError(f"X holds {largest:.3g}, whose square overflows; rescale the features")
    if np.any((spans > 0) & (spans < 1 / HUGE)):
        raise ValueError(
            f"a feature of X varies by {spans[spans > 0].min():.3g}, whose square underflows; "
            "rescale the features"
        )
