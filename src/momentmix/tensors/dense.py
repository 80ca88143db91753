"""Explicit symmetric tensors: for small problems, for checking, and for learning the notation.

Nothing else in the package needs them. A tensor of order d has n^d entries, C(n+d-1, d) of them
distinct.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from momentmix.moments.atoms import Atoms
from momentmix.moments.functions import (
    AtomDistribution,
    Distribution,
    check_distribution,
    positive_order,
)
from momentmix.moments.orders import whole_order
from momentmix.support.array import (
    Array,
    ArrayLike,
    all_finite,
    array_device,
    as_float_array,
    index_array,
    namespace,
    read_only,
)

#: Bytes of the largest dense tensor that is made by default (1 GiB); ``max_bytes`` changes it. A
#: round number that should fit most computers.
DENSE_LIMIT = 1 << 30
#: Bytes for the factors of one block of atoms. A round number that was not tuned; it affects only
#: memory and speed.
_BLOCK_BYTES = 16 << 20


def outer_power(v: ArrayLike, order: int, *, max_bytes: int = DENSE_LIMIT) -> Array:
    """The tensor power of a vector, with entries v_{i_1} ··· v_{i_d}.

    Definition 2.2 of Pereira, Kileel and Kolda.

    Parameters
    ----------
    v : array of shape (n,)
        The vector.
    order : int
        The number of factors, d.
    max_bytes : int
        A larger tensor raises a MemoryError instead.

    Returns
    -------
    array of shape (n,) * order
    """
    v = as_float_array(v, "v", (1,))
    d = whole_order(order)
    _check_size(v.shape[0], d, max_bytes, "contract(P, v, order)")
    xp = namespace(v)
    return xp.reshape(_row_power(v[None, :], d), (v.shape[0],) * d)


def sym(T: ArrayLike) -> Array:
    """The symmetric part of a tensor: its average over all permutations of the indices.

    Definition 2.6 of Pereira, Kileel and Kolda. The average over all permutations of k indices is
    that over the first k-1, averaged over the k exchanges of the last index with one of the k. It
    takes O(d² n^d) operations.
    """
    average = _as_tensor(T)
    xp, d = namespace(average), average.ndim
    for k in range(1, d):
        total = average
        for i in range(k):
            axes = list(range(d))
            axes[i], axes[k] = k, i
            total = total + xp.permute_dims(average, tuple(axes))
        average = total / (k + 1)
    return average


def dense_moment(P: Distribution, order: int, *, max_bytes: int = DENSE_LIMIT) -> Array:
    """The moment tensor of a distribution, as an array with n^d entries.

    Entry (i_1, …, i_d) is the mean of the product of these features. Use it for small problems and
    for checking; the other functions of this package need no tensor.

    Parameters
    ----------
    P : Mixture, Samples, MomentTensors or SymmetricCP
        The distribution.
    order : int
        The order d.
    max_bytes : int, default=2**30
        A larger tensor raises a MemoryError instead. The work needs about three times the memory of
        the tensor.

    Returns
    -------
    array of shape (n,) * order

    See Also
    --------
    inner, contract : What can be computed without the tensor.
    debiased_moment : The moment of samples with known noise taken out.

    Notes
    -----
    The moment of a mixture is Σ_j λ_j Σ_k C_{d,k} sym(μ_j^{⊗d-2k} ⊗ Σ_j^{⊗k}), where
    C_{d,k} = C(d, 2k) (2k)! / (k! 2^k): Theorems 4.1 and 5.1 of Pereira, Kileel and Kolda
    (arXiv:2202.06930).

    Examples
    --------
    >>> from momentmix import Mixture, dense_moment
    >>> dense_moment(Mixture([1.0], [[0.0, 1.0]], [1.0], "spherical"), 2)
    array([[1., 0.],
           [0., 2.]])
    """
    d = whole_order(order)
    check_distribution(P)
    if not isinstance(P, AtomDistribution):
        _check_size(P.n_features, d, max_bytes, "the packed moments, P.about(centre)")
        return P.tensor(d)
    atoms = P.atoms
    n = atoms.means.shape[1]
    _check_size(n, d, max_bytes, "inner, contract or squared_distance")
    xp = namespace(atoms.means)
    total = _mean_outer(atoms, 0, d)
    if not atoms.covariance.zero:
        for k in range(1, d // 2 + 1):
            pairings = math.comb(d, 2 * k) * math.factorial(2 * k) // (math.factorial(k) * 2**k)
            total = total + pairings * _mean_outer(atoms, k, d - 2 * k)
    return sym(xp.reshape(total, (n,) * d))


def dense_cumulant(P: Distribution, order: int, *, max_bytes: int = DENSE_LIMIT) -> Array:
    """The cumulant tensor of a distribution, as an array with n^d entries.

    Of order 1 it is the mean, of order 2 the covariance; that of a Gaussian is 0 from order 3 on.

    Parameters
    ----------
    P : Mixture, Samples, MomentTensors, Atoms or SymmetricCP
        The distribution, with weights of sum 1.
    order : int
        The order d, at least 1.
    max_bytes : int, default=2**30
        A larger tensor raises a MemoryError instead.

    Returns
    -------
    array of shape (n,) * order

    See Also
    --------
    contract_cumulant : The tensor applied to vectors, without forming it.
    dense_moment : The moment tensor.

    Notes
    -----
    K_k = M_k - Σ_{0<i<k} C(k-1, i) sym(M_i ⊗ K_{k-i}): the recursion of Bell polynomials, Equation
    (2.4) of Pereira, Kileel and Kolda (arXiv:2202.06930), for tensors. O(d³ n^d).

    Examples
    --------
    >>> from momentmix import Mixture, dense_cumulant
    >>> P = Mixture([0.4, 0.6], [[0.0, 1.0], [2.0, 0.0]], [[1.0, 0.5], [0.5, 2.0]], "diag")
    >>> dense_cumulant(P, 3).shape
    (2, 2, 2)
    """
    moments = [dense_moment(P, k, max_bytes=max_bytes) for k in range(1, positive_order(order) + 1)]
    xp = namespace(moments[0])
    found: list[Array] = []
    for k, moment in enumerate(moments, 1):
        for i in range(1, k):
            flat = (xp.reshape(T, (-1,)) for T in (moments[i - 1], found[k - i - 1]))
            moment = moment - math.comb(k - 1, i) * sym(xp.reshape(_outer(*flat), moment.shape))
        found.append(moment)
    return found[-1]


def _mean_outer(atoms: Atoms, k: int, e: int) -> Array:
    """Σ_j λ_j Σ_j^{⊗k} ⊗ μ_j^{⊗e} as a flat array, not symmetrised.

    A matrix product of two halves of the factors, in blocks of atoms.
    """
    xp = namespace(atoms.means)
    n = atoms.means.shape[1]
    if k and atoms.covariance.shared and len(atoms) > 1:
        one = xp.reshape(atoms.covariance.matrices(), (1, n * n))
        return _outer(_row_power(one, k)[0, :], _mean_outer(atoms, 0, e))
    # The left half has ``left`` of the k matrices and is filled up with ``ahead`` of the e means.
    left = min(k, (2 * k + e) // 4)
    ahead = max(0, (2 * k + e) // 2 - 2 * k)
    width = n ** (2 * left + ahead) + n ** (2 * (k - left) + e - ahead)
    total: Array | float = 0.0
    for block in _blocks(atoms, max(1, _BLOCK_BYTES // (8 * width))):
        rows, weights = block.means, block.weights
        L, R = _row_power(rows, ahead), _row_power(rows, e - ahead)
        if k:
            matrices = xp.reshape(block.covariance.matrices(), (-1, n * n))
            L = _row_outer(_row_power(matrices, left), L)
            R = _row_outer(_row_power(matrices, k - left), R)
        L = L * (weights if isinstance(weights, float) else weights[:, None])
        total = total + xp.reshape(L.mT @ R, (-1,))
    assert not isinstance(total, float)  # every distribution has at least one atom
    return total


def _blocks(atoms: Atoms, step: int) -> Iterator[Atoms]:
    for start in range(0, len(atoms), step):
        yield atoms.take(slice(start, min(start + step, len(atoms))))


def _row_power(rows: Array, e: int) -> Array:
    """The tensor power of each row, flat: (b, n) to (b, n^e)."""
    xp = namespace(rows)
    power = xp.ones((rows.shape[0], 1), dtype=rows.dtype, device=array_device(rows))
    for _ in range(e):
        power = _row_outer(power, rows)
    return power


def _row_outer(A: Array, B: Array) -> Array:
    return namespace(A, B).reshape(A[:, :, None] * B[:, None, :], (A.shape[0], -1))


def _outer(a: Array, b: Array) -> Array:
    return namespace(a, b).reshape(a[:, None] * b[None, :], (-1,))


def phi(T: ArrayLike, z: ArrayLike) -> Array:
    """The homogeneous polynomial of a tensor, Φ[T](z) = ⟨T, z^{⊗d}⟩.

    Proposition 2.8 of Pereira, Kileel and Kolda.

    Parameters
    ----------
    T : array of shape (n,) * d
        The tensor, symmetric or not.
    z : array of shape (n,) or (q, n)
        Where to evaluate it: one point, or q of them as rows.

    Returns
    -------
    array
        One number, or an array of shape (q,).
    """
    T, z = _as_tensor(T), as_float_array(z, "z", (1, 2))
    xp = namespace(T, z)
    if T.ndim and z.shape[-1] != T.shape[0]:
        raise ValueError(f"z has {z.shape[-1]} column(s), but T has dimension {T.shape[0]}")
    Z = (z[None, :] if z.ndim == 1 else z).mT
    value = xp.broadcast_to(xp.reshape(T, (-1, 1)), (math.prod(T.shape), Z.shape[1]))
    for _ in range(T.ndim):
        value = xp.sum(xp.reshape(value, (-1, *Z.shape)) * Z, axis=1)
    return value[0, 0] if z.ndim == 1 else value[0, :]


def polynomial(T: ArrayLike) -> tuple[np.ndarray, Array]:
    """Φ[T] as exponents (N, n) and coefficients (N,) of its N = C(n+d-1, d) monomials."""
    T = _as_tensor(T)
    n, d = (T.shape[0] if T.ndim else 1), T.ndim
    indices = packed_indices(n, d)
    exponents = (indices[:, :, None] == np.arange(n)).sum(axis=1)
    times = index_array(packed_multiplicities(n, d), T)
    return exponents, pack(sym(T)) * namespace(T).astype(times, T.dtype)


def packed_size(n: int, order: int) -> int:
    """C(n+d-1, d), the number of distinct entries of a symmetric tensor."""
    return math.comb(n + order - 1, order)


@lru_cache(maxsize=16)
def packed_indices(n: int, order: int) -> np.ndarray:
    """The sorted multi-indices i_1 ≤ … ≤ i_d in lexicographic order; (N, d), read-only."""
    indices = np.zeros((1, 0), dtype=np.int64)
    for _ in range(order):
        first = indices[:, -1] if indices.shape[1] else np.zeros(1, dtype=np.int64)
        repeats = n - first
        last = np.concatenate([np.arange(start, n) for start in first])
        indices = np.column_stack([np.repeat(indices, repeats, axis=0), last])
    return read_only(indices)


@lru_cache(maxsize=16)
def packed_multiplicities(n: int, order: int) -> np.ndarray:
    """How many entries of the full tensor each packed entry stands for; read-only integers (N,)."""
    if order > 20:
        raise ValueError(f"multiplicities of order {order} do not fit 64-bit integers (at most 20)")
    indices = packed_indices(n, order)
    repeats = np.ones(len(indices), dtype=np.int64)
    run = np.ones(len(indices), dtype=np.int64)
    for t in range(1, order):
        run = np.where(indices[:, t] == indices[:, t - 1], run + 1, 1)
        repeats *= run
    return read_only(math.factorial(order) // repeats)


def pack(T: ArrayLike) -> Array:
    """The distinct entries of a symmetric tensor, in the order of :func:`packed_indices`; (N,)."""
    T = _as_tensor(T)
    xp = namespace(T)
    return xp.take(xp.reshape(T, (-1,)), index_array(_packed_places(T), T), axis=0)


def unpack(packed: ArrayLike, n: int, order: int, *, max_bytes: int = DENSE_LIMIT) -> Array:
    """The full symmetric tensor of packed entries (N,); (n,) * order."""
    packed = as_float_array(packed, "packed", (1,))
    d = whole_order(order)
    if packed.shape[0] != packed_size(n, d):
        raise ValueError(
            f"packed must have C(n+d-1, d) = {packed_size(n, d)} entries for n={n}, order={d}, "
            f"but has {packed.shape[0]}"
        )
    _check_size(n, d, max_bytes, "the packed entries themselves")
    xp = namespace(packed)
    full = np.sort(np.indices((n,) * d).reshape(d, n**d), axis=0)
    flat = np.ravel_multi_index(tuple(full), (n,) * d) if d else np.zeros(1, dtype=np.int64)
    place = np.searchsorted(_places(packed_indices(n, d), n), flat)
    return xp.reshape(xp.take(packed, index_array(place, packed), axis=0), (n,) * d)


def _places(indices: np.ndarray, n: int) -> np.ndarray:
    d = indices.shape[1]
    return indices @ (n ** np.arange(d - 1, -1, -1, dtype=np.int64))


def _packed_places(T: Array) -> np.ndarray:
    n = T.shape[0] if T.ndim else 1
    return _places(packed_indices(n, T.ndim), n)


def _as_tensor(T: ArrayLike) -> Array:
    T = as_float_array(T, "T", tuple(range(33)))
    if len(set(T.shape)) > 1:
        raise ValueError(f"T must have equal dimensions, but has shape {tuple(T.shape)}")
    if not all_finite(T):
        raise ValueError("T must be finite, but holds NaN or infinity")
    return T


def _check_size(n: int, d: int, max_bytes: int, instead: str) -> None:
    size = 8 * n**d
    if size > max_bytes:
        raise MemoryError(
            f"a dense tensor of order {d} in {n} features takes {size / 2**30:.3g} GiB, more than "
            f"the limit of {max_bytes / 2**30:.3g} GiB; use {instead}, which need no tensor, or "
            "raise max_bytes"
        )
