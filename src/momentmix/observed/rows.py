"""A table as it was observed, sorted once into parts whose rows are treated alike."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TypeVar

import numpy as np

from momentmix.covariance import (
    Covariance,
    Diagonal,
    Full,
    noise_covariance,
    one_for_each_row,
)
from momentmix.observed.gaps import GapPart
from momentmix.observed.noisy import ErrorPart
from momentmix.observed.part import Evaluated, Gaussians, Part
from momentmix.observed.separate import SeparatePart
from momentmix.support.array import to_numpy
from momentmix.support.masks import without_masks
from momentmix.support.parallel import parallel_map, worker_count

#: Rows with equal noise form a part of their own if at least this many share it on average. A round
#: number that was not tuned; it affects only speed.
SHARING = 32
#: Fewer rows than this with some number of gaps are put with the rows that have one more gap. A
#: round number that was not tuned; it affects only speed.
FEW_ROWS = 300
T = TypeVar("T")


def noise_of_rows(noise: object, X: np.ndarray) -> Covariance | None:
    """The covariance of the noise in rows X (p, n) as a user gives it, checked; None for none.

    The noise of a missing value may be missing too.
    """
    if noise is None:
        return None
    noise = without_masks(noise, "noise_covariance")
    array, (p, n) = np.asarray(noise, dtype=np.float64), X.shape
    gaps = np.isnan(X)
    if array.shape == (p, n) and p != n:  # if p = n, it is a matrix common to all rows
        array = np.where(gaps, 0.0, array)
    elif array.shape == (p, n, n):
        array = np.where(gaps[:, :, None] | gaps[:, None, :], 0.0, array)
    covariance = noise_covariance(array, p, n)
    return covariance if np.any(covariance.array) else None


class ObservedRows:
    """Rows X (p, n) in which NaN is a gap, and the covariance of their noise, if any.

    ``noise`` has one covariance for all rows or one for each, already checked.
    """

    def __init__(self, X: np.ndarray, noise: Covariance | None = None) -> None:
        self.X, self.noise = X, noise

    def __len__(self) -> int:
        return len(self.X)

    @property
    def n(self) -> int:
        return int(self.X.shape[1])

    @cached_property
    def seen(self) -> np.ndarray:
        """True where there is a value; (p, n)."""
        return ~np.isnan(self.X)

    def take(self, rows: np.ndarray) -> ObservedRows:
        """Some of the rows."""
        noise = self.noise
        if noise is not None and not noise.shared:
            noise = noise.of(noise.array[rows], self.n)
        return ObservedRows(self.X[rows], noise)

    def scale(self, centre: np.ndarray, units: np.ndarray) -> ObservedRows:
        """The rows as (x - centre) / units, feature by feature."""
        noise = self.noise
        if noise is not None and noise.diagonal:
            noise = Diagonal(to_numpy(noise.variances()) / units**2, self.n)
        elif noise is not None:
            noise = Full(to_numpy(noise.matrices()) / np.outer(units, units), self.n)
        return ObservedRows((self.X - centre) / units, noise)

    def content(self) -> np.ndarray:
        """Each row's values, gaps and noise as numbers; rows are equal if these are; (p, width)."""
        parts = [np.where(self.seen, self.X, 0.0), self.seen.astype(float)]
        if self.noise is not None and not self.noise.shared:
            parts.append(to_numpy(self.noise.array).reshape(len(self), -1))
        return np.hstack(parts)

    def noise_array(self) -> np.ndarray | None:
        """The noise in a form in which a user would pass it."""
        if self.noise is None:
            return None
        array = to_numpy(self.noise.array)
        return array if self.noise.shared else one_for_each_row(array, self.n)

    def noise_variances(self) -> np.ndarray:
        """The noise variance of each value; (p or 1, n), zeros without noise."""
        if self.noise is None:
            return np.zeros((1, self.n))
        if self.noise.diagonal:
            return to_numpy(self.noise.variances())
        return np.diagonal(to_numpy(self.noise.matrices()), axis1=1, axis2=2)

    def is_separate(self, independent: bool) -> bool:
        """Whether features stay independent given the rows, so that variances are enough."""
        return independent and (self.noise is None or self.noise.diagonal)

    def each(self, gaussians: Gaussians, function: Callable[[np.ndarray, Evaluated], T]) -> list[T]:
        """Call ``function(positions, evaluated)`` for every block of rows under the Gaussians.

        The blocks run on one thread per core if that pays. Gaussians with variances alone are
        allowed only if ``is_separate``.
        """
        parts = self._separate if gaussians.covariances.ndim == 2 else self._joint
        work = []
        for part in parts:
            at = part.at(gaussians)
            work += [(at, part.rows[block], block) for block in part.blocks(len(gaussians.means))]

        def job(one: tuple[Callable[[slice], Evaluated], np.ndarray, slice]) -> T:
            at, places, block = one
            return function(places, at(block))

        if len(work) == 1 or not any(part.threads for part in parts):
            return [job(one) for one in work]
        return parallel_map(job, work, worker_count(np))

    def expected(self, one: Gaussians) -> np.ndarray:
        """E[v | x] of each row under a single Gaussian; (p, n)."""
        result = np.empty(self.X.shape)

        def block(places: np.ndarray, here: Evaluated) -> None:
            result[places] = here.means()[0]

        self.each(one, block)
        return result

    @cached_property
    def _separate(self) -> list[Part]:
        """The rows as one part, for features that are independent."""
        every = np.arange(len(self))
        noise = None if self.noise is None else to_numpy(self.noise.variances())
        return [SeparatePart(every, self.X, noise)]

    @cached_property
    def _joint(self) -> list[Part]:
        """The rows in parts that are treated alike, for any Gaussians."""
        every = np.arange(len(self))
        if self.noise is None:
            return _by_gaps(every, self.X, None)
        if self.noise.shared:
            return _by_gaps(every, self.X, to_numpy(self.noise.matrices())[0])
        array = self.noise.variances() if self.noise.diagonal else self.noise.matrices()
        noise = to_numpy(array)
        flat = noise.reshape(len(noise), -1)
        # Rows with the same noise have the same sum, and sorting the sums is a cheap first check.
        if len(np.unique(flat.sum(axis=1))) * SHARING > len(self):
            return [ErrorPart(every, self.X, noise)]
        kinds, of_row = np.unique(flat, axis=0, return_inverse=True)
        if len(kinds) * SHARING > len(self):
            return [ErrorPart(every, self.X, noise)]
        parts: list[Part] = []
        for number, one in enumerate(kinds):
            rows = every[of_row.reshape(-1) == number]
            matrix = np.diag(one) if noise.ndim == 2 else one.reshape(self.n, self.n)
            parts += _by_gaps(rows, self.X[rows], matrix if np.any(matrix) else None)
        return parts


def _by_gaps(rows: np.ndarray, X: np.ndarray, noise: np.ndarray | None) -> list[Part]:
    """Parts by the number of gaps in a row or, if a row has fewer values than gaps, of values."""
    gaps = np.isnan(X).sum(axis=1)
    values = X.shape[1] - gaps
    parts: list[Part] = []
    for shown, counts in ((False, gaps), (True, values)):
        own = gaps > values if shown else gaps <= values
        for least, most in _ranges(counts[own]):
            some = own & (counts >= least) & (counts <= most)
            parts.append(GapPart(rows[some], X[some], max(most, int(shown)), shown, noise))
    return parts


def _ranges(counts: np.ndarray) -> list[tuple[int, int]]:
    """Ranges that divide up the counts; a range with few rows is joined to the next."""
    found, start, waiting = [], 0, 0
    numbers = np.bincount(counts)
    for k, number in enumerate(numbers):
        waiting += int(number)
        if waiting and (k == 0 or waiting >= FEW_ROWS or k == len(numbers) - 1):
            found.append((start, k))
            start, waiting = k + 1, 0
    return found
