"""The implicit moment: inner products, contractions and their gradients, no tensor formed.

``order`` is a whole number d (that order alone) or a sequence w of length d+1, which means the sum
over k of w[k] times the order-k quantity. P and Q are any distributions of this package.
"""

from __future__ import annotations

import numpy as np

from momentmix.covariance import Zero
from momentmix.moments.atoms import Atoms, Gradient
from momentmix.moments.bilinear import InnerProducts, bilinear
from momentmix.moments.distribution import AtomDistribution, Distribution, check_distribution
from momentmix.moments.orders import Order, order_weights
from momentmix.support.array import (
    Array,
    ArrayLike,
    all_finite,
    array_device,
    as_float_array,
    namespace,
)


def inner(P: Distribution, Q: Distribution, order: Order) -> Array:
    """⟨M_P, M_Q⟩ = Σ_ij λ_i λ̃_j B_d(κ^(ij)), Thm. 4.2 of Pereira–Kileel–Kolda.

    Parameters
    ----------
    P, Q : Mixture, Samples or MomentTensors
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
    weights = order_weights(order)
    if not isinstance(P, AtomDistribution):
        if not isinstance(Q, AtomDistribution):
            return np.asarray(P.inner(Q, weights))
        return _inner(Q.atoms, P, weights)
    # The inner products are summed over one side's atoms: the shorter one's, where both have some.
    if isinstance(Q, AtomDistribution) and len(P.atoms) > len(Q.atoms):
        return _inner(Q.atoms, P, weights)
    return _inner(P.atoms, Q, weights)


def _inner(atoms: Atoms, Q: Distribution, weights: list[float]) -> Array:
    return _weighted_total(atoms, Q.inner_with(atoms, weights, gradient=False).values)


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
    if not isinstance(P, AtomDistribution):
        raise TypeError(
            f"P is {type(P).__name__}, which has no parameters to differentiate in; the gradient "
            "is in the first argument, so exchange the two"
        )
    products = Q.inner_with(P.atoms, order_weights(order), gradient=True)
    return _weighted_total(P.atoms, products.values), _gradient(P, products)


def squared_distance(P: Distribution, Q: Distribution, order: Order) -> Array:
    """‖M_P - M_Q‖², the moment-matching cost of Eq. (1.3) with its constant term.

    The three inner products cancel where P and Q are close: expect an absolute error of about
    1e-15 of ‖M_P‖². Between two sets of p samples the cost is O(p²(n + d)).
    """
    _check_pair(P, Q)
    weights = order_weights(order)
    if not isinstance(P, AtomDistribution) and not isinstance(Q, AtomDistribution):
        return np.asarray(P.squared_distance(Q, weights))
    distance = _square(P, weights) - 2 * inner(P, Q, weights) + _square(Q, weights)
    if all(w >= 0 for w in weights):  # then it is a squared norm, and below zero only by rounding
        xp = namespace(distance)
        return xp.where(distance > 0, distance, xp.zeros_like(distance))
    return distance


def _square(P: Distribution, weights: list[float]) -> Array | float:
    """‖M_P‖²; of stored moments a number, which goes with arrays of any library."""
    square = inner(P, P, weights)
    return square if isinstance(P, AtomDistribution) else float(square)


def contract(P: Distribution, A: ArrayLike, order: Order) -> Array:
    """⟨M_P, a^{⊗d}⟩ = E(aᵀX)^d for one vector a (n,) or for each row of A (q, n).

    Thms. 3.5 and 5.2 of Pereira–Kileel–Kolda; O(q m n d), or O(q m n²) with full covariances.
    """
    points, single = _points(P, A)
    values = P.inner_with(points, order_weights(order), gradient=False).values
    return values[0] if single else values


def contract_grad(
    P: Distribution, A: ArrayLike, order: Order
) -> tuple[Array, Array, Gradient | None]:
    """:func:`contract` with its gradients in A and in P.

    Returns
    -------
    value : scalar array, or (q,)
    gradient_A : (n,) or (q, n)
        Row i is the gradient of value i, which depends on no other row.
    gradient_P : Gradient
        Of the sum of the values, in the shapes of P's parameters; None for MomentTensors, which
        have none.
    """
    points, single = _points(P, A)
    weights = order_weights(order)
    at_points = P.inner_with(points, weights, gradient=True)
    gradient_P = None
    if isinstance(P, AtomDistribution):
        gradient_P = _gradient(P, bilinear(P.atoms, points, weights, gradient=True))
    values, gradient_A = at_points.values, at_points.means
    assert gradient_A is not None
    return (values[0], gradient_A[0, :], gradient_P) if single else (values, gradient_A, gradient_P)


def _gradient(P: AtomDistribution, products: InnerProducts) -> Gradient:
    """The gradient of Σ_i λ_i u_i in all parameters of P, those in its weights being the u_i."""
    assert products.means is not None
    return P.as_gradient(products.values, products.means, products.covariances)


def _weighted_total(atoms: Atoms, values: Array) -> Array:
    xp = namespace(values)
    if isinstance(atoms.weights, float):
        return xp.sum(values) * atoms.weights
    return xp.sum(values * atoms.weights)


def _check_pair(P: Distribution, Q: Distribution) -> None:
    for name, distribution in (("P", P), ("Q", Q)):
        check_distribution(distribution, name, "; wrap an array of rows as Samples(X)")
    if P.n_features != Q.n_features:
        raise ValueError(f"P has {P.n_features} feature(s), but Q has {Q.n_features}")
    if not (isinstance(P, AtomDistribution) and isinstance(Q, AtomDistribution)):
        return  # stored moments are few and go where the other side lies
    namespace(P.atoms.means, Q.atoms.means)
    devices = {str(array_device(D.atoms.means)) for D in (P, Q)}
    if len(devices) > 1:
        raise ValueError(f"P and Q lie on different devices: {', '.join(sorted(devices))}")


def _points(P: Distribution, A: ArrayLike) -> tuple[Atoms, bool]:
    """The rows of A as atoms of weight one, and whether A was a single vector."""
    check_distribution(P)
    A = as_float_array(A, "A", (1, 2))
    if A.shape[-1] != P.n_features:
        raise ValueError(
            f"A must have {P.n_features} column(s), one for each feature of P, "
            f"but has shape {tuple(A.shape)}"
        )
    if not all_finite(A):
        raise ValueError("A must be finite, but holds NaN or infinity")
    if isinstance(P, AtomDistribution):
        namespace(A, P.atoms.means)
    rows = A[None, :] if A.ndim == 1 else A
    return Atoms(1.0, rows, Zero(P.n_features)), A.ndim == 1
