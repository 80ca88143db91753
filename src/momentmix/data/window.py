"""A Gaussian window on rows, through which a mixture of Gaussians stays one.

Rows count by w(z) = exp(-‖z‖² / 2t), so that those far off count for nothing. A Gaussian N(μ, Σ)
under the window is κ N(μ', Σ') with
    Σ' = (Σ⁻¹ + I/t)⁻¹ = t I - t² (t I + Σ)⁻¹,    μ' = t (t I + Σ)⁻¹ μ,
    κ = E[w(z)] = (2πt)^{n/2} N(0; μ, t I + Σ).
All can be inverted. Parameters that were found through the window become those of all rows, and
nothing is approximated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from momentmix.covariance import Kind
from momentmix.data.parameters import Parameters


@dataclass(frozen=True)
class Window:
    """w(z) = exp(-‖z‖² / 2t) for covariances of a kind in n features; ``variance`` is t.

    ``widest`` is the largest variance that a component may turn out to have: one close to the
    window's own shape could have any.
    """

    kind: Kind
    n: int
    variance: float
    widest: float

    def weights(self, Z: np.ndarray) -> np.ndarray:
        """How much rows (p, n) count, at most 1; (p,)."""
        return np.asarray(np.exp(np.einsum("ij,ij->i", Z, Z) / (-2 * self.variance)))

    def into(self, parameters: Parameters) -> Parameters:
        """A mixture as it is seen through the window; weights λκ, which do not sum to 1."""
        weights, means, covariances = parameters
        widened = covariances + self._shape(len(weights))
        log_kappa, linear = self._seen(means, widened)
        inverse = self.kind.precision_cholesky(widened)[0]
        narrowed = self._shape(len(weights)) - self.variance**2 * inverse
        return Parameters(weights * np.exp(log_kappa), self.variance * linear, narrowed)

    def out_of(self, parameters: Parameters) -> Parameters:
        """The mixture that is seen as given: what ``into`` has made is undone.

        Weights beyond 1, which chance may lead to, are scaled down to a largest one of 1.
        Covariances that are too wide for the window to tell are bounded by ``widest``.
        """
        weights, means, _ = parameters
        left = self.kind.raised(self._left(parameters), self._least)
        linear = self._seen(means, left)[1]
        widened = self.variance**2 * self.kind.precision_cholesky(left)[0]
        means = self.variance * linear
        with np.errstate(divide="ignore"):
            logs = np.log(weights) - self._seen(means, widened)[0]
        weights = np.exp(logs - max(0.0, float(logs.max())))
        return Parameters(weights, means, widened - self._shape(len(weights)))

    def too_wide(self, parameters: Parameters) -> np.ndarray:
        """Which components, as seen, are wider than the window tells; (m,), or (1,) if common."""
        return self.kind.on_floor(self._left(parameters), self._least)

    def _shape(self, m: int) -> np.ndarray:
        """The matrix t I of the window for each of m components, in the shape of the type."""
        return self.kind.repeated(m, self.variance * np.eye(self.n))

    def _left(self, parameters: Parameters) -> np.ndarray:
        """t I - Σ' = t² (t I + Σ)⁻¹, which must be positive."""
        return np.asarray(self._shape(len(parameters.weights)) - parameters.covariances)

    @property
    def _least(self) -> float:
        """What t² (t I + Σ)⁻¹ is for the widest Σ."""
        return self.variance**2 / (self.variance + self.widest)

    def _seen(self, means: np.ndarray, widened: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log κ (m,) and A⁻¹μ (m, n) for covariances A = t I + Σ in the shape of the type."""
        constant, linear, _ = self.kind.log_density_coefficients(means, widened)
        return constant + self.n / 2 * np.log(2 * np.pi * self.variance), linear
