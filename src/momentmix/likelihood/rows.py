"""The likelihood of rows in memory, with the methods that a search needs."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Concatenate, NamedTuple

import numpy as np

from momentmix.covariance import Bound, Kind, LogNormalPrior
from momentmix.data.content import DIGITS, LARGE_DATA, by_distance
from momentmix.data.crowding import Crowding
from momentmix.data.parameters import Parameters, outlier_share
from momentmix.distributions.mixture import Mixture
from momentmix.likelihood.density import Density, Sums, softmax
from momentmix.likelihood.device import device_passes
from momentmix.likelihood.em import Arguments, Likelihood
from momentmix.likelihood.passes import Passes, T
from momentmix.support.array import Array, to_numpy

if TYPE_CHECKING:
    from typing_extensions import Self

#: If some rows may be outliers, every second start uses only this share of the rows, the densest.
#: This is a round number that was not tuned; larger shares of outliers get into those starts.
DENSE = 0.75


class Expectations(NamedTuple):
    """The E-step of a block of B rows, in the coordinates of a fit.

    v is the row without gaps and errors. If x has neither, v = x, and there are no covariances.
    """

    responsibilities: np.ndarray  # (m, B)
    deviations: np.ndarray  # E[v - μ_j | x_i, j]; (m, B, n)
    covariances: np.ndarray | None  # Cov[v | x_i, j]; (m, B, n, n)


class RowLikelihood(Likelihood):
    """The data of a maximum-likelihood fit, in centred and scaled coordinates.

    X is (p, n). ``weights`` (p,) sum to 1, and None means equal ones; together they count for
    ``count`` rows, by default p. ``to_features`` (n, n) maps these coordinates to features in their
    own units, if they differ.
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
        p = len(X)
        super().__init__(kind, floor, variance, prior, float(p) if count is None else count)
        self.X, self.to_features = X, to_features
        self.weights = np.full(p, 1 / p) if weights is None else weights
        self.background: np.ndarray | None = None  # log density at each row; (p,)
        self.crowding: Crowding | None = None  # of the rows, if it is known
        self.passes = Passes(X, kind)
        self._least = 1.5 / self.count if self.count > 1 else 0.0

    @property
    def in_memory(self) -> RowLikelihood:
        return self

    def on(self, device: Array | None) -> Self:
        """The same rows, with passes made on a device if there is one and it pays."""
        if device is not None:
            self.passes = device_passes(self.X, self.kind, device)
        return self

    def part(
        self,
        rows: np.ndarray,
        weights: np.ndarray | None,
        share: float,
        prior: LogNormalPrior | None,
    ) -> RowLikelihood:
        """The likelihood of some of the rows, whose new weights are a share of all."""
        fixed = self.kind, self.floor, self.variance
        count, passes = share * self.count, self.passes.part(rows)
        own = RowLikelihood(passes.X, weights, *fixed, prior, count, self.to_features)
        own.passes = passes
        self._lend_background(own, rows)
        return own

    def with_background(self, log_widths: np.ndarray, log_volume: float, most: float) -> Self:
        """The same rows, of which at most the share ``most`` may belong to no component.

        The density of the background is 1 / the product of the widths (n,) in the units of X;
        ``log_volume`` converts it to these coordinates.
        """
        other = copy(self)
        other.background, other.most_outliers = log_volume - self._sizes(log_widths), most
        return other

    def without_background(self) -> Self:
        """The same rows, all of which belong to some component."""
        if self.background is None:
            return self
        other = copy(self)
        other.background, other.most_outliers = None, 0.0
        return other

    @cached_property
    def crowds(self) -> list[RowLikelihood]:
        """The likelihoods of rows that are probably no outliers, by two guesses of their share."""
        parts, crowding = [], self.crowding
        if crowding is None:
            crowding = Crowding.of(self.X, self.weights * self.count)
        for rows in (crowding.densest(DENSE), crowding.in_a_crowd()):
            share = float(self.weights[rows].sum())
            part = self.part(rows, self.weights[rows] / share, share, self.prior)
            parts.append(part.without_background())
        return parts

    def _sizes(self, logs: np.ndarray) -> np.ndarray:
        """For each row, the sum of the numbers of those features that it has; (p,)."""
        return np.full(len(self.X), float(np.sum(logs)))

    def _background(
        self, parameters: Parameters, rows: slice | np.ndarray, groups: int = 1
    ) -> np.ndarray | None:
        """The log density of the background at some rows, times its share; (S, 1, rows)."""
        if self.background is None:
            return None
        shares = 1 - parameters.weights.reshape(groups, -1).sum(axis=1)
        return np.asarray(np.log(np.maximum(shares, 1e-300))[:, None, None] + self.background[rows])

    def _lend_background(self, other: RowLikelihood, rows: np.ndarray) -> None:
        """Give the background of these rows to another likelihood of rows like them."""
        if self.background is not None:
            other.background, other.most_outliers = self.background[rows], self.most_outliers

    def sample(self, rng: np.random.Generator) -> RowLikelihood:
        """The likelihood itself or, for large data, that of rows drawn by weight."""
        p, n = self.X.shape
        if p * n <= LARGE_DATA:
            return self
        order = by_distance(self.X)  # equal rows are neighbours, and are drawn like one row
        up_to = np.cumsum(self.weights[order])
        draws = np.sort(rng.uniform(0, up_to[-1], max(LARGE_DATA // 2 // n, 2000)))
        rows = order[np.minimum(np.searchsorted(up_to, draws, side="right"), p - 1)]
        return self.part(rows, None, 1.0, self.prior)

    def with_prior(self, prior: LogNormalPrior) -> RowLikelihood:
        """The same rows with another prior."""
        other = copy(self)
        other.prior = prior
        return other

    def reweight(self, weights: np.ndarray) -> RowLikelihood:
        """The same rows with other weights, of sum 1."""
        other = copy(self)
        other.weights = weights
        return other

    def draw(self, parameters: Parameters, rng: np.random.Generator) -> RowLikelihood:
        """Draw as many rows as these count for: from a mixture, and outliers from the rows."""
        p, out = max(round(self.count), 1), self._draw_outliers(parameters, rng)
        Z = np.concatenate([self._draw(parameters, p - len(out), rng), self.X[out]])
        fixed = self.kind, self.floor, self.variance, self.prior
        again = RowLikelihood(Z, None, *fixed, self.count, self.to_features)
        self._lend_background(again, np.zeros(p, dtype=int))  # the same for all complete rows
        return again

    def _draw_outliers(self, parameters: Parameters, rng: np.random.Generator) -> np.ndarray:
        """Draw outliers from the rows, by their probability to belong to no component; places.

        A constant density without bounds can be fitted, but nothing can be drawn from it.
        """
        if self.background is None:
            return np.empty(0, dtype=int)
        p = max(round(self.count), 1)
        out = 1 - self.responsibilities(parameters)[0].sum(axis=1)
        chances = self.weights * np.maximum(out, 0.0)
        if (total := float(chances.sum())) <= 0:
            return np.empty(0, dtype=int)
        number = min(rng.binomial(p, min(outlier_share(parameters.weights), 1.0)), p - 1)
        return rng.choice(len(chances), number, p=chances / total)

    def _draw(self, parameters: Parameters, p: int, rng: np.random.Generator) -> np.ndarray:
        """Points of a mixture; (p, n)."""
        weights, means, covariances = parameters
        mixture = Mixture(weights / weights.sum(), means, covariances, self.kind.name)
        return to_numpy(mixture.sample(p, rng)[0])

    def log_joint(self, parameters: Parameters) -> np.ndarray:
        """log λ_j N(x_i; μ_j, Σ_j); (p, m)."""
        return self.passes.log_joint(Density.of(self.kind, parameters))

    def responsibilities(self, parameters: Parameters) -> tuple[np.ndarray, np.ndarray]:
        """Posterior probabilities (p, m) and log densities (p,)."""
        return softmax(self.log_joint(parameters), background=self.background_log_joint(parameters))

    def background_log_joint(self, parameters: Parameters) -> np.ndarray | None:
        """The log density of the background at each row, times its share; (p, 1)."""
        background = self._background(parameters, slice(None))
        return None if background is None else background[0].T

    def value(self, parameters: Parameters) -> float:
        return float(self.weights @ self.responsibilities(parameters)[1])

    def sums(self, parameters: Parameters, groups: int = 1) -> Sums:
        def rest(rows: slice) -> np.ndarray | None:
            return self._background(parameters, rows, groups)

        density = Density.of(self.kind, parameters, groups)
        return self.passes.sums(density, self.weights, rest)

    def total(
        self,
        function: Callable[Concatenate[RowLikelihood, Arguments], tuple[np.ndarray, ...]],
        *arguments: Arguments.args,
        **named: Arguments.kwargs,
    ) -> tuple[np.ndarray, ...]:
        return function(self, *arguments, **named)

    def each(
        self,
        parameters: Parameters,
        function: Callable[[slice | np.ndarray, Expectations], T],
        most: int | None = None,
    ) -> list[T]:
        """function(places, expectations) for all rows in blocks, of at most about ``most`` rows."""
        density, means = Density.of(self.kind, parameters), parameters.means[:, None, :]

        def block(rows: slice) -> T:
            L = density.log_joint(self.X[rows], self.passes.quadratic(rows))
            R, _ = softmax(L[None], axis=1, background=self._background(parameters, rows))
            return function(rows, Expectations(R[0], self.X[rows] - means, None))

        return self.passes.over_blocks(block, most)

    def from_responsibilities(self, R: np.ndarray) -> Parameters:
        """The M-step from responsibilities (p, m), which may sum to less than 1 in a row."""
        return self.maximise(self.passes.weighted_sums(R, self.weights))

    def single(self) -> Parameters:
        """One component for all rows, of nearly the highest likelihood."""
        return self.from_responsibilities(np.ones((len(self.X), 1)))

    def revive(self, parameters: Parameters) -> Parameters:
        """Move components with less than about one sample to where the fit is worst."""
        weights, means, covariances = parameters
        dead = np.flatnonzero(weights < min(self._least, 0.5 / len(weights)))
        if len(dead) == 0:
            return parameters
        living = np.setdiff1d(np.arange(len(weights)), dead)
        if len(living) == 0:
            return parameters
        kept = self.kind.take_components(covariances, living)
        total = float(weights.sum())
        alive = Parameters(weights[living], means[living], kept)
        _, log_density = self.responsibilities(alive)
        ranked = np.argsort(np.round(log_density, DIGITS), kind="stable")
        worst = np.resize(ranked, len(dead))  # some twice, where rows are few
        means, weights = means.copy(), weights.copy()
        means[dead] = self.X[worst]
        weights[dead] = 1 / len(weights)
        centre = self.weights @ self.X
        spread = self.weights @ (self.X - centre) ** 2 / 4 + 1e-6
        if self.variance is not None:
            spread = np.full(len(centre), self.variance)
        fresh = self.kind.repeat(len(dead), spread if self.kind.diagonal else np.diag(spread))
        if self.variance is None:
            fresh = self.kind.raise_to(fresh, self.floor)
        covariances = self.kind.replace_components(covariances, list(dead), fresh)
        return Parameters(weights / weights.sum() * total, means, covariances)
