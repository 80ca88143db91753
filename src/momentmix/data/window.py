"""A Gaussian window on rows, through which a mixture of Gaussians stays one.

Each row counts with the weight w(z) = exp(-‖z‖² / 2t), so that distant rows hardly count. A
Gaussian N(μ, Σ) under the window is κ N(μ', Σ') with
    Σ' = (Σ⁻¹ + I/t)⁻¹ = t I - t² (t I + Σ)⁻¹,    μ' = t (t I + Σ)⁻¹ μ,
    κ = E[w(z)] = (2πt)^{n/2} N(0; μ, t I + Σ).
These formulas can be inverted, so parameters fitted through the window give those of all rows
without any approximation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from momentmix.covariance import Kind
from momentmix.data.parameters import Parameters


@dataclass(frozen=True)
class Window:
    """w(z) = exp(-‖z‖² / 2t) for covariances of a kind in n features; ``variance`` is t.

    ``widest`` bounds the variances of components: seen through the window, very wide components
    all have nearly its own shape, so the data would not bound them.
    """

    kind: Kind
    n: int
    variance: float
    widest: float

    def weights(self, Z: np.ndarray) -> np.ndarray:
        """How much each row of Z (p, n) counts, at most 1; (p,)."""
        return np.asarray(np.exp(np.einsum("ij,ij->i", Z, Z) / (-2 * self.variance)))

    def into(self, parameters: Parameters) -> Parameters:
        """A mixture as seen through the window; its weights λκ do not sum to 1."""
        weights, means, covariances = parameters
        widened = covariances + self._shape(len(weights))
        log_kappa, linear = self._through(means, widened)
        inverse = self.kind.precision_cholesky(widened)[0]
        narrowed = self._shape(len(weights)) - self.variance**2 * inverse
        return Parameters(weights * np.exp(log_kappa), self.variance * linear, narrowed)

    def out_of(self, parameters: Parameters) -> Parameters:
        """The mixture that looks as given through the window; the inverse of ``into``.

        Weights above 1, which sampling errors may cause, are scaled so that the largest is 1.
        Covariances that are too wide to be told apart through the window are bounded by ``widest``.
        """
        weights, means, _ = parameters
        left = self.kind.raise_to(self._rest(parameters), self._least)
        linear = self._through(means, left)[1]
        widened = self.variance**2 * self.kind.precision_cholesky(left)[0]
        means = self.variance * linear
        with np.errstate(divide="ignore"):
            logs = np.log(weights) - self._through(means, widened)[0]
        weights = np.exp(logs - max(0.0, float(logs.max())))
        return Parameters(weights, means, widened - self._shape(len(weights)))

    def too_wide(self, parameters: Parameters) -> np.ndarray:
        """Which components are too wide for the window to tell; (m,), or (1,) if common."""
        return self.kind.on_floor(self._rest(parameters), self._least)

    def _shape(self, m: int) -> np.ndarray:
        """The matrix t I of the window for each of m components, in the shape of the type."""
        return self.kind.repeat(m, self.variance * np.eye(self.n))

    def _rest(self, parameters: Parameters) -> np.ndarray:
        """t I - Σ' = t² (t I + Σ)⁻¹, which must be positive."""
        return np.asarray(self._shape(len(parameters.weights)) - parameters.covariances)

    @property
    def _least(self) -> float:
        """The value of t² (t I + Σ)⁻¹ for the widest Σ."""
        return self.variance**2 / (self.variance + self.widest)

    def _through(self, means: np.ndarray, widened: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log κ (m,) and A⁻¹μ (m, n) for covariances A = t I + Σ in the shape of the type."""
        constant, linear, _ = self.kind.log_density_coefficients(means, widened)
        return constant + self.n / 2 * np.log(2 * np.pi * self.variance), linear
