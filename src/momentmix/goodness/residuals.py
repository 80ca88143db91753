"""What is left of the moments of rows when those of a mixture are taken out, row by row.

With h(x) the Hermite polynomials of a row in the coordinates of the mixture, the residual of a row
is e(x) = h(x) - E h - B s(x). Here s(x) is the score of the parameters, and B s(x) the part of h(x)
that changes of the parameters explain: B = E[h sᵀ] E[s sᵀ]⁻¹, the regression of h on s under the
mixture. To first order the mean of e is then the same whatever estimate of the parameters is used,
as long as it is a good one (Neyman's C(α) tests). At the maximum of the likelihood the mean score
is nought, and the mean of e is the plain difference of the moments.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from momentmix.covariance import Kind
from momentmix.data.frame import Frame
from momentmix.data.observed import CompletedRows, shifts_of_gaps
from momentmix.data.parameters import Parameters
from momentmix.data.sources import data_of, mean_and_covariance
from momentmix.distributions.mixture import Mixture
from momentmix.goodness.features import blocks_of_rows, hermite_features, hermite_moments
from momentmix.likelihood.observed import ObservedLikelihood
from momentmix.likelihood.rows import RowLikelihood
from momentmix.observed import ObservedRows
from momentmix.support.array import to_numpy
from momentmix.tensors.packed import order_slice, total_size

#: Rows that are drawn from the mixture to find B: at least so many, and for each parameter.
DRAWN_ROWS, DRAWN_ROWS_EACH = 10_000, 20
#: The share of the variance of the moments of an order below which the fit itself matches them.
MATCHED = 1e-6
#: Eigenvalues of E[s sᵀ], of the largest, below which parameters cannot be told apart.
_SINGULAR = 1e-10


class Rows(NamedTuple):
    """Rows in the coordinates of a mixture."""

    Z: np.ndarray  # (p, n), gaps filled at random
    observed: ObservedRows | None  # rows with gaps in the units of their features; None if complete
    shifts: np.ndarray  # (p,), from log densities in those units to log densities here; or empty

    def take(self, rows: slice) -> Rows:
        """Some of the rows."""
        if self.observed is None:
            return Rows(self.Z[rows], None, self.shifts)
        part = self.observed.take(np.arange(rows.start, rows.stop))
        return Rows(self.Z[rows], part, self.shifts[rows])

    def likelihood(self, kind: Kind, frame: Frame) -> RowLikelihood:
        """That of what was seen."""
        if self.observed is None:
            return RowLikelihood(self.Z, None, kind, 0.0)
        completed = CompletedRows(self.observed, self.Z, self.shifts)
        return ObservedLikelihood(completed, None, kind, 0.0, to_features=frame.to_features)


class MixtureMoments:
    """The moments of a mixture in coordinates of its own, to which those of rows are compared.

    There it has mean 0, and for full covariances the covariance is the identity, so that nothing
    depends on units, and for those on any linear map either.
    """

    def __init__(self, mixture: Mixture, order: int) -> None:
        own = data_of(mixture)
        self.kind = mixture.atoms.covariance.kind
        self.frame = own.frame(self.kind)
        scaled = own.within(self.frame)
        self.mixture, self.order, self.n = mixture, order, mixture.n_features
        self.parameters = self.frame.forward(Parameters.of(mixture))
        self.covariance = mean_and_covariance(scaled)[1]
        self.expected = hermite_moments(scaled.moments(order), self.covariance, order)
        self.size = total_size(self.n, order)

    def rows(self, X: np.ndarray, rng: np.random.Generator) -> Rows:
        """Rows of X in these coordinates; gaps are filled at random, given the other values."""
        if not np.isnan(X).any():
            return Rows(self.frame.apply(X), None, np.empty(0))
        filled = to_numpy(self.mixture.impute(X, 1, random_state=rng))[0]
        return self._with_gaps(X, filled)

    def drawn(self, count: int, seen: np.ndarray | None, rng: np.random.Generator) -> Rows:
        """Rows drawn from the mixture, with the gaps of rows drawn from ``seen`` (p, n), if any."""
        X = to_numpy(self.mixture.sample(count, rng)[0]).astype(np.float64)
        if seen is None:
            return Rows(self.frame.apply(X), None, np.empty(0))
        shown = seen[rng.integers(len(seen), size=count)]
        return self._with_gaps(np.where(shown, X, np.nan), X)

    def _with_gaps(self, X: np.ndarray, filled: np.ndarray) -> Rows:
        table, frame = ObservedRows(X), self.frame
        observed = table.scaled(frame.centre, frame.units)
        return Rows(frame.apply(filled), observed, shifts_of_gaps(table, frame))

    def features(self, rows: Rows) -> np.ndarray:
        """h(x) - E h for each row; (p, N)."""
        return hermite_features(rows.Z, self.covariance, self.order) - self.expected

    def scores(self, rows: Rows) -> np.ndarray:
        """The score of each row; (p, P)."""
        return scores(rows.likelihood(self.kind, self.frame), self.parameters)


class Explained(NamedTuple):
    """What a fit explains of the moments of rows, by its parameters."""

    slopes: np.ndarray  # B, transposed; (P, N)
    left: np.ndarray  # the share of the variance of each order that is left; (order + 1,)

    @classmethod
    def by_parameters(
        cls, model: MixtureMoments, seen: np.ndarray | None, rng: np.random.Generator
    ) -> Explained:
        """B by regression over rows that are drawn from the mixture, with gaps as in ``seen``.

        Moments that the parameters can follow exactly are then explained exactly.
        """
        size = model.parameters.means.size + len(model.parameters.weights)
        size += model.parameters.covariances.size
        rows = model.drawn(max(DRAWN_ROWS, DRAWN_ROWS_EACH * size), seen, rng)
        gram = cross = squares = np.zeros(())
        for block in blocks_of_rows(len(rows.Z), model.size + size):
            part = rows.take(block)
            h, s = model.features(part), model.scores(part)
            gram, cross = gram + s.T @ s, cross + s.T @ h
            squares = squares + np.sum(h * h, axis=0)
        slopes = np.linalg.pinv(gram, rcond=_SINGULAR, hermitian=True) @ cross
        explained = np.sum(cross * slopes, axis=0)
        left = np.ones(model.order + 1)
        for k in range(1, model.order + 1):
            part_k = order_slice(model.n, k)
            left[k] = 1 - np.sum(explained[part_k]) / np.sum(squares[part_k])
        return cls(slopes, left)

    @classmethod
    def nothing(cls, model: MixtureMoments) -> Explained:
        """Of a mixture that was not fitted to the rows."""
        return cls(np.empty((0, model.size)), np.ones(model.order + 1))

    def residuals(self, model: MixtureMoments, rows: Rows) -> np.ndarray:
        """e(x) for each row; (p, N)."""
        h = model.features(rows)
        return h if len(self.slopes) == 0 else h - model.scores(rows) @ self.slopes

    def is_matched(self, order: int) -> bool:
        """Whether a fit matches the moments of an order whatever the rows."""
        return bool(self.left[order] < MATCHED)


def scores(likelihood: RowLikelihood, parameters: Parameters) -> np.ndarray:
    """Derivatives of the log density of each row in the free parameters; (p, P). (Stand-in.)"""
    from momentmix.matching.parametrisation import Parametrisation

    m, n = parameters.means.shape
    free = Parametrisation(likelihood.kind, m, n, augmentation="free")
    x = free.encode(*parameters)
    S = np.empty((len(likelihood.X), free.size))
    for j in range(free.size):
        up, down = x.copy(), x.copy()
        up[j] += 1e-5
        down[j] -= 1e-5
        above, below = (
            likelihood.responsibilities(Parameters(*free.decode(at)))[1] for at in (up, down)
        )
        S[:, j] = (above - below) / 2e-5
    S[:, :m] -= (S[:, :m] @ parameters.weights)[:, None]
    return S
