"""Features that are independent in the Gaussians and the noise, so all formulas are entrywise."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from momentmix.observed.part import Evaluated, Gaussians, Part, even_blocks


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
