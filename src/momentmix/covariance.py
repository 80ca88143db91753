"""Covariances of a set of atoms: spherical, diag, tied, full, and the zero of points.

The only file that branches on the covariance type. Each class holds the covariances of all atoms
of a distribution in one array of scikit-learn's shape. The leading dimension g of that array is
the number of atoms, or 1 where all atoms share one covariance (tied; a common noise). Whatever the
type, a covariance offers the rest of the package four things:

* ``quadratic(X)`` and ``flat()``: xᵀΣx as an inner product of the features of x that Σ can see
  (x∗x for a diagonal, the products x_a x_b for a full matrix) with the entries of Σ;
* ``variances()`` where Σ is diagonal, and ``matrices()`` always: canonical shapes for formulas;
* ``collect_*``: the way back, a gradient in a canonical shape to one in the covariance's own;
* square roots and whiteners for sampling and densities, marginals and conditionals.

Negative covariances are legal (Lemma A.4 of Pereira–Kileel–Kolda): debiasing uses them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from momentmix._array import (
    Array,
    all_finite,
    array_device,
    as_float_array,
    index_array,
    namespace,
)

COVARIANCE_TYPES = ("full", "tied", "diag", "spherical")


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
        _, mirror, times = _packing(self.n_features)
        halved = W / xp.astype(index_array(times, X), X.dtype)
        M = xp.reshape(xp.take(halved, index_array(mirror, X), axis=1), (-1, *self._square))
        return 2 * xp.matmul(M, X[:, :, None])[:, :, 0]

    def flat(self) -> Array:
        xp = namespace(self.array)
        upper, _, times = _packing(self.n_features)
        square = xp.reshape(self.matrices(), (-1, self.n_features**2))
        packed = xp.take(square, index_array(upper, square), axis=1)
        return packed * xp.astype(index_array(times, square), packed.dtype)

    def collect_flat(self, G: Array) -> Array:
        xp = namespace(G)
        _, mirror, _ = _packing(self.n_features)
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


class Coordinates:
    """Covariances of one type as a vector of free numbers, for optimisation.

    Without a floor the numbers are the entries themselves (off-diagonal ones times √2, so that
    lengths are Frobenius norms): smooth and well scaled, but a covariance may come out indefinite.
    With a floor they are entries of a factor, Σ = floor I + L Lᵀ: always valid, less well scaled.
    """

    def __init__(self, kind: str, m: int, n: int, floor: float | None = None) -> None:
        self.kind, self.n, self.floor = kind, n, floor
        self.shape = {"spherical": (m,), "diag": (m, n), "tied": (1, n, n), "full": (m, n, n)}[kind]
        self.square = kind in ("full", "tied")
        lower = np.tril_indices(n)
        self._rows, self._columns = lower
        self._unit = np.where(lower[0] == lower[1], 1.0, np.sqrt(0.5))
        entries = (self.shape[0], len(self._rows)) if self.square else self.shape
        self.entries, self.size = entries, int(np.prod(entries))

    def encode(self, array: np.ndarray) -> np.ndarray:
        array = np.reshape(array, self.shape)
        if self.floor is None:
            if self.square:
                array = array[:, self._rows, self._columns] / self._unit
            return array.reshape(-1)
        tiny = 1e-3 * self.floor
        if not self.square:
            return np.sqrt(np.maximum(array - self.floor, tiny)).reshape(-1)
        values, vectors = np.linalg.eigh(array)
        values = np.maximum(values - self.floor, tiny)
        raised = (vectors * values[:, None, :]) @ vectors.swapaxes(1, 2)
        return np.linalg.cholesky(raised)[:, self._rows, self._columns].reshape(-1)

    def decode(self, x: np.ndarray) -> np.ndarray:
        x = x.reshape(self.entries)
        if not self.square:
            return x.copy() if self.floor is None else self.floor + x * x
        if self.floor is None:
            array = np.empty(self.shape)
            array[:, self._rows, self._columns] = x * self._unit
            array[:, self._columns, self._rows] = x * self._unit
        else:
            L = self._factor(x)
            array = L @ L.swapaxes(1, 2) + self.floor * np.eye(self.n)
        return array[0] if self.kind == "tied" else array

    def pullback(self, x: np.ndarray, G: np.ndarray) -> np.ndarray:
        """From gradients (…, own shape) in the covariances to gradients (…, size) in x."""
        lead = G.shape[: G.ndim - len(self.shape) + (self.kind == "tied")]
        G = G.reshape(*lead, *self.shape)
        x = x.reshape(self.entries)
        if not self.square:
            g = G if self.floor is None else 2 * x * G
        elif self.floor is None:
            g = G[..., self._rows, self._columns] / self._unit
        else:
            g = 2 * (G @ self._factor(x))[..., self._rows, self._columns]
        return g.reshape(*lead, self.size)

    def _factor(self, x: np.ndarray) -> np.ndarray:
        L = np.zeros(self.shape)
        L[:, self._rows, self._columns] = x
        return L

    def scale(self, x: np.ndarray) -> np.ndarray:
        """How far Σ moves for a unit of each number, roughly; (entries)."""
        if self.floor is None:
            return np.ones(self.entries)
        moved = 2 * np.abs(x.reshape(self.entries))
        return np.maximum(moved, 0.05 * moved.mean() + 1e-12)


def restricted(kind: str, weights: np.ndarray, G: np.ndarray) -> np.ndarray:
    """Gradients (m, N, n, n) in each atom's matrix as gradients (N, own shape) of the mixture."""
    if kind == "tied":
        return np.tensordot(weights, G, axes=1)
    G = np.moveaxis(weights[:, None, None, None] * G, 0, 1)
    if kind == "full":
        return G
    diagonals = np.diagonal(G, axis1=2, axis2=3)
    return diagonals if kind == "diag" else diagonals.sum(axis=2)


def raised_to_floor(kind: str, array: np.ndarray, floor: float) -> np.ndarray:
    """The nearest covariances with no variance, or eigenvalue, below the floor."""
    if kind in ("spherical", "diag"):
        return np.maximum(array, floor)
    values, vectors = np.linalg.eigh(array)
    raised = (vectors * np.maximum(values, floor)[..., None, :]) @ vectors.swapaxes(-1, -2)
    return (raised + raised.swapaxes(-1, -2)) / 2


def log_density_coefficients(
    kind: str, means: np.ndarray, array: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """log N(x; μ_j, Σ_j) = constant_j + linear_j · x + quadratic_j · features(x).

    The features are those of ``quadratic``; (m,), (m, n) and (m or 1, D). Cancellation costs a
    relative 1e-16 of ‖x‖²/σ², nothing in centred and scaled coordinates.
    """
    n = means.shape[1]
    if kind in ("spherical", "diag"):
        precision = 1 / array
        per_feature = precision[:, None] if kind == "spherical" else precision
        linear = means * per_feature
        logs = np.broadcast_to(np.log(per_feature), means.shape).sum(axis=1)
    else:
        precision = np.linalg.inv(array)
        linear = (means[:, None, :] @ precision)[:, 0, :]
        logs = -np.linalg.slogdet(array)[1]
    constant = 0.5 * (logs - np.sum(means * linear, axis=1) - n * np.log(2 * np.pi))
    if kind == "spherical":
        return constant, linear, -0.5 * precision[:, None]
    if kind == "diag":
        return constant, linear, -0.5 * precision
    upper, _, times = _packing(n)
    return constant, linear, precision.reshape(-1, n * n)[:, upper] * (-0.5 * times)


def fitted_covariance(
    kind: str, shares: np.ndarray, means: np.ndarray, seconds: np.ndarray, floor: float
) -> np.ndarray:
    """Covariances of components with given shares, means and mean features; floor I is added."""
    n = means.shape[1]
    if kind == "spherical":
        return np.maximum(seconds[:, 0] - np.sum(means * means, axis=1), 0) / n + floor
    if kind == "diag":
        return np.maximum(seconds - means * means, 0) + floor
    matrices = seconds[:, _packing(n)[1]].reshape(-1, n, n)
    matrices = matrices - means[:, :, None] * means[:, None, :] + floor * np.eye(n)
    return np.tensordot(shares, matrices, axes=1) if kind == "tied" else matrices


def common_covariance(kind: str, m: int, matrix: np.ndarray) -> np.ndarray:
    """One covariance matrix for all of m components, in the shape of the type."""
    n = len(matrix)
    if kind == "spherical":
        return np.full(m, np.trace(matrix) / n)
    if kind == "diag":
        return np.tile(np.diag(matrix), (m, 1))
    return matrix.copy() if kind == "tied" else np.tile(matrix, (m, 1, 1))


def mapped_covariance(kind: str, array: np.ndarray, A: np.ndarray) -> np.ndarray:
    """A Σ Aᵀ, where A is a number for spherical, a vector for diag and a matrix otherwise."""
    if kind in ("spherical", "diag"):
        return array * A**2
    mapped = A @ array @ A.T
    return (mapped + mapped.swapaxes(-1, -2)) / 2


def merged_covariance(kind: str, difference: np.ndarray) -> np.ndarray:
    """The outer square of a difference of means, as far as a covariance of the type can see it."""
    if kind == "spherical":
        return np.asarray(np.mean(difference**2))
    return difference**2 if kind == "diag" else np.outer(difference, difference)


def replaced(kind: str, array: np.ndarray, rows: list[int], new: np.ndarray) -> np.ndarray:
    """The covariances with those of some components exchanged; a tied one stays."""
    if kind == "tied":
        return array
    array = array.copy()
    array[rows] = new
    return array


def free_parameters(kind: str, m: int, n: int) -> int:
    """Degrees of freedom of the covariances."""
    square = n * (n + 1) // 2
    return {"spherical": m, "diag": m * n, "tied": square, "full": m * square}[kind]


def precision_cholesky(kind: str, array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Precisions, and their factors U with Σ⁻¹ = U Uᵀ, in the shapes of the covariances."""
    if kind in ("spherical", "diag"):
        return 1 / array, 1 / np.sqrt(array)
    factors = np.linalg.inv(np.linalg.cholesky(array)).swapaxes(-1, -2)
    return factors @ factors.swapaxes(-1, -2), factors


def smallest_variance(kind: str, array: np.ndarray) -> float:
    """The least variance, or eigenvalue, of all components."""
    values = array if kind in ("spherical", "diag") else np.linalg.eigvalsh(array)
    return float(np.min(values))


def make_covariance(kind: str, array: Array, n: int) -> Any:
    """The covariance of a type over an array of its shape; nothing is checked."""
    return _CLASSES[kind](array, n)


#: One of the classes above. Which methods apply follows from ``zero`` and ``diagonal``, which
#: the callers ask.
Covariance = Any

_CLASSES: dict[str, type[Spherical | Diagonal | Full]] = {
    c.kind: c for c in (Spherical, Diagonal, Tied, Full)
}


def component_covariance(kind: str, array: Any, m: int, n: int) -> Any:
    """The covariance of a mixture of m components in n features, checked."""
    if kind not in COVARIANCE_TYPES:
        raise ValueError(f"covariance_type must be one of {COVARIANCE_TYPES}, got {kind!r}")
    shape = {"spherical": (m,), "diag": (m, n), "tied": (n, n), "full": (m, n, n)}[kind]
    array = as_float_array(array, "covariances", (1, 2, 3))
    if tuple(array.shape) != shape:
        raise ValueError(
            f"covariances must have shape {shape} for covariance_type={kind!r} with {m} "
            f"component(s) and {n} feature(s), but have shape {tuple(array.shape)}"
        )
    return make_covariance(kind, _checked(array, kind, "covariances"), n)


def noise_covariance(array: Any, p: int, n: int) -> Any:
    """The covariance of the noise in p samples of n features, checked.

    A scalar or one entry (noise of equal variance), (n,) (a variance a feature), (n, n) (a matrix),
    each for all samples alike; or one for each sample: (p,), (p, n), (p, n, n).
    """
    array = as_float_array(array, "noise_covariance", (0, 1, 2, 3))
    xp = namespace(array)
    shape = tuple(array.shape)
    if shape in ((), (1,)):
        kind, array = "spherical", xp.reshape(array, (1,))
    elif shape == (n,):
        kind, array = "diag", xp.reshape(array, (1, n))
    elif shape == (n, n):
        kind = "tied"
    elif shape in ((p,), (p, n), (1, n), (p, n, n), (1, n, n)):
        kind = ("spherical", "diag", "full")[len(shape) - 1]
    else:
        raise ValueError(
            f"noise_covariance must be a scalar or have shape ({n},) or ({n}, {n}) for noise "
            f"common to all samples, or ({p},), ({p}, {n}) or ({p}, {n}, {n}) for one covariance "
            f"a sample; got shape {shape}"
        )
    return make_covariance(kind, _checked(array, kind, "noise_covariance"), n)


def _checked(array: Array, kind: str, name: str) -> Array:
    """Finite, symmetric and positive semidefinite; rounding in the symmetry is taken out."""
    xp = namespace(array)
    if not all_finite(array):
        raise ValueError(f"{name} must be finite, but hold NaN or infinity")
    if kind in ("spherical", "diag"):
        if bool(xp.any(array < 0)):
            raise ValueError(
                f"{name} must not be negative, but the smallest variance is "
                f"{float(xp.min(array)):g}; give variances, not precisions or logarithms"
            )
        return array
    eps = xp.finfo(array.dtype).eps
    size = float(xp.max(xp.abs(array)))
    skew = float(xp.max(xp.abs(array - array.mT)))
    if skew > 1e4 * eps * size:
        raise ValueError(
            f"{name} must be symmetric, but differ from their transpose by {skew:g}; "
            "symmetrise them with (S + S.T) / 2 if that is what they mean"
        )
    array = (array + array.mT) / 2
    values = xp.linalg.eigvalsh(array)
    lowest, highest = xp.min(values, axis=-1), xp.max(xp.abs(values), axis=-1)
    tolerance = 100 * array.shape[-1] * eps * highest
    if bool(xp.any(lowest < -tolerance)):
        raise ValueError(
            f"{name} must be positive semidefinite, but an eigenvalue is {float(xp.min(lowest)):g}"
        )
    return array


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
def _packing(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of the products x_a x_b, a ≤ b, in the order of rows: their places in an n×n matrix, the
    product that each place of the matrix holds, and how many places hold each (1 or 2).
    """
    a, b = np.triu_indices(n)
    upper = a * n + b
    mirror = np.empty((n, n), dtype=np.int64)
    mirror[a, b] = mirror[b, a] = np.arange(len(upper))
    return upper, mirror.reshape(-1), 2 - (a == b).astype(np.int64)
