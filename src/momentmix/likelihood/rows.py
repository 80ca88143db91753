"""The likelihood of rows in memory, worked through in blocks on a thread per core."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import cached_property
from typing import Concatenate, NamedTuple, TypeVar

import numpy as np

from momentmix.covariance import Bound, Kind, LogNormalPrior
from momentmix.data.content import DIGITS, LARGE_DATA, by_distance
from momentmix.data.parameters import Parameters
from momentmix.likelihood.density import Density, Sums, softmax
from momentmix.likelihood.em import Arguments, Likelihood
from momentmix.support.array import to_numpy
from momentmix.support.parallel import parallel_map, worker_count

#: Bytes of a block of rows, and up to which the products of pairs of features are kept.
_BLOCK_BYTES, _CACHE_BYTES = 4 << 20, 256 << 20
T = TypeVar("T")


class Behind(NamedTuple):
    """What components say of a block of B rows, in the coordinates of a fit.

    Complete and exact rows leave nothing open, and have no covariances.
    """

    responsibilities: np.ndarray  # (m, B)
    deviations: np.ndarray  # E[v - μ_j | x_i, j] of what lies behind the rows; (m, B, n)
    covariances: np.ndarray | None  # Cov[v | x_i, j]; (m, B, n, n)


class RowLikelihood(Likelihood):
    """The data of a maximum-likelihood fit, in centred and scaled coordinates.

    X (p, n); ``weights`` (p,) with sum 1, or None for equal ones, which together count for
    ``count`` rows, by default p. ``to_features`` (n, n) leads from these coordinates to the
    features in units of their own, where they differ.
    """

    def __init__(
        self,
        X: np.ndarray,
        weights: np.ndarray | None,
        kind: Kind,
        floor: Bound,
        variance: float | None = None,
        prior: LogNormalPrior | None = None,
        count: float | None = None,
        to_features: np.ndarray | None = None,
    ) -> None:
        p, n = X.shape
        super().__init__(kind, floor, variance, prior, float(p) if count is None else count)
        self.X, self.to_features = X, to_features
        self.weights = np.full(p, 1 / p) if weights is None else weights
        self._least = 1.5 / self.count if self.count > 1 else 0.0
        self._step = max(256, _BLOCK_BYTES // (8 * (2 * n + kind.width(n))))

    def part(
        self,
        rows: np.ndarray,
        weights: np.ndarray | None,
        share: float,
        prior: LogNormalPrior | None,
    ) -> RowLikelihood:
        """That of some of the rows, with other weights that are a share of all."""
        fixed = self.kind, self.floor, self.variance
        count = share * self.count
        return RowLikelihood(self.X[rows], weights, *fixed, prior, count, self.to_features)

    def sample(self, rng: np.random.Generator) -> RowLikelihood:
        """The likelihood itself, or for large data that of rows drawn by weight."""
        p, n = self.X.shape
        if p * n <= LARGE_DATA:
            return self
        order = by_distance(self.X)  # equal rows stand together, and are drawn as one would be
        up_to = np.cumsum(self.weights[order])
        draws = np.sort(rng.uniform(0, up_to[-1], max(LARGE_DATA // 2 // n, 2000)))
        rows = order[np.minimum(np.searchsorted(up_to, draws, side="right"), p - 1)]
        return self.part(rows, None, 1.0, self.prior)

    def with_prior(self, prior: LogNormalPrior) -> RowLikelihood:
        """The same rows with another prior."""
        other = copy(self)
        other.prior = prior
        return other

    @cached_property
    def _features(self) -> np.ndarray | None:
        """Quadratic features of all rows, or None where each block makes its own.

        Squares are made again in each block; products of pairs of features are kept if they fit.
        """
        p, n = self.X.shape
        keep = not self.kind.diagonal and 8 * p * self.kind.width(n) <= _CACHE_BYTES
        if not keep and p > self._step:
            return None
        return np.ascontiguousarray(to_numpy(self.kind.features(self.X)))

    def _blocks(self) -> list[slice]:
        return [slice(a, a + self._step) for a in range(0, len(self.X), self._step)]

    def _quadratic(self, rows: slice) -> np.ndarray:
        if self._features is not None:
            return self._features[rows]
        return to_numpy(self.kind.features(self.X[rows]))

    def _over_blocks(self, function: Callable[[slice], T]) -> list[T]:
        blocks = self._blocks()
        if len(blocks) == 1:
            return [function(blocks[0])]
        return parallel_map(function, blocks, worker_count(np))

    def log_joint(self, parameters: Parameters) -> np.ndarray:
        """log λ_j N(x_i; μ_j, Σ_j); (p, m)."""
        density = Density.of(self.kind, parameters)

        def block(rows: slice) -> np.ndarray:
            return density.log_joint(self.X[rows], self._quadratic(rows)).T

        return np.concatenate(self._over_blocks(block))

    def responsibilities(self, parameters: Parameters) -> tuple[np.ndarray, np.ndarray]:
        """Posterior probabilities (p, m) and log densities (p,)."""
        return softmax(self.log_joint(parameters))

    def value(self, parameters: Parameters) -> float:
        return float(self.weights @ self.responsibilities(parameters)[1])

    def sums(self, parameters: Parameters, groups: int = 1) -> Sums:
        density = Density.of(self.kind, parameters, groups)

        def block(rows: slice) -> Sums:
            return density.step_sums(self.X[rows], self._quadratic(rows), self.weights[rows])

        return summed(self._over_blocks(block))

    def total(
        self,
        function: Callable[Concatenate[RowLikelihood, Arguments], tuple[np.ndarray, ...]],
        *arguments: Arguments.args,
        **named: Arguments.kwargs,
    ) -> tuple[np.ndarray, ...]:
        return function(self, *arguments, **named)

    def each(
        self, parameters: Parameters, function: Callable[[slice | np.ndarray, Behind], T]
    ) -> list[T]:
        """function(places, what lies behind the rows there), for all rows in blocks."""
        density, means = Density.of(self.kind, parameters), parameters.means[:, None, :]

        def block(rows: slice) -> T:
            R, _ = softmax(density.log_joint(self.X[rows], self._quadratic(rows)), axis=0)
            return function(rows, Behind(R, self.X[rows] - means, None))

        return self._over_blocks(block)

    def from_responsibilities(self, R: np.ndarray) -> Parameters:
        """The M-step from responsibilities (p, m), which may leave some weight out."""

        def block(rows: slice) -> Sums:
            weighted = (R[rows] * self.weights[rows, None]).T
            firsts, seconds = weighted @ self.X[rows], weighted @ self._quadratic(rows)
            return Sums(np.zeros(1), weighted.sum(axis=1), firsts, seconds)

        return self.maximise(summed(self._over_blocks(block)))

    def single(self) -> Parameters:
        """One component for all rows, about as likely as any."""
        return self.from_responsibilities(np.ones((len(self.X), 1)))

    def revived(self, parameters: Parameters) -> Parameters:
        """Components left with less than about one sample start anew where the fit is worst."""
        weights, means, covariances = parameters
        dead = np.flatnonzero(weights < min(self._least, 0.5 / len(weights)))
        if len(dead) == 0:
            return parameters
        living = np.setdiff1d(np.arange(len(weights)), dead)
        if len(living) == 0:
            return parameters
        kept = self.kind.taken(covariances, living)
        alive = Parameters(weights[living], means[living], kept)
        _, log_density = self.responsibilities(alive)
        ranked = np.argsort(np.round(log_density, DIGITS), kind="stable")
        worst = np.resize(ranked, len(dead))  # some twice, where rows are few
        means, weights = means.copy(), weights.copy()
        means[dead] = self.X[worst]
        weights[dead] = 1 / len(weights)
        centre = self.weights @ self.X
        spread = np.diag(self.weights @ (self.X - centre) ** 2 / 4 + 1e-6)
        if self.variance is not None:
            spread = self.variance * np.eye(len(centre))
        fresh = self.kind.repeated(len(dead), spread)
        if self.variance is None:
            fresh = self.kind.raised(fresh, self.floor)
        covariances = self.kind.replaced(covariances, list(dead), fresh)
        return Parameters(weights / weights.sum(), means, covariances)


def summed(parts: list[Sums]) -> Sums:
    """Sums over all rows from those over some."""
    if len(parts) == 1:
        return parts[0]
    return Sums(*(sum(part, start=np.zeros(())) for part in zip(*parts, strict=True)))
