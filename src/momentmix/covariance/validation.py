"""Check covariances that users give: the names of types, and arrays."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from momentmix.covariance.base import Covariance, Kind
from momentmix.covariance.low_rank import LowRank, of_rank
from momentmix.covariance.matrices import Full, symmetrise
from momentmix.covariance.shapes import SHAPES
from momentmix.covariance.tied import Tied, TiedDiagonal, TiedSpherical
from momentmix.covariance.variances import Diagonal, Spherical
from momentmix.support.array import Array, ArrayLike, all_finite, as_float_array, namespace

#: What users call the types that a mixture may have.
CovarianceName: TypeAlias = Literal[
    "full", "tied", "diag", "spherical", "tied-diag", "tied-spherical", "low-rank"
]
#: The shapes after mclust that a fit of a likelihood may have beside these.
ShapeName: TypeAlias = Literal["VEI", "EVI", "VEE", "EVE", "VVE", "EEV", "VEV", "EVV"]
_KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (Full, Tied, Diagonal, Spherical, TiedDiagonal, TiedSpherical, LowRank)
}
#: The types of a mixture, and those of one kind each, which "auto" compares.
MIXTURE_TYPES = tuple(_KINDS)
COVARIANCE_TYPES = tuple(name for name in _KINDS if name != LowRank.name)
_SHAPES: dict[str, Kind] = {kind.name: kind for kind in SHAPES}
SHAPE_NAMES = tuple(_SHAPES)


def covariance_type(name: object) -> Kind:
    """The type with this name."""
    if not isinstance(name, str) or name not in _KINDS:
        raise ValueError(f"covariance_type must be one of {MIXTURE_TYPES}, got {name!r}")
    return _KINDS[name]


def fitted_type(name: object, rank: int | str = 1) -> Kind:
    """The type with this name and rank, or the shape after mclust, which only a fit can have."""
    if name == LowRank.name and not isinstance(rank, str):
        return of_rank(int(rank))
    return _SHAPES[name] if isinstance(name, str) and name in _SHAPES else covariance_type(name)


def component_covariance(
    name: str,
    array: ArrayLike,
    m: int,
    n: int,
    argument: str = "covariances",
    *,
    signed: bool = False,
) -> Covariance:
    """The covariance of a mixture of m components in n features, checked.

    ``argument`` is what the user calls the array, for errors. A ``signed`` one need not be positive
    semidefinite.
    """
    array = as_float_array(array, argument, (0, 1, 2, 3))
    kind = covariance_type(name)
    if array.ndim == 3:
        kind = kind.of(array, n).kind  # with the rank of the array
    if tuple(array.shape) != kind.shape(m, n):
        raise ValueError(
            f"{argument} must have shape {kind.shape(m, n)} for covariance_type={name!r} with {m} "
            f"component(s) and {n} feature(s), but have shape {tuple(array.shape)}"
        )
    return _check(kind, array, n, argument, signed)


def common_noise(array: ArrayLike, n: int, name: str = "covariance") -> Covariance:
    """The covariance of a noise that all samples share: a number, (n,) or (n, n), checked."""
    wrong = isinstance(array, bool | complex) or array is None or isinstance(array, str)
    shape = None if wrong else tuple(as_float_array(array, name, (0, 1, 2)).shape)
    if shape not in ((), (1,), (n,), (n, n)):
        raise ValueError(
            f"{name} must be a number, or have shape ({n},) or ({n}, {n}) for {n} feature(s); got "
            + ("something else" if wrong else f"shape {shape}")
        )
    return noise_covariance(array, 0, n, name)


def noise_covariance(
    array: ArrayLike, p: int, n: int, name: str = "noise_covariance"
) -> Covariance:
    """The covariance of the noise in p samples of n features, checked.

    One covariance for all samples is a scalar or one entry (equal variances), (n,) variances or an
    (n, n) matrix. One for each sample is (p,), (p, n) or (p, n, n).
    """
    array = as_float_array(array, name, (0, 1, 2, 3))
    xp = namespace(array)
    shape = tuple(array.shape)
    kind: Kind
    if shape in ((), (1,)):
        kind, array = Spherical, xp.reshape(array, (1,))
    elif shape == (n,):
        kind, array = Diagonal, xp.reshape(array, (1, n))
    elif shape == (n, n):
        kind = Tied
    elif shape in ((p,), (p, n), (1, n), (p, n, n), (1, n, n)):
        kind = (Spherical, Diagonal, Full)[len(shape) - 1]
    else:
        raise ValueError(
            f"{name} must be a scalar or have shape ({n},) or ({n}, {n}) for noise "
            f"common to all samples, or ({p},), ({p}, {n}) or ({p}, {n}, {n}) for one covariance "
            f"a sample; got shape {shape}"
        )
    if int(array.shape[0]) < 2 or kind.common:
        return _check(kind, array, n, name)
    try:
        return _check(kind, array, n, name)
    except ValueError:
        row = _first_refused(kind, array, n, name)
        _check(kind, array[row : row + 1, ...], n, f"row {row}: {name}")
        raise


def one_for_each_row(noise: np.ndarray, n: int) -> np.ndarray:
    """Noise (p,), (p, n) or (p, n, n) of p rows, in a shape that cannot mean noise of all rows.

    If p = n, an (n, n) array would mean a matrix common to all rows, and (n,) the variances of the
    features. So the result then has a matrix for each row.
    """
    if len(noise) != n or noise.ndim == 3:
        return noise
    variances = np.broadcast_to(noise[:, None], (n, n)) if noise.ndim == 1 else noise
    return np.asarray(variances[:, :, None] * np.eye(n))


def _first_refused(kind: Kind, array: Array, n: int, name: str) -> int:
    """The first of several covariances that is refused, found by bisection."""
    start, stop = 0, int(array.shape[0])
    while stop - start > 1:
        middle = (start + stop) // 2
        try:
            _check(kind, array[start:middle, ...], n, name)
            start = middle
        except ValueError:
            stop = middle
    return start


def _check(kind: Kind, array: Array, n: int, name: str, signed: bool = False) -> Covariance:
    """Check that covariances are finite, symmetric and, if not signed, positive semidefinite."""
    if not all_finite(array):
        raise ValueError(f"{name} must be finite, but holds NaN or infinity")
    if not signed:
        array = kind.check(array, name)
    elif not kind.diagonal:
        array = symmetrise(array, name)
    return kind.of(array, n)
