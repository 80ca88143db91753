"""Cumulants of ⟨X, Y⟩ for all pairs of Gaussian atoms, and their gradients in the parameters.

For X ~ N(μ, Σ) and Y ~ N(μ̃, Σ̃) independent and Z = ΣΣ̃, the inner product of their moments is
⟨M_X^(d), M_Y^(d)⟩ = E⟨X, Y⟩^d = B_d(κ_1, …, κ_d) (Prop. 3.3 of Pereira–Kileel–Kolda), and

    odd k:   κ_k = k! μ̃ᵀ Z^((k-1)/2) μ
    even k:  κ_k = (k-1)! tr Z^(k/2) + k!/2 (μᵀ Σ̃ Z^((k-2)/2) μ + μ̃ᵀ Z^((k-2)/2) Σ μ̃).

There are kernels for four cases: one side has no covariance (samples), one has covariances that
are all 0, both are diagonal, or anything else. Each returns κ_1..κ_d as arrays over the pairs (P
rows, Q columns; None if zero) and a pullback, which turns the derivatives G_k = ∂F/∂κ_k of some F
into its gradients in the means and covariances of P.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

from momentmix.moments.atoms import Atoms
from momentmix.moments.bell import Cumulants, Derivatives
from momentmix.moments.orders import refuse_overflow
from momentmix.support.array import (
    Array,
    Namespace,
    array_device,
    contiguous,
    is_numpy_namespace,
)

#: Features in a block of the diagonal kernel, so that the powers of a few dozen atoms fit a cache.
#: Without blocks, cost grew faster than linearly with n (`make bench`); the
#: size itself is a round number and affects only speed.
FEATURE_BLOCK = 1024

#: Takes G_1..G_d to the gradients in means and covariances, each multiplied by the weights of P;
#: the second is None if P has no covariance.
Pullback: TypeAlias = "Callable[[Derivatives], tuple[Array, Array | None]]"


def cumulants(P: Atoms, Q: Atoms, d: int) -> tuple[Cumulants, Pullback]:
    """κ_1..κ_d of every pair of an atom of P and one of Q, and their pullback to P."""
    if P.covariance.zero:
        return _points_against_atoms(P, Q, d)
    if Q.covariance.zero:
        return _atoms_against_points(P, Q, d)
    if Q.covariance.shared and P.are_points:
        return _narrow_against_atoms(P, Q, d)
    refuse_overflow(d)
    if P.covariance.diagonal and Q.covariance.diagonal:
        return _diagonal_pairs(P, Q, d)
    return _matrix_pairs(P, Q, d)


def _atoms_against_points(P: Atoms, Q: Atoms, d: int) -> tuple[Cumulants, Pullback]:
    """Σ̃ = 0 leaves κ_1 = xᵀμ and κ_2 = xᵀΣx: Thms. 3.5 and 4.3, Algorithm 2.

    κ_2 is linear in Σ, an inner product with quadratic features of x that do not depend on P.
    O(mpn) for diagonal covariances, O(mpn²) for full ones, m atoms in P and p points in Q.
    """
    xp = P.xp
    X, covariance = Q.means, P.covariance
    # Arrays have the points as rows, as X does, and κ is a transposed view: this is faster.
    kappa: list[Array | None] = [_rows_times(X, P.means, xp)]
    if d > 1:
        squares = covariance.features(X)
        kappa += [_rows_times(squares, covariance.flat(), xp)]

    def pullback(G: Derivatives) -> tuple[Array, Array | None]:
        means = P.column * _sum_over_rows(_over_pairs(G[0], P, Q), X, xp)
        if d < 2:
            return means, xp.zeros_like(covariance.array)
        G_2 = _over_pairs(G[1], P, Q)
        if covariance.shared:
            flat = P.column.mT @ G_2 @ squares
        else:
            flat = P.column * _sum_over_rows(G_2, squares, xp)
        return means, covariance.collect_flat(flat)

    return (kappa + [None] * d)[:d], pullback


def _points_against_atoms(P: Atoms, Q: Atoms, d: int) -> tuple[Cumulants, Pullback]:
    """Σ = 0 leaves κ_1 = aᵀμ̃ and κ_2 = aᵀΣ̃a (or none): Thms. 3.5 and 5.2, gradients in a."""
    xp = P.xp
    A, covariance = P.means, Q.covariance
    kappa: list[Array | None] = [A @ Q.means.mT]
    common = None  # Σ̃a, if all atoms of Q share Σ̃, as samples with a common noise do
    if d > 1 and not covariance.zero:
        if covariance.shared:
            common = covariance.times(A)
            kappa += [xp.sum(A * common, axis=1, keepdims=True)]
        else:
            kappa += [covariance.features(A) @ covariance.flat().mT]

    def pullback(G: Derivatives) -> tuple[Array, Array | None]:
        means = _over_pairs(G[0], P, Q) @ Q.means
        if len(kappa) > 1:
            G_2 = _over_pairs(G[1], P, Q)
            if common is not None:
                means = means + 2 * xp.sum(G_2, axis=1, keepdims=True) * common
            else:
                means = means + covariance.features_vjp(A, G_2 @ covariance.flat())
        return P.column * means, None

    return (kappa + [None] * d)[:d], pullback


def _narrow_against_atoms(P: Atoms, Q: Atoms, d: int) -> tuple[Cumulants, Pullback]:
    """Σ = 0 of a type with derivatives, against atoms that share Σ̃: Algorithm 3.

    κ is that of points. Of ∂κ_k/∂Σ in ``_matrix_pairs`` only these are not 0, where b = Σ̃μ:
        ∂κ_2 = μ̃μ̃ᵀ + Σ̃, ∂κ_3 = 3 (μ̃bᵀ + bμ̃ᵀ), ∂κ_4 = 12 bbᵀ.
    O(mpn) for diagonal types and O(mpn²) for others, and O(mn²) in both.
    """
    xp = P.xp
    kappa, pull_points = _points_against_atoms(P.as_points(), Q, d)
    zero = xp.zeros((1, 1), dtype=P.means.dtype, device=array_device(P.means))
    kappa = [zero if 2 < k <= 4 else x for k, x in enumerate(kappa, 1)]

    def pullback(G: Derivatives) -> tuple[Array, Array | None]:
        covariance, column = P.covariance, P.column
        means, _ = pull_points(G)
        if d < 2:
            return means, xp.zeros_like(covariance.array)
        g = [_over_pairs(G_k, P, Q) for G_k in G[1:4]]
        flat = column.mT @ g[0] if covariance.shared else column * g[0]
        b, T = Q.covariance.times(P.means), Q.covariance.matrices()
        matrices = xp.sum(g[0], axis=1)[:, None, None] * T
        if d > 2:
            outer = 3 * (g[1] @ Q.means)[:, :, None] * b[:, None, :]
            matrices = matrices + outer + outer.mT
        if d > 3:
            squares = b[:, :, None] * b[:, None, :]
            matrices = matrices + 12 * xp.sum(g[2], axis=1)[:, None, None] * squares
        of_points = covariance.collect_flat(flat @ covariance.features(Q.means))
        return means, of_points + covariance.collect_matrices(column[:, 0], matrices)

    return kappa, pullback


def _diagonal_pairs(P: Atoms, Q: Atoms, d: int) -> tuple[Cumulants, Pullback]:
    """Both diagonal, with variances s: Algorithm 1, in which every term is a matrix product.

    With r = k // 2, means A, and powers taken entrywise,
        odd k:   κ_k = k! (s^r A)(s̃^r Ã)ᵀ
        even k:  κ_k = (k-1)! [(s^r + r s^(r-1) A²)(s̃^r)ᵀ + s^r (r s̃^(r-1) Ã²)ᵀ].
    O(m m̃ n d), in blocks of features, over which κ is summed. A shared covariance has one row.
    """
    xp, n = P.xp, P.means.shape[1]
    variances, other_variances = P.covariance.variances(), Q.covariance.variances()
    blocks = [slice(a, min(a + FEATURE_BLOCK, n)) for a in range(0, n, FEATURE_BLOCK)]

    def block(f: slice) -> _DiagonalBlock:
        left, right = (P.means[:, f], variances[:, f]), (Q.means[:, f], other_variances[:, f])
        return _DiagonalBlock(left, right, d, xp)

    first = block(blocks[0])
    kappa = [first.kappa(k) for k in range(1, d + 1)]
    for f in blocks[1:]:
        more = block(f)
        kappa = [total + more.kappa(k) for k, total in enumerate(kappa, 1)]

    def pullback(G: Derivatives) -> tuple[Array, Array | None]:
        # One row is enough of any but the first, which gives the sums below their shape.
        rows = [G_k if k and not isinstance(G_k, float) else None for k, G_k in enumerate(G)]
        g = [_over_pairs(G_k, P, Q) if x is None else x for x, G_k in zip(rows, G, strict=True)]
        in_means, in_variances = first.pullback(g)
        if len(blocks) > 1:
            # Powers are recomputed, because keeping them takes many times the parameters' memory.
            parts = [(in_means, in_variances), *(block(f).pullback(g) for f in blocks[1:])]
            in_means, in_variances = (xp.concat(part, axis=1) for part in zip(*parts, strict=True))
        collected = P.covariance.collect_variances(P.column[:, 0], in_variances)
        return P.column * in_means, collected

    return kappa, pullback


class _DiagonalBlock:
    """The cumulants of some features of all pairs of diagonal atoms, from entrywise powers."""

    def __init__(
        self, left: tuple[Array, Array], right: tuple[Array, Array], d: int, xp: Namespace
    ) -> None:
        (self.A, s), (B, t) = left, right
        self.A_squared = self.A * self.A
        self.s, self.t = _powers(s, d // 2), _powers(t, d // 2)
        self.linear = [B] + [power * B for power in self.t[1:]]
        B_squared = B * B
        self.square = [B_squared] + [power * B_squared for power in self.t[1:]]
        self.xp = xp

    def kappa(self, k: int) -> Array:
        A, r, factor = self.A, k // 2, float(math.factorial(k))
        if k % 2:
            return factor * (self.scaled(r, A) @ self.linear[r].mT)
        left = self.s[r] + r * self.scaled(r - 1, self.A_squared)
        right = self.s[r] @ self.square[r - 1].mT
        return (factor / k) * (left @ self.t[r].mT + r * right)

    def pullback(self, G: list[Array]) -> tuple[Array, Array]:
        A, t, xp, scaled = self.A, self.t, self.xp, self.scaled
        means, variances = G[0] @ self.linear[0], xp.zeros_like(A)
        for k, G_k in enumerate(G[1:], 2):
            r, factor = k // 2, float(math.factorial(k))
            if k % 2:
                W = (factor * G_k) @ self.linear[r]
                means += scaled(r, W)
                variances += scaled(r - 1, A * (r * W))
                continue
            shared = xp.sum(G_k, axis=1, keepdims=True) if t[r].shape[0] == 1 else G_k
            W = (factor * shared) @ t[r]
            AW = A * W
            means += scaled(r - 1, AW)
            variances += scaled(r - 1, (r / k) * W + (r * factor / 2 * G_k) @ self.square[r - 1])
            if r > 1:
                variances += ((r - 1) / 2) * scaled(r - 2, A * AW)
        return means, variances

    def scaled(self, r: int, X: Array) -> Array:
        """s^r X."""
        return X if r == 0 else self.s[r] * X


def _matrix_pairs(P: Atoms, Q: Atoms, d: int) -> tuple[Cumulants, Pullback]:
    """Any covariances: Prop. 3.3 and the derivatives of App. A, for all pairs at once.

    All of it follows from two sequences of vectors (the means of Y and X after tilting the pair by
    exp(t⟨X, Y⟩), as power series in t) and one of symmetric matrices,
        c_0 = μ̃, c̃_0 = μ,  c_s = Σ̃ c̃_{s-1}, c̃_s = Σ c_{s-1},  E_r = Σ̃ Z^r,
        κ_k / k!     = (c_0ᵀ c̃_{k-1} + c̃_0ᵀ c_{k-1}) / 2 + [k even] ⟨Σ, E_{k/2-1}⟩ / k,
        ∂κ_k/∂μ / k! = c_{k-1},
        ∂κ_k/∂Σ / k! = (Σ_{s+t=k-2} c_s c_tᵀ + [k even] E_{k/2-1}) / 2.
    O(m m̃ (n³ d + n² d + n d²)) if no side shares its covariance, without a loop over pairs.
    """
    xp, n = P.xp, P.means.shape[1]
    S, T = P.covariance.matrices(), Q.covariance.matrices()
    c, c_tilde = [Q.means[None, :, :]], [P.means[:, None, :]]
    for _ in range(1, d):
        c_tilde.append(xp.matmul(c[-1], S))
        c.append(_apply_columns(T, c_tilde[-2], xp))
    E = [T[None, :, :, :]]
    if d > 3:
        Z_transposed = xp.matmul(E[0], S[:, None, :, :])
        for _ in range(1, d // 2):
            E.append(xp.matmul(Z_transposed, E[-1]))

    def kappa(k: int) -> Array:
        means = (xp.vecdot(c[0], c_tilde[k - 1]) + xp.vecdot(c_tilde[0], c[k - 1])) / 2
        if k % 2 == 0:
            means = means + _inner_with_rows(S, E[k // 2 - 1], xp) / k
        return math.factorial(k) * means

    def pullback(G: Derivatives) -> tuple[Array, Array | None]:
        g = [math.factorial(k) * _over_pairs(G[k - 1], P, Q) for k in range(1, d + 1)]
        means = _weighted_sum(g[0], c[0], xp)
        for g_k, c_k in zip(g[1:], c[1:], strict=True):
            means = means + _weighted_sum(g_k, c_k, xp)
        covariances = xp.zeros((len(P), n, n), dtype=means.dtype, device=array_device(means))
        for s in range(d - 1):
            right = g[s + 1][:, :, None] * c[0]
            for t in range(1, d - 1 - s):
                right += g[s + t + 1][:, :, None] * c[t]
            left = xp.broadcast_to(c[s], right.shape)
            covariances += xp.matmul(left.mT, right)
        for r, E_r in enumerate(E[: d // 2]):
            square = xp.reshape(E_r, (*E_r.shape[:2], n * n))
            covariances += xp.reshape(_weighted_sum(g[2 * r + 1], square, xp), (-1, n, n))
        return P.column * means, P.covariance.collect_matrices(P.column[:, 0], covariances / 2)

    return [kappa(k) for k in range(1, d + 1)], pullback


def _powers(s: Array, highest: int) -> list[Array]:
    """s^k at place k; place 0 is not 1 but s again, because the power 0 is left out of products."""
    powers = [s, s]
    for _ in range(2, highest + 1):
        powers.append(powers[-1] * s)
    return powers


def _apply_columns(T: Array, V: Array, xp: Namespace) -> Array:
    """T_j V_ij for V (m, m̃ or 1, n) and symmetric T (m̃ or 1, n, n)."""
    if T.shape[0] == 1:
        return V @ T[0, :, :]
    return xp.permute_dims(xp.matmul(xp.permute_dims(V, (1, 0, 2)), T), (1, 0, 2))


def _inner_with_rows(S: Array, E: Array, xp: Namespace) -> Array:
    """⟨S_i, E_ij⟩ for S (m or 1, n, n) and E (m or 1, m̃ or 1, n, n)."""
    square = xp.reshape(E, (*E.shape[:2], -1))
    if E.shape[0] == 1:
        return xp.reshape(S, (S.shape[0], -1)) @ square[0, :, :].mT
    return xp.matmul(square, xp.reshape(S, (S.shape[0], -1, 1)))[:, :, 0]


def _weighted_sum(g: Array, V: Array, xp: Namespace) -> Array:
    """Σ_j g_ij V_ij for V (m or 1, m̃ or 1, N); (m, N)."""
    if V.shape[1] == 1:
        g = xp.sum(g, axis=1, keepdims=True)
    if V.shape[0] == 1:
        return g @ V[0, :, :]
    return xp.matmul(g[:, None, :], V)[:, 0, :]


@lru_cache(maxsize=256)
def _slab_height(rows: int, work: int) -> int | None:
    """Height of the slabs into which to cut a tall factor of a product, if that pays; else None.

    For products of up to 10^6 multiplications, OpenBLAS has a kernel without packing that is a
    third faster than its usual one. A single batched call multiplies all slabs. ``work`` is the
    number of multiplications for each row.
    """
    if rows <= 256 or 256 * work > 1_000_000:
        return None
    heights = (rows // count for count in range(rows // 256, rows // 63) if rows % count == 0)
    return next((height for height in heights if height <= 256), None)


def _rows_times(X: Array, A: Array, xp: Namespace) -> Array:
    """A Xᵀ for tall X (b, n) and A (m, n), as a transposed view of X Aᵀ."""
    height = _slab_height(X.shape[0], A.shape[0] * A.shape[1])
    if height is None or not is_numpy_namespace(xp):
        return (X @ A.mT).mT
    product = xp.reshape(X, (-1, height, X.shape[1])) @ contiguous(A.mT)
    return xp.reshape(product, (X.shape[0], A.shape[0])).mT


def _sum_over_rows(G: Array, X: Array, xp: Namespace) -> Array:
    """G X for G (m, b), the transpose of an array (b, m), and tall X (b, n)."""
    height = _slab_height(X.shape[0], G.shape[0] * X.shape[1])
    if height is None or not is_numpy_namespace(xp):
        return G @ X
    weights = xp.reshape(G.mT, (-1, height, G.shape[0]))
    slabs = xp.reshape(X, (-1, height, X.shape[1]))
    return xp.sum(weights.mT @ slabs, axis=0)


def _over_pairs(G: Array | float | None, P: Atoms, Q: Atoms) -> Array:
    """Broadcast G, a number or an array with one row or column, to all pairs.

    G is None only for cumulants that are zero, and kernels do not need their derivatives.
    """
    assert G is not None
    shape = (len(P), len(Q))
    if isinstance(G, float):
        G = P.xp.asarray(G, dtype=P.means.dtype, device=array_device(P.means))
    return G if tuple(G.shape) == shape else P.xp.broadcast_to(G, shape)
