"""The classes: the covariances of a set of atoms, one class a type."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from momentmix.support.array import Array, array_device, index_array, namespace

COVARIANCE_TYPES = ("full", "tied", "diag", "spherical")
#: Types whose arrays hold variances; the zero of points holds none.
DIAGONAL_TYPES = ("zero", "spherical", "diag")


@dataclass(frozen=True)
class Zero:
    """The covariance of points: nothing to store."""

    n_features: int
    kind: ClassVar[str] = "zero"
    zero: ClassVar[bool] = True
    diagonal: ClassVar[bool] = True
    width: ClassVar[int] = 0
    array: ClassVar[None] = None

    def take(self, rows: slice) -> Zero:
        return self


@dataclass(frozen=True)
class _Nonzero:
    array: Array
    n_features: int
    kind: ClassVar[str]
    diagonal: ClassVar[bool]
    zero: ClassVar[bool] = False

    @property
    def shared(self) -> bool:
        return self.array.shape[0] == 1

    def take(self, rows: slice) -> Any:
        """The covariances of some of the atoms; a shared one is everybody's."""
        return self if self.shared else type(self)(self.array[rows, ...], self.n_features)

    def times(self, A: Array) -> Array:
        """Σa for each row of A, where all atoms share Σ."""
        raise NotImplementedError

    def negative(self) -> Any:
        return type(self)(-self.array, self.n_features)

    def _pooled(self, weights: Array, per_atom: Array) -> Array:
        """Σ_i weights_i G_i where the covariance is shared, each weights_i G_i where not."""
        xp = namespace(per_atom)
        weighted = xp.reshape(weights, (-1,) + (1,) * (per_atom.ndim - 1)) * per_atom
        return xp.sum(weighted, axis=0, keepdims=True) if self.shared else weighted


class Spherical(_Nonzero):
    """Σ_i = s_i I; array (g,)."""

    kind = "spherical"
    diagonal = True
    width = 1

    def variances(self) -> Array:
        xp = namespace(self.array)
        return xp.broadcast_to(self.array[:, None], (self.array.shape[0], self.n_features))

    def matrices(self) -> Array:
        xp = namespace(self.array)
        return self.array[:, None, None] * _identity(xp, self.n_features, self.array)

    def times(self, A: Array) -> Array:
        return A * self.array[0]

    def quadratic(self, X: Array) -> Array:
        xp = namespace(X)
        return xp.sum(X * X, axis=1)[:, None]

    def quadratic_vjp(self, X: Array, W: Array) -> Array:
        return 2 * X * W

    def flat(self) -> Array:
        return self.array[:, None]

    def collect_flat(self, G: Array) -> Array:
        return G[:, 0]

    def collect_variances(self, weights: Array, G: Array) -> Array:
        return namespace(G).sum(self._pooled(weights, G), axis=1)

    def collect_matrices(self, weights: Array, G: Array) -> Array:
        return namespace(G).sum(_diagonals(self._pooled(weights, G)), axis=1)

    def root(self) -> Array:
        return namespace(self.array).sqrt(self.array)

    def colour(self, root: Array, i: int, Z: Array) -> Array:
        return Z * root[i]

    def whitener(self) -> tuple[Array, Array]:
        xp = namespace(self.array)
        _refuse_degenerate(self.array > 0)
        return 1 / xp.sqrt(self.array), -self.half_log_determinants()

    whiten = colour

    def half_log_determinants(self) -> Array:
        return 0.5 * self.n_features * namespace(self.array).log(self.array)

    def marginal(self, features: Array) -> Spherical:
        return Spherical(self.array, features.shape[0])

    def condition(self, kept: Array, given: Array, deltas: Array) -> tuple[Any, Spherical]:
        return 0.0, self.marginal(kept)


class Diagonal(_Nonzero):
    """Σ_i = diag(s_i); array (g, n)."""

    kind = "diag"
    diagonal = True

    @property
    def width(self) -> int:
        return self.n_features

    def variances(self) -> Array:
        return self.array

    def matrices(self) -> Array:
        xp = namespace(self.array)
        return self.array[:, None, :] * _identity(xp, self.n_features, self.array)

    def times(self, A: Array) -> Array:
        return A * self.array[0, :]

    def quadratic(self, X: Array) -> Array:
        return X * X

    def quadratic_vjp(self, X: Array, W: Array) -> Array:
        return 2 * X * W

    def flat(self) -> Array:
        return self.array

    def collect_flat(self, G: Array) -> Array:
        return G

    def collect_variances(self, weights: Array, G: Array) -> Array:
        return self._pooled(weights, G)

    def collect_matrices(self, weights: Array, G: Array) -> Array:
        return _diagonals(self._pooled(weights, G))

    def root(self) -> Array:
        return namespace(self.array).sqrt(self.array)

    def colour(self, root: Array, i: int, Z: Array) -> Array:
        return Z * root[i, :]

    def whitener(self) -> tuple[Array, Array]:
        xp = namespace(self.array)
        _refuse_degenerate(xp.all(self.array > 0, axis=1))
        return 1 / xp.sqrt(self.array), -self.half_log_determinants()

    whiten = colour

    def half_log_determinants(self) -> Array:
        xp = namespace(self.array)
        return 0.5 * xp.sum(xp.log(self.array), axis=1)

    def marginal(self, features: Array) -> Diagonal:
        xp = namespace(self.array)
        return Diagonal(xp.take(self.array, features, axis=1), features.shape[0])

    def condition(self, kept: Array, given: Array, deltas: Array) -> tuple[Any, Diagonal]:
        return 0.0, self.marginal(kept)


class Full(_Nonzero):
    """Any symmetric Σ_i; array (g, n, n)."""

    kind = "full"
    diagonal = False

    @property
    def width(self) -> int:
        return self.n_features * (self.n_features + 1) // 2

    def matrices(self) -> Array:
        return self.array

    def times(self, A: Array) -> Array:
        return A @ self.matrices()[0, :, :]

    def quadratic(self, X: Array) -> Array:
        xp = namespace(X)
        # Rows made contiguous first: the products below then run along memory.
        rows = xp.stack([X[:, a] for a in range(self.n_features)])
        products = xp.concat([rows[a, :] * rows[a:, :] for a in range(self.n_features)])
        return products.mT

    def quadratic_vjp(self, X: Array, W: Array) -> Array:
        # W multiplies each product x_a x_b once, so the matrix with W off the diagonal is halved
        # there: Σ_{a≤b} W_ab x_a x_b = xᵀ (half of W mirrored, W on the diagonal) x.
        xp = namespace(X)
        _, mirror, times = packing(self.n_features)
        halved = W / xp.astype(index_array(times, X), X.dtype)
        M = xp.reshape(xp.take(halved, index_array(mirror, X), axis=1), (-1, *self._square))
        return 2 * xp.matmul(M, X[:, :, None])[:, :, 0]

    def flat(self) -> Array:
        xp = namespace(self.array)
        upper, _, times = packing(self.n_features)
        square = xp.reshape(self.matrices(), (-1, self.n_features**2))
        packed = xp.take(square, index_array(upper, square), axis=1)
        return packed * xp.astype(index_array(times, square), packed.dtype)

    def collect_flat(self, G: Array) -> Array:
        xp = namespace(G)
        _, mirror, _ = packing(self.n_features)
        return xp.reshape(xp.take(G, index_array(mirror, G), axis=1), (-1, *self._square))

    def collect_matrices(self, weights: Array, G: Array) -> Array:
        return self._pooled(weights, G)

    @property
    def _square(self) -> tuple[int, int]:
        return (self.n_features, self.n_features)

    def root(self) -> Array:
        xp = namespace(self.array)
        # Eigenvalues rather than Cholesky, because a semidefinite covariance can be sampled too.
        values, vectors = xp.linalg.eigh(self.matrices())
        values = xp.where(values > 0, values, xp.zeros_like(values))
        return vectors * xp.sqrt(values)[:, None, :]

    def colour(self, root: Array, i: int, Z: Array) -> Array:
        return Z @ root[self._group(i), :, :].mT

    def whitener(self) -> tuple[Array, Array]:
        xp = namespace(self.array)
        matrices = self.matrices()
        _refuse_degenerate(_definite(matrices))
        L = xp.linalg.cholesky(matrices)
        return xp.linalg.inv(L), -self.half_log_determinants()

    whiten = colour

    def half_log_determinants(self) -> Array:
        xp = namespace(self.array)
        return xp.sum(xp.log(_diagonals(xp.linalg.cholesky(self.matrices()))), axis=1)

    def _group(self, i: int) -> int:
        return i

    def marginal(self, features: Array) -> Any:
        xp = namespace(self.array)
        square = xp.take(xp.take(self.array, features, axis=-2), features, axis=-1)
        return type(self)(square, features.shape[0])

    def condition(self, kept: Array, given: Array, deltas: Array) -> tuple[Array, Any]:
        """Shift of the means (m, n_kept) and covariance, given deltas (m, n_given) from means."""
        xp = namespace(self.array)
        S = self.matrices()
        S_g = xp.take(S, given, axis=1)
        S_gg, S_gk = xp.take(S_g, given, axis=2), xp.take(S_g, kept, axis=2)
        solved = xp.linalg.solve(S_gg, S_gk)
        S_kk = xp.take(xp.take(S, kept, axis=1), kept, axis=2)
        left = S_kk - xp.matmul(S_gk.mT, solved)
        left = (left + left.mT) / 2
        shift = xp.matmul(deltas[:, None, :], solved)[:, 0, :]
        return shift, type(self)(self._own_shape(left), kept.shape[0])

    def _own_shape(self, matrices: Array) -> Array:
        return matrices


class Tied(Full):
    """One Σ for all atoms; array (n, n)."""

    kind = "tied"

    @property
    def shared(self) -> bool:
        return True

    def matrices(self) -> Array:
        return self.array[None, :, :]

    def collect_flat(self, G: Array) -> Array:
        return super().collect_flat(G)[0, :, :]

    def collect_matrices(self, weights: Array, G: Array) -> Array:
        return self._pooled(weights, G)[0, :, :]

    def _group(self, i: int) -> int:
        return 0

    def _own_shape(self, matrices: Array) -> Array:
        return matrices[0, :, :]


def make_covariance(kind: str, array: Array, n: int) -> Any:
    """The covariance of a type over an array of its shape; nothing is checked."""
    return Zero(n) if kind == "zero" else _CLASSES[kind](array, n)


#: One of the classes above. Which methods apply follows from ``zero`` and ``diagonal``, which
#: the callers ask.
Covariance = Any

_CLASSES: dict[str, type[Spherical | Diagonal | Full]] = {
    c.kind: c for c in (Spherical, Diagonal, Tied, Full)
}


def _definite(matrices: Array) -> Array:
    """Which of the matrices are safely invertible, whatever the units of the features."""
    xp = namespace(matrices)
    diagonals = _diagonals(matrices)
    scale = xp.sqrt(xp.where(diagonals > 0, diagonals, xp.ones_like(diagonals)))
    correlation = matrices / (scale[:, :, None] * scale[:, None, :])
    lowest = xp.min(xp.linalg.eigvalsh(correlation), axis=-1)
    return lowest > matrices.shape[-1] * xp.finfo(matrices.dtype).eps


def _refuse_degenerate(definite: Array) -> None:
    bad = [i for i in range(definite.shape[0]) if not bool(definite[i])]
    if bad:
        shown = ", ".join(map(str, bad[:10])) + (", …" if len(bad) > 10 else "")
        raise ValueError(
            f"the covariance of component(s) {shown} is singular, so there is no density; "
            "add a small multiple of the identity to it, or drop the constant or dependent features"
        )


def _diagonals(matrices: Array) -> Array:
    return namespace(matrices).linalg.diagonal(matrices)


def _identity(xp: Any, n: int, like: Array) -> Array:
    return xp.eye(n, dtype=like.dtype, device=array_device(like))


@lru_cache(maxsize=32)
def packing(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of the products x_a x_b, a ≤ b, in the order of rows: their places in an n×n matrix, the
    product that each place of the matrix holds, and how many places hold each (1 or 2).
    """
    a, b = np.triu_indices(n)
    upper = a * n + b
    mirror = np.empty((n, n), dtype=np.int64)
    mirror[a, b] = mirror[b, a] = np.arange(len(upper))
    return upper, mirror.reshape(-1), 2 - (a == b).astype(np.int64)
