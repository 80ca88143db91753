"""GaussianMixture, the likelihood fit: its parameters and what they mean; base.py fits."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral, Real
from typing import ClassVar, Literal

from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval, StrOptions

from momentmix.covariance import COVARIANCE_TYPES, CovarianceName
from momentmix.data.observed import ObservedData
from momentmix.data.sources import Data
from momentmix.estimators.auto import choose, with_choice
from momentmix.estimators.base import Reader
from momentmix.estimators.inference import InferenceEstimator
from momentmix.estimators.outliers import OutlierAnswers
from momentmix.fitting.asked import Sizes
from momentmix.fitting.building import mixture_problem
from momentmix.fitting.given import MOST_OUTLIERS
from momentmix.fitting.outliers import background_parameters
from momentmix.fitting.plan import Method, Plan, plan_likelihood
from momentmix.fitting.problem import Problem
from momentmix.likelihood.starts import INIT_PARAMS, InitParams
from momentmix.matching.fit import Fit
from momentmix.matching.identifiability import parameter_count
from momentmix.support.checks import generator
from momentmix.support.parallel import thread_limit

#: The largest reg_covar, in units of the variance of the data. This is a round number: far more
#: than a fit can use, and so small that no square of it overflows.
LARGEST_FLOOR = 1e6
#: The allowed values of the parameters that fits of likelihoods and of moments share.
SHARED_CONSTRAINTS: dict[str, list[object]] = {
    "n_components": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
    "covariance_type": [StrOptions({*COVARIANCE_TYPES, "auto"})],
    "reg_covar": [Interval(Real, 0, LARGEST_FLOOR, closed="both")],
    "max_iter": [Interval(Integral, 0, None, closed="left")],
    "n_init": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
    "weights_init": ["array-like", None],
    "means_init": ["array-like", None],
    "covariances_init": ["array-like", None],
    "precisions_init": ["array-like", None],
    "random_state": ["random_state"],
    "warm_start": ["boolean"],
    "verbose": ["verbose"],
    "n_jobs": [Integral, None],
}
_OF_MOMENTS = "it is one of MomentMixture, the method of moments"


class GaussianMixture(OutlierAnswers, InferenceEstimator):
    """Gaussian mixture model, with the parameters and methods of scikit-learn's class of this name.

    It maximises the likelihood of the rows, with a mild prior, by EM from several starts, and then
    repairs the result: it merges two components and splits a third while that improves the fit. So
    it often finds the right groups where restarts of EM stop at a poor solution. Rows may have gaps
    and known errors, and some may belong to no component.

    Parameters
    ----------
    n_components : int or "auto", default=1
        The number of components, m. "auto" takes the one of lowest BIC between 1 and 10, and stops
        when three in a row were no better. :func:`momentmix.select` shows the others too.
    covariance_type : {"full", "tied", "diag", "spherical", "auto"}, default="full"
        The shapes that components may have. "full": each its own ellipsoid. "tied": one ellipsoid
        for all. "diag": each its own ellipsoid along the axes, so that features do not correlate
        within a component. "spherical": each its own ball. "auto": the one of lowest BIC.
    tol : float, default=1e-6
        EM stops when a step raises the mean log-likelihood by less.
    reg_covar : float, default=1e-6
        The smallest variance that a component may have in any direction, relative to the variance
        of the data there.
    max_iter : int, default=200
        The limit on iterations of EM. With 0, the fit is its first start.
    n_init : int or "auto", default="auto"
        The number of starts. "auto" runs EM from k-means and random starts and repairs each, until
        two end at the same solution. A number is the most starts; there are fewer if two agree
        before.
    init_params : {"auto", "kmeans", "k-means++", "random", "random_from_data", "moments"}, \
            default="auto"
        Where EM starts, by scikit-learn's names: at the clusters of k-means, around rows that
        k-means++ draws far from each other, from random responsibilities, or around rows drawn at
        random. "auto" takes k-means first and then random rows. Each start is repaired, so the
        result depends little on it. "moments" is the estimate of :class:`MomentMixture`, from which
        EM climbs to the maximum nearby, without repairs. With a number for ``n_init``, it is that
        many fits of moments.
    weights_init : array of shape (m,), optional
        Weights to start from. If you give any part of a start, no other start is tried. The parts
        that you do not give come from where the fit would start by itself: around ``means_init`` if
        you give these, else from k-means (or what ``init_params`` names).
    means_init : array of shape (m, n), optional
        Means to start from.
    precisions_init : array, optional
        The inverses of covariances to start from, in the shape of ``precisions_``.
    random_state : int, RandomState or None, default=None
        The seed of the random starts. A number makes fits repeatable.
    warm_start : bool, default=False
        Whether ``fit`` starts from the last solution.
    verbose : int, default=0
        1 shows a progress bar.
    verbose_interval : int, default=10
        Accepted so that calls of scikit-learn's class work as they are. It changes nothing, because
        the progress bar keeps its own pace.
    covariances_init : array, optional
        Covariances to start from, in the shape of ``covariances_``. Give these or
        ``precisions_init``.
    prior : {"auto", "cv", None} or float, default="auto"
        How firmly the covariances of the components are held together, so that none collapses onto
        a handful of rows. The strength is a number of rows. "auto" is 3n - 1 for full covariances
        and 2 for diag and spherical, and "cv" lets cross-validation choose. With many rows the
        effect vanishes. With a prior, no component is narrower than the rounding of the columns.
        None maximises the likelihood alone, as scikit-learn does. A tied covariance has no others
        to be held to. If X has gaps, covariance matrices are also held to that of all rows, with
        the weight of n²/4 rows times the share of gaps, or less if many rows have none. The reason
        is that few rows show many features together, so covariances could become flat unnoticed.
    outliers : {"auto", "uniform", None} or float, default=None
        Whether some rows may belong to no component. If so, the fit has a background of constant
        density that takes them in, and ``predict`` gives -1 for them. "auto" finds the density from
        the other rows: that of rows spread evenly over their box. "uniform" takes the box of all
        rows, as R's mclust does. A float is "auto" with this cap on the share of outliers (default
        cap: 0.5). If there are no outliers, the fit is one without a background.
    method : {"auto", "em", "newton"}, default="auto"
        How the last steps to the maximum are taken. "em" takes steps of EM. "newton" takes steps of
        Newton's method with the curvature of some of the rows: a few passes over the rows, where EM
        may take hundreds. "auto" is "newton" if there are so many rows that only a sample was
        searched, and "em" otherwise.
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
    n_components_ : int
        The number of components, also where "auto" has found it.
    covariance_type_ : str
        The covariance type, also where "auto" has found it.
    mixture_ : Mixture
        The fitted mixture, to save, load, condition and draw.
    converged_ : bool
        Whether the fit came to its end before ``max_iter``.
    interrupted_ : bool
        Whether Ctrl-C ended the fit; then the attributes hold the best so far.
    n_iter_ : int
        The iterations of the last run of the solver that gave the result.
    n_passes_ : int
        The passes over the data in all.
    lower_bound_ : float
        The mean log-likelihood of a row.
    lower_bounds_ : list of float
        The values that the starts have led to.
    agreement_ : Agreement or None
        How many starts were followed (``starts``), how many of them found the groups of the best
        (``agreeing``), and how far below it the best of the others is (``gap``, in nats a row);
        ``sentence`` says it in words. None if there was no search.
    log_posterior_ : float
        ``lower_bound_`` less the penalty of the prior: what the fit maximises.
    prior_strength_ : float
        The strength of the prior, in rows; 0 if there is none.
    collapsed_ : ndarray of int
        The components that rest on too few rows, or have no width in some direction. There is a
        warning about them, and BIC and AIC mean little then.
    outlier_share_ : float
        The share of the rows that belong to no component; 0 if there is no background.

    See Also
    --------
    MomentMixture : Fits the moments of the rows, in one pass over them.
    KnownCovarianceMixture : Components that differ only in their means, under known noise.
    select : Compares numbers of components and covariance types.
    sklearn.mixture.GaussianMixture : The class that this one replaces.

    Notes
    -----
    EM [1]_ maximises the log-likelihood less ν/4 Σ_k ‖log Σ_k - L‖², where L is the mean of the
    log Σ_k and ν the strength of the prior. Repairs exchange a merge for a split, an idea of [2]_.

    References
    ----------
    .. [1] A. P. Dempster, N. M. Laird and D. B. Rubin, "Maximum Likelihood from Incomplete Data via
       the EM Algorithm", Journal of the Royal Statistical Society, Series B, 39, 1977.
    .. [2] N. Ueda, R. Nakano, Z. Ghahramani and G. E. Hinton, "SMEM Algorithm for Mixture Models",
       Neural Computation, 12, 2000.

    Examples
    --------
    >>> import numpy as np
    >>> from momentmix import GaussianMixture
    >>> X = np.array([[1, 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0]])
    >>> gm = GaussianMixture(n_components=2, random_state=0).fit(X)
    >>> np.sort(gm.means_[:, 0]).round(3)
    array([ 1., 10.])
    >>> gm.predict([[0, 0], [12, 3]]).tolist() in ([0, 1], [1, 0])
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        **SHARED_CONSTRAINTS,
        "tol": [Interval(Real, 0, None, closed="left")],
        "init_params": [StrOptions({*INIT_PARAMS})],
        "verbose_interval": [Interval(Integral, 1, None, closed="left")],
        "prior": [Interval(Real, 0, None, closed="left"), StrOptions({"auto", "cv"}), None],
        "outliers": [
            Interval(Real, 0, MOST_OUTLIERS, closed="both"),
            StrOptions({"auto", "uniform"}),
            None,
        ],
        "method": [StrOptions({"auto", "em", "newton"})],
    }
    _instead: ClassVar[dict[str, str]] = {
        "polish": "method='em' and 'newton' say how the likelihood is climbed, and MomentMixture "
        "fits moments alone",
        "init": "init_params='moments' starts at fits of moments; MomentMixture has their kinds",
        "order": _OF_MOMENTS,
        "order_weights": _OF_MOMENTS,
        "omega": _OF_MOMENTS,
        "weighting": _OF_MOMENTS,
        "augmentation": _OF_MOMENTS,
        "solver": _OF_MOMENTS,
        "moments": _OF_MOMENTS,
    }

    def __init__(
        self,
        n_components: int | Literal["auto"] = 1,
        *,
        covariance_type: CovarianceName | Literal["auto"] = "full",
        tol: float = 1e-6,
        reg_covar: float = 1e-6,
        max_iter: int = 200,
        n_init: int | Literal["auto"] = "auto",
        init_params: InitParams = "auto",
        weights_init: ArrayLike | None = None,
        means_init: ArrayLike | None = None,
        precisions_init: ArrayLike | None = None,
        random_state: object = None,
        warm_start: bool = False,
        verbose: int = 0,
        verbose_interval: int = 10,
        covariances_init: ArrayLike | None = None,
        prior: float | Literal["auto", "cv"] | None = "auto",
        outliers: float | Literal["auto", "uniform"] | None = None,
        method: Method = "auto",
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.covariance_type: str = covariance_type
        self.tol = tol
        self.reg_covar = reg_covar
        self.max_iter = max_iter
        self.n_init = n_init
        self.init_params = init_params
        self.weights_init = weights_init
        self.means_init = means_init
        self.precisions_init = precisions_init
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.verbose_interval = verbose_interval
        self.covariances_init = covariances_init
        self.prior = prior
        self.outliers = outliers
        self.method = method
        self.n_jobs = n_jobs

    @property
    def _is_auto(self) -> bool:
        """Whether the number of components or the covariance type is "auto"."""
        return "auto" in (self.n_components, self.covariance_type)

    @property
    def _needs_memory(self) -> bool:
        return self._is_auto or self.outliers is not None or self.prior == "cv"

    def _solve(self, read: Reader, rows: bool) -> None:
        if not self._is_auto:
            return super()._solve(read, rows)
        with thread_limit(self.n_jobs):
            found = choose(self, read(), generator(self.random_state))
            self._conclude(found.problem, found.fit)
        return None

    def _plan(self, sizes: Sizes) -> Plan:
        return plan_likelihood(self, sizes, self._previous_solution())

    def _plan_as_fitted(self, sizes: Sizes) -> Plan:
        chosen = with_choice(self, self.covariance_type_, self.n_components_)
        background = self.mixture_.background
        if background is None:  # no outliers were found
            chosen.outliers = None
        plan = plan_likelihood(chosen, sizes, None)
        if background is None or plan.outliers is None:
            return plan
        return replace(plan, outliers=plan.outliers._replace(widths=background.widths))

    def _problem(self, data: Data | ObservedData, plan: Plan) -> Problem:
        return mixture_problem(data, plan)

    def _set(self, problem: Problem, fit: Fit) -> None:
        super()._set(problem, fit)
        self._set_likelihood(fit)

    def _n_parameters(self) -> int:
        count = parameter_count(self.mixture_.atoms.covariance.kind, *self.means_.shape)
        if self.mixture_.background is None:
            return count
        return count + background_parameters(self.mixture_.n_features)
