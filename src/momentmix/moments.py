"""The implicit moment: inner products, contractions and their gradients, no tensor formed.

``order`` is a whole number d (that order alone) or a sequence w of length d+1, which means the sum
over k of w[k] times the order-k quantity. P and Q are any distributions of this package.
"""

from __future__ import annotations

from typing import Any, Protocol

from momentmix._array import Array, all_finite, array_device, as_float_array, namespace
from momentmix.atoms import Atoms, Gradient
from momentmix.bilinear import bilinear
from momentmix.covariance import Zero
from momentmix.orders import Order, order_weights


class Distribution(Protocol):
    """Anything with moments: it is, or stands for, a weighted set of Gaussian atoms."""

    @property
    def n_features(self) -> int: ...

    @property
    def atoms(self) -> Atoms: ...

    def as_gradient(self, weights: Array, means: Array, covariances: Array | None) -> Gradient:
        """Derivatives in the atoms, turned into derivatives in the distribution's parameters."""


def inner(P: Distribution, Q: Distribution, order: Order) -> Array:
    """⟨M_P, M_Q⟩ = Σ_ij λ_i λ̃_j B_d(κ^(ij)), Thm. 4.2 of Pereira–Kileel–Kolda.

    Parameters
    ----------
    P, Q : Mixture or Samples
        Over the same number of features n, in arrays of one library.
    order : int or sequence of float
        An order d, or weights over the orders 0..d.

    Returns
    -------
    scalar array of the arguments' library

    Notes
    -----
    For m and m̃ atoms: O(m m̃ n d) with diagonal covariances, O(m m̃ n³ d) with full ones,
    O(m p n) and O(m p n²) against p samples.

    Examples
    --------
    >>> from momentmix import Mixture, inner
    >>> P = Mixture([0.5, 0.5], [[0.0, 1.0], [1.0, 0.0]], [0.1, 0.2], "spherical")
    >>> round(float(inner(P, P, 2)), 6)
    0.845
    """
    _check_pair(P, Q)
    if len(P.atoms) > len(Q.atoms):  # rows of the form are the shorter side
        P, Q = Q, P
    form = bilinear(P.atoms, Q.atoms, order_weights(order), gradient=False)
    return _weighted_total(P.atoms, form.values)


def inner_grad(P: Distribution, Q: Distribution, order: Order) -> tuple[Array, Gradient]:
    """⟨M_P, M_Q⟩ and its gradient with respect to P, Q held fixed.

    Thms. 4.2, 4.3 and Prop. A.5 of Pereira–Kileel–Kolda, symmetrised. For ‖M_P‖² the gradient is
    twice that of ``inner_grad(P, P, order)``. Cost as for :func:`inner`.

    Returns
    -------
    value : scalar array
    gradient : Gradient
        In the weights, the means and the covariances of P, each in the shape of its parameter.
    """
    _check_pair(P, Q)
    form = bilinear(P.atoms, Q.atoms, order_weights(order), gradient=True)
    gradient = P.as_gradient(form.values, form.means, form.covariances)
    return _weighted_total(P.atoms, form.values), gradient


def squared_distance(P: Distribution, Q: Distribution, order: Order) -> Array:
    """‖M_P - M_Q‖², the moment-matching cost of Eq. (1.3) with its constant term.

    The three inner products cancel where P and Q are close: expect an absolute error of about
    1e-15 of ‖M_P‖². Between two sets of p samples the cost is O(p²(n + d)).
    """
    _check_pair(P, Q)
    weights = order_weights(order)
    distance = inner(P, P, weights) - 2 * inner(P, Q, weights) + inner(Q, Q, weights)
    if all(w >= 0 for w in weights):  # then it is a squared norm, and below zero only by rounding
        xp = namespace(distance)
        return xp.where(distance > 0, distance, xp.zeros_like(distance))
    return distance


def contract(P: Distribution, A: Any, order: Order) -> Array:
    """⟨M_P, a^{⊗d}⟩ = E(aᵀX)^d for one vector a (n,) or for each row of A (q, n).

    Thms. 3.5 and 5.2 of Pereira–Kileel–Kolda; O(q m n d), or O(q m n²) with full covariances.
    """
    points, single = _points(P, A)
    values = bilinear(points, P.atoms, order_weights(order), gradient=False).values
    return values[0] if single else values


def contract_grad(P: Distribution, A: Any, order: Order) -> tuple[Array, Array, Gradient]:
    """:func:`contract` with its gradients in A and in P.

    Returns
    -------
    value : scalar array, or (q,)
    gradient_A : (n,) or (q, n)
        Row i is the gradient of value i, which depends on no other row.
    gradient_P : Gradient
        Of the sum of the values, in the shapes of P's parameters.
    """
    points, single = _points(P, A)
    weights = order_weights(order)
    at_points = bilinear(points, P.atoms, weights, gradient=True)
    at_atoms = bilinear(P.atoms, points, weights, gradient=True)
    gradient_P = P.as_gradient(at_atoms.values, at_atoms.means, at_atoms.covariances)
    if single:
        return at_points.values[0], at_points.means[0, :], gradient_P  # type: ignore[index]
    return at_points.values, at_points.means, gradient_P


def _weighted_total(atoms: Atoms, values: Array) -> Array:
    xp = namespace(values)
    if isinstance(atoms.weights, float):
        return xp.sum(values) * atoms.weights
    return xp.sum(values * atoms.weights)


def _check_pair(P: Any, Q: Any) -> None:
    for name, distribution in (("P", P), ("Q", Q)):
        if not hasattr(distribution, "atoms"):
            raise TypeError(
                f"{name} must be a Mixture or Samples, got {type(distribution).__name__}; "
                f"wrap an array of rows as Samples(X)"
            )
    if P.n_features != Q.n_features:
        raise ValueError(f"P has {P.n_features} feature(s), but Q has {Q.n_features}")
    namespace(P.atoms.means, Q.atoms.means)
    devices = {str(array_device(D.atoms.means)) for D in (P, Q)}
    if len(devices) > 1:
        raise ValueError(f"P and Q lie on different devices: {', '.join(sorted(devices))}")


def _points(P: Any, A: Any) -> tuple[Atoms, bool]:
    """The rows of A as atoms of weight one, and whether A was a single vector."""
    if not hasattr(P, "atoms"):
        raise TypeError(f"P must be a Mixture or Samples, got {type(P).__name__}")
    A = as_float_array(A, "A", (1, 2))
    if A.shape[-1] != P.n_features:
        raise ValueError(
            f"A must have {P.n_features} column(s), one for each feature of P, "
            f"but has shape {tuple(A.shape)}"
        )
    if not all_finite(A):
        raise ValueError("A must be finite, but holds NaN or infinity")
    namespace(A, P.atoms.means)
    rows = A[None, :] if A.ndim == 1 else A
    return Atoms(1.0, rows, Zero(P.n_features)), A.ndim == 1
