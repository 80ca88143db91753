"""The moment-matching cost Σ_k w_k ‖M_k(θ) - M̂_k‖², its gradient and its Gauss–Newton equations.

The cost has two forms. ``PackedObjective`` holds the distinct moments and is an ordinary
least-squares problem, for few features. ``ImplicitObjective`` forms no tensor and reads the data at
every evaluation, for many features. In both, the data can be any distribution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.linalg.blas import dtrmm
from scipy.sparse import sparray

from momentmix.data.sources import MomentSource
from momentmix.matching.parametrisation import Parametrisation
from momentmix.moments.atoms import Atoms
from momentmix.moments.bell import bell_derivatives, bell_polynomials
from momentmix.moments.bilinear import InnerProducts, bilinear
from momentmix.moments.cumulants import cumulants
from momentmix.support.array import to_numpy
from momentmix.tensors.isserlis import covariance_jacobian, gaussian_moments, mean_jacobian
from momentmix.tensors.packed import entry_orders, multiplicities

#: A matrix (N, N) that weights residuals: sparse, or lower triangular.
Factor: TypeAlias = np.ndarray | sparray


class PackedObjective:
    """The cost as a sum of squares over the distinct moments of orders 0..d."""

    def __init__(
        self,
        parametrisation: Parametrisation,
        moments: np.ndarray,
        weights: Sequence[float],
        factor: Factor | None = None,
    ) -> None:
        """``factor`` F (N, N) makes the cost ‖F r‖² of the residual r instead of Σ_k w_k ‖r_k‖²."""
        self.parametrisation = parametrisation
        self.moments = moments
        self.d = len(weights) - 1
        n, d = parametrisation.n, self.d
        self.roots = np.sqrt(np.asarray(weights)[entry_orders(n, d)] * multiplicities(n, d))
        self.factor = factor
        self.n_passes = 0
        self._at: tuple[bytes, np.ndarray, np.ndarray, np.ndarray | None] | None = None

    def residual_and_jacobian(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        key = x.tobytes()
        if self._at is None or self._at[0] != key:
            self._at = key, *self._compute(x)
        return self._at[1], self._at[2]

    def _compute(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        p = self.parametrisation
        atoms = p.atoms(x)
        shares, points = to_numpy(atoms.weights), atoms.covariance.zero
        matrices = None
        if not points:
            matrices = np.broadcast_to(to_numpy(atoms.covariance.matrices()), (p.m, p.n, p.n))
        M = gaussian_moments(to_numpy(atoms.means), matrices, self.d)
        in_means = mean_jacobian(M, p.n, self.d)
        weighted = np.moveaxis(shares[:, None, None] * in_means, 0, 1)
        in_cov = np.empty((len(self.moments), p.m, 0))
        if not points:
            in_cov = p.kind.gradient_of_matrices(shares, covariance_jacobian(M, p.n, self.d))
        jacobian = p.pullback(x, M.T, weighted, in_cov)
        residual = shares @ M - self.moments
        jacobian = self.weight(jacobian)
        if self.factor is None:
            residual = self.roots * residual
            back = self.roots * residual
        else:
            residual = self.factor @ residual
            back = self.factor.T @ residual
        slope = None
        if p.covariances.floor is not None:
            slope = 2 * np.tensordot(back, in_cov, axes=1)
        return residual, jacobian, slope

    def weight(self, columns: np.ndarray) -> np.ndarray:
        """Residuals (N, …) multiplied by the roots of the weights, or by the factor."""
        if self.factor is None:
            return self.roots[:, None] * columns
        return _times(self.factor, columns)

    def value_and_gradient(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        r, J = self.residual_and_jacobian(x)
        return float(r @ r), 2 * (r @ J)

    def normal_equations(self, x: np.ndarray) -> DirectEquations:
        J = self.residual_and_jacobian(x)[1]
        H = 2 * (J.T @ J)
        assert self._at is not None
        slope = self._at[3]
        if slope is not None:
            H = H + self.parametrisation.curvature(x, slope)
        return DirectEquations(H)


def _times(factor: Factor, J: np.ndarray) -> np.ndarray:
    """factor @ J; a lower triangular factor takes half the work of a full matrix."""
    if not isinstance(factor, np.ndarray):
        return factor @ J
    return dtrmm(1.0, factor.T, J.T, side=1, lower=0).T


class DirectEquations:
    """2JᵀJ as a matrix, for few parameters."""

    def __init__(self, H: np.ndarray) -> None:
        self.H = H
        self.D = np.maximum(np.diag(H), 1e-12 * np.max(np.diag(H)) + 1e-300)

    def step(self, gradient: np.ndarray, damping: float) -> tuple[np.ndarray, float]:
        damping = max(damping, 1e-13)
        try:
            step = -cho_solve(cho_factor(self.H + np.diag(damping * self.D)), gradient)
        except LinAlgError:
            return self.step(gradient, 10 * damping)
        return step, -float(gradient @ step + 0.5 * step @ (self.H @ step))


class ImplicitObjective:
    """The cost from inner products of moments, without the constant ‖M̂‖².

    It is ‖M_θ‖² - 2⟨M_θ, M̂⟩, and each evaluation reads the data once.
    """

    def __init__(
        self, parametrisation: Parametrisation, data: MomentSource, weights: Sequence[float]
    ) -> None:
        self.parametrisation, self.data = parametrisation, data
        self.weights = [float(w) for w in weights]
        self.n_passes = 0

    def pull(self, x: np.ndarray, products: InnerProducts) -> np.ndarray:
        """The gradient in x of Σ_i λ_i u_i for the inner products u_i of the atoms at x."""
        values, means, covariances = products
        assert means is not None
        in_cov = np.empty((self.parametrisation.m, 0))
        if covariances is not None:
            in_cov = to_numpy(covariances)
        return self.parametrisation.pullback(x, to_numpy(values), to_numpy(means), in_cov)

    def value_and_gradient(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        self.n_passes += 1
        P = self.parametrisation.atoms(x)
        norm = bilinear(P, P, self.weights, gradient=True)
        data = self.data.inner_with(P, self.weights, gradient=True)
        value = float(to_numpy(P.weights) @ to_numpy(norm.values - 2 * data.values))
        return value, 2 * (self.pull(x, norm) - self.pull(x, data))

    def normal_equations(self, x: np.ndarray) -> ImplicitEquations:
        return ImplicitEquations(self, x)


class ImplicitEquations:
    """2JᵀJ as products with vectors, without reading the data, for conjugate gradients.

    ⟨Ju, Jv⟩ is the derivative of ⟨M_θ, M_θ'⟩ in θ along v and in θ' along u. The moment of the
    derivative along u is that of 2m atoms of opposite signs, at θ ± εu, so JᵀJu is one gradient of
    the bilinear form.
    """

    def __init__(self, objective: ImplicitObjective, x: np.ndarray) -> None:
        self.objective, self.x = objective, x
        self.P = objective.parametrisation.atoms(x)
        self.preconditioner = Preconditioner(objective, x, self.P)

    def product(self, u: np.ndarray) -> np.ndarray:
        """2JᵀJu."""
        parametrisation, x = self.objective.parametrisation, self.x
        eps = 1e-5 * np.linalg.norm(x) / max(np.linalg.norm(u), 1e-300)
        ahead, behind = parametrisation.atoms(x + eps * u), parametrisation.atoms(x - eps * u)
        weights = np.concatenate([ahead.weights, -behind.weights]) / (2 * eps)
        means = np.concatenate([ahead.means, behind.means])
        p = parametrisation
        covariance = p.kind.stack(ahead.covariance.array, behind.covariance.array, p.m, p.n)
        tangent = Atoms(weights, means, covariance, np)
        form = bilinear(self.P, tangent, self.objective.weights, gradient=True)
        return 2 * self.objective.pull(x, form)

    def step(self, gradient: np.ndarray, damping: float) -> tuple[np.ndarray, float]:
        D = damping * self.preconditioner.diagonal
        solve = self.preconditioner.solver(damping)
        s, Hs = np.zeros_like(self.x), np.zeros_like(self.x)
        r = -gradient
        z = solve(r)
        direction, rz = z, r @ z
        enough = 0.01 * rz
        for _ in range(60):
            Hd = self.product(direction)
            curvature = direction @ (Hd + D * direction)
            if not curvature > 0:
                break
            alpha = rz / curvature
            s, Hs = s + alpha * direction, Hs + alpha * Hd
            r = r - alpha * (Hd + D * direction)
            z = solve(r)
            rz, last = r @ z, rz
            if rz < enough:
                break
            direction = z + (rz / last) * direction
        return s, -float(gradient @ s + 0.5 * s @ Hs)


class Preconditioner:
    """The part of 2JᵀJ that couples components but treats all features alike.

    For a pair of atoms ∂²Ψ/∂μ∂μ̃ᵀ = (∂F/∂κ_1) I + terms of low rank or small, and likewise for the
    covariances with ∂F/∂κ_2. So the matrices Γ = λ_i λ_j ∂F/∂κ (m × m) times identities come close
    to 2JᵀJ. They are nearly singular where components overlap, which slows conjugate gradients.
    """

    def __init__(self, objective: ImplicitObjective, x: np.ndarray, P: Atoms) -> None:
        p = objective.parametrisation
        weights = objective.weights
        kappa, _ = cumulants(P, P, len(weights) - 1)
        bell = bell_polynomials(kappa)
        in_first, in_second = bell_derivatives(kappa, bell, weights)[:2]
        psi = np.asarray(
            weights[0] + sum(w * to_numpy(b) for w, b in zip(weights[1:], bell, strict=True))
        )
        first, _, rest = p.split(x)
        shares = to_numpy(P.weights)
        pairs = np.outer(shares, shares)
        means = 2 * pairs * (0.0 if in_first is None else to_numpy(in_first))
        covariances = 2 * pairs * (0.0 if in_second is None else to_numpy(in_second))
        if p.homogeneous:
            scale = np.outer(first, first)
            means, covariances = means / scale, covariances / scale**2
            in_weights = 2 * pairs * psi * p.order**2 / scale
        elif p.free:
            in_weights = 2 * psi
        else:
            softmax = np.diag(shares) - pairs
            in_weights = 2 * softmax @ psi @ softmax
        covariances = p.kind.pool_coupling(covariances, p.n)
        self.p, self.scale = p, p.covariances.scale(rest)
        blocks = [in_weights, means] + [covariances] * (len(covariances) > 0)
        self.blocks = [_definite(block) for block in blocks]
        parts = [np.diag(self.blocks[0]), np.repeat(np.diag(self.blocks[1]), p.n)]
        for block in self.blocks[2:]:
            width = self.scale.size // len(block)
            parts.append(np.repeat(np.diag(block), width) * self.scale.reshape(-1) ** 2)
        self.diagonal = np.concatenate(parts)

    def solver(self, damping: float) -> Callable[[np.ndarray], np.ndarray]:
        """r ↦ (Γ + damping diag Γ)⁻¹ r."""
        factors = [cho_factor(b + damping * np.diag(np.diag(b))) for b in self.blocks]

        def solve(r: np.ndarray) -> np.ndarray:
            first, means, rest = self.p.split(r)
            parts = [cho_solve(factors[0], first), cho_solve(factors[1], means)]
            for factor in factors[2:]:
                scale = self.scale.reshape(len(factor[0]), -1)
                parts.append(cho_solve(factor, rest.reshape(scale.shape) / scale) / scale)
            return np.concatenate([part.reshape(-1) for part in parts])

        return solve


def _definite(block: np.ndarray) -> np.ndarray:
    """A symmetric matrix with its eigenvalues raised to be clearly positive.

    A block that is zero, as for components without weight, or not finite becomes the identity.
    """
    if not np.all(np.isfinite(block)) or not np.any(block):
        return np.eye(len(block))
    values, vectors = np.linalg.eigh((block + block.T) / 2)
    values = np.maximum(values, 1e-9 * np.max(np.abs(values)))
    return (vectors * values) @ vectors.T
