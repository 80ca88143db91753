"""Rows with noise of their own, and perhaps gaps.

Every row has its own T = R Σ Rᵀ + N and needs its own factor; part.py computes those of a block at
once. A missing feature gets 1 on the diagonal of T and a deviation of 0, which changes nothing.
Error bars, as users give them, become such noise covariances.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from momentmix.covariance import one_for_each_row
from momentmix.observed.part import (
    Evaluated,
    Gaussians,
    Part,
    RowPulls,
    even_blocks,
    inverse_factors,
)


def noise_of_errors(errors: np.ndarray) -> np.ndarray:
    """Error bars (p, n), which are standard deviations, as a ``noise_covariance`` of each row."""
    return one_for_each_row(np.square(errors), errors.shape[1])


class ErrorPart(Part):
    """Rows X (p, n), perhaps with NaN, and ``noise`` (p, n, n), or (p, n) if it is diagonal.

    All arrays are kept with the rows last.
    """

    def __init__(self, rows: np.ndarray, X: np.ndarray, noise: np.ndarray) -> None:
        self.rows, self.n = rows, X.shape[1]
        seen = ~np.isnan(X)
        self.X = np.ascontiguousarray(np.where(seen, X, 0.0).T)  # (n, p)
        self.seen: np.ndarray | None = None if seen.all() else np.ascontiguousarray(seen.T)
        self.noise = np.ascontiguousarray(np.moveaxis(noise, 0, -1))

    def blocks(self, m: int) -> list[slice]:
        return even_blocks(len(self.rows), 8 * m * self.n * (self.n + 3))

    def at(self, gaussians: Gaussians) -> Callable[[slice], Evaluated]:
        return partial(NoisyRows, self, gaussians)


class NoisyRows(RowPulls):
    """L⁻¹ of each row's T = LLᵀ, (n, n, m, B), and the pulls y that follow from it."""

    def __init__(self, part: ErrorPart, gaussians: Gaussians, rows: slice) -> None:
        self.gaussians, self.noise = gaussians, part.noise[..., rows]
        means, covariances = gaussians
        X = part.X[:, rows]
        n, B = X.shape
        d = X[:, None, :] - means.T[:, :, None]
        T = np.empty((n, n, len(means), B))
        entries = covariances.transpose(1, 2, 0)[..., None]
        diagonal = self.noise.ndim == 2
        for a in range(n):
            if diagonal:
                T[a, :a] = entries[a, :a]
                np.add(entries[a, a], self.noise[a], out=T[a, a])
            else:
                np.add(entries[a, : a + 1], self.noise[a, : a + 1, None, :], out=T[a, : a + 1])
        count: np.ndarray | int = n
        seen = None if part.seen is None else part.seen[:, rows]
        if seen is not None:
            count = seen.sum(axis=0)
            d *= seen[:, None, :]
            for a in range(n):
                T[a, :a] *= (seen[a] & seen[:a])[:, None, :]
                T[a, a] = np.where(seen[a], T[a, a], 1.0)
        half_logs = inverse_factors(T)
        z = [np.einsum("c...,c...->...", T[a, : a + 1], d[: a + 1]) for a in range(n)]
        squares = np.zeros_like(z[0])
        y = np.zeros_like(d)
        for a in range(n):
            squares += z[a] * z[a]
            y[: a + 1] += T[a, : a + 1] * z[a]
        if seen is not None:  # L⁻¹ is 1 at a gap, where T⁻¹ must be 0
            for a in range(n):
                T[a, a] *= seen[a]
        self.factors, self.y = T, y.swapaxes(0, 1)
        self.log_densities = -half_logs - squares / 2 - count * (np.log(2 * np.pi) / 2)

    def total_precision(self, R: np.ndarray) -> np.ndarray:
        m, n, _ = self.y.shape
        total = np.zeros((m, n, n))
        for a in range(n):
            row = self.factors[a, : a + 1]
            total[:, : a + 1, : a + 1] += (row * R).swapaxes(0, 1) @ row.transpose(1, 2, 0)
        return total

    def precisions(self) -> np.ndarray:
        half = np.zeros_like(self.factors)
        for a in range(len(half)):
            half[a, : a + 1] = self.factors[a, : a + 1]
        half = half.transpose(2, 3, 0, 1)  # (m, B, n, n)
        return np.asarray(half.swapaxes(2, 3) @ half)

    def noises(self) -> np.ndarray:
        noise = np.moveaxis(self.noise, -1, 0)
        return noise if noise.ndim == 3 else noise[:, :, None] * np.eye(noise.shape[1])
