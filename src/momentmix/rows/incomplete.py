"""Rows with gaps or known errors: the sums that are to be expected of them, and their moments.

With gaps, each moment averages over the rows that have its values, so together they may contradict
each other: a correlates with b, b with c, and a with the opposite of c, each in rows of its own. No
distribution has such moments, and a mixture fitted to them means nothing. ``check_gaps`` refuses
them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np

from momentmix.blocks.block_rows import BlockRows
from momentmix.blocks.dask_rows import DaskRows
from momentmix.blocks.engines import DaskTable, DaskWeights, is_dask
from momentmix.covariance import Kind
from momentmix.distributions.centred_sums import GapsError, Missing
from momentmix.distributions.moment_tensors import MomentTensors
from momentmix.fit import Parameters
from momentmix.observed import Evaluated, Gaussians, ObservedRows
from momentmix.observed.completed import noise_draws, one_gaussian
from momentmix.rows.frame import Frame
from momentmix.rows.memory import (
    Box,
    Expectations,
    MemoryRows,
    Sums,
    T,
    add_up,
    blunt,
    draw_points,
    softmax,
)
from momentmix.rows.screening import Crowding
from momentmix.support.array import Array, ArrayLike, to_numpy
from momentmix.tensors.dense import packed_indices
from momentmix.tensors.packed import least_eigenvalue, moment_matrix, total_size

#: The largest moment matrix whose eigenvalues are computed; with more monomials, the check uses a
#: lower degree. A round number that was not tuned: it bounds the cost, O(K³).
MOST_MONOMIALS = 1000
#: A negative eigenvalue below this share of the trace counts as rounding. A round number between
#: float64's 1e-16 and eigenvalues that would matter; it was not tuned.
ROUNDING = 1e-9


def tensors_with_gaps(
    X: ArrayLike | DaskTable | BlockRows,
    order: int,
    weights: ArrayLike | DaskWeights | None = None,
    noise_covariance: ArrayLike | None = None,
) -> MomentTensors:
    """The moments of rows, pairwise if there turn out to be gaps.

    Rows in blocks need one pass, and blocks without gaps cost no more than usual.
    """
    if is_dask(X):
        X = DaskRows(X, weights, noise_covariance)
    if isinstance(X, BlockRows):
        return X.total(_of_block, order)
    return _of_block(X, weights, order, noise_covariance)


def _of_block(
    X: ArrayLike,
    weights: ArrayLike | None,
    order: int,
    noise_covariance: ArrayLike | None = None,
) -> MomentTensors:
    def made(missing: Missing) -> MomentTensors:
        noise = noise_covariance if cast(Array, X).shape[0] else None
        return MomentTensors.from_samples(
            X, order, weights, noise_covariance=noise, missing=missing
        )

    try:
        return made("error")
    except GapsError:
        return made("pairwise")


def check_gaps(moments: MomentTensors) -> None:
    """Refuse moments that no distribution has; only rows with gaps can have such moments.

    E[φφᵀ] must be positive semidefinite for the monomials φ up to half the order, in centred and
    scaled coordinates. If these are too many, the check takes a lower degree, at least the first,
    which is the covariance.
    """
    if moments.missing == "error" or np.all(moments.presence >= 1):
        return
    n, degree = moments.n_features, moments.order // 2
    while degree > 1 and total_size(n, degree) > MOST_MONOMIALS:
        degree -= 1
    matrix = moment_matrix(_scale(moments, 2 * degree), n, degree)
    lowest = least_eigenvalue(matrix)
    if lowest >= -ROUNDING * len(matrix):
        return
    at = int(np.argmin(moments.presence))
    name = f"column {at}" if moments.feature_names is None else repr(moments.feature_names[at])
    raise ValueError(
        "these moments are averages over different rows, because of gaps, and no distribution has "
        f"them: the matrix of scaled moments up to order {2 * degree} has the eigenvalue "
        f"{lowest:.3g}, where none may be negative. There are too many gaps, or they are too "
        f"uneven. Leave out the rows with gaps, or {name}, which has a value in "
        f"{100 * moments.presence[at]:.3g} % of the rows; or fit rows in memory with "
        "GaussianMixture, which needs no moments"
    )


def _scale(moments: MomentTensors, order: int) -> np.ndarray:
    """Packed moments up to an order about the mean, with features of variance 1."""
    n, centre = moments.n_features, moments.mean
    packed = moments.about(centre)[: total_size(n, order)]
    if order < 2:
        return packed
    variances = np.diag(moments.covariance)
    factors = 1 / np.sqrt(np.where(variances > 0, variances, 1.0))
    scale = [np.prod(factors[packed_indices(n, k)], axis=1) for k in range(order + 1)]
    return packed * np.concatenate(scale)


class CompletedRows(NamedTuple):
    """Rows as observed, and complete rows that stand in for them where positions are needed."""

    observed: ObservedRows  # in the units of their features
    X: np.ndarray  # (p, n), in the coordinates of a fit: gaps are filled and noise is shrunk
    shifts: np.ndarray  # (p,), from log densities in those units to log densities in a frame
    one: Gaussians | None = None  # one Gaussian fitted to all rows; None before that is done

    def take(self, rows: np.ndarray) -> CompletedRows:
        """Some of the rows, without the single Gaussian, which may differ for them."""
        return CompletedRows(self.observed.take(rows), self.X[rows], self.shifts[rows])


class IncompleteRows(MemoryRows):
    """Rows with gaps or errors, in the units of their features, for mixtures in other coordinates.

    An observed row is u = z A for the coordinates z of the fit and A (n, n) = ``to_features``; if
    that is None, u = z. Sums are those that are to be expected of complete rows without noise,
    given the observed values. So all that works with sums is the same as for other rows. Where the
    rows themselves are needed, ``X`` has rows that one Gaussian has completed.
    """

    complete = False

    def __init__(
        self,
        rows: CompletedRows,
        weights: np.ndarray | None,
        kind: Kind,
        count: float | None = None,
        to_features: np.ndarray | None = None,
        crowding: Crowding | None = None,
    ) -> None:
        super().__init__(rows.X, weights, kind, count, to_features, crowding)
        self.rows, self.observed, self.shifts = rows, rows.observed, rows.shifts
        self._separate = self.observed.is_separate(kind.diagonal and to_features is None)

    def take(
        self, places: np.ndarray, weights: np.ndarray | None = None, share: float = 1.0
    ) -> IncompleteRows:
        rows, count = self.rows.take(places), share * self.count
        return IncompleteRows(rows, weights, self.kind, count, self.to_features)

    def draw(
        self, parameters: Parameters, rng: np.random.Generator, box: Box | None = None
    ) -> IncompleteRows:
        """Draw rows with the same gaps as these, and with noise like theirs."""
        p = max(round(self.count), 1)
        shares = self.weights / self.weights.sum()
        like = np.arange(len(shares)) if p == len(shares) else rng.choice(len(shares), p, p=shares)
        observed, Z = self.observed.take(like), draw_points(self.kind, parameters, p, rng)
        U = Z if self.to_features is None else Z @ self.to_features
        U = np.where(observed.seen, U + noise_draws(observed, rng), np.nan)
        out = self.draw_outliers(parameters, rng, box)
        if len(out):
            like = like.copy()
            like[: len(out)] = out  # outliers stay as they were observed
            U[: len(out)], Z[: len(out)] = self.observed.X[out], self.X[out]
        again = ObservedRows(U, self.observed.take(like).noise)
        rows = CompletedRows(again, Z, self.shifts[like])
        return IncompleteRows(rows, None, self.kind, self.count, self.to_features)

    def log_uniform(self, box: Box) -> np.ndarray:
        return np.asarray(box.log_volume - self.observed.seen @ np.log(box.widths))

    def log_joint(self, parameters: Parameters) -> np.ndarray:
        logs = _logs(parameters.weights)
        result = np.empty((len(self.X), len(logs)))

        def block(rows: np.ndarray, here: Evaluated) -> None:
            result[rows] = here.log_densities.T + logs + self.shifts[rows, None]

        self.observed.each(self._gaussians(parameters), block)
        return result

    def sums(
        self,
        parameters: Parameters,
        groups: int = 1,
        box: Box | None = None,
        sharpness: float = 1.0,
    ) -> Sums:
        logs = blunt(sharpness) * _logs(parameters.weights)[:, None]
        background = self.background(parameters, box, groups, sharpness)

        def block(rows: np.ndarray, here: Evaluated) -> Sums:
            L = here.log_densities + logs + self.shifts[rows]
            weights = self.weights[rows]
            beyond = None if background is None else background[..., rows]
            R, log_density = softmax(L.reshape(groups, -1, len(rows)), 1, beyond, sharpness)
            R *= weights
            R = R.reshape(L.shape)
            return Sums(log_density @ weights, R.sum(axis=1), *here.expected(R))

        sums = add_up(self.observed.each(self._gaussians(parameters), block))
        return self._of_rows(sums, parameters.means)

    def weighted_sums(self, R: np.ndarray) -> Sums:
        mean, covariance = self._one
        m = R.shape[1]
        gaussians = Gaussians(np.repeat(mean, m, axis=0), np.repeat(covariance, m, axis=0))

        def block(rows: np.ndarray, here: Evaluated) -> Sums:
            weighted = (R[rows] * self.weights[rows, None]).T
            return Sums(np.zeros(1), weighted.sum(axis=1), *here.expected(weighted))

        sums = add_up(self.observed.each(gaussians, block))
        return self._of_rows(sums, self._to_fit(gaussians.means))

    def each(
        self,
        parameters: Parameters,
        function: Callable[[slice | np.ndarray, Expectations], T],
        most: int | None = None,
        box: Box | None = None,
    ) -> list[T]:
        gaussians, back = self._gaussians(parameters), self._to_fit_matrix
        logs, background = _logs(parameters.weights)[:, None], self.background(parameters, box)

        def block(rows: np.ndarray, here: Evaluated) -> T:
            L = here.log_densities + logs + self.shifts[rows]
            beyond = None if background is None else background[..., rows]
            R, _ = softmax(L[None], axis=1, background=beyond)
            deviations = self._to_fit(here.means() - gaussians.means[:, None, :])
            covariances = here.covariances()
            if back is not None:
                covariances = back.T @ covariances @ back
            return function(rows, Expectations(R[0], deviations, covariances))

        return self.observed.each(gaussians, block)

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
            variances = to_numpy(covariance.variances())
            return Gaussians(means, np.broadcast_to(variances, means.shape))
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


def shifts_of_gaps(rows: ObservedRows, frame: Frame) -> np.ndarray:
    """What to add to log densities in the units of features to get those in a frame; (p,).

    In a frame all features count, so the way back to X is the same for every row.
    """
    logs = np.log(frame.units)
    return np.asarray(~rows.seen @ logs + frame.log_volume - float(np.sum(logs)))
