"""The parameters of a mixture while it is being fitted."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from momentmix.covariance import Kind
from momentmix.distributions.mixture import Mixture


class Parameters(NamedTuple):
    """Weights (m,), means (m, n) and covariances of a mixture while it is being fitted.

    Weights sum to 1, or to less where some rows belong to no component. Several mixtures of m
    components are S m components one after the other.
    """

    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray

    @classmethod
    def of(cls, mixture: Mixture) -> Parameters:
        """Those of a mixture in NumPy."""
        parts = mixture.weights, mixture.means, mixture.covariances
        weights, means, covariances = (np.asarray(part) for part in parts)
        if mixture.background is not None:
            weights = weights * (1 - mixture.background.share)
        return cls(weights, means, covariances)


def order_by_weight(parameters: Parameters) -> np.ndarray:
    """The numbers of the components by falling weight; of equal ones, by their means; (m,)."""
    return np.lexsort([*parameters.means.T[::-1], -np.round(parameters.weights, 9)])


def by_weight(kind: Kind, parameters: Parameters) -> Parameters:
    """The components in that order."""
    weights, means, covariances = parameters
    order = order_by_weight(parameters)
    return Parameters(weights[order], means[order], kind.taken(covariances, order))


def outlier_share(weights: np.ndarray) -> float:
    """What weights lack of 1, beyond rounding: the share of rows that belong to no component."""
    missing = 1 - float(np.sum(weights))
    return missing if missing > 1e-12 else 0.0
