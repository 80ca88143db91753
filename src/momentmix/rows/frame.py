"""The coordinates of a fit, and the order of its rows.

Every fit is done in centred and scaled coordinates, so a fit of aX + b is the map of the fit of X,
whatever the units. The scaling keeps the covariance type: one number for spherical, one a feature
for diag and low-rank, a whitening matrix for tied and full.

The search draws rows at random. If it drew them by position, reordering the table, or repeating a
row instead of giving it weight 2, would change the draw. So equal rows are merged into one that
counts for all of them, and rows are ordered by their distance from the centre, which depends
neither on the units nor on a rotation of the features.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from momentmix.covariance import Bound, Covariance, Diagonal, Full, Kind
from momentmix.fit import DIGITS, Parameters
from momentmix.moments.atoms import Atoms
from momentmix.support.array import Array, as_like, namespace
from momentmix.support.parallel import parallel_map, worker_count

#: With more entries of X than this, rows are neither merged nor reordered, and the search uses a
#: sample of them. A round number that was not tuned; fits of larger tables depend on it slightly.
LARGE_DATA = 2_000_000


def distinct_rows(X: np.ndarray, counts: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """The position of one copy of each distinct row, and how much it counts.

    The result is not in the order of the table. ``counts`` (p,) are ones by default.
    O(np + p log p).
    """
    counts = np.ones(len(X)) if counts is None else counts
    marks = _marks(X)
    order = np.lexsort((counts, marks))  # by count too: makes sums reproducible
    first = np.flatnonzero(np.diff(marks[order], prepend=~marks[order[:1]]))
    return order[first], np.add.reduceat(counts[order], first)


def _marks(X: np.ndarray) -> np.ndarray:
    """A hash of each row: equal rows have the same one, and different rows practically never do.

    It sums the scrambled bits of all entries modulo 2⁶⁴. Among a million different rows, two share
    a hash in about one of 10⁷ tables.
    """
    bits = np.ascontiguousarray(X + 0.0).view(np.uint64)  # -0.0 is 0.0
    rng = np.random.default_rng(0)
    marks = np.zeros(len(X), dtype=np.uint64)
    for column in bits.T:
        odd, more = rng.integers(2**63, size=2, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
        mixed = column * odd
        mixed ^= mixed >> np.uint64(31)
        mixed *= more
        mixed ^= mixed >> np.uint64(29)
        marks += mixed * odd
    return marks


def by_distance(Z: np.ndarray) -> np.ndarray:
    """The positions of rows from the nearest to the farthest, in centred and scaled coordinates.

    Rows at the same distance are ordered by their projection on a fixed direction.
    """
    with np.errstate(divide="ignore"):
        distances = np.log(np.einsum("ij,ij->i", Z, Z))
    along = Z @ np.cos(np.arange(Z.shape[1]))
    return np.lexsort((np.round(along, DIGITS), np.round(distances, DIGITS)))


#: Entries in a block of rows (1 MiB), few enough to stay in cache. A round number that was not
#: tuned; it affects only speed.
BLOCK = 1 << 17


def spread_of_rows(
    X: np.ndarray, weights: np.ndarray | None, diagonal: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The mean (n,) of rows and their covariance (n, n), or only the variances (n,)."""
    n = X.shape[1]
    total = np.zeros(n if diagonal else (n, n))
    step = max(1, (16 << 20) // (8 * n))
    with np.errstate(over="ignore", invalid="ignore"):  # which is found in the end
        centre = np.average(X, axis=0, weights=weights)
        for start in range(0, len(X), step):
            rows = X[start : start + step] - centre
            w = 1 / len(X) if weights is None else weights[start : start + step, None]
            total += (rows * w * rows).sum(axis=0) if diagonal else (rows * w).T @ rows
    return centre, total


class Frame:
    """x = centre + z scale (z @ scale if it is a matrix); ``log_volume`` is log |det scale|.

    Thin types need only the variances (n,) of the covariance.
    """

    def __init__(self, kind: Kind, centre: np.ndarray, covariance: np.ndarray) -> None:
        if not np.all(np.isfinite(covariance)):
            raise ValueError("the data hold numbers whose square overflows; rescale the features")
        self.kind, self.centre, self.unit, self.n = kind, centre, 1.0, len(centre)
        n = len(centre)
        variances = covariance if covariance.ndim == 1 else np.diag(covariance)
        deviations = np.sqrt(np.maximum(variances, 0))
        # Rounding alone can make a constant feature vary by about this multiple of its size.
        deviations = np.where(deviations > 16 * np.finfo(float).eps * np.abs(centre), deviations, 0)
        if not np.any(deviations):
            self.scale: Any = 1.0 if kind.one_unit else np.ones(n)
        elif kind.one_unit:
            self.scale = float(np.sqrt(np.mean(deviations**2)))
        else:
            # A constant feature has no unit of its own, so it gets the median of the others.
            middle = np.median(deviations[deviations > 0])
            self.scale = np.where(deviations > 0, deviations, middle)
        self.units = np.broadcast_to(self.scale, n)  # of the features, one by one
        self.to_features: np.ndarray | None = None
        self.null: np.ndarray | None = None  # directions in which the data do not vary; (n, q)
        if self.kind.thin:
            self.inverse: Any = 1 / self.scale
            self.log_volume = float(np.sum(np.log(np.broadcast_to(self.scale, n))))
            return
        deviations = self.units
        values, vectors = np.ones(n), np.eye(n)
        if not kind.one_unit:
            values, vectors = np.linalg.eigh(covariance / np.outer(deviations, deviations))
        # Directions in which the data do not vary are left as they are.
        varies = values > 1e-10 * max(values[-1], 1e-300)
        roots = np.sqrt(np.where(varies, values, 1.0))
        self.null = None if varies.all() else vectors[:, ~varies]
        # The symmetric square root does not depend on the signs of the eigenvectors.
        self.to_features = (vectors * roots) @ vectors.T
        self.scale = self.to_features * deviations
        self.inverse = ((vectors / roots) @ vectors.T) / deviations[:, None]
        self.log_volume = float(np.sum(np.log(roots)) + np.sum(np.log(deviations)))

    @classmethod
    def about_the_origin(cls, kind: Kind, frame: Frame) -> Frame:
        """Keep the origin and use one unit for all features, as the paper's ω assumes."""
        n = len(frame.centre)
        scale = float(np.exp(frame.log_volume / n))
        covariance = np.diag(np.full(n, scale**2))
        result = cls(kind, np.zeros(n), covariance)
        result.unit = scale
        return result

    @classmethod
    def of_samples(cls, kind: Kind, X: np.ndarray, weights: np.ndarray | None) -> Frame:
        return cls(kind, *spread_of_rows(X, weights, kind.thin))

    @classmethod
    def of_atoms(cls, kind: Kind, atoms: Atoms) -> Frame:
        weights, means = np.asarray(atoms.column)[:, 0], np.asarray(atoms.means)
        centre = weights @ means
        rows = means - centre
        covariance = (rows * weights[:, None]).T @ rows
        if not atoms.covariance.zero:
            matrices = np.asarray(atoms.covariance.matrices())
            shares = weights if len(matrices) > 1 else np.array([weights.sum()])
            covariance = covariance + np.tensordot(shares, matrices, axes=1)
        return cls(kind, centre, covariance)

    @property
    def factor(self) -> Bound:
        """x - centre = factor z, for columns: a number, a vector or a matrix."""
        factor: Bound = self.scale if self.kind.thin else self.scale.T
        return factor

    def bound(self, least: float, variances: np.ndarray) -> Bound:
        """A lower bound of covariances, from ``least`` in these units and variances of features.

        It is a number, variances (n,) or a matrix, as ``Covariance.raise_to`` takes it.
        """
        if not np.any(variances):
            return least
        return self.kind.bound(least, variances, self.inverse, self.n)

    def on(self, like: Array) -> Callable[[Array], Array]:
        """``apply`` for points in the library and on the device of ``like``; in float64."""
        xp = namespace(like)
        centre = as_like(self.centre, like, xp.float64)
        inverse = as_like(np.asarray(self.inverse), like, xp.float64)

        def apply(X: Array) -> Array:
            away = xp.astype(X, xp.float64, copy=False) - centre
            if not self.kind.thin:
                return away @ inverse
            away *= inverse
            return away

        return apply

    def apply(self, X: np.ndarray) -> np.ndarray:
        """Points in these coordinates; (p, n)."""
        if X.size <= LARGE_DATA:
            return self._apply(X)
        result, step = np.empty(X.shape), max(1, BLOCK // X.shape[1])

        def block(start: int) -> None:
            result[start : start + step] = self._apply(X[start : start + step])

        parallel_map(block, range(0, len(X), step), worker_count(np))
        return result

    def _apply(self, X: np.ndarray) -> np.ndarray:
        if self.kind.thin:
            return (X - self.centre) * self.inverse
        return (X - self.centre) @ self.inverse

    def restore(self, Z: np.ndarray) -> np.ndarray:
        """Points in the original coordinates."""
        return self.centre + (Z * self.scale if self.kind.thin else Z @ self.scale)

    def apply_atoms(self, atoms: Atoms) -> Atoms:
        """A distribution in these coordinates."""
        means = self.apply(np.asarray(atoms.means))
        return Atoms(atoms.weights, means, self.apply_covariance(atoms.covariance), np)

    def apply_covariance(self, covariance: Covariance) -> Covariance:
        """Covariances of atoms in these coordinates; they become full if they have to."""
        n = len(self.centre)
        if covariance.zero:
            return covariance
        if self.kind.thin and covariance.diagonal:
            variances = np.asarray(covariance.variances()) * np.broadcast_to(self.inverse, n) ** 2
            return Diagonal(variances, n)
        matrices = np.asarray(covariance.matrices())
        if self.kind.thin:
            factor = np.broadcast_to(self.inverse, n)
            matrices = matrices * np.outer(factor, factor)
        else:
            matrices = Full.transform(matrices, self.inverse.T)
        return Full(matrices, n)

    def forward(self, parameters: Parameters) -> Parameters:
        A = self.inverse if self.kind.thin else self.inverse.T
        covariances = self.kind.transform(np.asarray(parameters.covariances), A)
        return Parameters(parameters.weights, self.apply(parameters.means), covariances)

    def back(self, parameters: Parameters) -> Parameters:
        """Parameters in the original coordinates."""
        weights, means, covariances = parameters
        return Parameters(
            weights, self.restore(means), self.kind.transform(covariances, self.factor)
        )
