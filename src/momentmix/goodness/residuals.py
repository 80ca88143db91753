"""Residuals of rows under a mixture, whose mean is zero if the mixture fits.

With h(x) the Hermite polynomials of a row, standardised by its component, the residual of a row is
e(x) = h(x) - B s(x). Here s(x) is the score of the parameters, and B s(x) the part of h(x) that
changes of the parameters explain: B = E[h sᵀ] E[s sᵀ]⁻¹, the regression of h on s under the
mixture. To first order the mean of e is then the same for every good estimate of the parameters
(Neyman's C(α) tests).

Both h and s are computed after rows far out were pulled in towards their components, so that no
row counts for more than a few hundred others. Otherwise five absurd rows among thousands would
dominate the variance of the mean and hide every other misfit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from momentmix.covariance import Kind
from momentmix.data.frame import Frame
from momentmix.data.observed import CompletedRows, shifts_of_gaps
from momentmix.data.parameters import Parameters
from momentmix.data.sources import data_of
from momentmix.distributions.mixture import Mixture
from momentmix.goodness.features import blocks_of_rows, drawn_in, hermite_features
from momentmix.goodness.given import UntestableError, Work
from momentmix.likelihood.observed import ObservedLikelihood
from momentmix.likelihood.rows import Expectations, RowLikelihood
from momentmix.likelihood.scores import Directions, row_scores
from momentmix.matching.identifiability import parameter_count
from momentmix.observed import ObservedRows
from momentmix.support.array import to_numpy
from momentmix.tensors.packed import order_slice, total_size

#: Rows drawn from the mixture to estimate B: at least the first number, and the second for each
#: parameter. Round numbers; p-values are corrected for the error of B (``Explained.exact``).
DRAWN_ROWS, DRAWN_ROWS_EACH = 10_000, 20
#: Fits with more parameters P are not tested. The regression takes 20 P³ multiplications, which are
#: 5e11 at this round number.
MOST_PARAMETERS = 3000
#: Rows that belong to a component with a smaller probability are skipped there. It is close to the
#: rounding of float64, so results change by no more than rounding.
NEGLIGIBLE = 1e-15
#: How often each gap is filled at random; the fills are averaged. A round number that was not
#: tuned: more fills take longer and add less noise to the test.
FILLS = 10
#: A component whose smallest variance is below this share of its largest cannot be tested. About a
#: hundred times the rounding of float64.
_FLAT = 1e-14
#: Directions of parameters whose eigenvalue of E[s sᵀ] is below this share of the largest explain
#: nothing. It lies well above rounding and was not tuned.
_SINGULAR = 1e-10


class Rows(NamedTuple):
    """Rows in the coordinates of a mixture."""

    Z: np.ndarray  # (fills, p, n), gaps filled at random as many times; once if there are none
    observed: ObservedRows | None  # rows with gaps, in the units of the features; None if complete
    shifts: np.ndarray  # (p,), from log densities in those units to log densities here; or empty

    def take(self, rows: slice) -> Rows:
        """Some of the rows."""
        if self.observed is None:
            return Rows(self.Z[:, rows], None, self.shifts)
        part = self.observed.take(np.arange(rows.start, rows.stop))
        return Rows(self.Z[:, rows], part, self.shifts[rows])

    def likelihood(self, kind: Kind, frame: Frame) -> RowLikelihood:
        """The likelihood of the observed values."""
        if self.observed is None:
            return RowLikelihood(self.Z[0], None, kind, 0.0)
        completed = CompletedRows(self.observed, self.Z[0], self.shifts)
        return ObservedLikelihood(completed, None, kind, 0.0, to_features=frame.to_features)


class Standardised:
    """Rows as a mixture sees them: each from its component, in units of that one's covariance.

    With z_j the row in coordinates in which component j is standard, r_j its probability, and He
    Hermite polynomials, h(x) = Σ_j r_j(x) He(z_j(x)). Under the mixture the mean of h is zero in
    every order, whatever the components, as E[r_j He(z_j)] is λ_j times a mean under component j.
    Rows are first standardised by the covariance of the whole mixture, and roots of matrices are
    symmetric, so results do not depend on units, nor, for full and tied covariances, on linear
    maps.
    """

    def __init__(self, mixture: Mixture, order: int) -> None:
        self.mixture, self.order, self.n = mixture, order, mixture.n_features
        self.kind, self.size = mixture.atoms.covariance.kind, total_size(self.n, order)
        self.frame = data_of(mixture).frame(self.kind)
        self.parameters = self.frame.forward(Parameters.of(mixture))
        covariance = self.kind.of(self.parameters.covariances, self.n)
        m = mixture.n_components
        matrices = np.broadcast_to(to_numpy(covariance.matrices()), (m, self.n, self.n))
        values, vectors = np.linalg.eigh(matrices)
        flat = np.flatnonzero(values[:, 0] <= _FLAT * np.maximum(values[:, -1], 1))
        if len(flat):
            raise UntestableError(
                f"component {flat[0]} has no width in some direction, so that it has no density "
                "to test; fit with a larger reg_covar, or drop columns that depend on others"
            )
        self.whiteners = (vectors / np.sqrt(values)[:, None, :]) @ vectors.swapaxes(1, 2)
        self.directions = Directions(self.kind, self.parameters)
        self.reach, self.stretch, self.expected = drawn_in(self.n, order)

    @property
    def matched(self) -> np.ndarray:
        """Which orders every fit of this type matches, because their h are scores; (order + 1,)."""
        any_width = self.directions.tangent.size == self.n * (self.n + 1) // 2
        return np.arange(self.order + 1) <= (2 if any_width else 1)

    def rows(self, X: np.ndarray, rng: np.random.Generator) -> Rows:
        """Rows of X in these coordinates; gaps are filled at random, given the other values."""
        if not np.isnan(X).any():
            return Rows(self.frame.apply(X)[None], None, np.empty(0))
        filled = to_numpy(self.mixture.impute(X, FILLS, random_state=rng))
        return self._with_gaps(X, filled)

    def draw(self, count: int, seen: np.ndarray | None, rng: np.random.Generator) -> Rows:
        """Rows drawn from the mixture, with the gaps of rows drawn from ``seen`` (p, n), if any.

        Gaps are filled twice, with the drawn values and with independent ones given the rest.
        """
        X = to_numpy(self.mixture.sample(count, rng)[0]).astype(np.float64)
        if seen is None:
            return Rows(self.frame.apply(X)[None], None, np.empty(0))
        shown = seen[rng.integers(len(seen), size=count)]
        gaps = np.where(shown, X, np.nan)
        other = to_numpy(self.mixture.impute(gaps, 1, random_state=rng))
        return self._with_gaps(gaps, np.concatenate([X[None], other]))

    def _with_gaps(self, X: np.ndarray, filled: np.ndarray) -> Rows:
        table, frame = ObservedRows(X), self.frame
        observed = table.scale(frame.centre, frame.units)
        return Rows(frame.apply(filled), observed, shifts_of_gaps(table, frame))

    def features(self, rows: Rows) -> np.ndarray:
        """h(x) for each row, averaged over the ways its gaps are filled; (p, N)."""
        return sum(map(self.features_of, rows.Z), start=np.zeros(())) / len(rows.Z)

    def features_of(self, Z: np.ndarray) -> np.ndarray:
        """h(x) for each of some complete rows; (p, N)."""
        total = np.zeros((len(Z), self.size))
        R = RowLikelihood(Z, None, self.kind, 0.0).responsibilities(self.parameters)[0]
        for r, mean, whitener in zip(R.T, self.parameters.means, self.whiteners, strict=True):
            own = np.flatnonzero(r > NEGLIGIBLE)
            z = (Z[own] - mean) @ whitener
            total[own] += r[own, None] * hermite_features(z * self._factors(z), self.order)
        return total - self.expected

    def scores(self, rows: Rows) -> np.ndarray:
        """The score of the observed values of each row; (p, P)."""
        return row_scores(rows.likelihood(self.kind, self.frame), self.directions, self._near)

    def _near(self, behind: Expectations) -> Expectations:
        """The same expectations, with rows far out pulled in."""
        deviations = [
            D * self._factors(D @ W) for D, W in zip(behind.deviations, self.whiteners, strict=True)
        ]
        return behind._replace(deviations=np.array(deviations))

    def _factors(self, z: np.ndarray) -> np.ndarray:
        """The factors that pull standardised rows (p, n) in; (p, 1)."""
        far = np.sqrt(np.sum(z * z, axis=1, keepdims=True)) / self.reach
        return self.stretch / np.maximum(far, 1.0)


def rows_drawn(parameters: int) -> int:
    """How many rows to draw to learn what this many parameters explain."""
    return max(DRAWN_ROWS, DRAWN_ROWS_EACH * parameters)


def work_of(mixture: Mixture, n: int, rows: int, draws: int, estimated: bool) -> Work:
    """The work of a test of n features, roughly."""
    m, kind = mixture.n_components, mixture.atoms.covariance.kind
    parameters = parameter_count(kind, m, n) if estimated else 0
    drawn = rows_drawn(parameters) if estimated else 0
    a_row = 5.0 * m + parameters
    return Work(rows * (draws + a_row) + drawn * a_row, float(drawn) * parameters**2)


class Explained(NamedTuple):
    """The part of the moments of rows that changes of the fitted parameters explain."""

    slopes: np.ndarray  # B, transposed; (P, N)
    exact: np.ndarray  # share of the variance of e not due to errors of B; (order + 1,)

    @classmethod
    def by_parameters(
        cls, model: Standardised, seen: np.ndarray | None, rng: np.random.Generator
    ) -> Explained:
        """B by regression over rows drawn from the mixture, with gaps as in ``seen``."""
        size = model.directions.size
        if size > MOST_PARAMETERS:
            raise UntestableError(
                f"the mixture has about {size:,} parameters; tests of fits are for up to "
                f"{MOST_PARAMETERS:,}. Some of its features can be tested by themselves: "
                "moment_test(mixture.marginal(features), X[:, features])"
            )
        rows = model.draw(rows_drawn(size), seen, rng)
        grams, crosses = np.zeros((2, size, size)), np.zeros((2, size, model.size))
        squares = np.zeros(model.size)
        for block in blocks_of_rows(rows.Z.shape[1], model.size + size):
            part = rows.take(block)
            fills = [model.features_of(Z) for Z in part.Z]
            h, s = (fills[0] + fills[-1]) / 2, model.scores(part)
            squares += np.sum(h * h, axis=0)
            for half, own in enumerate((slice(len(h) // 2), slice(len(h) // 2, None))):
                grams[half] += s[own].T @ s[own]
                crosses[half] += s[own].T @ h[own]
        gram, cross = grams.sum(axis=0), crosses.sum(axis=0)
        inverse = np.linalg.pinv(gram, rcond=_SINGULAR, hermitian=True)
        slopes = inverse @ cross
        # Each half of the rows gives its own B, and the error of B is half of their difference.
        errors = inverse @ (crosses[0] - crosses[1] - (grams[0] - grams[1]) @ slopes)
        left = squares - np.sum(cross * slopes, axis=0)
        own_error = np.sum(errors * (gram @ errors), axis=0)
        parts = [order_slice(model.n, k) for k in range(model.order + 1)]
        ratios = [own_error[part].sum() / max(left[part].sum(), 1e-300) for part in parts]
        return cls(slopes, 1 / (1 + np.array(ratios)))

    @classmethod
    def nothing(cls, model: Standardised) -> Explained:
        """For a mixture that was not fitted to the rows."""
        return cls(np.empty((0, model.size)), np.ones(model.order + 1))

    def residuals(self, model: Standardised, rows: Rows) -> np.ndarray:
        """e(x) for each row; (p, N)."""
        h = model.features(rows)
        return h if len(self.slopes) == 0 else h - model.scores(rows) @ self.slopes
