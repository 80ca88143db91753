"""Symmetric CP decomposition of any moment: moment matching with zero covariances.

The moments of a mixture of points are Σ_j λ_j a_j^{⊗d}, so the best such sum for a moment tensor is
what ``matching.py`` finds for components of the type ``Zero`` (§5 of Pereira–Kileel–Kolda). It is
found in the few dimensions that the moments span, and finished in all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from momentmix.covariance import Zero
from momentmix.decomposition.subspace import estimate_rank
from momentmix.decomposition.terms import TermInit, TermSearch
from momentmix.distributions.moment_tensors import MomentTensors
from momentmix.fit import Fit
from momentmix.matching.model import Augmentation, SolverName
from momentmix.matching.orders import check_rank
from momentmix.moments.atoms import Atoms, Gradient
from momentmix.moments.functions import AtomDistribution, Distribution
from momentmix.moments.orders import Order, is_single, order_weights, whole_order
from momentmix.rows.data import AtomData, MomentData, TensorData, data_of
from momentmix.support.array import Array, to_numpy
from momentmix.support.checks import generator, number, one_of, whole_number
from momentmix.support.messages import warn_user
from momentmix.support.stopping import stoppable, stopped
from momentmix.tensors.dense import pack, sym
from momentmix.tensors.packed import order_slice, total_size

INITS: tuple[TermInit, ...] = ("auto", "random", "spectral")
SOLVERS: tuple[SolverName, ...] = ("auto", "gauss-newton", "lbfgs")


@dataclass(frozen=True, repr=False, eq=False)
class SymmetricCP(AtomDistribution):
    """The result of :func:`symmetric_cp`: a moment as Σ_j λ_j a_j^{⊗d}.

    It is a distribution of points, so every function of the package takes it. Terms are sorted by
    the size of their weights, the largest first.

    Attributes
    ----------
    weights : ndarray of shape (rank,)
        The weights λ_j.
    vectors : ndarray of shape (rank, n)
        The vectors a_j. Where one order alone was fitted, only the product λ_j a_j^{⊗d} is
        determined, and the vectors have length 1.
    objective : float
        The cost Σ_k w_k ‖Σ_j λ_j a_j^{⊗k} - T_k‖² at the solution.
    objective_is_whole : bool
        Whether ``objective`` contains the constant ‖T‖². It is left out if it would take p² inner
        products.
    n_iter : int
        The number of iterations of the solver.
    n_passes : int
        The number of passes over the data.
    converged : bool
        Whether the solver came to its end before ``max_iter``.
    interrupted : bool
        Whether Ctrl-C ended it; then this is the best so far.
    history : list of float
        The cost after each iteration.
    """

    weights: np.ndarray
    vectors: np.ndarray
    objective: float
    objective_is_whole: bool
    n_iter: int
    n_passes: int
    converged: bool
    interrupted: bool = False
    history: list[float] = field(default_factory=list)

    @property
    def rank(self) -> int:
        """The number of terms."""
        return len(self.weights)

    @property
    def n_features(self) -> int:
        """The length of the vectors, n."""
        return int(self.vectors.shape[1])

    @property
    def atoms(self) -> Atoms:
        """The terms as Gaussians without width."""
        return Atoms(self.weights, self.vectors, Zero(self.n_features), np)

    def kruskal(self, order: int) -> tuple[np.ndarray, list[np.ndarray]]:
        """The Kruskal tensor of one order: weights (rank,), and a factor (n, rank) for each index.

        TensorLy takes the pair itself, and pyttb ``ktensor(factors, weights)``. A symmetric one of
        theirs comes back as ``Atoms(weights, factors[0].T)``.
        """
        return self.weights, [self.vectors.T] * whole_order(order)

    def as_gradient(self, weights: Array, means: Array, covariances: Array | None) -> Gradient:
        """Name the derivatives by what they are taken in; there are no covariances."""
        return Gradient(weights, means, None)

    def __repr__(self) -> str:
        state = "converged" if self.converged else "not converged"
        return f"SymmetricCP(rank {self.rank}, {self.n_features} features, {state})"


def symmetric_cp(
    P: Distribution | np.ndarray,
    rank: int | Literal["auto"],
    order: Order,
    *,
    weights: Sequence[float] | None = None,
    n_init: int | Literal["auto"] = "auto",
    init: TermInit = "auto",
    solver: SolverName = "auto",
    nonnegative: bool = True,
    max_iter: int = 500,
    tol: float = 1e-10,
    random_state: object = None,
    verbose: int = 0,
) -> SymmetricCP:
    """Write a moment as a sum of powers of a few vectors: a symmetric CP decomposition.

    If the rows of P are a few signals, each seen many times, the vectors are the signals. The
    moment is never formed.

    Parameters
    ----------
    P : Samples, MomentTensors, Mixture or array of shape (n,) * d
        The distribution whose moment is decomposed. Samples with ``noise_covariance`` have that
        noise taken out. An array is a symmetric tensor itself.
    rank : int or "auto"
        The number of terms. "auto" counts those that stand out from sampling noise.
    order : int or sequence of float
        The order d of the moment, at least 3, because a matrix has no unique decomposition. A
        sequence gives weights over the orders 0 to d.
    weights : sequence of order + 1 floats, optional
        Weights over the orders 0 to d. The terms then fit several orders at once, which determines
        the length of each vector and its weight. By default, order d is fitted alone. Lower orders
        say little where the data lie far from the origin for their spread; centre them, or use
        :class:`KnownCovarianceMixture`.
    n_init : int or "auto", default="auto"
        The number of starts. "auto" stops when several end at the same solution.
    init : {"auto", "random", "spectral"}, default="auto"
        Where to start. "random" starts at random combinations of the data, and "spectral" at a
        decomposition by the subspace power method. "auto" tries the second first, where it can
        work, and then the first.
    solver : {"auto", "gauss-newton", "lbfgs"}, default="auto"
        How the cost is minimised. "auto" is Gauss-Newton, which takes few steps; "lbfgs" is a
        gradient method, as in the paper.
    nonnegative : bool, default=True
        Whether all weights must be at least 0, as those of a mixture are. For an odd order alone it
        makes no difference.
    max_iter : int, default=500
        The limit on iterations.
    tol : float, default=1e-10
        Iterations end when the cost falls by less than this share of itself.
    random_state : int, RandomState or None
        The seed of the starts.
    verbose : int, default=0
        1 shows a progress bar.

    Returns
    -------
    SymmetricCP
        The weights and vectors, and how they were found.

    See Also
    --------
    KnownCovarianceMixture : An estimator that does this for signals in known noise.
    debiased_moment : The moment itself.

    Notes
    -----
    This is Theorem 5.2 of [1]_. An evaluation of the cost reads p samples once, in O(p n r)
    operations for rank r; with MomentTensors it takes the same time for any p. Memory is that of a
    few blocks of rows. The spectral start is the method of [2]_.

    References
    ----------
    .. [1] J. M. Pereira, J. Kileel and T. G. Kolda, "Tensor Moments of Gaussian Mixture Models:
       Theory and Applications", arXiv:2202.06930, 2022.
    .. [2] J. Kileel and J. M. Pereira, "Subspace power method for symmetric tensor decomposition",
       arXiv:1912.04007.

    Examples
    --------
    >>> import numpy as np
    >>> from momentmix import Samples, symmetric_cp
    >>> rng = np.random.default_rng(0)
    >>> signals = np.array([[2.0, 0.0, 1.0], [0.0, 1.0, -1.0]])
    >>> X = signals[rng.integers(2, size=50_000)] + rng.normal(size=(50_000, 3))
    >>> cp = symmetric_cp(Samples(X, noise_covariance=1.0), 2, 3, random_state=0)
    >>> truth = signals / np.linalg.norm(signals, axis=1)[:, None]
    >>> bool(np.min(np.max(cp.vectors @ truth.T, axis=0)) > 0.99)
    True
    """
    w = _weights_over_orders(order, weights)
    data = _tensor_data(P, w) if isinstance(P, np.ndarray) and P.ndim > 2 else data_of(P)
    one_of("init", init, INITS)
    one_of("solver", solver, SOLVERS)
    whole_number("n_init", n_init, 1, "auto")
    whole_number("max_iter", max_iter, 1)
    number("tol", tol, 0)
    _check_order(data, len(w) - 1)
    rng, single = generator(random_state), is_single(w)
    if isinstance(rank, str):
        if rank != "auto":
            raise ValueError(f"rank must be a whole number or 'auto', got {rank!r}")
        rank = estimate_rank(data, w, rng)
        if rank == 0:
            raise ValueError(
                "no term stands out from the sampling noise, so there is no rank to estimate; "
                "give rank as a number, or more samples"
            )
    rank = check_rank(rank, data.n, len(w) - 1, single)
    if isinstance(data, AtomData) and data.atoms.covariance.zero and len(data.atoms) < rank:
        raise ValueError(
            f"the moments of {len(data.atoms)} sample(s) have at most {len(data.atoms)} term(s), "
            f"not rank={rank}; give more samples or a lower rank"
        )
    form: Augmentation = (
        "post-processing" if nonnegative or (single and len(w) % 2 == 0) else "free"
    )
    search = TermSearch(
        data, rank, w, form=form, solver=solver, max_iter=max_iter, tol=tol, mixture=False
    )
    count = None if n_init == "auto" else int(n_init)
    with stoppable():
        fit = replace(search.solve(init, count, rng, verbose), interrupted=stopped())
    return _solution(search, fit)


def _tensor_data(T: np.ndarray, w: Sequence[float]) -> TensorData:
    """A symmetric tensor as moments that have it as their highest order.

    The second moment, which gives a scale and a subspace, is that of its slices. The other lower
    orders are 0, and do not count.
    """
    n, d = T.shape[0], T.ndim
    if not is_single(w) or d != len(w) - 1:
        raise ValueError(
            f"an array of {d} dimensions has order {d} alone, so give order={d} without weights"
        )
    packed = np.zeros(total_size(n, d))
    packed[0], packed[order_slice(n, d)] = 1.0, pack(T)
    difference = float(np.max(np.abs(T - to_numpy(sym(T))), initial=0.0))
    if not difference <= 1e-8 * float(np.max(np.abs(T), initial=0.0)):
        raise ValueError(f"the array must be symmetric, but differs from sym(T) by {difference:g}")
    if not (size := float(np.linalg.norm(T))):
        raise ValueError("the array is zero, so there is nothing to find")
    slices = (T / size).reshape(n, -1)
    packed[order_slice(n, 2)] = pack(slices @ slices.T * size ** (2 / d))
    return TensorData(MomentTensors.from_sums(1, np.zeros(n), packed, d))


def _solution(search: TermSearch, fit: Fit) -> SymmetricCP:
    weights, vectors, d = fit.parameters.weights, fit.parameters.means, search.d
    if search.single:
        lengths = np.linalg.norm(vectors, axis=1)
        weights = weights * lengths**d
        vectors = vectors / np.maximum(lengths, 1e-300)[:, None]
        if d % 2 == 0:  # a and -a give the same moment; the odd order below tells them apart
            points = Atoms(1.0, vectors, Zero(search.data.n), np)
            below = search.data.inner_with(points, [0.0] * (d - 1) + [1.0], gradient=False)
            vectors = np.where(np.asarray(below.values) < 0, -1.0, 1.0)[:, None] * vectors
    message = f"the decomposition did not converge in max_iter={search.max_iter} iterations"
    if fit.interrupted:
        message = "the decomposition was interrupted; this is the best so far"
    if fit.interrupted or not fit.converged:
        warn_user(message)
    elif search.single and _nearly_cancel(weights, vectors):
        warn_user(
            "two terms nearly cancel each other: there may be no best decomposition of this rank, "
            "as happens where noise was not taken out or the rank is not that of the signal"
        )
    order = np.argsort(-np.abs(weights), kind="stable")
    return SymmetricCP(
        weights[order],
        vectors[order],
        fit.objective,
        search.has_constant,
        fit.n_iter,
        fit.n_passes,
        fit.converged,
        fit.interrupted,
        list(fit.history),
    )


def _nearly_cancel(weights: np.ndarray, vectors: np.ndarray) -> bool:
    """Whether two terms have nearly the same direction and are much larger than their sum."""
    cosines = np.tril(vectors @ vectors.T, -1)
    i, j = np.unravel_index(np.argmax(np.abs(cosines)), cosines.shape)
    both = weights[i] + np.sign(cosines[i, j]) * weights[j]
    return bool(abs(cosines[i, j]) > 0.98 and min(abs(weights[i]), abs(weights[j])) > 2 * abs(both))


def _weights_over_orders(order: Order, weights: Sequence[float] | None) -> list[float]:
    if weights is None:
        w = order_weights(order)
    else:
        w = order_weights(weights)
        if len(w) != whole_order(order) + 1:
            raise ValueError(
                f"weights must be {order} + 1 numbers, one for each order 0..{order}; got "
                f"{list(weights)!r}"
            )
    if min(w) < 0 or w[-1] == 0:
        raise ValueError(f"weights must not be negative, nor 0 for the highest order; got {w}")
    if len(w) < 4:
        raise ValueError(
            f"order must be at least 3, got {len(w) - 1}: a matrix has many decompositions "
            "(rotations of its factors), a tensor of order 3 or more one"
        )
    return w


def _check_order(data: MomentData, order: int) -> None:
    if data.order is not None and data.order < order:
        raise ValueError(
            f"these moments were kept up to order {data.order}, not {order}; "
            f"accumulate with order={order}"
        )
