"""The moment-matching cost Σ_k w_k ‖M_k(θ) - M̂_k‖², its gradient and its Gauss–Newton equations.

``MomentObjective`` is the cost as researchers ask for it, in the parameters of any distribution.
Fits have two forms of it. ``PackedObjective`` holds the distinct moments and is an ordinary
least-squares problem, for few features. ``ImplicitObjective`` forms no tensor and reads the data at
every evaluation, for many features. In both, the data can be any distribution, and a mixture is a
vector of free numbers (``Parametrisation``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TypeAlias

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.linalg.blas import dtrmm
from scipy.sparse import sparray
from scipy.sparse.linalg import LinearOperator

from momentmix.covariance import Kind, join
from momentmix.distributions import atoms as signed
from momentmix.moments.atoms import Atoms, Gradient
from momentmix.moments.bell import bell_derivatives, bell_polynomials
from momentmix.moments.bilinear import InnerProducts, bilinear
from momentmix.moments.cumulants import cumulants
from momentmix.moments.functions import (
    AtomDistribution,
    Distribution,
    check_distribution,
    check_pair,
    square,
)
from momentmix.moments.orders import Order, order_weights
from momentmix.rows.data import MomentSource
from momentmix.support.array import Array, as_like, to_numpy
from momentmix.tensors.isserlis import covariance_jacobian, gaussian_moments, mean_jacobian
from momentmix.tensors.packed import entry_orders, multiplicities


def cost_and_half_gradient(
    P: Atoms, target: MomentSource | Distribution, weights: Sequence[float]
) -> tuple[Array, InnerProducts]:
    """‖M_P‖² - 2⟨M_P, M̂⟩, and half its derivatives in the weights, means and covariances of P."""
    norm = bilinear(P, P, weights, gradient=True)
    data = target.inner_with(P, weights, gradient=True)
    value = P.xp.sum(P.column[:, 0] * (norm.values - 2 * data.values))
    assert norm.means is not None
    covariances = None if norm.covariances is None else norm.covariances - data.covariances
    return value, InnerProducts(norm.values - data.values, norm.means - data.means, covariances)


#: The step of derivatives along a direction by central differences, relative to the parameters.
#: Its square and rounding over it, 1e-10 and 1e-11, are the relative errors.
STEP = 1e-5


class MomentObjective:
    """What :func:`moment_objective` returns; its methods take distributions with parameters.

    Attributes
    ----------
    target : distribution
        Q, whose moments are to be matched.
    weights : list of float
        The weights of the orders 0 to d.
    """

    def __init__(self, target: Distribution, weights: list[float]) -> None:
        self.target, self.weights = target, weights

    @cached_property
    def constant(self) -> Array | float:
        """Σ_k w_k ‖M_Q^(k)‖², computed once; O(p² (n + d)) for p samples."""
        return square(self.target, self.weights)

    def value(self, P: AtomDistribution) -> Array:
        """The cost at P; O(m p n d) for m components, p samples and diagonal covariances."""
        return self._of_orders(self._atoms(P), self.weights) + self.constant

    def by_order(self, P: AtomDistribution) -> Array:
        """w_k ‖M_P^(k) - M_Q^(k)‖² for k = 0 to d, which add up to the value; (d + 1,)."""
        atoms = self._atoms(P)
        parts = []
        for k, w in enumerate(self.weights):
            one = [0.0] * k + [w]
            found = self._of_orders(atoms, one) + square(self.target, one) if w else None
            parts.append(0 * atoms.xp.sum(atoms.means) if found is None else found)
        return atoms.xp.stack(parts)

    def value_and_gradient(self, P: AtomDistribution) -> tuple[Array, Gradient]:
        """The cost at P, and its derivatives in the parameters of P, each in their own shape."""
        value, half = cost_and_half_gradient(self._atoms(P), self.target, self.weights)
        return value + self.constant, _doubled(P, half)

    def hessian(self, P: AtomDistribution) -> LinearOperator:
        """The second derivatives at P, as products with vectors laid out by :meth:`pack`.

        A product takes two gradients of the cost, which differ by a small step; it is right to
        about nine digits.
        """

        def along(moved: AtomDistribution) -> np.ndarray:
            half = cost_and_half_gradient(moved.atoms, self.target, self.weights)[1]
            return self.pack(_doubled(P, half))

        return self._operator(P, along)

    def gauss_newton(self, P: AtomDistribution) -> LinearOperator:
        """2JᵀJ at P, for the derivatives J of the weighted moments in the vectors of :meth:`pack`.

        It is the Hessian if P has the moments of Q. ⟨Ju, Jv⟩ is the derivative of ⟨M_θ, M_θ'⟩ in
        θ' along u and in θ along v: so a product takes two gradients of the norm, and no data.
        """

        def along(moved: AtomDistribution) -> np.ndarray:
            return self.pack(_doubled(P, bilinear(P.atoms, moved.atoms, self.weights, True)))

        return self._operator(P, along)

    @staticmethod
    def pack(P: AtomDistribution | Gradient) -> np.ndarray:
        """Weights, means and covariances one after the other, flat in their own shapes; (N,).

        Of a gradient, it is the gradient in that vector. It is NumPy's, for every array library.
        """
        parts = P if isinstance(P, Gradient) else _parameters(P)
        arrays = [to_numpy(join(part)) for part in parts if part is not None]
        flat = [array.astype(np.float64).ravel() for array in arrays]
        return np.concatenate(flat)

    @staticmethod
    def unpack(theta: np.ndarray, like: AtomDistribution) -> signed.Atoms:
        """The atoms of a vector, with the type, sizes and array library of ``like``.

        They are no Mixture, because the numbers may be any; of matrices the symmetric part counts.
        """
        shapes = [(0,) if x is None else tuple(join(x).shape) for x in _parameters(like)]
        sizes = [int(np.prod(shape)) for shape in shapes]
        theta = np.asarray(theta, dtype=np.float64)
        if theta.shape != (sum(sizes),):
            raise ValueError(f"theta must have shape ({sum(sizes)},), but has {theta.shape}")
        parts = np.split(theta, np.cumsum(sizes)[:-1])
        weights, means, array = like.as_gradient(
            *(as_like(x.reshape(s), like.atoms.means) for x, s in zip(parts, shapes, strict=True))
        )
        covariance = like.atoms.covariance
        if array is not None and not covariance.zero:
            array = join(array)
            array = array if covariance.thin else (array + array.mT) / 2
            covariance = covariance.of(array, covariance.n_features)
        return signed.Atoms.of(Atoms(weights, means, covariance, like.atoms.xp))

    def _atoms(self, P: AtomDistribution) -> Atoms:
        check_pair(P, self.target)
        if not isinstance(P, AtomDistribution):
            raise TypeError(f"P must have parameters, as a Mixture or Atoms have; got {P!r}")
        return P.atoms

    def _of_orders(self, atoms: Atoms, weights: list[float]) -> Array:
        norm = bilinear(atoms, atoms, weights, gradient=False).values
        data = self.target.inner_with(atoms, weights, gradient=False).values
        return atoms.xp.sum(atoms.column[:, 0] * (norm - 2 * data))

    def _operator(
        self, P: AtomDistribution, along: Callable[[AtomDistribution], np.ndarray]
    ) -> LinearOperator:
        """The derivative of ``along`` at P, as a symmetric operator."""
        self._atoms(P)
        theta = self.pack(P)
        size = np.max(np.abs(theta), initial=1e-300)

        def product(u: np.ndarray) -> np.ndarray:
            u = np.ravel(u)
            h = STEP * size / max(np.max(np.abs(u)), 1e-300)
            ahead, behind = (along(self.unpack(theta + s * u, P)) for s in (h, -h))
            return (ahead - behind) / (2 * h)

        shape = (len(theta), len(theta))
        return LinearOperator(shape, matvec=product, rmatvec=product, dtype=np.float64)


def _parameters(P: AtomDistribution) -> Gradient:
    """The parameters of P, by the names under which it has gradients."""
    return P.as_gradient(P.atoms.column[:, 0], P.atoms.means, P.atoms.covariance.array)


def _doubled(P: AtomDistribution, half: InnerProducts) -> Gradient:
    assert half.means is not None
    covariances = None if half.covariances is None else 2 * half.covariances
    return P.as_gradient(2 * half.values, 2 * half.means, covariances)


def moment_objective(Q: Distribution, order: Order) -> MomentObjective:
    """The squared distance of moments as a function to minimise, with its derivatives.

    Parameters
    ----------
    Q : Mixture, Samples, MomentTensors, Atoms or SymmetricCP
        Whose moments are to be matched.
    order : int or sequence of float
        An order d, or weights w over the orders 0 to d, as in :func:`inner`.

    Returns
    -------
    MomentObjective
        Its methods ``value(P)``, ``value_and_gradient(P)`` and ``by_order(P)`` give numbers and
        arrays of the library of P. ``hessian(P)`` and ``gauss_newton(P)`` are SciPy's linear
        operators on vectors, which ``pack(P)`` and ``unpack(theta, like)`` turn distributions into
        and back.

    See Also
    --------
    squared_distance : Its value alone.
    MomentMixture : An estimator, which also knows where to start.

    Notes
    -----
    The cost is F(P) = Σ_k w_k ‖M_P^(k) - M_Q^(k)‖² = ‖M_P‖² - 2⟨M_P, M_Q⟩ + ‖M_Q‖², Equation (1.3)
    of Pereira, Kileel and Kolda (arXiv:2202.06930). The last term does not depend on P; it is
    computed once, in O(p²(n + d)) operations for p samples (MomentTensors take none of it).

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.optimize import minimize
    >>> from momentmix import Atoms, Mixture, augmented_weights, moment_objective
    >>> Q = Mixture([0.3, 0.7], [[0.0, 1.0], [2.0, 0.0]], [0.5, 0.2], "spherical")
    >>> cost = moment_objective(Q, augmented_weights(4, 1.0))
    >>> start = Atoms([0.5, 0.5], [[0.0, 0.0], [1.0, 0.0]], [1.0, 1.0], "spherical")
    >>> def fun(theta):
    ...     value, gradient = cost.value_and_gradient(cost.unpack(theta, start))
    ...     return float(value), cost.pack(gradient)
    >>> found = minimize(fun, cost.pack(start), jac=True, method="BFGS", options={"gtol": 1e-9})
    >>> np.sort(cost.unpack(found.x, start).weights).round(4)
    array([0.3, 0.7])
    """
    check_distribution(Q, "Q", "; wrap an array of rows as Samples(X)")
    return MomentObjective(Q, order_weights(order))


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

    def _residual(self, x: np.ndarray) -> tuple[np.ndarray, Atoms, np.ndarray]:
        """The residual, and the atoms at x with their moments, from which it follows."""
        p = self.parametrisation
        atoms, matrices = p.atoms(x), None
        if not atoms.covariance.zero:
            matrices = np.broadcast_to(to_numpy(atoms.covariance.matrices()), (p.m, p.n, p.n))
        M = gaussian_moments(to_numpy(atoms.means), matrices, self.d)
        residual = to_numpy(atoms.weights) @ M - self.moments
        return self.roots * residual if self.factor is None else self.factor @ residual, atoms, M

    def _compute(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        p = self.parametrisation
        residual, atoms, M = self._residual(x)
        shares = to_numpy(atoms.weights)
        weighted = np.moveaxis(shares[:, None, None] * mean_jacobian(M, p.n, self.d), 0, 1)
        in_cov = np.empty((len(self.moments), p.m, 0))
        if not atoms.covariance.zero:
            in_cov = p.kind.gradient_of_matrices(shares, covariance_jacobian(M, p.n, self.d))
        jacobian = self.weight(p.pullback(x, M.T, weighted, in_cov))
        back = self.roots * residual if self.factor is None else self.factor.T @ residual
        slope = None
        if p.covariances.floor is not None:
            slope = 2 * np.tensordot(back, in_cov, axes=1)
        return residual, jacobian, slope

    def weight(self, columns: np.ndarray) -> np.ndarray:
        """Residuals (N, …) multiplied by the roots of the weights, or by the factor."""
        if self.factor is None:
            return self.roots[:, None] * columns
        return _times(self.factor, columns)

    def value_and_gradient(self, x: np.ndarray, most: float = np.inf) -> tuple[float, np.ndarray]:
        if most < np.inf and (value := float(np.sum(self._residual(x)[0] ** 2))) > most:
            return value, np.empty(0)
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

    def value_and_gradient(self, x: np.ndarray, most: float = np.inf) -> tuple[float, np.ndarray]:
        self.n_passes += 1
        P = self.parametrisation.atoms(x)
        value, half = cost_and_half_gradient(P, self.data, self.weights)
        return float(value), 2 * self.pull(x, half)

    def normal_equations(self, x: np.ndarray) -> ImplicitEquations:
        return ImplicitEquations(self, x)


class ImplicitEquations:
    """2JᵀJ as products with vectors, without reading the data, for conjugate gradients.

    ⟨Ju, Jv⟩ is the derivative of ⟨M_θ, M_θ'⟩ in θ along v and in θ' along u, so JᵀJu is the
    difference of two gradients of the bilinear form, at θ' = θ ± εu.
    """

    def __init__(self, objective: ImplicitObjective, x: np.ndarray) -> None:
        self.objective, self.x = objective, x
        self.P = objective.parametrisation.atoms(x)
        self.preconditioner = Preconditioner(objective, x, self.P)

    def product(self, u: np.ndarray) -> np.ndarray:
        """2JᵀJu."""
        x, objective = self.x, self.objective
        eps = STEP * np.linalg.norm(x) / max(np.linalg.norm(u), 1e-300)

        def at(y: np.ndarray) -> np.ndarray:
            moved = objective.parametrisation.atoms(y)
            return objective.pull(x, bilinear(self.P, moved, objective.weights, gradient=True))

        return (at(x + eps * u) - at(x - eps * u)) / eps

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
