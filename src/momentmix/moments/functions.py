"""The functions of moments: inner products, contractions, their gradients; no tensor is formed.

``order`` is a whole number d (that order alone) or a sequence w of length d+1, which means the sum
over k of w[k] times the order-k quantity. P and Q are any distributions of this package: all that
have moments, whether made of atoms or stored.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Protocol, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from momentmix.covariance import Full, Zero
from momentmix.moments.atoms import Atoms, Gradient
from momentmix.moments.bilinear import InnerProducts, bilinear
from momentmix.moments.orders import Order, order_weights, whole_order
from momentmix.support.array import (
    Array,
    ArrayLike,
    all_finite,
    array_device,
    as_float_array,
    as_like,
    namespace,
)


class AtomDistribution:
    """A distribution made of Gaussian atoms, which determine all of its moments."""

    _atoms: Atoms

    @property
    def atoms(self) -> Atoms:
        return self._atoms

    @property
    def n_features(self) -> int:
        return self._atoms.n_features

    def inner_with(self, P: Atoms, weights: Sequence[float], gradient: bool) -> InnerProducts:
        """Σ_k w_k ⟨M_i, M⟩ for the moments M_i of each atom of P; see :func:`bilinear`."""
        return bilinear(P, self.atoms, weights, gradient)

    def as_gradient(self, weights: Array, means: Array, covariances: Array | None) -> Gradient:
        """Turn derivatives in the atoms into those in the distribution's own parameters."""
        if covariances is not None:
            covariances = self.atoms.covariance.present(covariances)
        return Gradient(weights, means, covariances)


_Same = TypeVar("_Same", bound="StoredMoments", contravariant=True)


class StoredMoments(Protocol):
    """A distribution that is known by its moments alone, as MomentTensors is."""

    @property
    def n_features(self) -> int: ...

    def inner_with(self, P: Atoms, weights: Sequence[float], gradient: bool) -> InnerProducts:
        """Σ_k w_k ⟨M_i, M⟩ for the moments M_i of each atom of P; see :func:`bilinear`."""

    def inner(self: _Same, other: _Same, weights: Sequence[float]) -> float:
        """Σ_k w_k ⟨M_k, M'_k⟩ with the moments M' of another such distribution."""

    def squared_distance(self: _Same, other: _Same, weights: Sequence[float]) -> float:
        """Σ_k w_k ‖M_k - M'_k‖²."""

    def tensor(self, order: int) -> np.ndarray:
        """The dense moment of one order."""


#: What the functions of moments take: a Mixture, Samples, a decomposition or MomentTensors.
Distribution: TypeAlias = "AtomDistribution | StoredMoments"


def check_distribution(P: object, name: str = "P", hint: str = "") -> None:
    """Raise a TypeError unless P is a distribution."""
    if not hasattr(P, "inner_with"):
        raise TypeError(
            f"{name} must be a Mixture, Samples, MomentTensors or Atoms, got "
            f"{type(P).__name__}{hint}"
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
    check_pair(P, Q)
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

    Examples
    --------
    >>> from momentmix import Mixture, inner_grad
    >>> P = Mixture([0.4, 0.6], [[0.0, 1.0], [2.0, 0.0]], [[1.0, 0.5], [0.5, 2.0]], "diag")
    >>> value, gradient = inner_grad(P, P, 2)
    >>> gradient.weights.shape, gradient.means.shape, gradient.covariances.shape
    ((2,), (2, 2), (2, 2))
    """
    check_pair(P, Q)
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
    1e-15 of ‖M_P‖². Between two sets of p samples it takes O(p²(n + d)) operations, and so does
    the constant of p samples at the first call; later calls with the same object know it.

    Examples
    --------
    >>> from momentmix import Mixture, squared_distance
    >>> P = Mixture([0.4, 0.6], [[0.0, 1.0], [2.0, 0.0]], [[1.0, 0.5], [0.5, 2.0]], "diag")
    >>> abs(float(squared_distance(P, P, 3))) < 1e-9
    True
    """
    check_pair(P, Q)
    weights = order_weights(order)
    if not isinstance(P, AtomDistribution) and not isinstance(Q, AtomDistribution):
        return np.asarray(P.squared_distance(Q, weights))
    distance = square(P, weights) - 2 * inner(P, Q, weights) + square(Q, weights)
    if all(w >= 0 for w in weights):  # it is a squared norm, so only rounding makes it negative
        xp = namespace(distance)
        return xp.where(distance > 0, distance, xp.zeros_like(distance))
    return distance


#: ‖M_P‖² of distributions in NumPy that are still in use, by the weights of the orders.
_squares: WeakKeyDictionary[Distribution, dict[tuple[float, ...], Array]] = WeakKeyDictionary()


def square(P: Distribution, weights: list[float]) -> Array | float:
    """‖M_P‖², computed once for each distribution in NumPy.

    It is a plain number for stored moments, which combines with arrays of any library.
    """
    if not isinstance(P, AtomDistribution):
        return float(inner(P, P, weights))
    if not isinstance(P.atoms.means, np.ndarray):  # its graph or device may be another next time
        return inner(P, P, weights)
    known = _squares.setdefault(P, {})
    if tuple(weights) not in known:
        known[tuple(weights)] = inner(P, P, weights)
    return known[tuple(weights)]


def contract(P: Distribution, A: ArrayLike, order: Order, *, free: int = 0) -> Array:
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
    free : {0, 1, 2}, default=0
        How many indices of the moment stay free. With 1 the result is the vector M(a, …, a, ·),
        the mean of (aᵀX)^(d-1) X, and with 2 the matrix M(a, …, a, ·, ·), the mean of
        (aᵀX)^(d-2) X Xᵀ. Orders below ``free`` do not count.

    Returns
    -------
    array
        One number, vector (n,) or matrix (n, n) for a single vector a; for several the same with a
        first axis of length q.

    See Also
    --------
    contract_grad : The same with gradients.
    multilinear : The moment applied to d different vectors.

    Notes
    -----
    The value is ⟨M_P, a^{⊗d}⟩, Theorems 3.5 and 5.2 of Pereira, Kileel and Kolda
    (arXiv:2202.06930). It takes O(q m n d) operations, or O(q m n²) with full covariances.

    Examples
    --------
    >>> from momentmix import Mixture, contract
    >>> P = Mixture([0.4, 0.6], [[0.0, 1.0], [2.0, 0.0]], [[1.0, 0.5], [0.5, 2.0]], "diag")
    >>> round(float(contract(P, [1.0, 0.0], 1)), 6)  # the mean of the first feature
    1.2
    >>> contract(P, [[1.0, 0.0], [0.0, 1.0]], 3).shape
    (2,)
    """
    if free not in (0, 1, 2):
        raise ValueError(f"free must be 0, 1 or 2, got {free!r}")
    points, single = _points(P, A)
    # The first derivative in a is d M(a, …, a, ·). That in the covariance of an atom at a is half
    # the second derivative, d(d-1)/2 M(a, …, a, ·, ·).
    weights = [w / max(math.comb(k, free), 1) for k, w in enumerate(order_weights(order))]
    weights = [0.0] * min(free, len(weights)) + weights[free:]
    if free == 2:
        q, n = (int(k) for k in points.means.shape)
        device = array_device(points.means)
        zeros = points.xp.zeros((q, n, n), dtype=points.means.dtype, device=device)
        points = Atoms(1.0, points.means, Full(zeros, n), points.xp)
    products = P.inner_with(points, weights, gradient=free > 0)
    found = (products.values, products.means, products.covariances)[free]
    assert found is not None
    return found[0, ...] if single else found


def multilinear(P: Distribution, vectors: ArrayLike) -> Array:
    """The moment of a distribution applied to different vectors: the mean of a_1ᵀX ··· a_dᵀX.

    Vectors that are 0 outside a block of features give cross-moments of blocks.

    Parameters
    ----------
    P : Mixture, Samples, MomentTensors, Atoms or SymmetricCP
        The distribution of X.
    vectors : array of shape (d, n) or (q, d, n)
        The d vectors as rows, once or q times. At most 16.

    Returns
    -------
    array
        One number, or an array of shape (q,).

    See Also
    --------
    contract : The same for d equal vectors.

    Notes
    -----
    M(a_1, …, a_d) = Σ_ε ε_2···ε_d M(s, …, s) / (2^(d-1) d!) with s = a_1 + ε_2 a_2 + … + ε_d a_d,
    over all signs ε (polarisation): so it takes as much as 2^(d-1) contractions.

    Examples
    --------
    >>> from momentmix import Mixture, multilinear
    >>> P = Mixture([0.4, 0.6], [[0.0, 1.0], [2.0, 0.0]], [[1.0, 0.5], [0.5, 2.0]], "diag")
    >>> round(float(multilinear(P, [[1.0, 0.0], [0.0, 1.0]])), 6)  # the mean of x_0 x_1
    0.0
    """
    vectors = as_float_array(vectors, "vectors", (2, 3))
    many, xp = vectors[None, :, :] if vectors.ndim == 2 else vectors, namespace(vectors)
    q, d, n = (int(k) for k in many.shape)
    if not 1 <= d <= 16:
        raise ValueError(f"vectors must hold 1 to 16 vectors each, but hold {d}")
    signs = np.array(list(itertools.product([1.0], *[[1.0, -1.0]] * (d - 1))))
    sides = as_like(signs, many)  # (2^(d-1), d)
    lengths = xp.sqrt(xp.sum(many * many, axis=2, keepdims=True))
    lengths = xp.where(lengths > 0, lengths, xp.ones_like(lengths))
    sums = xp.reshape(xp.matmul(sides, many / lengths), (-1, n))
    values = xp.reshape(contract(P, sums, d), (q, -1)) * as_like(signs.prod(axis=1), many)
    scale = lengths[:, 0, 0]
    for i in range(1, d):
        scale = scale * lengths[:, i, 0]
    found = xp.sum(values, axis=1) * scale / (2 ** (d - 1) * math.factorial(d))
    return found[0] if vectors.ndim == 2 else found


def contract_cumulant(P: Distribution, A: ArrayLike, order: int) -> Array:
    """The cumulant of order d of aᵀX for each vector a: the cumulant tensor applied to vectors.

    Parameters
    ----------
    P : Mixture, Samples, MomentTensors, Atoms or SymmetricCP
        The distribution of X, with weights of sum 1.
    A : array of shape (n,) or (q, n)
        One vector a, or q of them as rows.
    order : int
        The order d, at least 1.

    Returns
    -------
    array
        One number for a single vector, or an array of shape (q,).

    See Also
    --------
    dense_cumulant : The tensor itself.

    Notes
    -----
    Moments are Bell polynomials of cumulants; solved for the last one, Equation (2.4) of Pereira,
    Kileel and Kolda (arXiv:2202.06930) is κ_k = M_k - Σ_{0<i<k} C(k-1, i) M_i κ_{k-i}. It takes d
    contractions. Far from the origin for the spread of X it loses digits, so centre X first.

    Examples
    --------
    >>> from momentmix import Mixture, contract_cumulant
    >>> P = Mixture([0.4, 0.6], [[0.0, 1.0], [2.0, 0.0]], [[1.0, 0.5], [0.5, 2.0]], "diag")
    >>> round(float(contract_cumulant(P, [1.0, 0.0], 2)), 6)  # the variance of the first feature
    1.66
    """
    moments = [contract(P, A, k) for k in range(1, positive_order(order) + 1)]
    found: list[Array] = []
    for k, moment in enumerate(moments, 1):
        for i in range(1, k):
            moment = moment - math.comb(k - 1, i) * (moments[i - 1] * found[k - i - 1])
        found.append(moment)
    return found[-1]


def positive_order(order: int) -> int:
    """The order of a cumulant, checked."""
    if (d := whole_order(order)) < 1:
        raise ValueError(f"a cumulant has order 1 at least, got order={order}")
    return d


def contract_grad(
    P: Distribution, A: ArrayLike, order: Order, *, parameters: bool = True
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
    parameters : bool, default=True
        Whether to make ``gradient_P``, which for p samples is an array (p, n).

    Returns
    -------
    value : array
        What :func:`contract` returns.
    gradient_A : array of shape (n,) or (q, n)
        Row i is the gradient of value i in the vector i; it depends on no other row.
    gradient_P : Gradient or None
        The gradient of the sum of the values in the parameters of P, in their shapes. It is None
        if it was not asked for, and for MomentTensors, which have no parameters.

    See Also
    --------
    contract : The values alone.

    Examples
    --------
    >>> from momentmix import Mixture, contract_grad
    >>> P = Mixture([0.4, 0.6], [[0.0, 1.0], [2.0, 0.0]], [[1.0, 0.5], [0.5, 2.0]], "diag")
    >>> value, in_vector, in_parameters = contract_grad(P, [1.0, 0.0], 2)
    >>> in_vector.shape, in_parameters.means.shape
    ((2,), (2, 2))
    """
    points, single = _points(P, A)
    weights = order_weights(order)
    at_points = P.inner_with(points, weights, gradient=True)
    gradient_P = None
    if parameters and isinstance(P, AtomDistribution):
        gradient_P = _gradient(P, bilinear(P.atoms, points, weights, gradient=True))
    values, gradient_A = at_points.values, at_points.means
    assert gradient_A is not None
    return (values[0], gradient_A[0, :], gradient_P) if single else (values, gradient_A, gradient_P)


def _gradient(P: AtomDistribution, products: InnerProducts) -> Gradient:
    """The gradient of Σ_i λ_i u_i in all parameters of P; in the weights it is u_i."""
    assert products.means is not None
    return P.as_gradient(products.values, products.means, products.covariances)


def _weighted_total(atoms: Atoms, values: Array) -> Array:
    if isinstance(atoms.weights, float):
        return atoms.xp.sum(values) * atoms.weights
    return atoms.xp.sum(values * atoms.weights)


def check_pair(P: Distribution, Q: Distribution) -> None:
    """Refuse what is no distribution, and two of other sizes, libraries or devices."""
    for name, distribution in (("P", P), ("Q", Q)):
        check_distribution(distribution, name, "; wrap an array of rows as Samples(X)")
    if P.n_features != Q.n_features:
        raise ValueError(f"P has {P.n_features} feature(s), but Q has {Q.n_features}")
    if not (isinstance(P, AtomDistribution) and isinstance(Q, AtomDistribution)):
        return  # stored moments are small and follow the other side's device
    if isinstance(P.atoms.means, np.ndarray) and isinstance(Q.atoms.means, np.ndarray):
        return
    namespace(P.atoms.means, Q.atoms.means)


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
