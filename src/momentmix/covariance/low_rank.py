"""Covariances of low rank plus a diagonal: few factors move all features, the rest is noise.

    Σ_i = W_i W_iᵀ + diag s_i,   loadings W_i (n, q),   variances s_i (n,)

This is factor analysis in each component. No n × n matrix is formed: with B = diag(s)^-½ W, all
that a density needs of the features together is the q × q matrix M = I + BᵀB (Woodbury). The array
is (g, n, q + 1): the loadings of each feature, and then its variance. A kind has a fixed rank q.
"""

from __future__ import annotations

from functools import cache
from typing import ClassVar, NamedTuple, NoReturn, cast

import numpy as np

from momentmix.covariance.base import NEAR_FLOOR, Bound, Covariance, optimism_of, refuse_degenerate
from momentmix.covariance.matrices import Full
from momentmix.covariance.prior import LogNormalPrior, PullOfVariances
from momentmix.covariance.variances import Diagonal
from momentmix.support.array import Array, array_device, as_float_array, like, namespace
from momentmix.support.messages import NoStandardErrors


class Factors(NamedTuple):
    """Covariances W Wᵀ + diag(s) of m components, or a gradient in them.

    Attributes
    ----------
    loadings : array of shape (m, n, q)
        W: by how much each of q factors moves each feature.
    variances : array of shape (m, n)
        s: the variance of each feature that no factor explains.
    """

    loadings: Array
    variances: Array

    def matrices(self) -> Array:
        """The dense matrices W Wᵀ + diag(s), of shape (m, n, n)."""
        return LowRank.of(join(self), self.variances.shape[-1]).matrices()


def join(covariances: object, name: str = "") -> Array:
    """Loadings and variances in one array (m, n, q + 1); any other array stays as it is.

    A plain pair is one of these if the type's ``name`` says so.
    """
    if not isinstance(covariances, Factors if name != LowRank.name else tuple):
        return cast(Array, covariances)
    loadings = as_float_array(covariances[0], "loadings", (3,))
    variances = as_float_array(like(covariances[1], loadings), "variances", (2,))
    if tuple(loadings.shape[:2]) != tuple(variances.shape):
        raise ValueError("loadings must be (m, n, q) and variances (m, n), of the same m and n")
    return namespace(loadings, variances).concat([loadings, variances[..., None]], axis=-1)


class PullOfFactors(PullOfVariances):
    """The prior for the variances beside the loadings, which have none."""

    def __init__(self, prior: LogNormalPrior, array: np.ndarray, groups: int) -> None:
        super().__init__(prior, array[..., -1], groups)

    def spectra(self, scatter: np.ndarray) -> list[np.ndarray]:
        return super().spectra(scatter[..., -1])

    def step(self, counts: np.ndarray, scatter: np.ndarray) -> np.ndarray:
        own = super().step(counts, scatter[..., -1])
        return np.concatenate([scatter[..., :-1], own[..., None]], axis=-1)


class LowRank(Diagonal):
    """Σ_i = W_i W_iᵀ + diag(s_i): a diagonal, to which loadings add their part."""

    name = "low-rank"
    diagonal: ClassVar[bool] = False
    thin = by_feature = curved = iterated = True
    rank: ClassVar[int] = 1
    #: They turn random loadings into nearly the leading ones, as orthogonal iteration does. A round
    #: number that was not tuned; EM goes on from there.
    opening_steps: ClassVar[int] = 4

    @classmethod
    def of(cls, array: Array, n: int) -> Covariance:
        return of_rank(int(array.shape[-1]) - 1)(array, n)

    @classmethod
    def present(cls, array: Array) -> Array:
        return cast(Array, Factors(array[..., :-1], array[..., -1]))

    def loadings(self) -> Array:
        return self.array[..., :-1]

    def variances(self) -> Array:
        return self.array[..., -1]

    def matrices(self) -> Array:
        W, xp = self.loadings(), namespace(self.array)
        return xp.matmul(W, W.mT) + Diagonal(self.variances(), self.n_features).matrices()

    def spread(self) -> Array:
        W = self.loadings()
        return self.variances() + namespace(W).sum(W * W, axis=-1)

    def times(self, A: Array) -> Array:
        W = self.loadings()[0, ...]
        return A * self.variances()[0, :] + (A @ W) @ W.mT

    def flat(self) -> Array:
        return self.variances()

    def collect_matrices(self, weights: Array, G: Array) -> Array:
        xp = namespace(G)
        loadings = xp.matmul(G + G.mT, self.loadings())
        return self.collect_factors(weights, loadings, xp.linalg.diagonal(G))

    def collect_factors(self, weights: Array, loadings: Array, variances: Array) -> Array:
        xp = namespace(variances)
        return self._pool(weights, xp.concat([loadings, variances[..., None]], axis=-1))

    def _scaled(self) -> tuple[Array, Array, Array]:
        """s^-½, B = diag(s)^-½ W and M = I + BᵀB."""
        xp = namespace(self.array)
        scale = 1 / xp.sqrt(self.variances())
        B = scale[..., None] * self.loadings()
        eye = xp.eye(B.shape[-1], dtype=B.dtype, device=array_device(B))
        return scale, B, xp.matmul(B.mT, B) + eye

    def root(self) -> Array:
        return self.array

    def colour(self, root: Array, i: int, Z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Random factors times the loadings, beside Z times the deviations."""
        W, s = np.asarray(root)[i, :, :-1], np.asarray(root)[i, :, -1]
        return Z * np.sqrt(s) + rng.standard_normal((len(Z), W.shape[1])) @ W.T

    def whitener(self) -> tuple[Array, Array]:
        """[s^-½, B, Bz] with z = M⁻¹Bᵀ: the whitened x is (y - Bz, z), for y = x s^-½.

        Its squares are ‖y - Bz‖² + ‖z‖² = yᵀ(I + BBᵀ)⁻¹y, the least of a ridge regression on B:
        so nothing cancels.
        """
        xp = namespace(self.array)
        refuse_degenerate(xp.all(self.variances() > 0, axis=1))
        scale, B, M = self._scaled()
        solved = xp.matmul(B, xp.linalg.inv(M))
        return xp.concat([scale[..., None], B, solved], axis=-1), -self.half_log_determinants()

    def apply(self, factors: Array, i: int, Z: Array) -> Array:
        q = (factors.shape[-1] - 1) // 2
        scale, B, solved = factors[i, :, 0], factors[i, :, 1 : 1 + q], factors[i, :, 1 + q :]
        Y = Z * scale
        inside = Y @ solved
        return namespace(Z).concat([Y - inside @ B.mT, inside], axis=1)

    def apart(self, factors: Array, j: int, r: int, Z: Array) -> Array:
        return self.apply(factors, j, Z) - self.apply(factors, r, Z)

    def half_log_determinants(self) -> Array:
        xp = namespace(self.array)
        roots = xp.linalg.diagonal(xp.linalg.cholesky(self._scaled()[2]))
        logs = xp.sum(xp.log(self.variances()), axis=-1) / 2
        return logs + xp.sum(xp.log(roots), axis=-1)

    def is_definite(self) -> bool:
        return bool(namespace(self.array).min(self.variances()) > 0)

    def marginal(self, features: Array) -> Covariance:
        kept = namespace(self.array).take(self.array, features, axis=1)
        return self.of(kept, features.shape[0])

    def condition(self, kept: Array, given: Array, deltas: Array) -> tuple[Array, Covariance]:
        """The factors given some features are N(M⁻¹Bᵀy, M⁻¹), which the others follow."""
        xp, known, left = namespace(self.array), self.marginal(given), self.marginal(kept)
        scale, B, M = cast(LowRank, known)._scaled()
        W, root = left.loadings(), xp.linalg.inv(xp.linalg.cholesky(M))
        turned = xp.matmul(W, root.mT)
        z = xp.matmul(root, xp.matmul(B.mT, (deltas * scale)[..., None]))
        array = xp.concat([turned, left.variances()[..., None]], axis=-1)
        return xp.matmul(turned, z)[..., 0], self.of(array, kept.shape[0])

    def without(self, noise: Covariance) -> Covariance:
        return Full(self.matrices(), self.n_features).without(noise)

    @classmethod
    def shape(cls, m: int, n: int) -> tuple[int, ...]:
        return (m, n, cls.rank + 1)

    @staticmethod
    def features_of_seconds(seconds: np.ndarray) -> NoReturn:
        raise ValueError(
            "low-rank is fitted to complete rows without errors; fill gaps, or fit diag"
        )

    @classmethod
    def free_parameters(cls, m: int, n: int) -> int:
        q = min(cls.rank, n)  # a rotation of the factors changes nothing
        return m * (n * q + n - q * (q - 1) // 2)

    @staticmethod
    def check(array: Array, name: str) -> Array:
        Diagonal.check(array[..., -1], f"the variances of {name}")
        return array

    # Likelihoods

    @classmethod
    def log_density_coefficients(
        cls, means: np.ndarray, array: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        n, precisions, V = means.shape[1], 1 / array[..., -1], cls.precision_loadings(array)
        linear = means * precisions - (V @ (V.swapaxes(1, 2) @ means[..., None]))[..., 0]
        size = np.sum(means * linear, axis=1) + n * np.log(2 * np.pi)
        return -size / 2 - cls(array, n).half_log_determinants(), linear, -precisions / 2

    @classmethod
    def precision_loadings(cls, array: np.ndarray) -> np.ndarray:
        """V with Σ⁻¹ = diag(s)⁻¹ - V Vᵀ; (m, n, q)."""
        scale, B, M = (np.asarray(part) for part in cls(array, array.shape[1])._scaled())
        roots = np.linalg.inv(np.linalg.cholesky(M)).swapaxes(1, 2)
        return np.asarray(scale[..., None] * (B @ roots))

    @classmethod
    def whitened_squares(cls, array: np.ndarray, D: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        own = cls(array, array.shape[1])
        factors, minus_logs = own.whitener()
        Y = (np.asarray(own.apply(factors, j, D[j])) for j in range(len(D)))
        return np.stack([np.sum(y * y, axis=1) for y in Y]), -np.asarray(minus_logs)

    @classmethod
    def estimate(cls, shares: np.ndarray, means: np.ndarray, seconds: np.ndarray) -> np.ndarray:
        """One step of EM for factors from the mean squares, products with V, and the last Σ.

        Given x the factors have the mean Tᵀ(x - μ) with T = Σ⁻¹W and the covariance M⁻¹, so for
        scatter C their second moment is G = M⁻¹ + TᵀCT, and least squares lead to loadings CTG⁻¹.
        If G may differ from I meanwhile (parameter expansion: Liu, Rubin and Wu, Biometrika 85,
        1998), these are loadings of factors of covariance G: so W = CTG^-½ and s = diag(C - WWᵀ).
        The likelihood never falls. With mean squares alone, the result is where such steps begin.
        """
        (m, n), q = means.shape, cls.rank
        variances = np.maximum(seconds[:, :n] - means * means, 0)
        if seconds.shape[1] == n:
            return cls._opening(variances)
        last = seconds[:, n * (q + 1) :].reshape(m, n, q + 1)
        array = cls.raise_to(last, 1e-300)  # a component without rows has none
        products = seconds[:, n : n * (q + 1)].reshape(m, n, q)
        M = np.asarray(cls(array, n)._scaled()[2])
        turn, inverse = np.linalg.inv(np.linalg.cholesky(M)), np.linalg.inv(M)
        T = cls.precision_loadings(array) @ turn
        CT = products @ turn - means[..., None] * (means[:, None, :] @ T)
        values, vectors = np.linalg.eigh(inverse + T.swapaxes(1, 2) @ CT)
        values = np.maximum(values, 1e-12 * np.maximum(values[:, -1:], 1e-300))
        W = CT @ (vectors / np.sqrt(values)[:, None, :]) @ vectors.swapaxes(1, 2)
        left = np.maximum(variances - np.sum(W * W, axis=-1), 0)
        return np.concatenate([W, left[..., None]], axis=-1)

    @classmethod
    def merge(
        cls, shares: tuple[float, float], one: np.ndarray, other: np.ndarray, apart: np.ndarray
    ) -> np.ndarray:
        """The leading factors of all loadings together, in units of the variances beside them.

        The features keep their variances.
        """
        a, b = shares
        variances = a * one[:, -1] + b * other[:, -1]
        parts = np.sqrt(a) * one[:, :-1], np.sqrt(b) * other[:, :-1], np.sqrt(a * b) * apart
        loadings, scale = np.column_stack(parts), np.sqrt(variances)[:, None]
        U, values, _ = np.linalg.svd(loadings / scale, full_matrices=False)
        W = np.zeros((len(variances), cls.rank))
        W[:, : len(values)] = (scale * U * values)[:, : cls.rank]
        left = variances + np.maximum(np.sum(loadings**2, axis=1) - np.sum(W**2, axis=1), 0)
        return np.column_stack([W, left])

    @classmethod
    def optimism(cls, counts: np.ndarray, n: int) -> np.ndarray:
        """Roughly that of a regression of each feature on the factors."""
        return optimism_of(n + cls.free_parameters(1, n), counts, cls.rank + 3)

    @staticmethod
    def prior_of_rows(n: int, rows: float) -> LogNormalPrior | None:
        return LogNormalPrior(PullOfFactors, rows)

    @classmethod
    def repeat(cls, m: int, matrix: np.ndarray) -> np.ndarray:
        """Half of the variances, as random loadings explain the other half; EM turns these."""
        return np.tile(cls._opening(Diagonal.repeat(1, matrix)), (m, 1, 1))

    @classmethod
    def _opening(cls, variances: np.ndarray) -> np.ndarray:
        """Random loadings, the same for all, beside half of the variances (m, n)."""
        random = np.random.default_rng(0).standard_normal((variances.shape[1], cls.rank))
        half = np.maximum(variances, 1e-300)[..., None] / 2
        return np.concatenate([np.sqrt(half / max(cls.rank, 1)) * random, half], axis=-1)

    @staticmethod
    def transform(array: np.ndarray, A: Bound) -> np.ndarray:
        scale = np.broadcast_to(A, array.shape[1])[:, None]
        return np.concatenate([array[..., :-1] * scale, array[..., -1:] * scale**2], axis=-1)

    @staticmethod
    def raise_to(array: np.ndarray, floor: Bound) -> np.ndarray:
        raised = np.maximum(array[..., -1], floor)
        return np.concatenate([array[..., :-1], raised[..., None]], axis=-1)

    @staticmethod
    def on_floor(array: np.ndarray, floor: Bound) -> np.ndarray:
        """No more features than factors move can be on the floor without a flat direction."""
        low = array[..., -1] <= NEAR_FLOOR * np.asarray(floor)
        return np.asarray(low.sum(axis=1) >= array.shape[-1])

    @staticmethod
    def smallest_variance(array: np.ndarray) -> float:
        return float(np.min(array[..., -1], initial=np.inf))

    @classmethod
    def coordinates(cls, m: int, n: int, floor: float | None = None) -> NoReturn:
        cls.tangent(n)

    @classmethod
    def tangent(cls, n: int) -> NoReturn:
        raise NoStandardErrors("turning the factors of low-rank changes nothing; use bootstrap")


@cache
def of_rank(rank: int) -> type[LowRank]:
    """The type with this many loadings for each feature."""
    body = {"rank": rank, "__module__": __name__, "__doc__": LowRank.__doc__}
    return cast("type[LowRank]", type(f"LowRank{rank}", (LowRank,), body))


def __getattr__(name: str) -> type[LowRank]:
    """Types are found by their names, as pickle does it."""
    if name.startswith("LowRank") and name[len("LowRank") :].isdigit():
        return of_rank(int(name[len("LowRank") :]))
    raise AttributeError(name)
