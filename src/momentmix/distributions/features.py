"""Check the features of a mixture that users name or number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from momentmix.support.array import (
    Array,
    ArrayLike,
    all_finite,
    as_float_array,
    like,
    namespace,
    to_numpy,
)

#: Features by their positions, by a mask or as a slice.
Features: TypeAlias = "Array | npt.ArrayLike | slice"


def feature_positions(features: Features, n: int) -> np.ndarray:
    """Distinct positions in 0..n-1 from a mask, a slice or positions.

    Negative positions count from the end.
    """
    if isinstance(features, slice):
        features = np.arange(n)[features]
    chosen = np.atleast_1d(to_numpy(features))
    if chosen.dtype == bool:
        if chosen.shape != (n,):
            raise ValueError(f"features as a mask must have {n} entries")
        chosen = np.flatnonzero(chosen)
    if chosen.ndim != 1 or chosen.size == 0 or chosen.dtype.kind not in "iu":
        raise ValueError(f"features must be one or more feature positions, got {features!r}")
    if chosen.min() < -n or chosen.max() >= n:
        raise ValueError(f"features must lie in 0..{n - 1}, got {chosen.tolist()}")
    chosen = chosen.astype(np.int64) % n
    if len(np.unique(chosen)) < len(chosen):
        raise ValueError(f"features names a feature twice: {chosen.tolist()}")
    return chosen


def check_names(names: Sequence[str] | None, n: int) -> tuple[str, ...] | None:
    """Check names of n features, which must all differ; None stays None."""
    if names is None:
        return None
    names = tuple(map(str, names))
    if len(names) != n:
        raise ValueError(f"{len(names)} feature_names for {n} features")
    if len(set(names)) < n:
        raise ValueError(f"feature_names must differ, got {', '.join(names)}")
    return names


def checked_values(values: ArrayLike, means: Array, count: int) -> Array:
    """Finite values of so many features, in the library and dtype of the means; (count,)."""
    values = as_float_array(like(values, means), "values", (0, 1))
    xp = namespace(values, means)
    values = xp.astype(xp.reshape(values, (-1,)), means.dtype)
    if values.shape[0] != count:
        raise ValueError(
            f"values must hold {count} number(s), one for each of features, but holds "
            f"{values.shape[0]}"
        )
    if not all_finite(values):
        raise ValueError("values must be finite; leave out of features what is not known")
    return values


def refuse_overflow(covariances: Array, n: int) -> None:
    """Refuse covariances if sums of 4n entries overflow: eigenvalues could not be checked then."""
    xp = namespace(covariances)
    size = float(xp.max(xp.abs(covariances))) if 0 not in covariances.shape else 0.0
    bound = float(xp.finfo(covariances.dtype).max) / (4 * n)
    if bound < size < float("inf"):
        raise ValueError(
            f"covariances reach {size:.3g}, but above {bound:.3g} arithmetic overflows; rescale "
            "the features"
        )
