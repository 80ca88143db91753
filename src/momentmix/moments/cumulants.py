"""Cumulants of ⟨X, Y⟩ for all pairs of Gaussian atoms, and their gradients in the parameters.

For X ~ N(μ, Σ) and Y ~ N(μ̃, Σ̃) independent and Z = ΣΣ̃, the inner product of their moments is
⟨M_X^(d), M_Y^(d)⟩ = E⟨X, Y⟩^d = B_d(κ_1, …, κ_d) (Prop. 3.3 of Pereira–Kileel–Kolda), and

    odd k:   κ_k = k! μ̃ᵀ Z^((k-1)/2) μ
    even k:  κ_k = (k-1)! tr Z^(k/2) + k!/2 (μᵀ Σ̃ Z^((k-2)/2) μ + μ̃ᵀ Z^((k-2)/2) Σ μ̃).

There are kernels for five cases: one side has no covariance (samples), one has covariances that
are all 0, both are diagonal, or so beside loadings, or anything else. Each returns κ_1..κ_d as
arrays over the pairs (P rows, Q columns; None if zero) and a pullback, which turns the derivatives
G_k = ∂F/∂κ_k of some F into its gradients in the means and covariances of P.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, reduce
from operator import add
from typing import TypeAlias

from momentmix.covariance import Covariance
from momentmix.moments.atoms import Atoms
from momentmix.moments.bell import Cumulants, Derivatives
from momentmix.moments.orders import refuse_overflow
from momentmix.support.array import (
    Array,
    Namespace,
    array_device,
    contiguous,
    is_numpy_namespace,
    namespace,
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
    if Q.covariance.shared and P.are_points and not P.covariance.rank:
        return _narrow_against_atoms(P, Q, d)
    refuse_overflow(d)
    if P.covariance.thin and Q.covariance.thin:
        loaded = d > 0 and P.covariance.rank + Q.covariance.rank > 0
        return _thin_pairs(P, Q, d) if loaded else _diagonal_pairs(P, Q, d)
    return _matrix_pairs(P, Q, d)


def _atoms_against_points(P: Atoms, Q: Atoms, d: int) -> tuple[Cumulants, Pullback]:
    """Σ̃ = 0 leaves κ_1 = xᵀμ and κ_2 = xᵀΣx: Thms. 3.5 and 4.3, Algorithm 2.

    κ_2 is linear in Σ, an inner product with quadratic features of x that do not depend on P; to it
    loadings add ‖Wᵀx‖². O(mpn) for diagonal covariances, O(mpnq) with q loadings, O(mpn²) for full
    ones, m atoms in P and p points in Q.
    """
    xp = P.xp
    X, covariance = Q.means, P.covariance
    # Arrays have the points as rows, as X does, and κ is a transposed view: this is faster.
    kappa: list[Array | None] = [_rows_times(X, P.means, xp)]
    if d > 1:
        squares = covariance.features(X)
        kappa += [_rows_times(squares, covariance.flat(), xp)]
        if covariance.rank:
            products, W = _by_factor(X, covariance, xp)
            kappa[1] = kappa[1] + xp.sum(products * products, axis=2).mT

    def pullback(G: Derivatives) -> tuple[Array, Array | None]:
        means = P.column * _sum_over_rows(_over_pairs(G[0], P, Q), X, xp)
        if d < 2:
            return means, xp.zeros_like(covariance.array)
        G_2 = _over_pairs(G[1], P, Q)
        if covariance.rank:
            size = products.shape[1] * products.shape[2]
            inside = xp.reshape(2 * G_2.mT[:, :, None] * products, (X.shape[0], size))
            loadings = xp.permute_dims(xp.reshape(X.mT @ inside, W.shape), (1, 0, 2))
            found = covariance.collect_factors(P.column[:, 0], loadings, G_2 @ squares)
            return means, found
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
            if covariance.rank:
                products, W = _by_factor(A, covariance, xp)
                kappa[1] = kappa[1] + xp.sum(products * products, axis=2)

    def pullback(G: Derivatives) -> tuple[Array, Array | None]:
        means = _over_pairs(G[0], P, Q) @ Q.means
        if len(kappa) > 1:
            G_2 = _over_pairs(G[1], P, Q)
            if common is not None:
                means = means + 2 * xp.sum(G_2, axis=1, keepdims=True) * common
            else:
                means = means + covariance.features_vjp(A, G_2 @ covariance.flat())
                if covariance.rank:
                    flat = xp.reshape(W, (W.shape[0], -1))
                    inside = xp.reshape(2 * G_2[:, :, None] * products, (len(P), flat.shape[1]))
                    means = means + inside @ flat.mT
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


def _thin_pairs(P: Atoms, Q: Atoms, d: int) -> tuple[Cumulants, Pullback]:
    """Σ = WWᵀ + S, S = diag s, on both sides: Prop. 3.3 by power series, linear in n.

    Integrate exp(t⟨X, Y⟩) over the noise of X and Y, then over their factors. With U = [W, μ] and
    the series R = (1 - t²SS̃)⁻¹, what is left of the features are the matrices
        N = [t² UᵀRS̃U, t UᵀRŨ; t ŨᵀRU, t² ŨᵀRSŨ],
    which have a row for each factor and each mean. So with the indicator e of both means and the
    projection J on the factors, Σ_k κ_k t^k / k! is
        Ψ = eᵀNv/2 - log det(I - JN)/2 - log det(I - t²SS̃)/2,   v = e + JNv,
    and because v makes a quadratic form stationary, of N it has the derivative
        H/2 = (vvᵀ + J(I - NJ)⁻¹)/2.
    O(m m̃ ((q + 1)(q̃ + 1) n d + (q + q̃)³ d²)), most of it in matrix products, in blocks of
    features. Without loadings it is Algorithm 1.
    """
    xp, n = P.xp, P.n_features
    sides = []
    for x in (P, Q):
        W = x.covariance.loadings()
        W = xp.broadcast_to(W, (len(x), *W.shape[1:]))
        U = xp.permute_dims(xp.concat([W, x.means[:, :, None]], axis=2), (0, 2, 1))
        sides.append((U, x.covariance.variances()))
    (U, s), (V, t) = sides

    def block(start: int) -> _ThinBlock:
        f = slice(start, min(start + FEATURE_BLOCK, n))
        return _ThinBlock(U[:, :, f], s[:, f], V[:, :, f], t[:, f], d)

    first = block(0)
    products = first.products()
    for start in range(FEATURE_BLOCK, n, FEATURE_BLOCK):
        products = [a + b for a, b in zip(products, block(start).products(), strict=True)]
    series = _FactorSeries(products, d)

    def pullback(G: Derivatives) -> tuple[Array, Array | None]:
        adjoints = series.pullback([_over_pairs(x, P, Q) for x in G])
        parts = [first.pullback(adjoints)]
        parts += [block(k).pullback(adjoints) for k in range(FEATURE_BLOCK, n, FEATURE_BLOCK)]
        in_U, in_s = (xp.concat(part, axis=-1) for part in zip(*parts, strict=True))
        loadings = xp.permute_dims(in_U[:, :-1, :], (0, 2, 1))
        collected = P.covariance.collect_factors(P.column[:, 0], loadings, in_s)
        return P.column * in_U[:, -1, :], collected

    return series.kappa(), pullback


class _ThinBlock:
    """Some features of U (m, a, n), s (m or 1, n) and V, t; their products for all pairs."""

    def __init__(self, U: Array, s: Array, V: Array, t: Array, d: int) -> None:
        self.U, self.V, self.d, self.xp = U, V, d, namespace(U)
        self.s, self.t = _powers(s, d // 2), _powers(t, d // 2)
        self.UU, self.VV = (X[:, :, None, :] * X[:, None, :, :] for X in (U, V))

    def products(self) -> list[Array]:
        """For odd k = 2r + 1 the coefficient of t^k in tUᵀRŨ, (m, m̃, a, b).

        For even k = 2r they are that in t²UᵀRS̃U and in t²ŨᵀRSŨ, and tr (SS̃)^r.
        """
        s, t, found = self.s, self.t, []
        for k in range(1, self.d + 1):
            r = k // 2
            if k % 2:
                found += [self._grams(_scaled(s, r, self.U), _scaled(t, r, self.V))]
            else:
                found += [self._grams(_scaled(s, r - 1, self.UU), t[r])]
                found += [self._grams(s[r], _scaled(t, r - 1, self.VV)), s[r] @ t[r].mT]
        return found

    def pullback(self, adjoints: list[Array]) -> tuple[Array, Array]:
        """The gradients in U (m, a, n) and s (m, n) from those in the products."""
        xp, s, t, of = self.xp, self.s, self.t, iter(adjoints)
        in_U, in_s = xp.zeros_like(self.U), xp.zeros_like(self.U[:, 0, :])
        for k in range(1, self.d + 1):
            r = k // 2
            if k % 2:
                inside = self._pulled(next(of), _scaled(t, r, self.V))
                in_U = in_U + _scaled(s, r, inside)
            else:
                own = self._pulled(next(of), t[r])
                other = self._pulled(next(of), _scaled(t, r - 1, self.VV))
                other = r * (other + self._pulled(next(of), t[r]))
                in_s = in_s + _scaled(s, r - 1, other)
                r -= 1
                inside = xp.sum(own * self.U[:, None, :, :], axis=2)
                in_U = in_U + 2 * _scaled(s, r, inside)
            if r:
                in_s = in_s + r * _scaled(s, r - 1, xp.sum(self.U * inside, axis=1))
        return in_U, in_s

    def _grams(self, X: Array, Y: Array) -> Array:
        """The products of all rows of X (m, …, n) with all of Y (m̃, …, n); (m, m̃, …, …)."""
        xp, k = self.xp, X.ndim - 1
        flat = xp.reshape(X, (-1, X.shape[-1])) @ xp.reshape(Y, (-1, Y.shape[-1])).mT
        flat = xp.reshape(flat, (*X.shape[:-1], *Y.shape[:-1]))
        return xp.permute_dims(flat, (0, k, *range(1, k), *range(k + 1, flat.ndim)))

    def _pulled(self, A: Array, Y: Array) -> Array:
        """The gradient in X (m, …, n) of ⟨A, _grams(X, Y)⟩."""
        xp, k = self.xp, A.ndim - Y.ndim + 2
        if Y.shape[0] < A.shape[1]:
            A = xp.sum(A, axis=1, keepdims=True)
        A = xp.permute_dims(A, (0, *range(2, k), 1, *range(k, A.ndim)))
        lead = A.shape[: k - 1]
        flat = xp.reshape(A, (math.prod(lead), -1)) @ xp.reshape(Y, (-1, Y.shape[-1]))
        return xp.reshape(flat, (*lead, Y.shape[-1]))


def _scaled(powers: list[Array], r: int, X: Array) -> Array:
    """s^r X for X (m, …, n) and powers of s (m or 1, n)."""
    if r == 0:
        return X
    g, n = powers[r].shape
    return namespace(X).reshape(powers[r], (g, *[1] * (X.ndim - 2), n)) * X


class _FactorSeries:
    """Ψ of ``_thin_pairs`` and its derivatives, from the coefficients of N (m, m̃, a + b, a + b)."""

    def __init__(self, products: list[Array], d: int) -> None:
        xp = namespace(products[0])
        self.traces, self.N, of = [], [], iter(products)
        m, other, a, b = self.shape = tuple(products[0].shape)
        like = {"dtype": products[0].dtype, "device": array_device(products[0])}
        corners = [xp.zeros((m, other, *side), **like) for side in ((a, a), (a, b), (b, b))]
        for k in range(1, d + 1):
            A, B, C = corners
            if k % 2:
                B = next(of)
            else:
                A, C = (xp.broadcast_to(next(of), x.shape) for x in (A, C))
                self.traces.append(next(of))
            rows = xp.concat([A, B], axis=3), xp.concat([B.mT, C], axis=3)
            self.N.append(xp.concat(rows, axis=2))
        one, rest = xp.ones((1,), **like), (xp.zeros((k - 1,), **like) for k in (a, b))
        self.mean = mean = xp.concat([next(rest), one, next(rest), one])
        free = 1 - mean  # the diagonal of J
        # The columns of J(I - NJ)⁻¹, and then v.
        start = xp.concat([free[:, None] * xp.eye(a + b, **like), mean[:, None]], axis=1)
        self.Y, self.NY = [xp.broadcast_to(start, (m, other, a + b, a + b + 1))], []
        for s in range(1, d + 1):
            terms = [xp.matmul(self.N[r], self.Y[s - 1 - r]) for r in range(s)]
            self.NY.append(terms)
            self.Y.append(free[:, None] * reduce(add, terms))

    def kappa(self) -> list[Array]:
        """κ_1 to κ_d."""
        xp, found = namespace(self.mean), []
        for k, terms in enumerate(self.NY, 1):
            # The derivative of -log det(I - JN)/2 in t is tr(J(I - NJ)⁻¹ N')/2.
            parts = [(2 / k) * self.traces[k // 2 - 1]] if k % 2 == 0 else []
            for r, term in enumerate(terms, 1):
                trace = xp.sum(xp.linalg.diagonal(term[..., :-1]), axis=-1)
                parts.append((r / k) * trace + xp.sum(self.mean * term[..., -1], axis=-1))
            found.append(math.factorial(k) / 2 * reduce(add, parts))
        return found

    def pullback(self, G: list[Array]) -> list[Array]:
        """The gradients in the products from those in κ_1 to κ_d."""
        a, found = self.shape[2], []
        v = [Y[..., -1] for Y in self.Y]
        H = []
        for s in range(len(G)):
            outer = [v[u][..., :, None] * v[s - u][..., None, :] for u in range(s + 1)]
            H.append(reduce(add, outer, self.Y[s][..., :-1]))
        g = [math.factorial(k) / 2 * G_k for k, G_k in enumerate(G, 1)]
        for k in range(1, len(G) + 1):
            parts = (x[..., None, None] * y for x, y in zip(g[k - 1 :], H, strict=False))
            total = reduce(add, parts)
            if k % 2:
                found.append(2 * total[..., :a, a:])
            else:
                found += [total[..., :a, :a], total[..., a:, a:], (2 / k) * g[k - 1]]
        return found


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


def _by_factor(X: Array, covariance: Covariance, xp: Namespace) -> tuple[Array, Array]:
    """xᵀW_i for each row of X, (p, g, q), and W as (n, g, q)."""
    W = xp.permute_dims(covariance.loadings(), (1, 0, 2))
    products = X @ xp.reshape(W, (W.shape[0], -1))
    return xp.reshape(products, (X.shape[0], *W.shape[1:])), W


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
