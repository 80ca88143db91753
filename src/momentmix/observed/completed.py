"""A table as it was observed, sorted once into parts whose rows are treated alike.

One Gaussian can be fitted to it by EM, to find its centre and spread, and noise like that of its
rows can be drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TypeVar

import numpy as np

from momentmix.covariance import (
    Covariance,
    Diagonal,
    Full,
    anchor_rows,
    noise_covariance,
    one_for_each_row,
)
from momentmix.observed.gaps import GapPart
from momentmix.observed.noisy import ErrorPart
from momentmix.observed.part import Evaluated, Gaussians, Part, SeparatePart
from momentmix.support.array import to_numpy, without_masks
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


#: With more features than this, only variances are fitted if they are enough. A round number that
#: was not tuned; it bounds the cost, which grows with n³.
JOINT = 64
#: At most how many rows are used, evenly spaced. A round number that was not tuned; the Gaussian
#: only has to give coordinates and a start.
MOST_ROWS = 20_000
#: The most EM steps, and the gain in nats a row below which they end. Round numbers that were not
#: tuned; the fit that starts from here has its own tolerance.
STEPS, TOL = 30, 1e-3
#: The least share of a feature's variance that is not put down to noise at the start, so that the
#: variance stays positive if the stated noise is too large. A round number that was not tuned.
LEAST = 1e-3


def one_gaussian(
    rows: ObservedRows, weights: np.ndarray, count: float, independent: bool
) -> Gaussians:
    """A Gaussian of nearly maximal likelihood, with positive variances whatever the rows are.

    The weights count for ``count`` rows together. If gaps leave few rows that show many features
    together, correlations are poorly determined. So the covariance also rests on some artificial
    rows without correlation (Schafer's ridge prior), as many as ``anchor_rows`` gives a mixture.

    The result has a mean (1, n) and a covariance matrix (1, n, n), or variances (1, n) if there are
    very many features and these may be taken as ``independent``, in the noise too.
    """
    step = -(-len(rows) // MOST_ROWS)
    if step > 1:
        rows, weights = rows.take(np.arange(0, len(rows), step)), weights[::step]
    separate = rows.n > JOINT and rows.is_separate(independent)
    mean, variances, least = _by_feature(rows, weights)
    covariance = variances if separate else np.diag(variances)
    floor = least if separate else np.diag(least)
    whole = count * float(weights @ rows.seen.all(axis=1)) / float(weights.sum())
    ridge = anchor_rows(rows.n, 1 - float(np.mean(rows.seen)), whole) / count
    found, before = Gaussians(mean[None], covariance[None]), -np.inf

    def block(places: np.ndarray, here: Evaluated) -> tuple[float, np.ndarray, np.ndarray]:
        own = weights[places][None]
        first, second = here.expected(own)
        return float(np.sum(own * here.log_densities)), first[0], second[0]

    for _ in range(STEPS):
        values, firsts, seconds = zip(*rows.each(found, block), strict=True)
        value = sum(values)
        gain, before = value - before, value
        if gain < TOL * weights.sum():
            break
        away = np.sum(firsts, axis=0) / weights.sum()
        outer = away**2 if separate else np.outer(away, away)
        spread = np.sum(seconds, axis=0) / weights.sum() - outer
        if not separate:
            alone = np.diag(np.diag(spread))  # without correlations
            spread = ((spread + spread.T) / 2 + ridge * alone) / (1 + ridge)
        spread = spread + floor
        found = Gaussians(found.means + away, spread[None])
    return found


def _by_feature(
    rows: ObservedRows, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The mean, the variance without the noise, and the least variance to allow; (n,) each."""
    shares = weights[:, None] * rows.seen
    totals = np.maximum(shares.sum(axis=0), 1e-300)
    X = np.where(rows.seen, rows.X, 0.0)
    mean = np.sum(shares * X, axis=0) / totals
    squares = np.sum(shares * np.where(rows.seen, rows.X - mean, 0.0) ** 2, axis=0) / totals
    noise = np.sum(shares * rows.noise_variances(), axis=0) / totals
    constant = squares <= (16 * np.finfo(float).eps * np.abs(mean)) ** 2
    unit = np.median(squares[~constant]) if not np.all(constant) else 1.0
    squares = np.where(constant, 0.0, squares)
    least = 1e-10 * np.where(constant, unit, squares)
    own = np.maximum(squares - noise, LEAST * squares)
    return mean, np.maximum(own, least), least


def normal_draws(covariance: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Samples of N(0, covariance), (1, n, n) or variances (1, n); (count, n)."""
    n = covariance.shape[1]
    Z = rng.standard_normal((count, n))
    if covariance.ndim == 2:
        return np.asarray(Z * np.sqrt(covariance))
    values, vectors = np.linalg.eigh(covariance)
    roots = vectors * np.sqrt(np.maximum(values, 0))[:, None, :]
    return np.asarray((roots @ Z[:, :, None])[:, :, 0] if len(roots) > 1 else Z @ roots[0].T)


def noise_draws(rows: ObservedRows, rng: np.random.Generator) -> np.ndarray | float:
    """Random noise with the covariances of the rows' noise; (p, n)."""
    noise: Covariance | None = rows.noise
    if noise is None:
        return 0.0
    array = noise.variances() if noise.diagonal else noise.matrices()
    return normal_draws(to_numpy(array), len(rows), rng)
