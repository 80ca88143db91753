"""Inner products and contractions of moments, and their gradients, without forming a tensor.

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
    """The inner product of the moments of two distributions, without forming a tensor.

    The moment of order d is the tensor of the means of all products of d features, and the inner
    product of two tensors is the sum of the products of their entries. ``inner(P, P, d)`` is the
    squared norm of a moment.

    Parameters
    ----------
    P, Q : Mixture, Samples, MomentTensors or SymmetricCP
        Two distributions over the same number of features n, in arrays of one library.
    order : int or sequence of float
        A whole number d stands for order d alone. A sequence w of d + 1 numbers stands for the
        sum of w[k] times the inner product of order k, for k = 0 to d.

    Returns
    -------
    array
        One number, as an array of the library of the arguments.

    See Also
    --------
    inner_grad : The same with its gradient.
    squared_distance : The squared distance of two moments.
    dense_moment : The tensor itself.

    Notes
    -----
    The value is Σ_ij λ_i λ̃_j B_d(κ^(ij)), with Bell polynomials B_d of the cumulants κ of each
    pair of components (Theorem 4.2 of [1]_). For m and m̃ components it takes O(m m̃ n d)
    operations with diagonal covariances and O(m m̃ n³ d) with full ones; against p samples it takes
    O(m p n) and O(m p n²).

    References
    ----------
    .. [1] J. M. Pereira, J. Kileel and T. G. Kolda, "Tensor Moments of Gaussian Mixture Models:
       Theory and Applications", arXiv:2202.06930, 2022.

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
    # The sum runs over the atoms of one side: the one with fewer atoms, if both have some.
    if isinstance(Q, AtomDistribution) and len(P.atoms) > len(Q.atoms):
        return _inner(Q.atoms, P, weights)
    return _inner(P.atoms, Q, weights)


def _inner(atoms: Atoms, Q: Distribution, weights: list[float]) -> Array:
    return _weighted_total(atoms, Q.inner_with(atoms, weights, gradient=False).values)


def inner_grad(P: Distribution, Q: Distribution, order: Order) -> tuple[Array, Gradient]:
    """The inner product of two moments, and its gradient in the parameters of P.

    Q is held fixed. So the gradient of the squared norm ‖M_P‖² is twice that of
    ``inner_grad(P, P, order)``.

    Parameters
    ----------
    P : Mixture, Samples or SymmetricCP
        The distribution to differentiate in.
    Q : Mixture, Samples, MomentTensors or SymmetricCP
        The other distribution.
    order : int or sequence of float
        An order d, or weights over the orders 0 to d, as in :func:`inner`.

    Returns
    -------
    value : array
        The inner product, one number.
    gradient : Gradient
        The derivatives in the weights, the means and the covariances of P, each in the shape of its
        parameter.

    See Also
    --------
    inner : The value alone.

    Notes
    -----
    Theorems 4.2 and 4.3 and Proposition A.5 of Pereira, Kileel and Kolda (arXiv:2202.06930), made
    symmetric in the covariances. The cost is that of :func:`inner`, times a constant.
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
    """The squared distance of the moments of two distributions, ‖M_P - M_Q‖².

    This is the cost that fits of moments minimise. It is 0 when the two moments are equal.

    Parameters
    ----------
    P, Q : Mixture, Samples, MomentTensors or SymmetricCP
        Two distributions over the same number of features.
    order : int or sequence of float
        An order d, or weights over the orders 0 to d, as in :func:`inner`.

    Returns
    -------
    array
        One number, with the constant term that belongs to Q alone.

    See Also
    --------
    inner : The inner products that it is computed from.

    Notes
    -----
    This is Equation (1.3) of Pereira, Kileel and Kolda (arXiv:2202.06930). It is computed from
    three inner products, which cancel where P and Q are close: expect an absolute error of about
    1e-15 of ‖M_P‖². Between two sets of p samples it takes O(p²(n + d)) operations.
    """
    _check_pair(P, Q)
    weights = order_weights(order)
    if not isinstance(P, AtomDistribution) and not isinstance(Q, AtomDistribution):
        return np.asarray(P.squared_distance(Q, weights))
    distance = _square(P, weights) - 2 * inner(P, Q, weights) + _square(Q, weights)
    if all(w >= 0 for w in weights):  # it is a squared norm, so only rounding makes it negative
        xp = namespace(distance)
        return xp.where(distance > 0, distance, xp.zeros_like(distance))
    return distance


def _square(P: Distribution, weights: list[float]) -> Array | float:
    """‖M_P‖²; a plain number for stored moments, which combines with arrays of any library."""
    square = inner(P, P, weights)
    return square if isinstance(P, AtomDistribution) else float(square)


def contract(P: Distribution, A: ArrayLike, order: Order) -> Array:
    """The moment of a distribution applied to vectors: the mean of (aᵀX)^d for each vector a.

    For instance, d = 3 gives the skewness of X along a direction a. No tensor is formed.

    Parameters
    ----------
    P : Mixture, Samples, MomentTensors or SymmetricCP
        The distribution of X.
    A : array of shape (n,) or (q, n)
        One vector a, or q of them as rows.
    order : int or sequence of float
        An order d, or weights over the orders 0 to d, as in :func:`inner`.

    Returns
    -------
    array
        One number for a single vector, or an array of shape (q,).

    See Also
    --------
    contract_grad : The same with gradients.

    Notes
    -----
    The value is ⟨M_P, a^{⊗d}⟩, Theorems 3.5 and 5.2 of Pereira, Kileel and Kolda
    (arXiv:2202.06930). It takes O(q m n d) operations, or O(q m n²) with full covariances.
    """
    points, single = _points(P, A)
    values = P.inner_with(points, order_weights(order), gradient=False).values
    return values[0] if single else values


def contract_grad(
    P: Distribution, A: ArrayLike, order: Order
) -> tuple[Array, Array, Gradient | None]:
    """The moment of a distribution applied to vectors, with its gradients.

    Parameters
    ----------
    P : Mixture, Samples, MomentTensors or SymmetricCP
        The distribution of X.
    A : array of shape (n,) or (q, n)
        One vector a, or q of them as rows.
    order : int or sequence of float
        An order d, or weights over the orders 0 to d, as in :func:`inner`.

    Returns
    -------
    value : array
        What :func:`contract` returns.
    gradient_A : array of shape (n,) or (q, n)
        Row i is the gradient of value i in the vector i; it depends on no other row.
    gradient_P : Gradient or None
        The gradient of the sum of the values in the parameters of P, in their shapes. It is None
        for MomentTensors, which have no parameters.

    See Also
    --------
    contract : The values alone.
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
    """The gradient of Σ_i λ_i u_i in all parameters of P; in the weights it is u_i."""
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
        return  # stored moments are small and follow the other side's device
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
