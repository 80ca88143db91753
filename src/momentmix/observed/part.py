"""Rows that were observed in the same way, and the base classes that evaluate Gaussians at them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np

#: About how many bytes the arrays of a block take, and the most rows in a block. Smaller blocks
#: need more Python calls, for which threads wait for each other; larger ones do not fit the cache.
#: Chosen when the number of calls was reduced, without a recorded benchmark; only speed depends on
#: them.
BLOCK_BYTES, BLOCK_ROWS = 8 << 20, 8192


class Gaussians(NamedTuple):
    """m Gaussians in n features."""

    means: np.ndarray  # (m, n)
    covariances: np.ndarray  # (m, n, n), or variances (m, n) where features are independent


class Evaluated(ABC):
    """A block of B rows under each of m Gaussians.

    ``log_densities`` (m, B) are those of the observed values.
    """

    log_densities: np.ndarray

    @abstractmethod
    def expected(self, R: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Σ_i r_ij E[v - μ_j] and Σ_i r_ij E[(v - μ_j)(v - μ_j)ᵀ], given x_i, for R (m, B).

        (m, n), and (m, n, n) or, if features are independent, only the squares, (m, n).
        """

    @abstractmethod
    def means(self) -> np.ndarray:
        """E[v | x]; (m, B, n)."""

    @abstractmethod
    def covariances(self) -> np.ndarray:
        """Cov[v | x]; (m, B, n, n)."""


class RowPulls(Evaluated):
    """Rows represented by their pull on each mean, y = RᵀT⁻¹(x - Rμ), (m, n, B).

    E[v] = μ + Σy,   Σ_i r_i E[(v-μ)(v-μ)ᵀ] = sΣ + Σ(Σ_i r_i (y yᵀ - RᵀT⁻¹R))Σ,   s = Σ_i r_i.

    Rows are summed before the products with Σ, so no covariance of a single row is formed.
    """

    gaussians: Gaussians
    y: np.ndarray

    @abstractmethod
    def total_precision(self, R: np.ndarray) -> np.ndarray:
        """Σ_i r_i RᵀT⁻¹R; (m, n, n)."""

    @abstractmethod
    def precisions(self) -> np.ndarray:
        """RᵀT⁻¹R of each row; (m, B, n, n)."""

    @abstractmethod
    def noises(self) -> np.ndarray:
        """N of each row, or a single one for all; (1 or B, n, n)."""

    def expected(self, R: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        covariances = self.gaussians.covariances
        weighted = self.y * R[:, None, :]
        G = weighted @ self.y.swapaxes(1, 2) - self.total_precision(R)
        firsts = (covariances @ weighted.sum(axis=2)[:, :, None])[:, :, 0]
        shares = R.sum(axis=1)[:, None, None]
        return firsts, shares * covariances + covariances @ G @ covariances

    def means(self) -> np.ndarray:
        means, covariances = self.gaussians
        return np.asarray(means[:, None, :] + (covariances @ self.y).swapaxes(1, 2))

    def covariances(self) -> np.ndarray:
        covariances = self.gaussians.covariances[:, None]
        gain = covariances @ self.precisions()
        away = np.eye(gain.shape[-1]) - gain
        # A sum of two squares, which stays accurate and semidefinite if the noise is small.
        kept = away @ covariances @ away.swapaxes(2, 3)
        return np.asarray(kept + gain @ self.noises() @ gain.swapaxes(2, 3))


class Part(ABC):
    """Rows that were observed in the same way; ``rows`` (p,) are their positions in the table."""

    rows: np.ndarray
    #: Whether the NumPy calls are long enough for several threads to pay.
    threads: ClassVar[bool] = True

    @abstractmethod
    def blocks(self, m: int) -> list[slice]:
        """Slices of ``rows``, the blocks at which m Gaussians are evaluated."""

    @abstractmethod
    def at(self, gaussians: Gaussians) -> Callable[[slice], Evaluated]:
        """A function that evaluates the Gaussians at a block."""


def even_blocks(count: int, bytes_a_row: int, least: int = 16) -> list[slice]:
    """Even slices of ``count`` rows, whose arrays take about ``BLOCK_BYTES``."""
    step = min(max(least, BLOCK_BYTES // max(bytes_a_row, 1)), BLOCK_ROWS)
    pieces = -(-count // step)
    ends = [count * i // pieces for i in range(pieces + 1)] if count else [0]
    return [slice(a, b) for a, b in pairwise(ends)]
