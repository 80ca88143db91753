"""Rows that were observed in the same way, and the linear algebra of many small matrices.

``Part`` and its subclasses evaluate Gaussians at such rows. If features are independent in the
Gaussians and the noise, all formulas are entrywise. Otherwise each row of a table may need a
Cholesky factor of its own. Those of a block are stored as T (k, k, …): each entry of the matrix is
an array over the rows, so Python loops over the entries, and NumPy over the rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np

#: How many pivots are multiplied before a logarithm is taken, which saves logarithms, and how large
#: a pivot or its inverse may then be. The product of 8 numbers below 1e30 is at most 1e240, which
#: float64 can hold.
TOGETHER, MODEST = 8, 1e30


def inverse_factors(T: np.ndarray) -> np.ndarray:
    """Replace T = LLᵀ by L⁻¹ in place, and return log det T / 2.

    Only the lower triangle of T (k, k, …) is read. About k³/2 multiplications for each matrix, in
    8k array operations: so few calls that threads hardly wait for each other, and no temporary
    array of products.
    """
    k = len(T)
    for b in range(k):
        T[b, b + 1 :] = 0.0
        if b:
            T[b:, b] -= np.einsum("ae...,e...->a...", T[b:, :b], T[b, :b])
        np.sqrt(T[b, b], out=T[b, b])
        T[b + 1 :, b] /= T[b, b]
    half_log = log_of_product(T[np.arange(k), np.arange(k)])
    for a in range(k):
        np.divide(1.0, T[a, a], out=T[a, a])
        if a:
            total = np.einsum("c...,cb...->b...", T[a, :a], T[:a, :a])
            np.multiply(total, -T[a, a], out=T[a, :a])
    return half_log


def log_of_product(pivots: np.ndarray) -> np.ndarray:
    """Σ_a log pivots_a along the first axis, with few (expensive) logarithms and no overflow."""
    if len(pivots) == 0:
        return np.zeros(pivots.shape[1:])
    modest = pivots.max(initial=0.0) < MODEST and pivots.min(initial=1.0) > 1 / MODEST
    step = TOGETHER if modest else 1
    products = (pivots[a : a + step].prod(axis=0) for a in range(0, len(pivots), step))
    return np.asarray(sum(np.log(product) for product in products))


def inverse(factors: np.ndarray) -> np.ndarray:
    """The lower triangle of T⁻¹ = L⁻ᵀL⁻¹, from L⁻¹; (k, k, …)."""
    result = np.empty_like(factors)
    for a in range(len(factors)):
        np.einsum("c...,cb...->b...", factors[a:, a], factors[a:, : a + 1], out=result[a, : a + 1])
    return result


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


class SeparatePart(Part):
    """Rows X (p, n), perhaps with NaN; variances of the noise (1 or p, n), or None."""

    def __init__(self, rows: np.ndarray, X: np.ndarray, noise: np.ndarray | None) -> None:
        self.rows, self.n = rows, X.shape[1]
        seen = ~np.isnan(X)
        self.X = np.ascontiguousarray(np.where(seen, X, 0.0).T)
        self.seen = np.ascontiguousarray(seen.T).astype(float)
        self.noise = np.zeros((self.n, 1)) if noise is None else np.ascontiguousarray(noise.T)

    def blocks(self, m: int) -> list[slice]:
        return even_blocks(len(self.rows), 8 * m * self.n * 3)

    def at(self, gaussians: Gaussians) -> Callable[[slice], Evaluated]:
        return partial(SeparateRows, self, gaussians)


class SeparateRows(Evaluated):
    """y = (x - μ)/T and 1/T where x has a value, and 0 at gaps; (n, m, B)."""

    def __init__(self, part: SeparatePart, gaussians: Gaussians, rows: slice) -> None:
        self.gaussians = gaussians
        self.noise = part.noise[:, rows] if part.noise.shape[1] > 1 else part.noise
        means, variances = gaussians
        X, seen = part.X[:, rows], part.seen[:, rows]
        T = variances.T[:, :, None] + self.noise[:, None, :]
        d = X[:, None, :] - means.T[:, :, None]
        logs = np.log(T)
        half_logs = np.einsum("njb,nb->jb", np.broadcast_to(logs, d.shape), seen) / 2
        self.precision = seen[:, None, :] / T
        self.y = d * self.precision
        squares = np.einsum("njb,njb->jb", d, self.y)
        self.log_densities = -half_logs - squares / 2 - seen.sum(axis=0) * (np.log(2 * np.pi) / 2)

    def expected(self, R: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        variances = self.gaussians.covariances
        firsts = variances * np.einsum("njb,jb->jn", self.y, R)
        G = np.einsum("njb,jb->jn", self.y * self.y - self.precision, R)
        return firsts, R.sum(axis=1)[:, None] * variances + variances**2 * G

    def means(self) -> np.ndarray:
        means, variances = self.gaussians
        return np.asarray(means[:, None, :] + variances[:, None, :] * self.y.transpose(1, 2, 0))

    def covariances(self) -> np.ndarray:
        variances = self.gaussians.covariances[:, None, :]
        precision, noise = self.precision.transpose(1, 2, 0), self.noise.T
        gain = variances * precision
        left = (1 - gain) ** 2 * variances + gain**2 * noise
        return np.asarray(left[..., None] * np.eye(left.shape[-1]))
