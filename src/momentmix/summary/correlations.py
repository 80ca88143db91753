"""Correlations of features within components, for covariances that are not diagonal."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from momentmix.distributions.mixture import Mixture
from momentmix.summary.component import covariance_matrices, overall_mean_and_deviation
from momentmix.support.array import to_numpy


class Correlation(NamedTuple):
    """The correlation of two features within a component."""

    component: int | None  # None where all components share their covariance
    first: int  # feature
    second: int  # feature, after the first
    value: float  # from -1 to 1
    together: float  # in the whole mixture, where the means contribute too


def correlation_matrices(mixture: Mixture) -> np.ndarray | None:
    """Σ_ab / σ_a σ_b of each component; (m, n, n), or (1, n, n) where the covariance is common.

    None for diagonal covariances and for a single feature. A feature of variance 0 has a
    correlation of 0 with all others.
    """
    covariance = mixture.atoms.covariance
    if covariance.diagonal or mixture.n_features < 2:
        return None
    matrices = covariance_matrices(mixture)[: 1 if covariance.common else None]
    deviations = np.sqrt(np.diagonal(matrices, axis1=1, axis2=2))
    return _correlations(matrices, deviations)


def correlations_together(mixture: Mixture) -> np.ndarray:
    """Correlations in the mixture as a whole; (n, n)."""
    weights, means = to_numpy(mixture.weights), to_numpy(mixture.means)
    mean, deviation = overall_mean_and_deviation(mixture)
    total = (means - mean).T @ (weights[:, None] * (means - mean))
    for weight, matrix in zip(weights, covariance_matrices(mixture), strict=True):
        total = total + weight * matrix
    return _correlations(total, deviation)


def strongest_correlations(mixture: Mixture, most: int = 10) -> list[Correlation]:
    """The ``most`` largest in size, among all components and pairs of features."""
    matrices = correlation_matrices(mixture)
    if matrices is None:
        return []
    together = correlations_together(mixture)
    rows, columns = np.triu_indices(mixture.n_features, 1)
    found = []
    for j, matrix in enumerate(matrices):
        values = matrix[rows, columns]
        component = None if mixture.atoms.covariance.common else j
        for k in np.argsort(-np.abs(values), kind="stable")[:most]:
            a, b = int(rows[k]), int(columns[k])
            found.append(Correlation(component, a, b, float(values[k]), float(together[a, b])))
    return sorted(found, key=lambda one: -abs(one.value))[:most]


def _correlations(matrices: np.ndarray, deviations: np.ndarray) -> np.ndarray:
    """Covariances (…, n, n) over the deviations (…, n) of both features, kept within -1 and 1."""
    safe = np.where(deviations > 0, deviations, 1.0)
    return np.clip(matrices / (safe[..., :, None] * safe[..., None, :]), -1, 1)
