"""Rows and weights as users give them, checked.

Arrays of other libraries that are in main memory are read as NumPy arrays, without a copy. Arrays
on a device stay there.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_n_features, _check_sample_weight, validate_data

from momentmix.blocks.sources import refuse_unread
from momentmix.support.array import (
    Array,
    all_finite,
    as_float_array,
    as_like,
    check_same_place,
    foreign,
    namespace,
    on_accelerator,
    place_of,
    to_numpy,
    without_graph,
)
from momentmix.support.masks import without_masks

#: Rows or weights as users have them: an array, a pandas or Polars table, or a Dask array or
#: DataFrame. They are checked before anything is done with them.
Table: TypeAlias = Any


def check_rows(
    estimator: BaseEstimator, X: Table, sample_weight: Table, least: int = 1, reset: bool = True
) -> tuple[Any, Any]:
    """Rows as float64 or float32, and their weights, which are not negative and not normalised.

    They are NumPy arrays, or both are on the device of X. NaN is a gap. With ``reset`` the
    estimator notes the number of features and their names.
    """
    refuse_unread(X)
    check_same_place(X, sample_weight, "sample_weight")
    if on_accelerator(X):
        return _on_device(estimator, X, sample_weight, least, reset)
    X = checked_table(estimator, X, reset=reset, ensure_min_samples=least)
    weights = None
    if sample_weight is not None:
        weights = checked_weights(sample_weight, X)
        if not np.any(weights):  # scikit-learn itself says so from 1.9 on
            raise ValueError("sample_weight must hold at least one non-zero number")
    return X, weights


def checked_table(estimator: BaseEstimator, X: Table, *y: Table, **options: bool | int) -> Table:
    """Rows in the main memory, and y if there is one, as scikit-learn checks them; NaN is a gap."""
    X = without_masks(to_numpy(X) if foreign(X) else X, "X")
    try:
        return validate_data(
            estimator,
            X,
            *y,
            dtype=[np.float64, np.float32],
            ensure_all_finite="allow-nan",
            **options,
        )
    except TypeError as error:
        if "float()" not in str(error):
            raise
        raise TypeError(f"X must hold numbers, but one cannot be read: {error}") from error


def checked_weights(sample_weight: Table, X: np.ndarray) -> np.ndarray:
    """A weight for each row, finite and not negative; (p,)."""
    given = without_masks(sample_weight, "sample_weight")
    given = to_numpy(given) if foreign(given) else given
    return _check_sample_weight(given, X, dtype=np.float64, ensure_non_negative=True)


def _on_device(
    estimator: BaseEstimator, X: Table, sample_weight: Table, least: int, reset: bool
) -> tuple[Array, Array | None]:
    """The same for rows on a device, with the error messages of scikit-learn."""
    if place_of(X) == "mps":
        raise TypeError(
            "X is on mps, a device without float64, in which fits are made; give X.cpu()"
        )
    X = without_graph(as_float_array(X, "X", (2,)))
    xp, (p, n) = namespace(X), X.shape
    if p < least or n < 1:
        raise ValueError(
            f"Found array with {p} sample(s) and {n} feature(s) (shape={(p, n)}) while a minimum "
            f"of {least} sample(s) and 1 feature(s) is required by {type(estimator).__name__}."
        )
    _check_n_features(estimator, X, reset=reset)
    if reset:
        estimator.__dict__.pop("feature_names_in_", None)
    if not all_finite(X) and bool(xp.any(xp.isinf(X))):
        raise ValueError(
            "Input X contains infinity or a value too large for its dtype; drop such rows"
        )
    if sample_weight is None:
        return X, None
    weights = sample_weight
    if isinstance(weights, int | float | np.number):
        weights = [float(weights)] * p
    if isinstance(weights, list | tuple):
        weights = as_like(np.asarray(weights, dtype=float), X, xp.float64)
    weights = as_float_array(weights, "sample_weight", (1,))
    weights = xp.astype(without_graph(weights), xp.float64, copy=False)
    if weights.shape[0] != p:
        raise ValueError(f"sample_weight has {weights.shape[0]} entries for {p} rows of X")
    if not bool(xp.all(xp.isfinite(weights))) or bool(xp.any(weights < 0)):
        raise ValueError("sample_weight must be finite and not negative")
    if not bool(xp.any(weights > 0)):
        raise ValueError("sample_weight must hold at least one non-zero number")
    return X, weights
