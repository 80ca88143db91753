"""Expectation–maximisation with sample weights, for all covariance types at once.

A Gaussian's log density is linear in x and in the quadratic features of x that its covariance can
see, so an E-step is two matrix products and a softmax, and an M-step two more; only the features
depend on the covariance type. Rows are worked through in blocks, on a thread per core.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from momentmix._parallel import parallel_map, worker_count
from momentmix.covariance import (
    chosen,
    common_covariance,
    fitted_covariance,
    log_density_coefficients,
    make_covariance,
    optimism,
    replaced,
)

_BLOCK_BYTES, _CACHE_BYTES = 4 << 20, 256 << 20


class Parameters(NamedTuple):
    """Weights (m,), means (m, n) and covariances of a mixture while it is being fitted."""

    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray


class EMResult(NamedTuple):
    parameters: Parameters
    log_likelihood: float  # mean over the samples
    n_iter: int
    converged: bool
    interrupted: bool
    worth: float = -np.inf  # what the search compares: the same, less overfit if asked for


class Density(NamedTuple):
    """log λ_j N(x; μ_j, Σ_j) = constant_j + linear_jᵀx + quadratic_jᵀ(features of x)."""

    constant: np.ndarray  # (m,)
    linear: np.ndarray  # (m, n)
    quadratic: np.ndarray  # (m, width)

    @classmethod
    def of(cls, kind: str, parameters: Parameters) -> Density:
        constant, linear, quadratic = log_density_coefficients(
            kind, parameters.means, parameters.covariances
        )
        return cls(constant + np.log(np.maximum(parameters.weights, 1e-300)), linear, quadratic)

    def log_joint(self, X: np.ndarray, squares: np.ndarray) -> np.ndarray:
        """(p, m), samples along memory: what follows runs over them."""
        L = self.linear @ X.T
        L += self.quadratic @ squares.T
        L += self.constant[:, None]
        return L.T

    def step_sums(self, X: np.ndarray, squares: np.ndarray, weights: np.ndarray) -> tuple:
        """What an EM step needs of some rows: log-likelihood, and sums of responsibilities."""
        R, log_density = softmax(self.log_joint(X, squares))
        R = (R * weights[:, None]).T
        return weights @ log_density, R.sum(axis=1), R @ X, R @ squares


class EM:
    """The iteration: what is done with the sums over the rows, wherever the rows are.

    ``variance`` is that of all spherical components where it is known, and then stays.
    """

    def __init__(self, kind: str, floor: float, variance: float | None = None) -> None:
        self.kind, self.floor, self.variance = kind, floor, variance

    def sums(self, density: Density) -> tuple:
        """The log-likelihood, and Σ w R, Σ w R xᵀ, Σ w R (features of x)ᵀ over rows of weight 1."""
        raise NotImplementedError

    def value(self, parameters: Parameters) -> float:
        """The mean log-likelihood."""
        return float(self.sums(Density.of(self.kind, parameters))[0])

    def step(self, parameters: Parameters) -> tuple[float, Parameters]:
        """The log-likelihood of the parameters, and the parameters after one EM step."""
        value, shares, firsts, seconds = self.sums(Density.of(self.kind, parameters))
        return float(value), self.maximise(shares, firsts, seconds)

    def maximise(self, shares: np.ndarray, firsts: np.ndarray, seconds: np.ndarray) -> Parameters:
        """The M-step from sums of responsibilities, points and features."""
        safe = np.maximum(shares, 1e-300)[:, None]
        means = firsts / safe
        if self.variance is not None:
            known = np.full(len(shares), self.variance)
            return Parameters(shares / shares.sum(), means, known)
        covariances = fitted_covariance(self.kind, shares, means, seconds / safe, self.floor)
        return Parameters(shares / shares.sum(), means, covariances)

    def revived(self, parameters: Parameters) -> Parameters:
        """The parameters, where need be with new starts for components that died out."""
        return parameters

    def fit(
        self,
        parameters: Parameters,
        *,
        tol: float,
        max_iter: int,
        callback: Callable[[int, float], None] | None = None,
    ) -> EMResult:
        """EM steps until the mean log-likelihood gains less than ``tol``, or ``max_iter``."""
        last, revivals = -np.inf, 0
        value, i = -np.inf, 0
        try:
            for i in range(1, max_iter + 1):
                value, after = self.step(parameters)
                if abs(value - last) < tol:
                    return self._result(parameters, value, i, True, False)
                if revivals < len(after.weights):
                    alive = self.revived(after)
                    revivals += alive is not after
                    after = alive
                last, parameters = value, after
                if callback is not None:
                    callback(i, value)
            value = self.value(parameters)
        except KeyboardInterrupt:
            return self._result(parameters, value, i, False, True)
        return self._result(parameters, value, max_iter, False, False)

    def overfit(self, parameters: Parameters) -> float:
        """What components of few samples gain by that, in mean log-likelihood, if asked for."""
        return 0.0

    def _result(
        self, parameters: Parameters, value: float, n_iter: int, converged: bool, interrupted: bool
    ) -> EMResult:
        worth = value - self.overfit(parameters)
        return EMResult(parameters, value, n_iter, converged, interrupted, worth)


class Likelihood(EM):
    """The data of a maximum-likelihood fit, in centred and scaled coordinates.

    X (p, n); ``weights`` (p,) with sum 1, or None for equal ones; ``floor`` is added to every
    variance. If ``corrected``, results know what components of few samples overfit.
    """

    def __init__(
        self,
        X: np.ndarray,
        weights: np.ndarray | None,
        kind: str,
        floor: float,
        variance: float | None = None,
        corrected: bool = False,
    ) -> None:
        super().__init__(kind, floor, variance)
        self.X, self.corrected = X, corrected
        p, n = X.shape
        self.weights = np.full(p, 1 / p) if weights is None else weights
        self._count = 1 / float(np.sum(self.weights**2))  # of equal weights: p
        self._least = 1.5 * float(np.max(self.weights)) if p > 1 else 0.0
        self._shape = make_covariance(kind, np.empty((1, 1, 1)), n)
        width = self._shape.width
        self._step = max(256, _BLOCK_BYTES // (8 * (2 * n + width)))
        # Squares are made again in each block; products of pairs of features are kept if they fit.
        keep = not self._shape.diagonal and 8 * p * width <= _CACHE_BYTES
        self._features = np.ascontiguousarray(self._shape.quadratic(X)) if keep else None

    def part(self, rows: np.ndarray, weights: np.ndarray | None) -> Likelihood:
        """That of some of the rows, with other weights."""
        fixed = self.kind, self.floor, self.variance, self.corrected
        return Likelihood(self.X[rows], weights, *fixed)

    def _blocks(self) -> list[slice]:
        return [slice(a, a + self._step) for a in range(0, len(self.X), self._step)]

    def _quadratic(self, rows: slice) -> np.ndarray:
        if self._features is not None:
            return self._features[rows]
        return self._shape.quadratic(self.X[rows])

    def _over_blocks(self, function: Callable[[slice], Any]) -> list[Any]:
        blocks = self._blocks()
        if len(blocks) == 1:
            return [function(blocks[0])]
        return parallel_map(function, blocks, worker_count(np))

    def log_joint(self, parameters: Parameters) -> np.ndarray:
        """log λ_j N(x_i; μ_j, Σ_j); (p, m)."""
        density = Density.of(self.kind, parameters)
        return np.concatenate(
            self._over_blocks(lambda rows: density.log_joint(self.X[rows], self._quadratic(rows)))
        )

    def responsibilities(self, parameters: Parameters) -> tuple[np.ndarray, np.ndarray]:
        """Posterior probabilities (p, m) and log densities (p,)."""
        return softmax(self.log_joint(parameters))

    def value(self, parameters: Parameters) -> float:
        return float(self.weights @ self.responsibilities(parameters)[1])

    def sums(self, density: Density) -> tuple:
        def block(rows: slice) -> tuple:
            return density.step_sums(self.X[rows], self._quadratic(rows), self.weights[rows])

        return _summed(self._over_blocks(block))

    def from_responsibilities(self, R: np.ndarray) -> Parameters:
        """The M-step from responsibilities (p, m), which may leave some weight out."""

        def block(rows: slice) -> tuple:
            weighted = (R[rows] * self.weights[rows, None]).T
            return weighted.sum(axis=1), weighted @ self.X[rows], weighted @ self._quadratic(rows)

        return self.maximise(*_summed(self._over_blocks(block)))

    def overfit(self, parameters: Parameters) -> float:
        if not self.corrected:
            return 0.0
        n = self.X.shape[1]
        counts = self._count * parameters.weights
        many = optimism(self.kind, np.array([np.inf]), n)
        return float(np.sum(optimism(self.kind, counts, n) - many)) / self._count

    def revived(self, parameters: Parameters) -> Parameters:
        """Components left with less than about one sample start anew where the fit is worst."""
        weights, means, covariances = parameters
        dead = np.flatnonzero(weights < min(self._least, 0.5 / len(weights)))
        if len(dead) == 0:
            return parameters
        living = np.setdiff1d(np.arange(len(weights)), dead)
        if len(living) == 0:
            return parameters
        kept = chosen(self.kind, covariances, living)
        alive = Parameters(weights[living], means[living], kept)
        _, log_density = self.responsibilities(alive)
        worst = np.argsort(log_density)[: len(dead)]
        means, weights = means.copy(), weights.copy()
        means[dead] = self.X[worst]
        weights[dead] = 1 / len(weights)
        centre = self.weights @ self.X
        spread = np.diag(self.weights @ (self.X - centre) ** 2 / 4 + self.floor)
        if self.variance is not None:
            spread = self.variance * np.eye(len(centre))
        fresh = common_covariance(self.kind, len(dead), spread)
        covariances = replaced(self.kind, covariances, list(dead), fresh)
        return Parameters(weights / weights.sum(), means, covariances)


def _summed(parts: list[tuple]) -> tuple:
    return parts[0] if len(parts) == 1 else tuple(sum(part) for part in zip(*parts, strict=True))


def softmax(L: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of exp(L) with sum 1, and the logarithms of what they summed to; L is overwritten."""
    highest = L.max(axis=1, keepdims=True)
    L -= highest
    np.exp(L, out=L)
    total = L.sum(axis=1, keepdims=True)
    L /= total
    return L, (highest + np.log(total))[:, 0]
