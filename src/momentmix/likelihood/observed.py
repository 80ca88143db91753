"""The likelihood of rows in memory that have gaps or known noise.

An EM step uses the expected sums of complete rows without noise, given the observed values. So
all that works with these sums, as the search does, is the same as for other rows. Where the search
needs the rows themselves, it takes rows that one Gaussian has completed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from momentmix.covariance import Anchor, Bound, Kind, LogNormalPrior
from momentmix.data.observed import CompletedRows
from momentmix.data.parameters import Parameters
from momentmix.likelihood.density import Sums, softmax
from momentmix.likelihood.passes import T, add_up
from momentmix.likelihood.rows import Expectations, RowLikelihood
from momentmix.observed import Evaluated, Gaussians, ObservedRows
from momentmix.observed.draws import noise_draws
from momentmix.observed.single import one_gaussian
from momentmix.support.array import to_numpy

#: The EM steps that fit a single component to rows with gaps or noise. This is a round number that
#: was not tuned; the result need not be exact, because EM or a comparison of splits follows.
SINGLE_STEPS = 20


class ObservedLikelihood(RowLikelihood):
    """The likelihood of rows in the units of their features, for mixtures in other coordinates.

    An observed row is u = z A for the coordinates z of the fit and A (n, n) = ``to_features``; if
    that is None, u = z.
    """

    def __init__(
        self,
        rows: CompletedRows,
        weights: np.ndarray | None,
        kind: Kind,
        floor: Bound,
        variance: float | None = None,
        prior: LogNormalPrior | None = None,
        count: float | None = None,
        to_features: np.ndarray | None = None,
        anchor: Anchor | None = None,
    ) -> None:
        super().__init__(rows.X, weights, kind, floor, variance, prior, count, to_features)
        self.rows, self.observed, self.shifts = rows, rows.observed, rows.shifts
        self.anchor = anchor
        self._separate = self.observed.is_separate(kind.diagonal and to_features is None)

    @property
    def complete(self) -> bool:
        return False

    def part(
        self,
        rows: np.ndarray,
        weights: np.ndarray | None,
        share: float,
        prior: LogNormalPrior | None,
    ) -> ObservedLikelihood:
        fixed = self.kind, self.floor, self.variance
        count, own = share * self.count, self.rows.take(rows)
        part = ObservedLikelihood(own, weights, *fixed, prior, count, self.to_features, self.anchor)
        self._lend_background(part, rows)
        return part

    def draw(self, parameters: Parameters, rng: np.random.Generator) -> ObservedLikelihood:
        """Draw rows with the same gaps as these, and with noise like theirs."""
        p = max(round(self.count), 1)
        shares = self.weights / self.weights.sum()
        like = np.arange(len(shares)) if p == len(shares) else rng.choice(len(shares), p, p=shares)
        observed, Z = self.observed.take(like), self._draw(parameters, p, rng)
        U = Z if self.to_features is None else Z @ self.to_features
        U = np.where(observed.seen, U + noise_draws(observed, rng), np.nan)
        out = self._draw_outliers(parameters, rng)
        if len(out):
            like = like.copy()
            like[: len(out)] = out  # outliers stay as they were observed
            U[: len(out)], Z[: len(out)] = self.observed.X[out], self.X[out]
        again = ObservedRows(U, self.observed.take(like).noise)
        fixed = self.kind, self.floor, self.variance, self.prior, self.count
        rows = CompletedRows(again, Z, self.shifts[like])
        drawn = ObservedLikelihood(rows, None, *fixed, self.to_features, self.anchor)
        self._lend_background(drawn, like)
        return drawn

    def _sizes(self, logs: np.ndarray) -> np.ndarray:
        return np.asarray(self.observed.seen @ logs)

    def log_joint(self, parameters: Parameters) -> np.ndarray:
        logs = _logs(parameters.weights)
        result = np.empty((len(self.X), len(logs)))

        def block(rows: np.ndarray, here: Evaluated) -> None:
            result[rows] = here.log_densities.T + logs + self.shifts[rows, None]

        self.observed.each(self._gaussians(parameters), block)
        return result

    def sums(self, parameters: Parameters, groups: int = 1) -> Sums:
        logs = _logs(parameters.weights)[:, None]

        def block(rows: np.ndarray, here: Evaluated) -> Sums:
            L = here.log_densities + logs + self.shifts[rows]
            weights, rest = self.weights[rows], self._background(parameters, rows, groups)
            R, log_density = softmax(L.reshape(groups, -1, len(rows)), axis=1, background=rest)
            R *= weights
            R = R.reshape(L.shape)
            return Sums(log_density @ weights, R.sum(axis=1), *here.expected(R))

        sums = add_up(self.observed.each(self._gaussians(parameters), block))
        return self._of_rows(sums, parameters.means)

    def each(
        self,
        parameters: Parameters,
        function: Callable[[slice | np.ndarray, Expectations], T],
        most: int | None = None,
    ) -> list[T]:
        gaussians, back = self._gaussians(parameters), self._to_fit_matrix
        logs = _logs(parameters.weights)[:, None]

        def block(rows: np.ndarray, here: Evaluated) -> T:
            L = here.log_densities + logs + self.shifts[rows]
            R, _ = softmax(L[None], axis=1, background=self._background(parameters, rows))
            deviations = self._to_fit(here.means() - gaussians.means[:, None, :])
            covariances = here.covariances()
            if back is not None:
                covariances = back.T @ covariances @ back
            return function(rows, Expectations(R[0], deviations, covariances))

        return self.observed.each(gaussians, block)

    def from_responsibilities(self, R: np.ndarray) -> Parameters:
        mean, covariance = self._one
        m = R.shape[1]
        gaussians = Gaussians(np.repeat(mean, m, axis=0), np.repeat(covariance, m, axis=0))

        def block(rows: np.ndarray, here: Evaluated) -> Sums:
            weighted = (R[rows] * self.weights[rows, None]).T
            return Sums(np.zeros(1), weighted.sum(axis=1), *here.expected(weighted))

        sums = add_up(self.observed.each(gaussians, block))
        return self.maximise(self._of_rows(sums, self._to_fit(gaussians.means)))

    def single(self) -> Parameters:
        one = self.from_responsibilities(np.ones((len(self.X), 1)))
        return self.fit(one, tol=0.0, max_iter=SINGLE_STEPS).parameters

    @cached_property
    def _one(self) -> Gaussians:
        """One Gaussian for all rows, in the units of the features."""
        if self.rows.one is not None:
            return self.rows.one
        return one_gaussian(self.observed, self.weights, self.count, self._separate)

    @cached_property
    def _to_fit_matrix(self) -> np.ndarray | None:
        return None if self.to_features is None else np.linalg.inv(self.to_features)

    def _to_fit(self, U: np.ndarray) -> np.ndarray:
        """Vectors (m, n) in the coordinates of the fit."""
        return U if self._to_fit_matrix is None else U @ self._to_fit_matrix

    def _gaussians(self, parameters: Parameters) -> Gaussians:
        """The components in the units of the features."""
        means, n = parameters.means, self.observed.n
        covariance = self.kind.of(parameters.covariances, n)
        if self._separate:
            return Gaussians(means, np.asarray(to_numpy(covariance.variances())))
        matrices = np.broadcast_to(to_numpy(covariance.matrices()), (len(means), n, n))
        A = self.to_features
        return Gaussians(means, matrices) if A is None else Gaussians(means @ A, A.T @ matrices @ A)

    def _of_rows(self, sums: Sums, means: np.ndarray) -> Sums:
        """Sums over rows in the coordinates of the fit, from sums of deviations from the means.

        The deviations are in the units of the features, and ``means`` in those of the fit.
        """
        values, shares, firsts, seconds = sums
        firsts, back = self._to_fit(firsts), self._to_fit_matrix
        if back is not None:
            seconds = back.T @ seconds @ back
        if seconds.ndim == 2:
            seconds = seconds + 2 * means * firsts + shares[:, None] * means**2
        else:
            cross = means[:, :, None] * (firsts + shares[:, None] * means / 2)[:, None, :]
            seconds = seconds + cross + cross.swapaxes(1, 2)
        firsts = firsts + shares[:, None] * means
        return Sums(values, shares, firsts, self.kind.features_of_seconds(seconds))


def _logs(weights: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(weights, 1e-300))
