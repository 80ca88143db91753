"""Estimates that are normal for many rows: standard errors and intervals from their covariance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from momentmix.covariance import Coordinates, Kind
from momentmix.data.parameters import Parameters


@dataclass(frozen=True)
class NormalEstimate:
    """Parameters of a fit in the coordinates of X, and the covariance of their errors.

    ``covariance`` is that of weights, means and the numbers of covariances (``Coordinates``); there
    are none of these if the covariances are known.
    """

    kind: Kind
    parameters: Parameters
    covariance: np.ndarray

    def standard_errors(self) -> Parameters:
        """The standard deviation of the error of each parameter."""
        variances = np.diag(self.covariance)
        return self._shaped(np.sqrt(np.where(variances >= 0, variances, np.nan)))

    def intervals(self, level: float) -> tuple[Parameters, Parameters]:
        """The ends of intervals that hold each parameter with the probability ``level``.

        They are symmetric for means and covariances. For weights they are symmetric on the scale
        log λ/(1 - λ), which keeps them between 0 and 1, and for variances on the logarithmic scale.
        """
        z = float(norm.ppf((1 + level) / 2))
        weights, means, covariances = self.parameters
        errors = self.standard_errors()
        spread = weights * (1 - weights)
        known = spread > 0
        logits = np.log(weights[known] / (1 - weights[known]))
        away = z * errors.weights[known] / spread[known]
        variance = self._coordinates.variances
        relative = np.divide(
            errors.covariances, covariances, out=np.zeros_like(covariances), where=variance
        )
        with np.errstate(over="ignore"):  # an end beyond float64 is infinite
            ratio = np.exp(z * relative)
        ends = []
        for sign in (-1, 1):
            share = weights.copy()
            share[known] = 1 / (1 + np.exp(-(logits + sign * away)))
            moved = covariances + sign * z * errors.covariances
            scaled = covariances * ratio**sign
            at = np.where(variance, scaled, moved)
            ends.append(Parameters(share, means + sign * z * errors.means, at))
        return ends[0], ends[1]

    def entries(self) -> np.ndarray:
        """The covariance of the errors of all distinct entries, in the order of ``entry_names``."""
        scale = np.ones(len(self.covariance))
        if self.free:
            scale[-self._coordinates.size :] = self._coordinates.units
        return np.asarray(self.covariance * np.outer(scale, scale))

    @property
    def free(self) -> bool:
        """Whether covariances are among the parameters, and not known."""
        return len(self.covariance) > len(self.parameters.weights) + self.parameters.means.size

    @property
    def _coordinates(self) -> Coordinates:
        return self.kind.coordinates(*self.parameters.means.shape)

    def _shaped(self, numbers: np.ndarray) -> Parameters:
        """One number for each parameter, in the shapes of the parameters."""
        weights, means, covariances = self.parameters
        m, size = len(weights), means.size
        rest = np.zeros(covariances.shape)
        if self.free:
            rest = self._coordinates.decode(numbers[m + size :])
        return Parameters(numbers[:m], numbers[m : m + size].reshape(means.shape), rest)


def entry_names(kind: Kind | None, m: int, features: Sequence[str]) -> list[str]:
    """The names of the rows and columns of ``NormalEstimate.entries``.

    Without a ``kind`` the covariances are known, and none of them is a parameter.
    """
    found = [f"weight {j}" for j in range(m)]
    found += [f"mean {j} {name}" for j in range(m) for name in features]
    return found if kind is None else found + kind.coordinates(m, len(features)).names(features)
