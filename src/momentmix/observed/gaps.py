"""Rows with gaps that share one noise, or have none.

The observed values of a row have the covariance T = V_OO, where V = Σ + N and O are the observed
features. Factors are needed for each pattern of gaps, not for each row. If few features are
observed, V_OO is factored. If few features M are missing, Λ_MM is factored instead, where Λ = V⁻¹
is the precision. With d the deviations from the mean, and 0 in the gaps,

    d_M = -Λ_MM⁻¹ (Λd)_M,   Cov[x_M] = Λ_MM⁻¹,   log det T = log det V + log det Λ_MM

fill the gaps with their expectations. This makes dᵀΛd as small as it can be, which is the quadratic
form of the observed values. A linear map common to all rows then leads from x to v = x - ε.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from momentmix.observed.part import Evaluated, Gaussians, Part, RowPulls, even_blocks
from momentmix.observed.patterns import Patterns

#: log(2π)/2, which the log density of a Gaussian contains once for each observed value.
HALF_LOG = float(np.log(2 * np.pi)) / 2


class GapPart(Part):
    """Rows X (p, n) with NaN that all lack at most k features or, with ``shown``, show at most k.

    ``noise`` (n, n) is common to the rows, or None. Rows that lack (or show) fewer than k features
    are padded with some of k artificial ones, so that all patterns have the same size. Arrays have
    the rows last, sorted by pattern.
    """

    threads = False

    def __init__(
        self, rows: np.ndarray, X: np.ndarray, k: int, shown: bool, noise: np.ndarray | None
    ) -> None:
        p, self.n = X.shape
        self.k, self.shown, self.noise = k, shown, noise
        gaps = np.isnan(X)
        chosen = ~gaps if shown else gaps
        further = np.arange(k) < (k - chosen.sum(axis=1))[:, None]
        chosen = np.hstack([chosen, further])
        order = np.lexsort(chosen.T) if k else np.arange(p)
        self.rows = rows[order]
        self.X = np.ascontiguousarray(np.where(gaps, 0.0, X)[order].T)
        self.chosen = np.ascontiguousarray(np.nonzero(chosen[order])[1].reshape(p, k).T)
        self.sizes = (self.n - gaps.sum(axis=1)[order]) * HALF_LOG
        self._patterns: dict[tuple[int, int], Patterns] = {}

    def blocks(self, m: int) -> list[slice]:
        return even_blocks(len(self.rows), 8 * m * (4 * self.n + 2 * self.k**2))

    def patterns(self, rows: slice) -> Patterns:
        """The patterns of a block, which are computed once and kept."""
        key = rows.start, rows.stop
        if key not in self._patterns:
            self._patterns[key] = Patterns(self.chosen[:, rows], self.n + self.k)
        return self._patterns[key]

    def at(self, gaussians: Gaussians) -> Callable[[slice], Evaluated]:
        if self.shown:
            noise = 0.0 if self.noise is None else self.noise
            return partial(
                FewSeen, self, gaussians, _further(gaussians.covariances + noise, self.k)
            )
        return partial(Filled, self, Whole(gaussians, self.noise, self.k))


def _further(A: np.ndarray, k: int) -> np.ndarray:
    """Matrices (m, n, n) extended by k independent features of variance 1."""
    m, n, _ = A.shape
    result = np.zeros((m, n + k, n + k))
    result[:, :n, :n] = A
    result[:, np.arange(n, n + k), np.arange(n, n + k)] = 1.0
    return result


class Whole:
    """Gaussians including the noise: their precisions, and the map from x to v."""

    def __init__(self, gaussians: Gaussians, noise: np.ndarray | None, k: int) -> None:
        self.means, covariances = gaussians
        L = np.linalg.cholesky(covariances if noise is None else covariances + noise)
        self.whitener = np.linalg.inv(L)  # Λ = WᵀW
        self.precision = self.whitener.swapaxes(1, 2) @ self.whitener
        self.extended = _further(self.precision, k)
        self.half_logs = np.log(np.diagonal(L, axis1=1, axis2=2)).sum(axis=1)
        self.gain: np.ndarray | None = None  # K in E[v - μ] = K (x - μ)
        self.rest: np.ndarray | None = None  # Cov[v | x] if all of x was observed
        if noise is not None:
            self.gain = covariances @ self.precision
            away = np.eye(covariances.shape[1]) - self.gain
            self.rest = away @ covariances @ away.swapaxes(1, 2)
            self.rest = self.rest + self.gain @ noise @ self.gain.swapaxes(1, 2)


class Filled(Evaluated):
    """Deviations from each mean, (m, n, B), with the gaps filled in."""

    def __init__(self, part: GapPart, whole: Whole, rows: slice) -> None:
        self.whole, X = whole, part.X[:, rows]
        m, (n, B) = len(whole.means), X.shape
        extended = np.empty((m, n + part.k, B))
        self.D = extended[:, :n]
        np.subtract(X, whole.means[:, :, None], out=self.D)
        half_logs: np.ndarray = whole.half_logs[:, None]
        self.patterns: Patterns | None = None
        if part.k:
            self.patterns = part.patterns(rows)
            self.within, gap_logs = self.patterns.inverses(whole.extended)  # Cov[x_M]
            half_logs = half_logs + self.patterns.by_row(gap_logs)
            self.patterns.put(extended, 0.0)
            pulls = np.zeros_like(extended)  # Λd, and 0 for the artificial features
            np.matmul(whole.precision, self.D, out=pulls[:, :n])
            fill = self.patterns.times(self.within, self.patterns.get(pulls))
            self.patterns.put(extended, -fill)
        Y = whole.whitener @ self.D
        squares = np.einsum("jib,jib->jb", Y, Y)
        self.log_densities = -half_logs - squares / 2 - part.sizes[rows]

    def expected(self, R: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        weighted, n = self.D * R[:, None, :], self.D.shape[1]
        firsts = weighted.sum(axis=2)
        seconds = weighted @ self.D.swapaxes(1, 2)
        if self.patterns is not None:
            seconds += self.patterns.total(self.within, R)[:, :n, :n]
        gain, rest = self.whole.gain, self.whole.rest
        if gain is None or rest is None:
            return firsts, seconds
        seconds = gain @ seconds @ gain.swapaxes(1, 2)
        seconds += R.sum(axis=1)[:, None, None] * rest
        return (gain @ firsts[:, :, None])[:, :, 0], seconds

    def means(self) -> np.ndarray:
        gain = self.whole.gain
        away = self.D if gain is None else gain @ self.D
        return np.asarray((self.whole.means[:, :, None] + away).swapaxes(1, 2))

    def covariances(self) -> np.ndarray:
        m, n, B = self.D.shape
        result = np.zeros((m, B, n, n))
        if self.patterns is not None:
            result = self.patterns.spread(self.within)[:, :, :n, :n]
        gain, rest = self.whole.gain, self.whole.rest
        if gain is None or rest is None:
            return result
        return np.asarray(gain[:, None] @ result @ gain.swapaxes(1, 2)[:, None] + rest[:, None])


class FewSeen(RowPulls):
    """Rows with few observed features, by the factor of V_OO."""

    def __init__(self, part: GapPart, gaussians: Gaussians, V: np.ndarray, rows: slice) -> None:
        self.gaussians, self.noise, X = gaussians, part.noise, part.X[:, rows]
        m, (n, B) = len(gaussians.means), X.shape
        self.patterns = part.patterns(rows)
        D = np.zeros((m, n + part.k, B))
        np.subtract(X, gaussians.means[:, :, None], out=D[:, :n])
        d = self.patterns.get(D)
        self.within, half_logs = self.patterns.inverses(V)
        y = self.patterns.times(self.within, d)
        squares = np.einsum("kjb,kjb->jb", y, d)
        D[:] = 0.0
        self.patterns.put(D, y)
        self.y = D[:, :n]
        half_logs = self.patterns.by_row(half_logs)
        self.log_densities = -half_logs - squares / 2 - part.sizes[rows]

    def total_precision(self, R: np.ndarray) -> np.ndarray:
        n = self.y.shape[1]
        return self.patterns.total(self.within, R)[:, :n, :n]

    def precisions(self) -> np.ndarray:
        n = self.y.shape[1]
        return self.patterns.spread(self.within)[:, :, :n, :n]

    def noises(self) -> np.ndarray:
        n = self.y.shape[1]
        return np.zeros((1, n, n)) if self.noise is None else self.noise[None]
