"""The log density of a mixture at rows, as two matrix products; its responsibilities.

The log density of a Gaussian is linear in x and in quadratic features of x, which depend on the
covariance type. So an E-step is two matrix products and a softmax, and an M-step two products more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from momentmix.covariance import Kind
from momentmix.data.parameters import Parameters

#: The terms of a log density cancel near the mean. Above this size they cost more than eight of the
#: sixteen digits of float64, and the density is computed from distances instead.
SHARP = 1e8


class Sums(NamedTuple):
    """What an EM step needs of the rows: sums over them, with weights w and responsibilities R."""

    log_likelihoods: np.ndarray  # of each of S mixtures; (S,)
    shares: np.ndarray  # Σ w R; (S m,)
    firsts: np.ndarray  # Σ w R xᵀ; (S m, n)
    seconds: np.ndarray  # Σ w R (features of x)ᵀ; (S m, width)


class Peaks(NamedTuple):
    """Components so narrow that their densities are computed from distances to their means."""

    kind: Kind
    numbers: np.ndarray  # (J,)
    parameters: Parameters  # of these components alone

    @classmethod
    def of(cls, kind: Kind, parameters: Parameters, numbers: np.ndarray) -> Peaks:
        weights, means, covariances = parameters
        own = Parameters(
            weights[numbers], means[numbers], kind.take_components(covariances, numbers)
        )
        return cls(kind, numbers, own)

    def log_joint(self, X: np.ndarray) -> np.ndarray:
        """(J, p)"""
        weights, means, covariances = self.parameters
        squares, half_logs = self.kind.whitened_squares(covariances, X - means[:, None, :])
        constant = np.log(np.maximum(weights, 1e-300)) - half_logs
        return (constant - X.shape[1] * np.log(2 * np.pi) / 2)[:, None] - squares / 2

    def one_by_one(self) -> Iterator[tuple[int, float, np.ndarray, np.ndarray]]:
        """Number, constant, mean μ and factor U of each: constant - ‖(x - μ)U‖² / 2 is its part.

        For diagonal types U is entrywise, a number or (n,).
        """
        weights, means, covariances = self.parameters
        own = self.kind.of(covariances, means.shape[1])
        factors = self.kind.precision_cholesky(covariances)[1]
        constants = np.log(np.maximum(weights, 1e-300)) - own.half_log_determinants()
        constants = constants - means.shape[1] * np.log(2 * np.pi) / 2
        for i, j in enumerate(self.numbers):
            factor = factors if self.kind.common else factors[i]
            yield int(j), float(constants[i]), means[i], np.asarray(factor)


class Density(NamedTuple):
    """log λ_j N(x; μ_j, Σ_j) = constant_j + linear_jᵀx + quadratic_jᵀ(features of x)."""

    constant: np.ndarray  # (S m,)
    linear: np.ndarray  # (S m, n)
    quadratic: np.ndarray  # (S m, width)
    groups: int = 1  # S
    peaks: Peaks | None = None  # components whose three terms cancel too far

    @classmethod
    def of(cls, kind: Kind, parameters: Parameters, groups: int = 1) -> Density:
        weights, means, covariances = parameters
        constant, linear, quadratic = kind.log_density_coefficients(means, covariances)
        constant = constant + np.log(np.maximum(weights, 1e-300))
        # Near its mean a component is the difference of terms of this size.
        sizes = np.max(-quadratic, axis=1) * (1 + np.einsum("ij,ij->i", means, means))
        sharp = np.flatnonzero(np.broadcast_to(sizes, len(means)) > SHARP)
        peaks = Peaks.of(kind, parameters, sharp) if len(sharp) else None
        return cls(constant, linear, quadratic, groups, peaks)

    def log_joint(self, X: np.ndarray, squares: np.ndarray) -> np.ndarray:
        """(S m, p), with samples contiguous in memory, because the next steps run over samples."""
        L = self.linear @ X.T
        L += self.quadratic @ squares.T
        L += self.constant[:, None]
        if self.peaks is not None:
            L[self.peaks.numbers] = self.peaks.log_joint(X)
        return L

    def step_sums(
        self,
        X: np.ndarray,
        squares: np.ndarray,
        weights: np.ndarray,
        background: np.ndarray | None = None,
    ) -> Sums:
        """The sums of EM steps over some rows; ``background`` (S, 1, p) is that of ``softmax``."""
        L = self.log_joint(X, squares).reshape(self.groups, -1, len(X))
        R, log_density = softmax(L, axis=1, background=background)
        R *= weights
        R = R.reshape(-1, len(X))
        return Sums(log_density @ weights, R.sum(axis=1), R @ X, R @ squares)


def softmax(
    L: np.ndarray, axis: int = 1, background: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """exp(L) with sum 1 along the axis, and the logarithms of the sums; L is overwritten.

    A ``background``, of length 1 along the axis, is one more term of the sums. The result lacks its
    share.
    """
    highest = L.max(axis=axis, keepdims=True)
    if background is not None:
        highest = np.maximum(highest, background)
    L -= highest
    np.exp(L, out=L)
    total = L.sum(axis=axis, keepdims=True)
    if background is not None:
        total += np.exp(background - highest)
    L /= total
    return L, np.squeeze(highest + np.log(total), axis=axis)
