"""MomentMixture: the scikit-learn estimator. It says what its parameters mean; base.py fits."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from momentmix.covariance import CovarianceName, covariance_type
from momentmix.data.sources import Data
from momentmix.estimators.base import MixtureEstimator
from momentmix.estimators.settings import check_mixture_settings
from momentmix.fitting.plan import Plan, Sizes, mixture_order, plan_mixture
from momentmix.fitting.problem import Problem, mixture_problem
from momentmix.matching.fit import Fit
from momentmix.matching.identifiability import parameter_count
from momentmix.matching.matching import SolverName
from momentmix.matching.starts import Init


class MomentMixture(MixtureEstimator):
    """Gaussian mixture fitted by its moments, then by its likelihood.

    A drop-in for scikit-learn's ``GaussianMixture``: same methods and fitted attributes. Rows in
    memory are fitted by EM on a penalised likelihood, and exchanges of a merge for a split repair
    what EM leaves wrong. Moments are matched where rows are not to be read again (``polish=None``,
    ``partial_fit``, ``fit_moments``, Dask), and where starts of that kind are asked for
    (``n_init``). Components come by falling weight, unless a start was given.

    Parameters
    ----------
    n_components : int, default=1
    covariance_type : {"full", "tied", "diag", "spherical"}, default="full"
    order : int or "auto", default="auto"
        Moments of orders 1 to ``order`` are matched. "auto" is the least order that can determine
        the parameters, and at least 4 where there are few enough moments.
    order_weights : "auto" or sequence of order + 1 floats, default="auto"
        Weights of orders 0..order in the cost, in centred and scaled coordinates. "auto" derives
        them from the sampling noise of the moments: of normal data (1/k!) without polish, which
        knows the moments alone, and of the samples themselves with it.
    omega : float, optional
        The paper's ω in place of ``order_weights``: C(d, k) ω^(2(d-k)), on moments about the
        origin of X as it is given. The fit then depends on origin and unit, as in the paper.
    weighting : {"auto", "optimal", "orders"}, default="auto"
        "orders" uses one weight an order. "optimal" uses the inverse covariance that the distinct
        moments of samples have: at first of normal ones (Hermite moments), then of samples of the
        mixture found, which is known from its own moments of twice the order. "auto" is "optimal"
        where the moments are at most 2,000, and "orders" beyond a few thousand. With polish the
        first of the two weights is enough, for starts of EM.
    augmentation : {"implicit", "post-processing"}, default="implicit"
        The two forms of the paper's augmented system.
    solver : {"auto", "gauss-newton", "lbfgs"}, default="auto"
    init : {"auto", "random", "k-means++", "spectral"}, default="auto"
        Where moment fits start. "auto" takes several kinds in turn.
    n_init : int or "auto", default="auto"
        Number of moment starts. "auto" searches with polish: EM from k-means and random starts,
        each repaired by exchanges of a merge for a split, until two agree; and without polish
        tries moment starts until enough agree.
    polish : {"em", None}, default="em"
        None gives the moment estimate itself.
    prior : {"auto", "cv", None} or float, default="auto"
        How firmly the covariances of the components are held together. Their logarithms are taken
        to be normal about a common one, with the weight of so many rows in each component: a
        number, 3n - 1 for "auto" (2 for diag and spherical), or one that cross-validation chooses
        ("cv"). The effect vanishes beside many rows; on few it keeps components from collapsing
        onto a handful of them. No covariance is then smaller than what rounding of the columns
        hides, either. None maximises the likelihood alone, as scikit-learn does. A tied covariance
        has no others to be held to.
    reg_covar : float, default=1e-6
        The least variance that a component may have in any direction, relative to the variance of
        the data there.
    max_iter : int, default=200
        Limit on iterations of each solver; with 0 the fit is its first start.
    tol : float, default=1e-6
        EM stops when the mean log-likelihood gains less.
    weights_init, means_init, covariances_init : arrays, optional
        A start of one's own, or a part of one, the rest coming from k-means; then no other start
        is tried.
    random_state : int, RandomState or None
    warm_start : bool, default=False
        Start from the last solution.
    verbose : int, default=0
        1 shows a progress bar.
    n_jobs : int, optional
        Threads; by default as many as the BLAS may use.
    moments : {"auto", "tensors", "samples"}, default="auto"
        What ``polish=None`` works on: the moment tensors that one pass gives, or the samples, read
        at every step. "auto" takes the cheaper.

    Attributes
    ----------
    weights_, means_, covariances_, precisions_, precisions_cholesky_ : ndarray
    mixture_ : Mixture
    converged_, interrupted_ : bool
    n_iter_ : int
        Iterations of the last run of the solver that gave the result.
    n_passes_ : int
        Passes over the data in all.
    objective_ : float
        Moment cost of the start that led to the result.
    lower_bound_ : float
        Mean log-likelihood a sample; NaN without polish, which has not looked at it.
    log_posterior_ : float
        The same less the penalty of the prior: what the fit maximises.
    prior_strength_ : float
        Of the prior, in rows; 0 if there is none.
    collapsed_ : ndarray of int
        Components that rest on too few rows, or have no extent in some direction; there is a
        warning about them, and BIC and AIC mean little.
    history_ : list of float
        Moment cost after each iteration of that start.
    moments_ : MomentTensors
        After ``partial_fit``: the moments of all batches.

    Examples
    --------
    >>> import numpy as np
    >>> from momentmix import MomentMixture
    >>> X = np.array([[1, 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0]])
    >>> gm = MomentMixture(n_components=2, random_state=0).fit(X)
    >>> np.sort(gm.means_[:, 0]).round(3)
    array([ 1., 10.])
    >>> gm.predict([[0, 0], [12, 3]]).tolist() in ([0, 1], [1, 0])
    True
    """

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
        polish: Literal["em"] | None = "em",
        reg_covar: float = 1e-6,
        max_iter: int = 200,
        tol: float = 1e-6,
        weights_init: ArrayLike | None = None,
        means_init: ArrayLike | None = None,
        covariances_init: ArrayLike | None = None,
        random_state: object = None,
        warm_start: bool = False,
        verbose: int = 0,
        n_jobs: int | None = None,
        moments: Literal["auto", "tensors", "samples"] = "auto",
        prior: float | Literal["auto", "cv"] | None = "auto",
    ) -> None:
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.order = order
        self.order_weights = order_weights
        self.omega = omega
        self.weighting = weighting
        self.augmentation = augmentation
        self.solver = solver
        self.init = init
        self.n_init = n_init
        self.polish = polish
        self.reg_covar = reg_covar
        self.max_iter = max_iter
        self.tol = tol
        self.weights_init = weights_init
        self.means_init = means_init
        self.covariances_init = covariances_init
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.moments = moments
        self.prior = prior

    def _check_settings(self) -> None:
        check_mixture_settings(self)

    def _order(self, sizes: Sizes) -> int:
        return mixture_order(self, sizes)

    def _plan(self, sizes: Sizes) -> Plan:
        return plan_mixture(self, sizes, self._previous_solution())

    def _problem(self, data: Data, plan: Plan) -> Problem:
        return mixture_problem(data, plan)

    def _set(self, problem: Problem, fit: Fit) -> None:
        try:
            super()._set(problem, fit)
        except np.linalg.LinAlgError as error:
            raise ValueError(
                f"a fitted covariance is singular with reg_covar={self.reg_covar:g}; raise it, "
                "or drop constant or dependent features"
            ) from error

    def _n_parameters(self) -> int:
        return parameter_count(covariance_type(self.covariance_type), *self.means_.shape)
