"""Coordinates of covariances: for optimisation, and for derivatives of the likelihood.

``Coordinates`` writes covariances as vectors of unconstrained numbers. ``Tangent`` has coordinates
near a given mean and covariance, in which these are 0 and the identity: near Σ = RRᵀ every
covariance of a type is R(I + S)Rᵀ, with S = Σ_b s_b E_b for symmetric matrices E_b that the type
allows, and near μ every mean is μ + Ra. In them all derivatives of a log density are polynomials
of z = R⁻¹(x - μ), without any scale:

    ∂/∂a = z,   ∂/∂s_b = ½ tr E_b(zzᵀ - I).

If x has gaps or noise, z is the conditional expectation, its conditional covariance C is added to
zzᵀ, and with P = I - C the second derivatives are

    -∂²/∂a∂aᵀ = P,   -∂²/∂a∂s_b = P E_b z,   -∂²/∂s_b∂s_c = zᵀE_b P E_c z - ½ tr P E_b P E_c.

The numbers s are those of ``Coordinates`` without a floor: off-diagonal entries times √2.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import block_diag, eigh, solve_triangular


def eigen(matrices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues (m, n) and eigenvectors (m, n, n).

    LAPACK's fastest routine fails on some matrices whose eigenvalues are far apart; its plain one
    does not.
    """
    try:
        values, vectors = np.linalg.eigh(matrices)
    except np.linalg.LinAlgError:
        pairs = [eigh(matrix, driver="ev") for matrix in matrices]
        values, vectors = (np.array(part) for part in zip(*pairs, strict=True))
    return values, vectors


class Coordinates(ABC):
    """Covariances of one type as a vector of unconstrained numbers.

    Without a floor the numbers are the entries themselves (off-diagonal ones times √2, so that
    lengths are Frobenius norms): smooth and well scaled, but a covariance may come out indefinite.
    With a floor they are entries of a factor, Σ = floor I + L Lᵀ: always valid, less well scaled.
    ``shape`` is that of the covariances, ``entries`` that of their numbers. ``variances`` (shape)
    is true for the entries of a covariance that are variances. ``units`` (size,) are the entries
    that numbers of 1 stand for, without a floor.
    """

    variances: np.ndarray
    units: np.ndarray

    def __init__(
        self, shape: tuple[int, ...], entries: tuple[int, ...], floor: float | None
    ) -> None:
        self.shape, self.entries, self.floor = shape, entries, floor
        self.size = math.prod(entries)

    @abstractmethod
    def encode(self, array: np.ndarray) -> np.ndarray:
        """The numbers that represent covariances; (size,)."""

    @abstractmethod
    def names(self, features: Sequence[str]) -> list[str]:
        """A name for the entry that each number stands for."""

    @abstractmethod
    def decode(self, x: np.ndarray) -> np.ndarray:
        """The covariances that numbers represent."""

    @abstractmethod
    def pullback(self, x: np.ndarray, G: np.ndarray) -> np.ndarray:
        """Turn gradients (…, own shape) in the covariances into gradients (…, size) in x."""

    @abstractmethod
    def curvature(self, G: np.ndarray) -> np.ndarray | None:
        """Second derivatives (size, size) that the factors add to a cost of gradient G in Σ.

        d²(L Lᵀ) = 2 dL dLᵀ, so they are 2⟨G, dL dLᵀ⟩; only the positive part of G is used. If a
        variance is pressed against the floor, its factor goes to 0 and so does 2JᵀJ. This term
        remains and makes sensible steps there. None without a floor.
        """

    def scale(self, x: np.ndarray) -> np.ndarray:
        """Roughly how far Σ moves if a number changes by 1; (entries)."""
        if self.floor is None:
            return np.ones(self.entries)
        moved = 2 * np.abs(x.reshape(self.entries))
        return np.asarray(np.maximum(moved, 0.05 * moved.mean() + 1e-12))


class VarianceCoordinates(Coordinates):
    """Coordinates of variances: each is one number, the variance or its root above the floor.

    If they are ``by_feature``, the last axis of their shape is that of the features.
    """

    def __init__(
        self, shape: tuple[int, ...], floor: float | None, *, by_feature: bool = False
    ) -> None:
        super().__init__(shape, shape, floor)
        self._by_feature = by_feature
        self.variances, self.units = np.ones(shape, dtype=bool), np.ones(self.size)

    def names(self, features: Sequence[str]) -> list[str]:
        own = self.shape[:-1] if self._by_feature else self.shape
        numbers = [f" {j}" for j in range(own[0])] if own else [""]
        tails = [f" {name}" for name in features] if self._by_feature else [""]
        return [f"variance{j}{tail}" for j in numbers for tail in tails]

    def encode(self, array: np.ndarray) -> np.ndarray:
        array = np.reshape(array, self.shape)
        if self.floor is None:
            return array.reshape(-1)
        return np.asarray(np.sqrt(np.maximum(array - self.floor, 1e-3 * self.floor)).reshape(-1))

    def decode(self, x: np.ndarray) -> np.ndarray:
        x = x.reshape(self.shape)
        return np.array(x) if self.floor is None else np.asarray(self.floor + x * x)

    def pullback(self, x: np.ndarray, G: np.ndarray) -> np.ndarray:
        lead = G.shape[: G.ndim - len(self.shape)]
        g = G if self.floor is None else 2 * x.reshape(self.shape) * G
        return np.asarray(g.reshape(*lead, self.size))

    def curvature(self, G: np.ndarray) -> np.ndarray | None:
        return None if self.floor is None else np.diag(2 * np.maximum(G, 0).reshape(-1))


class MatrixCoordinates(Coordinates):
    """Coordinates of symmetric matrices (…, n, n): the lower triangle of each, or of its factor."""

    def __init__(self, shape: tuple[int, ...], floor: float | None) -> None:
        n = shape[-1]
        self._stack = (math.prod(shape[:-2]), n, n)
        self._rows, self._columns = np.tril_indices(n)
        self._unit = np.where(self._rows == self._columns, 1.0, np.sqrt(0.5))
        super().__init__(shape, (self._stack[0], len(self._rows)), floor)
        self.variances = np.broadcast_to(np.eye(n, dtype=bool), shape)
        self.units = np.tile(self._unit, self._stack[0])

    def names(self, features: Sequence[str]) -> list[str]:
        numbers = [""] if len(self.shape) == 2 else [f" {j}" for j in range(self.shape[0])]
        return [
            f"variance{j} {features[a]}" if a == b else f"covariance{j} {features[b]} {features[a]}"
            for j in numbers
            for a, b in zip(self._rows.tolist(), self._columns.tolist(), strict=True)
        ]

    def encode(self, array: np.ndarray) -> np.ndarray:
        array = np.reshape(array, self._stack)
        if self.floor is None:
            return np.asarray((array[:, self._rows, self._columns] / self._unit).reshape(-1))
        values, vectors = eigen(array)
        values = np.maximum(values - self.floor, 1e-3 * self.floor)
        raised = (vectors * values[:, None, :]) @ vectors.swapaxes(1, 2)
        return np.asarray(np.linalg.cholesky(raised)[:, self._rows, self._columns].reshape(-1))

    def decode(self, x: np.ndarray) -> np.ndarray:
        x = x.reshape(self.entries)
        if self.floor is None:
            array = np.empty(self._stack)
            array[:, self._rows, self._columns] = x * self._unit
            array[:, self._columns, self._rows] = x * self._unit
        else:
            L = self._factor(x)
            array = L @ L.swapaxes(1, 2) + self.floor * np.eye(self.shape[-1])
        return array.reshape(self.shape)

    def pullback(self, x: np.ndarray, G: np.ndarray) -> np.ndarray:
        lead = G.shape[: G.ndim - len(self.shape)]
        G = G.reshape(*lead, *self._stack)
        if self.floor is None:
            g = G[..., self._rows, self._columns] / self._unit
        else:
            L = self._factor(x.reshape(self.entries))
            g = 2 * (G @ L)[..., self._rows, self._columns]
        return np.asarray(g.reshape(*lead, self.size))

    def curvature(self, G: np.ndarray) -> np.ndarray | None:
        if self.floor is None:
            return None
        G = G.reshape(self._stack)
        values, vectors = eigen((G + G.swapaxes(1, 2)) / 2)
        positive = (vectors * np.maximum(values, 0)[:, None, :]) @ vectors.swapaxes(1, 2)
        same_column = self._columns[:, None] == self._columns
        blocks = 2 * positive[:, self._rows[:, None], self._rows] * same_column
        return np.asarray(block_diag(*blocks))

    def _factor(self, x: np.ndarray) -> np.ndarray:
        L = np.zeros(self._stack)
        L[:, self._rows, self._columns] = x
        return L


class Curvature(NamedTuple):
    """-∂² of a log density, summed over rows: by a twice, by a and s, and by s twice."""

    means: np.ndarray  # (n, n)
    mixed: np.ndarray  # (n, q)
    covariances: np.ndarray  # (q, q)


class Tangent(ABC):
    """S as a vector of q numbers, for one covariance in n features; ``size`` is q."""

    def __init__(self, n: int, size: int) -> None:
        self.n, self.size = n, size

    @abstractmethod
    def roots(self, array: np.ndarray, m: int) -> list[np.ndarray]:
        """R of each of m components: a triangular matrix (n, n), or standard deviations (n,)."""

    @abstractmethod
    def whiten(self, root: np.ndarray, D: np.ndarray) -> np.ndarray:
        """R⁻¹d for each row of D (B, n)."""

    def whiten_both_sides(self, root: np.ndarray, C: np.ndarray) -> np.ndarray:
        """R⁻¹CR⁻ᵀ for each matrix in C (B, n, n)."""
        B, n = len(C), self.n
        half = self.whiten(root, C.reshape(B * n, n)).reshape(B, n, n).swapaxes(1, 2)
        return self.whiten(root, half.reshape(B * n, n)).reshape(B, n, n)

    @abstractmethod
    def features(self, Z: np.ndarray, C: np.ndarray | None) -> np.ndarray:
        """½ tr E_b(zzᵀ + C - I) for each row; (B, q)."""

    @abstractmethod
    def curvature(self, r: np.ndarray, Z: np.ndarray, C: np.ndarray) -> Curvature:
        """Second derivatives, summed over rows with weights r (B,)."""

    @abstractmethod
    def complete_curvature(
        self, count: float, first: np.ndarray, features: np.ndarray
    ) -> Curvature:
        """The same for complete rows, from Σ r, Σ r z (n,) and Σ r features (q,)."""

    @abstractmethod
    def numbers(self, root: np.ndarray) -> np.ndarray:
        """The matrix (q, q) from the numbers of S to those of RSRᵀ, for R from ``roots``."""


class MatrixTangent(Tangent):
    """Any symmetric S."""

    def __init__(self, n: int) -> None:
        super().__init__(n, n * (n + 1) // 2)
        self._i, self._j = np.tril_indices(n)
        # E_b = c (e_i e_jᵀ + e_j e_iᵀ), of length 1.
        self._c = np.where(self._i == self._j, 0.5, np.sqrt(0.5))

    def roots(self, array: np.ndarray, m: int) -> list[np.ndarray]:
        matrices = np.broadcast_to(np.linalg.cholesky(array), (m, self.n, self.n))
        return list(matrices)

    def whiten(self, root: np.ndarray, D: np.ndarray) -> np.ndarray:
        return np.asarray(solve_triangular(root, D.T, lower=True).T)

    def features(self, Z: np.ndarray, C: np.ndarray | None) -> np.ndarray:
        products = Z[:, self._i] * Z[:, self._j]
        if C is not None:
            products += C[:, self._i, self._j]
        products[:, self._i == self._j] -= 1
        return np.asarray(self._c * products)

    def curvature(self, r: np.ndarray, Z: np.ndarray, C: np.ndarray) -> Curvature:
        n = self.n
        squares = (Z[:, :, None] * Z[:, None, :]).reshape(len(Z), n * n)
        each = (np.eye(n) - C).reshape(len(Z), n * n)
        weighted = each * r[:, None]
        P = weighted.sum(axis=0).reshape(n, n)
        return self._curvature(P, Z.T @ weighted, squares.T @ weighted, each.T @ weighted)

    def complete_curvature(
        self, count: float, first: np.ndarray, features: np.ndarray
    ) -> Curvature:
        eye = np.eye(self.n)
        squares = count * eye
        squares[self._i, self._j] += features / self._c
        squares[self._j, self._i] = squares[self._i, self._j]
        one = eye.reshape(-1)
        with_zz, twice = np.outer(squares, one), count * np.outer(one, one)
        return self._curvature(count * eye, np.outer(first, one), with_zz, twice)

    def _curvature(
        self, P: np.ndarray, with_z: np.ndarray, with_zz: np.ndarray, twice: np.ndarray
    ) -> Curvature:
        """The result from sums of P, z ⊗ P, zzᵀ ⊗ P and P ⊗ P, each matrix as a vector (n²,)."""
        n, i, j = self.n, self._i, self._j
        with_z = with_z.reshape(n, n, n)
        # E_b z has the entries c z_j at i and c z_i at j.
        mixed = self._c * (with_z[j, :, i] + with_z[i, :, j]).T

        def both(A: np.ndarray) -> np.ndarray:
            """Sum z_i P_jk z_l over both orders of i, j and of k, l, from A[(i, l), (j, k)]."""
            A = A.reshape(n, n, n, n)
            b, c = (i[:, None], j[:, None]), (i[None], j[None])
            total = A[b[0], c[1], b[1], c[0]] + A[b[1], c[1], b[0], c[0]]
            total += A[b[0], c[0], b[1], c[1]] + A[b[1], c[0], b[0], c[1]]
            return np.asarray(np.outer(self._c, self._c) * total)

        own = both(with_zz)
        return Curvature(P, mixed, (own + own.T) / 2 - both(twice) / 2)

    def numbers(self, root: np.ndarray) -> np.ndarray:
        i, j, c = self._i, self._j, self._c
        # ⟨E_b, R E_c Rᵀ⟩ for orthonormal E_b.
        crossed = root[i][:, i] * root[j][:, j] + root[i][:, j] * root[j][:, i]
        return np.asarray(2 * np.outer(c, c) * crossed)


class VarianceTangent(Tangent):
    """Diagonal S; ``stands_for`` (n, q) is 1 where a number is the variance of a feature."""

    def __init__(self, stands_for: np.ndarray, *, common: bool = False) -> None:
        super().__init__(*stands_for.shape)
        self._stands_for, self._common = stands_for, common

    def roots(self, array: np.ndarray, m: int) -> list[np.ndarray]:
        variances = array if self._common or array.ndim == 2 else array[:, None]
        return list(np.broadcast_to(np.sqrt(variances), (m, self.n)))

    def whiten(self, root: np.ndarray, D: np.ndarray) -> np.ndarray:
        return D / root

    def features(self, Z: np.ndarray, C: np.ndarray | None) -> np.ndarray:
        squares = Z * Z
        if C is not None:
            squares += np.diagonal(C, axis1=1, axis2=2)
        return np.asarray((squares - 1) / 2 @ self._stands_for)

    def curvature(self, r: np.ndarray, Z: np.ndarray, C: np.ndarray) -> Curvature:
        B, each = self._stands_for, np.eye(self.n) - C
        P = np.tensordot(r, each, axes=1)
        mixed = np.einsum("b,bij,bj->ij", r, each, Z)
        own = np.einsum("b,bi,bij,bj->ij", r, Z, each, Z)
        own -= np.einsum("b,bij,bij->ij", r, each, each) / 2
        return Curvature(P, mixed @ B, B.T @ own @ B)

    def complete_curvature(
        self, count: float, first: np.ndarray, features: np.ndarray
    ) -> Curvature:
        B = self._stands_for
        own = np.diag(2 * features + count / 2 * B.sum(axis=0))
        return Curvature(count * np.eye(self.n), first[:, None] * B, own)

    def numbers(self, root: np.ndarray) -> np.ndarray:
        return np.diag(root[: self.size] ** 2)
