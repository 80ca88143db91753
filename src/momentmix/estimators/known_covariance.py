"""KnownCovarianceMixture, whose components differ only in mean and weight, under known noise.

It defines the parameters and what they mean; base.py fits.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, ClassVar, Literal, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import StrOptions

from momentmix.covariance import Spherical, common_noise
from momentmix.decomposition.terms import TermInit
from momentmix.distributions.mixture import Mixture
from momentmix.estimators.gaussian_mixture import SHARED_CONSTRAINTS
from momentmix.estimators.moment_mixture import MATCHING_CONSTRAINTS, SOLVED, MomentEstimator
from momentmix.fit import Fit
from momentmix.fitting.known_noise import NoiseFrame, known_noise_problem
from momentmix.fitting.plan import (
    Plan,
    Sizes,
    Start,
    check_means_init,
    check_weights_init,
    count_of_starts,
    last_start,
)
from momentmix.fitting.problem import Problem
from momentmix.matching.model import ESTIMATE_TOL, Model, SolverName
from momentmix.matching.orders import check_order_weights, check_rank
from momentmix.rows.data import Data
from momentmix.support.array import to_numpy
from momentmix.support.checks import Interval

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(eq=False, repr=False)
class KnownCovarianceMixture(MomentEstimator):
    """Find signals, the means of a mixture, through Gaussian noise of known covariance.

    It works at noise levels where clusters overlap so much that k-means and EM from random starts
    see nothing, if there are many rows. All components have the covariance of the noise and differ
    only in their means and weights.

    Parameters
    ----------
    n_components : int
        The number of signals, m.
    covariance : float, array of shape (n,) or (n, n), or "estimate"
        The covariance of the noise: one variance, n variances, or a matrix. "estimate" assumes the
        same variance in all features. It finds the variance in the directions in which the means do
        not differ (the trailing eigenvalues of the covariance of X), which needs n ≥ m.
    order : int, default=3
        Moments of orders 1 to ``order`` are matched. A moment of order k is a mean of products of k
        features.
    order_weights : "auto" or sequence of order + 1 floats, default="auto"
        How much each of the orders 0 to ``order`` counts, in coordinates where the data are centred
        and the noise is spherical. "auto" is 1/k!, the inverse of how the sampling variance of such
        moments grows.
    omega : float, optional
        The ω of the paper, in place of ``order_weights``: C(d, k) ω^(2(d-k)) for moments about the
        origin of X as it is given. Use it to reproduce the paper.
    augmentation : {"implicit", "post-processing"}, default="implicit"
        The two forms of the paper's augmented system. In "implicit" the weights sum to 1 at every
        step; in "post-processing" they are scaled afterwards, and a last fit in the first form
        lowers the cost that this raised. So both end at the same minimum.
    solver : {"auto", "gauss-newton", "lbfgs"}, default="auto"
        How the difference of the moments is minimised. "auto" is Gauss-Newton, which takes few
        steps; "lbfgs" is a gradient method, as in the paper.
    init : {"auto", "random", "spectral"}, default="auto"
        Where the decomposition of the moments starts; see :func:`momentmix.symmetric_cp`.
    n_init : int or "auto", default="auto"
        The number of starts. "auto" stops when several end at the same solution, and also tries
        plain starts of EM.
    polish : {"em", None}, default="em"
        Whether EM, with the covariance held fixed, finishes the fit. None gives the estimate from
        moments alone.
    max_iter : int, default=500
        The limit on iterations of each solver.
    tol : float, default=1e-6
        EM stops when a step raises the mean log-likelihood by less.
    weights_init : array of shape (m,), optional
        Weights to start from; then no other start is tried.
    means_init : array of shape (m, n), optional
        Means to start from; then no other start is tried.
    random_state : int, RandomState or None, default=None
        The seed of the random starts. A number makes fits repeatable.
    warm_start : bool, default=False
        Whether ``fit`` starts from the last solution.
    verbose : int, default=0
        1 shows a progress bar.
    n_jobs : int, optional
        The number of threads; by default as many as NumPy's linear algebra uses.

    Attributes
    ----------
    weights_ : ndarray of shape (m,)
        How often each signal occurs. Components are sorted by it, the largest first, unless a start
        was given.
    means_ : ndarray of shape (m, n)
        The signals.
    covariance_ : float or ndarray
        The covariance of the noise, as given or estimated.
    covariances_ : ndarray
        The same in the shape of the type "spherical", "diag" or "tied".
    precisions_ : ndarray or None
        The inverses of ``covariances_``; None where the covariance is singular.
    precisions_cholesky_ : ndarray or None
        Their Cholesky factors, as in scikit-learn.
    mixture_ : Mixture
        The fitted mixture, to save, load and condition.
    converged_ : bool
        Whether the fit came to its end before ``max_iter``.
    interrupted_ : bool
        Whether Ctrl-C ended the fit; then the attributes hold the best so far.
    n_iter_ : int
        The iterations of the solver that gave the result.
    n_passes_ : int
        The passes over the data in all.
    objective_ : float
        The difference of the moments at the start that led to the result.
    lower_bound_ : float
        The mean log-likelihood of a row; NaN with polish=None, which never computes it.
    lower_bounds_ : list of float
        The mean log-likelihoods that the starts have led to.
    agreement_ : Agreement or None
        How many starts were followed (``starts``), how many of them found the groups of the best
        (``agreeing``), and how far below it the best of the others is (``gap``, in nats a row);
        ``sentence`` says it in words. None if there was no search.
    log_posterior_ : float
        The same as ``lower_bound_``, because a known covariance needs no prior.
    history_ : list of float
        The difference of the moments after each iteration of that start.
    moments_ : MomentTensors
        After ``partial_fit``: the moments of all batches.

    See Also
    --------
    GaussianMixture : For covariances that are not known.
    symmetric_cp : The decomposition alone.
    debiased_moment : Moments with the noise taken out.

    Notes
    -----
    The part of the noise in the moments is a known polynomial of its covariance, and is subtracted
    exactly (Theorem 5.1 of [1]_). What is left are the moments of m points, which are matched by
    points with weights. The error of a third moment under noise of size σ grows as σ³/√p for p
    rows.

    References
    ----------
    .. [1] J. M. Pereira, J. Kileel and T. G. Kolda, "Tensor Moments of Gaussian Mixture Models:
       Theory and Applications", arXiv:2202.06930, 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from momentmix import KnownCovarianceMixture
    >>> rng = np.random.default_rng(0)
    >>> signals = np.array([[1.0, 0.0, 0.5], [0.0, 1.0, -0.5]])
    >>> X = signals[rng.integers(2, size=50_000)] + rng.normal(size=(50_000, 3))
    >>> km = KnownCovarianceMixture(2, covariance=1.0, random_state=0).fit(X)
    >>> order = np.argsort(-km.means_[:, 0])
    >>> bool(np.abs(km.means_[order] - signals).max() < 0.1)
    True
    """

    n_components: int
    covariance: ArrayLike | Literal["estimate"]
    _: KW_ONLY
    order: int = 3
    order_weights: ArrayLike | Literal["auto"] = "auto"
    omega: float | None = None
    augmentation: Literal["implicit", "post-processing"] = "implicit"
    solver: SolverName = "auto"
    init: TermInit = "auto"
    n_init: int | Literal["auto"] = "auto"
    polish: Literal["em"] | None = "em"
    max_iter: int = 500
    tol: float = 1e-6
    weights_init: ArrayLike | None = None
    means_init: ArrayLike | None = None
    random_state: object = None
    warm_start: bool = False
    verbose: int = 0
    n_jobs: int | None = None

    _solved = (
        *SOLVED,
        "covariance_",
        "lower_bound_",
        "lower_bounds_",
        "agreement_",
        "log_posterior_",
        "prior_strength_",
        "diagonal_strength_",
    )
    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        **{name: SHARED_CONSTRAINTS[name] for name in (
            "max_iter", "n_init", "weights_init", "means_init", "random_state", "warm_start",
            "verbose", "n_jobs",
        )},
        **MATCHING_CONSTRAINTS,
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "covariance": [Real, "array-like", StrOptions({"estimate"})],
        "order": [Interval(Integral, 3, None, closed="left")],
        "init": [StrOptions({"auto", "random", "spectral"})],
        "polish": [StrOptions({"em"}), None],
        "tol": [Interval(Real, 0, None, closed="left")],
    }  # fmt: skip

    def fit_moments(self, P: object, y: object = None) -> Self:
        """Fit the signals to the moments of a distribution that still has the noise in it.

        This estimator takes the noise out. If the moments are without noise already, set
        ``covariance=0``, or use :func:`momentmix.symmetric_cp`.

        Parameters
        ----------
        P : MomentTensors, Samples or Mixture
            The distribution whose moments are matched.
        y : ignored
            It is there because scikit-learn's pipelines pass it.

        Returns
        -------
        self
        """
        return super().fit_moments(P)

    @property
    def _reads_once(self) -> bool:
        return self.polish is None

    def _order(self, sizes: Sizes) -> int:
        return known_noise_order(self, sizes)

    def _plan(self, sizes: Sizes) -> Plan:
        return plan_known_noise(self, sizes, self._previous_solution())

    def _problem(self, data: Data, plan: Plan) -> Problem:
        return known_noise_problem(data, plan, self.covariance)

    def _set(self, problem: Problem, fit: Fit) -> None:
        super()._set(problem, fit)
        self._set_likelihood(fit)
        if not isinstance(self.covariance, str):
            self.covariance_ = to_numpy(self.covariance).astype(np.float64)
        else:
            self.covariance_ = cast(NoiseFrame, problem.frame).noise.array[0]

    @property
    def _free_covariances(self) -> bool:
        return False

    def _n_parameters(self) -> int:
        m, n = self.means_.shape
        return m - 1 + m * n + isinstance(self.covariance, str)


def known_noise_order(s: KnownCovarianceMixture, sizes: Sizes) -> int:
    """The order to match, which must be able to tell the means apart."""
    order = s.order
    if isinstance(order, bool) or not isinstance(order, int | np.integer) or order < 3:
        raise ValueError(
            f"order must be a whole number of at least 3, got {order!r}: means and weights do "
            "not follow from the first two moments"
        )
    order = int(order)
    check_rank(s.n_components, sizes.n, order, single=False, name="n_components")
    if not isinstance(s.covariance, str):
        common_noise(s.covariance, sizes.n)  # a bad one is refused before any pass
    weights = check_order_weights(s.order_weights, s.omega, order)
    if weights and (weights[-1] == 0 or not any(weights[1:-1])):
        raise ValueError(
            "order_weights must not be 0 for the highest order, nor for all others: one order "
            f"alone does not tell means from weights; got {s.order_weights!r}"
        )
    if sizes.order is not None and order > sizes.order:
        raise ValueError(
            f"order={order} is asked for, but these moments were kept up to order {sizes.order}; "
            f"accumulate with order={order}"
        )
    return order


def plan_known_noise(s: KnownCovarianceMixture, sizes: Sizes, last: Mixture | None) -> Plan:
    """The plan of KnownCovarianceMixture, in coordinates where the known noise is spherical."""
    m, n, order = int(s.n_components), sizes.n, known_noise_order(s, sizes)
    given = _given_start(s, n)
    model = Model(
        kind=Spherical,
        m=m,
        n=n,
        order=order,
        weights=check_order_weights(s.order_weights, s.omega, order),
        augmentation=s.augmentation,
        weighting="orders",
        solver=s.solver,
        floor=0.0,
        max_iter=int(s.max_iter),
        tol=ESTIMATE_TOL,
        explicit=False,
        omega=s.omega,
        tensors=sizes.place == "elsewhere",
        init=s.init,
    )
    return Plan(
        kind=Spherical,
        m=m,
        n=n,
        matching=model,
        n_init=count_of_starts(s.n_init),
        polish=sizes.place != "moments" and s.polish == "em",
        search="both" if s.n_init == "auto" else "estimate",
        tol=float(s.tol),
        max_iter=int(s.max_iter),
        start=last_start(last if s.warm_start else None, None, m, n) or given,
        by_weight=not s.warm_start and given is None,
        verbose=s.verbose,
    )


def _given_start(s: KnownCovarianceMixture, n: int) -> Start | None:
    """A start without covariances; the default weights are equal."""
    m = int(s.n_components)
    weights, means = check_weights_init(s.weights_init, m), check_means_init(s.means_init, m, n)
    if weights is None and means is None:
        return None
    return Start(np.full(m, 1 / m) if weights is None else weights, means, np.empty((m, 0)))
