"""The eight metrics of §7.3, for fitted and true mixtures."""

from __future__ import annotations

import numpy as np

from momentmix import Mixture, Samples, inner
from momentmix.summary.components import paired_components


class Metrics:
    """Metrics of mixtures fitted to samples X of a true mixture.

    The moment objectives ‖M - M̂‖² are without augmentation; what they share, ‖M̂‖², takes p² inner
    products and is computed once.
    """

    def __init__(self, truth: Mixture, X: np.ndarray, orders: tuple[int, ...] = (3, 4)) -> None:
        self.truth, self.X, self.samples = truth, X, Samples(X)
        self.constants = {d: float(inner(self.samples, self.samples, d)) for d in orders}

    def of(self, fit: Mixture) -> dict[str, float]:
        result = {"log_likelihood": float(np.mean(fit.log_prob(self.X)))}
        for d, constant in self.constants.items():
            cost = float(inner(fit, fit, d)) - 2 * float(inner(fit, self.samples, d)) + constant
            result[f"mom{d}"] = cost
        return result | parameter_errors(fit, self.truth)


def parameter_errors(fit: Mixture, truth: Mixture) -> dict[str, float]:
    """Errors after the matching of components that costs least, by distance of means."""
    i, j = paired_components(fit.means, truth.means)
    mu, found = truth.means[i], fit.means[j]
    lengths = np.linalg.norm(mu, axis=1)
    S, T = truth.covariances[i].reshape(len(i), -1), fit.covariances[j].reshape(len(j), -1)
    cosines = np.sum(mu * found, axis=1) / (lengths * np.linalg.norm(found, axis=1))
    return {
        "weights": float(np.abs(truth.weights[i] - fit.weights[j]).sum()),
        "means": float(np.mean(np.linalg.norm(mu - found, axis=1) / lengths)),
        "covariances": float(np.mean(np.linalg.norm(S - T, axis=1) / np.linalg.norm(S, axis=1))),
        "cosine": float(np.mean(cosines)),
    }
