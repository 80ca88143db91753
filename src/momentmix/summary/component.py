"""The components of a mixture one by one, and the features that separate them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from momentmix.distributions.mixture import Mixture
from momentmix.support.array import to_numpy


class Component(NamedTuple):
    """One component of a mixture."""

    number: int  # its place in the mixture, from 0
    weight: float
    mean: np.ndarray  # (n,)
    deviation: np.ndarray  # (n,) standard deviations


def names_of(mixture: Mixture) -> list[str]:
    """The names of the features, or x0, x1, …"""
    return list(mixture.feature_names or (f"x{i}" for i in range(mixture.n_features)))


def covariance_matrices(mixture: Mixture) -> np.ndarray:
    """The covariance of each component; (m, n, n)."""
    m, n = mixture.n_components, mixture.n_features
    return np.broadcast_to(to_numpy(mixture.atoms.covariance.matrices()), (m, n, n))


def feature_variances(mixture: Mixture) -> np.ndarray:
    """The variance of each feature in each component; (m, n)."""
    covariance = mixture.atoms.covariance
    if covariance.diagonal:
        shape = mixture.n_components, mixture.n_features
        return np.broadcast_to(to_numpy(covariance.variances()), shape)
    return np.diagonal(covariance_matrices(mixture), axis1=1, axis2=2)


def components(mixture: Mixture) -> list[Component]:
    """The components of a mixture, the heaviest first."""
    weights, means = to_numpy(mixture.weights), to_numpy(mixture.means)
    deviations = np.sqrt(feature_variances(mixture))
    order = np.argsort(-weights, kind="stable")
    return [Component(int(j), float(weights[j]), means[j], deviations[j]) for j in order]


def paired_components(means: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions in ``truth`` and in ``means``, paired to minimise the sum of distances."""
    truths, found = linear_sum_assignment(np.linalg.norm(truth[:, None] - means, axis=2))
    return truths, found


def overall_mean_and_deviation(mixture: Mixture) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each feature in the mixture as a whole; (n,) each.

    The variance is Σ_j λ_j (σ_j² + (μ_j - μ)²).
    """
    weights, means = to_numpy(mixture.weights), to_numpy(mixture.means)
    mean = weights @ means
    variance = weights @ (feature_variances(mixture) + (means - mean) ** 2)
    return mean, np.sqrt(variance)


def standardised_means(mixture: Mixture) -> np.ndarray:
    """(μ_j - μ) / σ with the mean μ and deviation σ of the whole mixture; (m, n)."""
    mean, deviation = overall_mean_and_deviation(mixture)
    means = to_numpy(mixture.means)
    return (means - mean) / np.where(deviation > 0, deviation, 1.0)


def features_by_tellingness(mixture: Mixture) -> list[int]:
    """All features, those first whose component means vary most relative to the spread within."""
    weights, means = to_numpy(mixture.weights), to_numpy(mixture.means)
    between = weights @ (means - weights @ means) ** 2
    within = weights @ feature_variances(mixture)
    order = np.argsort(-between / np.maximum(within, 1e-300), kind="stable")
    return [int(i) for i in order]


def telling_features(mixture: Mixture, most: int) -> list[int]:
    """The ``most`` features that separate the components best, in the order of the table."""
    return sorted(features_by_tellingness(mixture)[:most])
