"""One covariance for all components: a matrix, variances, or one variance.

``Common`` says what follows from there being one: each of these types is a type that has one
covariance for each component, ``own``, with a single entry in place of an axis of components.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from momentmix.covariance.base import Covariance, Kind
from momentmix.covariance.matrices import Full
from momentmix.covariance.variances import Diagonal, Spherical


class Common(Covariance):
    """One Σ for all atoms. It does not change if a component is removed, and has no prior."""

    common = together = True
    #: The type with such a covariance for each component.
    own: ClassVar[Kind]

    @property
    def shared(self) -> bool:
        return True

    @classmethod
    def shape(cls, m: int, n: int) -> tuple[int, ...]:
        return cls.own.shape(1, n)[1:]

    @classmethod
    def free_parameters(cls, m: int, n: int) -> int:
        return cls.own.free_parameters(1, n)

    @classmethod
    def estimate(cls, shares: np.ndarray, means: np.ndarray, seconds: np.ndarray) -> np.ndarray:
        """Σ_j shares_j Σ_j / Σ_j shares_j, where Σ_j is what the component would have alone."""
        each = cls.own.estimate(shares, means, seconds)
        return np.asarray(np.tensordot(shares / shares.sum(), each, axes=1))

    @staticmethod
    def optimism(counts: np.ndarray, n: int) -> np.ndarray:
        """The optimism of the means alone, because the covariance rests on all samples."""
        return np.full(len(counts), float(n))

    @staticmethod
    def too_few(counts: np.ndarray, n: int) -> np.ndarray:
        """Whether the standard error of a mean, 1/√N, is over half the component's own width."""
        return np.asarray(counts < 4)

    @classmethod
    def total_optimism(cls, counts: np.ndarray, n: int) -> float:
        together = cls.own.optimism(counts.sum(keepdims=True), n)
        return float(together[0] + (len(counts) - 1) * n)

    @staticmethod
    def prior_of_rows(n: int, rows: float) -> None:
        return None  # there is only one covariance

    @classmethod
    def repeat(cls, m: int, matrix: np.ndarray) -> np.ndarray:
        return np.asarray(cls.own.repeat(1, matrix)[0])

    @classmethod
    def take_components(cls, array: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return array

    @classmethod
    def replace_components(cls, array: np.ndarray, rows: list[int], new: np.ndarray) -> np.ndarray:
        return array

    @classmethod
    def pool_coupling(cls, coupling: np.ndarray, n: int) -> np.ndarray:
        return cls.own.pool_coupling(np.array([[coupling.sum()]]), n)

    @classmethod
    def gradient_of_matrices(cls, weights: np.ndarray, G: np.ndarray) -> np.ndarray:
        pooled = np.tensordot(weights, G, axes=1)[None]
        return np.asarray(cls.own.gradient_of_matrices(np.ones(1), pooled)[:, 0])


class Tied(Common, Full):
    """Any symmetric Σ; array (n, n)."""

    name = "tied"
    own = Full


class TiedDiagonal(Common, Diagonal):
    """Σ = diag(s); array (n,)."""

    name = "tied-diag"
    own = Diagonal


class TiedSpherical(Common, Spherical):
    """Σ = s I; array ()."""

    name = "tied-spherical"
    own = Spherical
