"""Covariances as a user gives them, checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from momentmix.covariance.classes import COVARIANCE_TYPES, make_covariance
from momentmix.support.array import Array, all_finite, as_float_array, namespace


def component_covariance(kind: str, array: Any, m: int, n: int) -> Any:
    """The covariance of a mixture of m components in n features, checked."""
    if kind not in COVARIANCE_TYPES:
        raise ValueError(f"covariance_type must be one of {COVARIANCE_TYPES}, got {kind!r}")
    shape = {"spherical": (m,), "diag": (m, n), "tied": (n, n), "full": (m, n, n)}[kind]
    array = as_float_array(array, "covariances", (1, 2, 3))
    if tuple(array.shape) != shape:
        raise ValueError(
            f"covariances must have shape {shape} for covariance_type={kind!r} with {m} "
            f"component(s) and {n} feature(s), but have shape {tuple(array.shape)}"
        )
    return make_covariance(kind, _checked(array, kind, "covariances"), n)


def common_noise(array: Any, n: int, name: str = "covariance") -> Any:
    """The covariance of a noise that all samples share: a number, (n,) or (n, n), checked."""
    wrong = isinstance(array, bool | complex) or array is None or isinstance(array, str)
    array = np.nan if wrong else as_float_array(array, name, (0, 1, 2))
    if wrong or tuple(array.shape) not in ((), (1,), (n,), (n, n)):
        raise ValueError(
            f"{name} must be a number, or have shape ({n},) or ({n}, {n}) for {n} feature(s); got "
            + ("something else" if wrong else f"shape {tuple(array.shape)}")
        )
    return noise_covariance(array, 0, n, name)


def noise_covariance(array: Any, p: int, n: int, name: str = "noise_covariance") -> Any:
    """The covariance of the noise in p samples of n features, checked.

    A scalar or one entry (noise of equal variance), (n,) (a variance a feature), (n, n) (a matrix),
    each for all samples alike; or one for each sample: (p,), (p, n), (p, n, n).
    """
    array = as_float_array(array, name, (0, 1, 2, 3))
    xp = namespace(array)
    shape = tuple(array.shape)
    if shape in ((), (1,)):
        kind, array = "spherical", xp.reshape(array, (1,))
    elif shape == (n,):
        kind, array = "diag", xp.reshape(array, (1, n))
    elif shape == (n, n):
        kind = "tied"
    elif shape in ((p,), (p, n), (1, n), (p, n, n), (1, n, n)):
        kind = ("spherical", "diag", "full")[len(shape) - 1]
    else:
        raise ValueError(
            f"{name} must be a scalar or have shape ({n},) or ({n}, {n}) for noise "
            f"common to all samples, or ({p},), ({p}, {n}) or ({p}, {n}, {n}) for one covariance "
            f"a sample; got shape {shape}"
        )
    return make_covariance(kind, _checked(array, kind, name), n)


def _checked(array: Array, kind: str, name: str) -> Array:
    """Finite, symmetric and positive semidefinite; rounding in the symmetry is taken out."""
    xp = namespace(array)
    if not all_finite(array):
        raise ValueError(f"{name} must be finite, but hold NaN or infinity")
    if kind in ("spherical", "diag"):
        if bool(xp.any(array < 0)):
            raise ValueError(
                f"{name} must not be negative, but the smallest variance is "
                f"{float(xp.min(array)):g}; give variances, not precisions or logarithms"
            )
        return array
    eps = xp.finfo(array.dtype).eps
    size = float(xp.max(xp.abs(array)))
    skew = float(xp.max(xp.abs(array - array.mT)))
    if skew > 1e4 * eps * size:
        raise ValueError(
            f"{name} must be symmetric, but differ from their transpose by {skew:g}; "
            "symmetrise them with (S + S.T) / 2 if that is what they mean"
        )
    array = (array + array.mT) / 2
    values = xp.linalg.eigvalsh(array)
    lowest, highest = xp.min(values, axis=-1), xp.max(xp.abs(values), axis=-1)
    tolerance = 100 * array.shape[-1] * eps * highest
    if bool(xp.any(lowest < -tolerance)):
        raise ValueError(
            f"{name} must be positive semidefinite, but an eigenvalue is {float(xp.min(lowest)):g}"
        )
    return array
