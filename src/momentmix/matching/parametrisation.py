"""A mixture as a vector of free numbers, and gradients in them."""

from __future__ import annotations

import numpy as np

from momentmix.covariance import Kind
from momentmix.moments.atoms import Atoms


class Parametrisation:
    """x = (weight numbers (m,), mean numbers (m, n), covariance numbers).

    ``augmentation`` names the form of the augmented system (§6.3 of Pereira–Kileel–Kolda):

    * "implicit": the weights are softmax of their numbers, so they sum to 1.
    * "post-processing": the paper's free last coordinate. Component j has numbers (t, a, B) and
      stands for the atom with λ = t^d / m, μ = a / t, Σ = B / t²; t is its last coordinate over ω.
      The weights sum to 1 only as well as order 0 is fitted, and t and -t mean the same. If order d
      alone is fitted, λ μ^{⊗d} = a^{⊗d} / m does not depend on t, and t stays where it is.
    * "free": the weights are the numbers themselves, of any sign.

    With ``floor``, covariances are given by factors and stay above it; without, they are free.
    """

    def __init__(
        self,
        kind: Kind,
        m: int,
        n: int,
        *,
        augmentation: str = "implicit",
        order: int = 4,
        floor: float | None = None,
    ) -> None:
        self.kind, self.m, self.n, self.order = kind, m, n, order
        self.homogeneous = augmentation == "post-processing"
        self.free = augmentation == "free"
        self.covariances = kind.coordinates(m, n, floor)
        self.size = m + m * n + self.covariances.size
        # A tied covariance belongs to no component, so no t scales it.
        self._scaled_by_t = self.homogeneous and not kind.common
        self._trailing_axes = (1,) * (len(self.covariances.shape) - 1)

    def split(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        m, n = self.m, self.n
        return x[:m], x[m : m + m * n].reshape(m, n), x[m + m * n :]

    def encode(self, weights: np.ndarray, means: np.ndarray, covariances: np.ndarray) -> np.ndarray:
        first = weights if self.free else np.log(np.maximum(weights, 1e-12))
        if self.homogeneous:
            first = (self.m * np.maximum(weights, 1e-12)) ** (1 / self.order)
            means = means * first[:, None]
            if self._scaled_by_t:
                covariances = covariances * first.reshape(-1, *self._trailing_axes) ** 2
        return np.concatenate([first, means.reshape(-1), self.covariances.encode(covariances)])

    def decode(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Weights, means and covariances; weights of the homogeneous form need not sum to 1."""
        first, means, rest = self.split(x)
        covariances = self.covariances.decode(rest)
        if self.free:
            return first.copy(), means, covariances
        if not self.homogeneous:
            weights = np.exp(first - first.max())
            return weights / weights.sum(), means, covariances
        t = np.abs(first)
        if self._scaled_by_t:
            covariances = covariances / t.reshape(-1, *self._trailing_axes) ** 2
        return t**self.order / self.m, means / first[:, None], covariances

    def atoms(self, x: np.ndarray) -> Atoms:
        weights, means, covariances = self.decode(x)
        return Atoms(weights, means, self.kind.of(covariances, self.n), np)

    def pullback(
        self, x: np.ndarray, in_weights: np.ndarray, in_means: np.ndarray, in_cov: np.ndarray
    ) -> np.ndarray:
        """Gradients (…, m), (…, m, n), (…, own shape) in the mixture as gradients in x."""
        first, _, rest = self.split(x)
        weights, means, covariances = self.decode(x)
        lead = in_weights.shape[:-1]
        if self.free:
            in_first = in_weights
        elif not self.homogeneous:
            mean = np.sum(in_weights * weights, axis=-1, keepdims=True)
            in_first = weights * (in_weights - mean)
        else:
            in_first = in_weights * (self.order * weights)
            in_first = in_first - np.sum(in_means * means, axis=-1)
            in_means = in_means / first[:, None]
            if self._scaled_by_t:
                axes = tuple(range(len(lead) + 1, in_cov.ndim))
                in_first = in_first - 2 * np.sum(in_cov * covariances, axis=axes)
                in_cov = in_cov / first.reshape(-1, *self._trailing_axes) ** 2
            in_first = in_first / first
        flat_means = in_means.reshape(*lead, self.m * self.n)
        in_rest = self.covariances.pullback(rest, in_cov)
        return np.concatenate([in_first, flat_means, in_rest], axis=-1)

    def curvature(self, x: np.ndarray, in_cov: np.ndarray) -> np.ndarray | None:
        """What the factors of covariances add to the Hessian of a cost with this gradient in Σ."""
        first = self.split(x)[0]
        if self._scaled_by_t:
            in_cov = in_cov / first.reshape(-1, *self._trailing_axes) ** 2
        block = self.covariances.curvature(in_cov)
        if block is None:
            return None
        H = np.zeros((self.size, self.size))
        H[-len(block) :, -len(block) :] = block
        return H
