"""The parameters of a mixture while it is being fitted."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from momentmix.covariance import Kind
from momentmix.distributions.mixture import Mixture


class Parameters(NamedTuple):
    """Weights (m,), means (m, n) and covariances of a mixture while it is being fitted.

    Weights sum to 1, or to less if some rows belong to no component. S mixtures of m components are
    stored as S m components one after the other.
    """

    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray

    @classmethod
    def of(cls, mixture: Mixture) -> Parameters:
        """The parameters of a mixture, as NumPy arrays."""
        parts = mixture.weights, mixture.means, mixture.covariances
        weights, means, covariances = (np.asarray(part) for part in parts)
        if mixture.background is not None:
            weights = weights * (1 - mixture.background.share)
        return cls(weights, means, covariances)


def order_by_weight(parameters: Parameters) -> np.ndarray:
    """The indices of the components by decreasing weight; equal weights go by mean; (m,)."""
    return np.lexsort([*parameters.means.T[::-1], -np.round(parameters.weights, 9)])


def by_weight(kind: Kind, parameters: Parameters) -> Parameters:
    """The components in that order."""
    weights, means, covariances = parameters
    order = order_by_weight(parameters)
    return Parameters(weights[order], means[order], kind.take_components(covariances, order))


def outlier_share(weights: np.ndarray) -> float:
    """The share of rows that belong to no component: 1 minus the weights, 0 if only rounding."""
    missing = 1 - float(np.sum(weights))
    return missing if missing > 1e-12 else 0.0
