"""Rows and weights as users give them, checked."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, validate_data

from momentmix.blocks.sources import refuse_unread

#: Rows as users have them: an array, a table of pandas or polars, a Dask array or DataFrame; and
#: the weights that go with them. Both are checked before anything is done with them.
Table: TypeAlias = Any


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
