"""MomentMixture, the method of moments: its parameters and what they mean; base.py fits."""

from __future__ import annotations

from numbers import Integral, Real
from typing import ClassVar, Literal

from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval, StrOptions

from momentmix.covariance import COVARIANCE_TYPES, CovarianceName
from momentmix.data.observed import ObservedData
from momentmix.data.sources import Data
from momentmix.estimators.gaussian_mixture import SHARED_CONSTRAINTS
from momentmix.estimators.moments import MomentEstimator
from momentmix.estimators.outliers import OutlierAnswers
from momentmix.fitting.asked import Sizes
from momentmix.fitting.building import mixture_problem
from momentmix.fitting.given import MOST_OUTLIERS
from momentmix.fitting.orders import moment_order
from momentmix.fitting.plan import Plan, plan_moments, plan_outliers
from momentmix.fitting.problem import Problem
from momentmix.fitting.windowed import windowed_problem
from momentmix.matching.identifiability import parameter_count
from momentmix.matching.matching import SolverName
from momentmix.matching.starts import INITS, Init

#: The allowed values of the parameters that say how moments are matched.
MATCHING_CONSTRAINTS: dict[str, list[object]] = {
    "order_weights": ["array-like", StrOptions({"auto"})],
    "omega": [Interval(Real, 0, None, closed="neither"), None],
    "augmentation": [StrOptions({"implicit", "post-processing"})],
    "solver": [StrOptions({"auto", "gauss-newton", "lbfgs"})],
}
_OF_LIKELIHOODS = "it is one of GaussianMixture, the likelihood fit"


class MomentMixture(OutlierAnswers, MomentEstimator):
    """Gaussian mixture by the method of moments, which reads the rows once.

    It matches the moments of the mixture (means of products of features) to those of the data, and
    never computes a likelihood. So one pass over the rows is enough, batches can be forgotten once
    they are summed up, and you can fit moments without any rows. If rows are in memory or can be
    read again, :class:`GaussianMixture` is more accurate.

    Parameters
    ----------
    n_components : int, default=1
        The number of components, m.
    covariance_type : {"full", "tied", "diag", "spherical"}, default="full"
        The shapes that components may have. "full": each its own ellipsoid. "tied": one ellipsoid
        for all. "diag": each its own ellipsoid along the axes, so that features do not correlate
        within a component. "spherical": each its own ball.
    order : int or "auto", default="auto"
        Moments of orders 1 to ``order`` are matched. "auto" is the smallest order that determines
        the parameters well. For full and tied covariances it is at least 4 if there are few enough
        moments.
    order_weights : "auto" or sequence of order + 1 floats, default="auto"
        How much each of the orders 0 to ``order`` counts, in centred and scaled coordinates. "auto"
        derives this from the sampling noise that moments of normal data have, which gives 1/k! for
        order k.
    omega : float, optional
        The ω of the paper, in place of ``order_weights``: C(d, k) ω^(2(d-k)) for moments about the
        origin of X as it is given. The fit then depends on origin and unit. Use it to reproduce the
        paper.
    weighting : {"auto", "optimal", "orders"}, default="auto"
        How differences are weighted. "orders" uses one weight for each order.
        "optimal" uses the inverse of the covariance that moments of samples have: first for normal
        data, and then for samples of the fitted mixture. "auto" is "optimal" for up to 3,100
        moments.
    augmentation : {"implicit", "post-processing"}, default="implicit"
        The two forms of the paper's augmented system. In "implicit" the weights sum to 1 at every
        step; in "post-processing" they are scaled afterwards.
    solver : {"auto", "gauss-newton", "lbfgs"}, default="auto"
        How the difference of the moments is minimised. "auto" is Gauss-Newton, which takes few
        steps; "lbfgs" is a gradient method, as in the paper.
    init : {"auto", "random", "k-means++", "spectral"}, default="auto"
        Where a fit starts: at rows drawn at random, at rows that k-means++ draws far from
        each other, or at a decomposition of the third moment. "auto" takes the first two in turn.
    n_init : int or "auto", default="auto"
        The number of starts. "auto" tries until enough of them agree.
    moments : {"auto", "tensors", "samples"}, default="auto"
        What the fit works on: the moment tensors, made in one pass, or the samples, read at every
        step. "auto" takes the cheaper.
    reg_covar : float, default=1e-6
        The smallest variance that a component may have in any direction, relative to the variance
        of the data there.
    max_iter : int, default=200
        The limit on iterations of the solver.
    weights_init : array of shape (m,), optional
        Weights to start from. If you give any part of a start, no other start is tried. The parts
        that you do not give come from a fit without a start, or lie around ``means_init``.
    means_init : array of shape (m, n), optional
        Means to start from.
    covariances_init : array, optional
        Covariances to start from, in the shape of ``covariances_``.
    precisions_init : array, optional
        The inverses of ``covariances_init``, in the same shape, as scikit-learn takes them. Give
        one of the two.
    outliers : {"auto", None} or float, default=None
        Whether some rows may belong to no component. If so, distant rows are down-weighted, and the
        bias this causes is corrected. The fit then estimates the share of outliers, but has no
        background to tell which they are. A number is the largest share; "auto" is 0.5.
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
        The share of each component. Components are sorted by it, the largest first, unless a start
        was given.
    means_ : ndarray of shape (m, n)
        The centre of each component.
    covariances_ : ndarray
        The covariances: (m, n, n) for full, (n, n) for tied, (m, n) for diag, (m,) for spherical.
    precisions_ : ndarray
        Their inverses, in the same shape.
    precisions_cholesky_ : ndarray
        The Cholesky factors of the inverses, as in scikit-learn.
    mixture_ : Mixture
        The fitted mixture, to save, load, condition and draw.
    converged_ : bool
        Whether the fit came to its end before ``max_iter``.
    interrupted_ : bool
        Whether Ctrl-C ended the fit; then the attributes hold the best so far.
    n_iter_ : int
        The iterations of the start that gave the result.
    n_passes_ : int
        The passes over the data in all.
    objective_ : float
        The difference of the moments that is left.
    history_ : list of float
        The difference of the moments after each iteration.
    collapsed_ : ndarray of int
        The components that rest on too few rows, or whose width in some direction these moments do
        not tell. There is a warning about them.
    outlier_share_ : float
        The share of the rows that belong to no component; 0 without ``outliers``.
    moments_ : MomentTensors
        After ``partial_fit``: the moments of all batches.

    See Also
    --------
    GaussianMixture : The likelihood fit, for rows that are in memory or can be read again.
    MomentTensors : Collects moments, to be merged, kept and fitted later.
    KnownCovarianceMixture : Components that differ only in their means, under known noise.

    Notes
    -----
    It minimises Σ_k w_k ‖M_k - M̂_k‖², the weighted difference of the moments of the mixture and of
    the data, without forming a tensor [1]_. "optimal" weights are those of the generalised method
    of moments [2]_.

    References
    ----------
    .. [1] J. M. Pereira, J. Kileel and T. G. Kolda, "Tensor Moments of Gaussian Mixture Models:
       Theory and Applications", arXiv:2202.06930, 2022.
    .. [2] L. P. Hansen, "Large Sample Properties of Generalized Method of Moments Estimators",
       Econometrica, 50, 1982.

    Examples
    --------
    >>> import numpy as np
    >>> from momentmix import MomentMixture
    >>> rng = np.random.default_rng(0)
    >>> fit = MomentMixture(2, covariance_type="spherical", random_state=0)
    >>> for _ in range(20):
    ...     batch = rng.normal(size=(1000, 2)) + 6 * rng.integers(2, size=(1000, 1))
    ...     fit = fit.partial_fit(batch)
    >>> np.sort(fit.means_[:, 0]).round(1) + 0.0
    array([0., 6.])
    """

    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        **SHARED_CONSTRAINTS,
        **MATCHING_CONSTRAINTS,
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "covariance_type": [StrOptions({*COVARIANCE_TYPES})],
        "order": [Interval(Integral, 2, None, closed="left"), StrOptions({"auto"})],
        "weighting": [StrOptions({"auto", "orders", "optimal"})],
        "init": [StrOptions({*INITS})],
        "moments": [StrOptions({"auto", "tensors", "samples"})],
        "outliers": [Interval(Real, 0, MOST_OUTLIERS, closed="both"), StrOptions({"auto"}), None],
    }
    _instead: ClassVar[dict[str, str]] = {
        "polish": "it fits moments alone; GaussianMixture fits likelihoods, and its "
        "init_params='moments' starts at moments",
        "init_params": _OF_LIKELIHOODS,
        "tol": _OF_LIKELIHOODS,
        "prior": _OF_LIKELIHOODS,
        "method": _OF_LIKELIHOODS,
        "verbose_interval": _OF_LIKELIHOODS,
    }

    def __init__(
        self,
        n_components: int = 1,
        *,
        covariance_type: CovarianceName = "full",
        order: int | Literal["auto"] = "auto",
        order_weights: ArrayLike | Literal["auto"] = "auto",
        omega: float | None = None,
        weighting: Literal["auto", "optimal", "orders"] = "auto",
        augmentation: Literal["implicit", "post-processing"] = "implicit",
        solver: SolverName = "auto",
        init: Init = "auto",
        n_init: int | Literal["auto"] = "auto",
        moments: Literal["auto", "tensors", "samples"] = "auto",
        reg_covar: float = 1e-6,
        max_iter: int = 200,
        weights_init: ArrayLike | None = None,
        means_init: ArrayLike | None = None,
        covariances_init: ArrayLike | None = None,
        precisions_init: ArrayLike | None = None,
        outliers: float | Literal["auto"] | None = None,
        random_state: object = None,
        warm_start: bool = False,
        verbose: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.covariance_type: str = covariance_type
        self.order = order
        self.order_weights = order_weights
        self.omega = omega
        self.weighting = weighting
        self.augmentation = augmentation
        self.solver = solver
        self.init = init
        self.n_init = n_init
        self.moments = moments
        self.reg_covar = reg_covar
        self.max_iter = max_iter
        self.weights_init = weights_init
        self.means_init = means_init
        self.covariances_init = covariances_init
        self.precisions_init = precisions_init
        self.outliers = outliers
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.n_jobs = n_jobs

    def _validate_params(self) -> None:
        for name in ("n_components", "covariance_type"):
            if getattr(self, name) == "auto":
                raise ValueError(
                    f"{name}='auto' compares likelihoods, and MomentMixture looks at none; give "
                    "it, or use GaussianMixture or select"
                )
        super()._validate_params()  # type: ignore[no-untyped-call]

    @property
    def _reads_once(self) -> bool:
        return True

    @property
    def _needs_memory(self) -> bool:
        return self.outliers is not None

    def _order(self, sizes: Sizes) -> int:
        plan_outliers(self, sizes)  # refuses outliers, which need rows in memory
        return moment_order(self, sizes)

    def _plan(self, sizes: Sizes) -> Plan:
        return plan_moments(self, sizes, self._previous_solution())

    def _problem(self, data: Data | ObservedData, plan: Plan) -> Problem:
        if plan.outliers is not None:
            return windowed_problem(data, plan, plan.outliers.most)
        return mixture_problem(data, plan)

    def _n_parameters(self) -> int:
        return parameter_count(self.mixture_.atoms.covariance.kind, *self.means_.shape)
