"""A prior on the covariances of a mixture: they may differ, but seldom by orders of magnitude.

The logarithms of the covariances are normal about a common matrix L, which is estimated too:

    penalty = ν/4 Σ_k ‖log Σ_k - L‖²,   smallest for L = (1/m) Σ_k log Σ_k.

exp L is the geometric mean of the covariances. Near it, the penalty is that of ν rows with the
covariance exp L in each component (ν/2 times twice the Kullback–Leibler divergence). So ν is a
number of rows, and the prior hardly matters beside many more. It has no scale of its own: only
ratios of covariances count.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from momentmix.covariance.eigen import eigen

#: Beyond so many times the rows, covariances are equal to eight digits, and arithmetic loses them.
MOST_STRENGTH = 1e8


def _group_means(values: np.ndarray, groups: int) -> np.ndarray:
    """The mean over the components of each mixture, repeated for each component."""
    by_group = values.reshape(groups, -1, *values.shape[1:])
    return np.repeat(by_group.mean(axis=1), by_group.shape[1], axis=0)


@dataclass(frozen=True)
class LogNormalPrior:
    """log Σ_k is normal about L with the weight of ``strength`` rows; ``centre`` fixes L if given.

    ``pull`` does the arithmetic for variances or matrices; each variance occurs ``times`` times in
    Σ. The prior has no effect on a single covariance or on one that all components share.
    """

    pull: type[Pull]
    strength: float
    times: int = 1
    centre: np.ndarray | None = None

    def at(self, covariances: np.ndarray, groups: int = 1) -> Pull:
        """Evaluate the prior at the covariances of some mixtures, stored one after the other."""
        return self.pull(self, covariances, groups)

    def centres(self, logs: np.ndarray, groups: int) -> np.ndarray:
        """L of each of some mixtures, in a shape that broadcasts to the logarithms (S m, …)."""
        return _group_means(logs, groups) if self.centre is None else self.centre

    def drift(self, moved: np.ndarray, rows: np.ndarray, groups: int) -> np.ndarray | float:
        """How far L moves if it follows the logarithms of the covariances, and they follow L.

        ``moved`` (S m, …) is how far they move with L fixed, and ``rows`` the total weight of each.
        If L moves by s, each moves by another ν s / rows, and s must be the mean of these sums.
        """
        if self.centre is not None:
            return 0.0
        share = _group_means(self.strength / rows, groups)
        s = _group_means(moved, groups) / (1 - share)
        size = np.sqrt(np.sum((s * s).reshape(len(s), -1), axis=1)) if s.ndim > 2 else np.abs(s)
        size = size.reshape(size.shape + (1,) * (s.ndim - size.ndim))
        # Longer steps could make covariances negative.
        return np.asarray(s / np.maximum(size, 1.0))

    def pool(self, counts: np.ndarray, scatter: np.ndarray) -> np.ndarray:
        """Initial covariances, as if the prior's rows had the pooled covariance of all rows."""
        rows = counts.reshape(-1, *[1] * (scatter.ndim - 1))
        common = np.tensordot(counts / counts.sum(), scatter, axes=1)
        return np.asarray((rows * scatter + self.strength * common) / (rows + self.strength))

    def beside(self, rows: float) -> LogNormalPrior:
        """The same, with at most ``MOST_STRENGTH`` times the strength of the rows it is beside."""
        return replace(self, strength=min(self.strength, MOST_STRENGTH * rows))

    def about(self, centre: np.ndarray) -> LogNormalPrior:
        """The same prior with L fixed at ``centre``."""
        return replace(self, centre=centre)


class Pull(ABC):
    """The prior evaluated at covariances Σ_k: penalties, gradients and a step of the M-step."""

    centre: np.ndarray  # L
    penalties: np.ndarray  # (m,), of each component

    @abstractmethod
    def __init__(self, prior: LogNormalPrior, covariances: np.ndarray, groups: int) -> None: ...

    @abstractmethod
    def gradients(self) -> np.ndarray:
        """The gradients of the sum of the penalties; the terms from moving L cancel."""

    @abstractmethod
    def step(self, counts: np.ndarray, scatter: np.ndarray) -> np.ndarray:
        """Covariances that increase -½ Σ_k n_k (log|Σ_k| + tr C_k Σ_k⁻¹) - penalty.

        The penalty is replaced by that of ν' rows of covariance Ψ_k with the same gradient at Σ_k,
        Ψ_k = Σ_k - (ν/ν') Σ_k (∂log_Σk [log Σ_k - L]) Σ_k, which makes the maximum explicit:
        (n_k C_k + ν' Ψ_k) / (n_k + ν'). With ν' = ν (1 + the largest positive diagonal entry of
        log Σ_k - L in the eigenvectors of Σ_k), the curvature is right and Ψ_k positive if the
        matrices commute. The movement of L is added, because otherwise a strong prior would hold
        the covariances in place. The line from Σ_k to the result always starts uphill, but a long
        step may overshoot.
        """


class PullOfVariances(Pull):
    """The prior for variances, entry by entry. A spherical one counts for each of n features."""

    def __init__(self, prior: LogNormalPrior, variances: np.ndarray, groups: int) -> None:
        self.prior, self.groups = prior, groups
        self.strength, self.variances = prior.strength, variances
        logs = np.log(variances)
        self.centre = prior.centres(logs, groups)
        self.away = logs - self.centre
        squares = (self.away**2).reshape(len(logs), -1).sum(axis=1)
        self.penalties = prior.strength / 4 * prior.times * squares

    def gradients(self) -> np.ndarray:
        return np.asarray(self.strength / 2 * self.prior.times * self.away / self.variances)

    def step(self, counts: np.ndarray, scatter: np.ndarray) -> np.ndarray:
        counts = counts.reshape(-1, *[1] * (scatter.ndim - 1))
        rows = self.strength * (1 + np.maximum(self.away, 0))
        pulled = (rows - self.strength * self.away) * self.variances
        rows = counts + rows
        result = (counts * scatter + pulled) / rows
        drift = self.prior.drift(result / self.variances - 1, rows, self.groups)
        return np.asarray(result + self.strength / rows * drift * self.variances)


class PullOfMatrices(Pull):
    """The prior for matrices, with one eigendecomposition for each component."""

    def __init__(self, prior: LogNormalPrior, matrices: np.ndarray, groups: int) -> None:
        self.prior, self.groups = prior, groups
        self.strength, self.matrices = prior.strength, matrices
        values, self.vectors = eigen(matrices)
        self.values = np.maximum(values, 1e-300)
        self.logs = np.log(self.values)
        turned = self.vectors.swapaxes(1, 2)
        logarithms = (self.vectors * self.logs[:, None, :]) @ turned
        self.centre = prior.centres(logarithms, groups)
        away = logarithms - self.centre
        self.penalties = prior.strength / 4 * np.sum(away * away, axis=(1, 2))
        self.away = turned @ away @ self.vectors

    def _slopes(self) -> np.ndarray:
        """∂log_Σ B has the entries (log d_i - log d_j) / (d_i - d_j) B_ij in the eigenvectors."""
        values, logs = self.values, self.logs
        gaps = values[:, :, None] - values[:, None, :]
        near = np.abs(gaps) <= 1e-8 * values[:, :, None]
        slopes = (logs[:, :, None] - logs[:, None, :]) / np.where(near, 1.0, gaps)
        return np.where(near, 1 / values[:, :, None], slopes)

    def gradients(self) -> np.ndarray:
        inside = self._slopes() * self.away
        return np.asarray(self.strength / 2 * self.vectors @ inside @ self.vectors.swapaxes(1, 2))

    def step(self, counts: np.ndarray, scatter: np.ndarray) -> np.ndarray:
        nu, values = self.strength, self.values
        pulled = values[:, :, None] * values[:, None, :] * self._slopes() * self.away
        pulled = self.vectors @ pulled @ self.vectors.swapaxes(1, 2)
        furthest = np.max(np.diagonal(self.away, axis1=1, axis2=2), axis=1)
        rows = (nu * (1 + np.maximum(furthest, 0)))[:, None, None]
        counts = counts[:, None, None]
        result = (counts * scatter + rows * self.matrices - nu * pulled) / (counts + rows)
        if self.prior.centre is None:
            rows = counts + rows
            turned = self.vectors.swapaxes(1, 2)
            root = (self.vectors * np.sqrt(values)[:, None, :]) @ turned
            whitener = (self.vectors / np.sqrt(values)[:, None, :]) @ turned
            moved = whitener @ (result - self.matrices) @ whitener
            drift = self.prior.drift(moved, rows, self.groups)
            result = result + nu / rows * (root @ drift @ root)
        return np.asarray((result + result.swapaxes(1, 2)) / 2)
