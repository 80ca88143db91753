"""What a user asks for, checked: a start, whole or in part, and outliers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from momentmix.covariance import Kind, component_covariance
from momentmix.support.array import ArrayLike, as_float_array, to_numpy

#: The largest share of outliers unless a smaller one is given. Robust statistics customarily stops
#: at one half, because beyond it nobody can say which rows are the outliers.
MOST_OUTLIERS = 0.5


class Outliers(NamedTuple):
    """What is asked for if some rows may belong to no component."""

    most: float  # the largest share of such rows
    robust: bool  # the density of their background is found from the other rows
    widths: np.ndarray | None = None  # of the box of the background, if they are known


def check_outliers(outliers: str | float | None) -> Outliers | None:
    """The outliers that a user asks for by None, "auto", "uniform" or the largest share."""
    if isinstance(outliers, str):
        return Outliers(MOST_OUTLIERS, outliers == "auto")
    return Outliers(float(outliers), robust=True) if outliers else None


class Start(NamedTuple):
    """Where a fit is to start, in the coordinates of X; parts that are None will be guessed."""

    weights: np.ndarray | None
    means: np.ndarray | None
    covariances: np.ndarray | None


def check_weights_init(weights: ArrayLike | None, m: int) -> np.ndarray | None:
    """``weights_init`` (m,), made to sum to 1 to the last bit."""
    if weights is None:
        return None
    array = to_numpy(as_float_array(weights, "weights_init", (1,))).astype(np.float64)
    total = float(np.sum(array))
    if array.shape != (m,) or not np.all(array >= 0) or not abs(total - 1) <= 1e-6:
        raise ValueError(
            f"weights_init must be {m} numbers, none of them negative, with sum 1; got "
            f"{len(array)} with sum {total:.10g}"
        )
    return array / total


def check_means_init(means: ArrayLike | None, m: int, n: int) -> np.ndarray | None:
    """``means_init`` (m, n)."""
    if means is None:
        return None
    array = to_numpy(as_float_array(means, "means_init", (2,))).astype(np.float64)
    if array.shape != (m, n):
        raise ValueError(f"means_init must have shape {(m, n)}, got {array.shape}")
    if not np.all(np.isfinite(array)):
        raise ValueError("means_init must be finite, but holds NaN or infinity")
    return array


def check_covariances_init(
    kind: Kind, m: int, n: int, covariances: ArrayLike | None, precisions: ArrayLike | None
) -> np.ndarray | None:
    """``covariances_init`` or the inverse of ``precisions_init``, in the shape of the type."""
    if covariances is not None and precisions is not None:
        raise ValueError(
            "covariances_init and precisions_init are each the inverse of the other; give one of "
            "them"
        )
    if covariances is not None:
        return _with_inverse(kind, m, n, covariances, "covariances_init")[0]
    if precisions is not None:
        return _with_inverse(kind, m, n, precisions, "precisions_init")[1]
    return None


def _with_inverse(
    kind: Kind, m: int, n: int, array: ArrayLike, name: str
) -> tuple[np.ndarray, np.ndarray]:
    """An array of the type, checked, and its inverse."""
    checked = component_covariance(kind.name, array, m, n, name)
    matrices = to_numpy(checked.array).astype(np.float64)
    try:
        inverse = kind.precision_cholesky(matrices)[0]
    except np.linalg.LinAlgError:
        inverse = np.full_like(matrices, np.nan)
    if not np.all(np.isfinite(inverse)):
        raise ValueError(f"{name} must be positive definite")
    return matrices, inverse
