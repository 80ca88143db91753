"""Random noise, and random Gaussian rows."""

from __future__ import annotations

import numpy as np

from momentmix.covariance import Covariance
from momentmix.observed.rows import ObservedRows
from momentmix.support.array import to_numpy


def normal_draws(covariance: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Samples of N(0, covariance), (1, n, n) or variances (1, n); (count, n)."""
    n = covariance.shape[1]
    Z = rng.standard_normal((count, n))
    if covariance.ndim == 2:
        return np.asarray(Z * np.sqrt(covariance))
    values, vectors = np.linalg.eigh(covariance)
    roots = vectors * np.sqrt(np.maximum(values, 0))[:, None, :]
    return np.asarray((roots @ Z[:, :, None])[:, :, 0] if len(roots) > 1 else Z @ roots[0].T)


def noise_draws(rows: ObservedRows, rng: np.random.Generator) -> np.ndarray | float:
    """Random noise with the covariances of the rows' noise; (p, n)."""
    noise: Covariance | None = rows.noise
    if noise is None:
        return 0.0
    array = noise.variances() if noise.diagonal else noise.matrices()
    return normal_draws(to_numpy(array), len(rows), rng)
