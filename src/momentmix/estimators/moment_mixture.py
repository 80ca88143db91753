"""MomentMixture: the scikit-learn estimator. It says what its parameters mean; base.py fits."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from momentmix.covariance import CovarianceName
from momentmix.data.observed import ObservedData
from momentmix.data.parameters import outlier_share
from momentmix.data.sources import Data
from momentmix.estimators.auto import chosen, refuse_auto, with_choice
from momentmix.estimators.base import SOLVED, Reader
from momentmix.estimators.outliers import OutlierAnswers
from momentmix.estimators.settings import check_mixture_settings
from momentmix.estimators.trust import TrustedEstimator
from momentmix.fitting.asked import Sizes
from momentmix.fitting.building import mixture_problem
from momentmix.fitting.orders import mixture_order
from momentmix.fitting.outliers import background_parameters
from momentmix.fitting.plan import Plan, plan_mixture, planned_outliers
from momentmix.fitting.problem import Problem
from momentmix.fitting.windowed import windowed_problem
from momentmix.likelihood.starts import InitParams
from momentmix.matching.fit import Fit
from momentmix.matching.identifiability import parameter_count
from momentmix.matching.matching import SolverName
from momentmix.matching.starts import Init
from momentmix.support.checks import generator
from momentmix.support.parallel import thread_limit


class MomentMixture(OutlierAnswers, TrustedEstimator):
    """Gaussian mixture model with the methods of scikit-learn's ``GaussianMixture``.

    Fits rows in memory by EM on a penalised likelihood, and then repairs the result: it merges two
    components and splits a third while that improves the fit. So it often finds the right groups
    where restarts of EM stop at a poor solution. It can also fit moments (means of products of
    features) where rows should be read only once.

    Parameters
    ----------
    n_components : int or "auto", default=1
        The number of components, m. "auto" takes that of lowest BIC, of 1 to 10: it stops when
        three in a row were no better. :func:`momentmix.select` shows the others too.
    covariance_type : {"full", "tied", "diag", "spherical", "auto"}, default="full"
        The shapes that components may have. "full": each its own ellipsoid. "tied": one ellipsoid
        for all. "diag": each its own ellipsoid along the axes, so that features do not correlate
        within a component. "spherical": each its own ball. "auto": the one of lowest BIC.
    order : int or "auto", default="auto"
        For fits of moments: moments of orders 1 to ``order`` are matched. "auto" is the smallest
        order that determines the parameters well, and at least 4 for full and tied covariances
        where there are few enough moments.
    order_weights : "auto" or sequence of order + 1 floats, default="auto"
        For fits of moments: how much each of the orders 0 to ``order`` counts, in centred and
        scaled coordinates. "auto" derives this from the sampling noise of the moments. Without
        polish the noise is taken to be that of normal data, which gives 1/k! for order k. With
        polish it is measured on the rows.
    omega : float, optional
        The ω of the paper, in place of ``order_weights``: C(d, k) ω^(2(d-k)) for moments about the
        origin of X as it is given. The fit then depends on origin and unit. Use it to reproduce the
        paper.
    weighting : {"auto", "optimal", "orders"}, default="auto"
        For fits of moments: how differences are weighted. "orders" uses one weight for each order.
        "optimal" uses the inverse of the covariance that moments of samples have: first for normal
        data, and then for samples of the fitted mixture. "auto" is "optimal" for up to 3,100
        moments. With polish, the first of the two weights is enough.
    augmentation : {"implicit", "post-processing"}, default="implicit"
        The two forms of the paper's augmented system. In "implicit" the weights sum to 1 at every
        step; in "post-processing" they are scaled afterwards.
    solver : {"auto", "gauss-newton", "lbfgs"}, default="auto"
        How the difference of the moments is minimised. "auto" is Gauss-Newton, which takes few
        steps; "lbfgs" is a gradient method, as in the paper.
    init : {"auto", "random", "k-means++", "spectral"}, default="auto"
        Where fits of moments start: at rows drawn at random, at rows that k-means++ draws far from
        each other, or at a decomposition of the third moment. "auto" takes the first two in turn.
    init_params : {"auto", "kmeans", "k-means++", "random", "random_from_data"}, default="auto"
        Where EM starts, by scikit-learn's names: at the clusters of k-means, around rows that
        k-means++ draws far from each other, from random responsibilities, or around rows drawn at
        random. "auto" takes k-means first and then random rows. Each start is repaired, so the
        result depends little on it. Where there are no rows in memory to start from
        (``polish=None``, ``partial_fit``, ``fit_moments``, Dask), fits of moments start in the way
        of ``init`` that comes nearest. Give ``init`` or ``init_params``, not both.
    n_init : int or "auto", default="auto"
        The number of starts. "auto" runs EM from k-means and random starts and repairs each, until
        two end at the same solution; without polish, it tries fits of moments until enough agree. A
        number asks for at most so many starts, or for fewer if two agree before. Together with a
        kind of ``init``, a number asks for so many fits of moments, then EM from the best one,
        without repairs.
    polish : {"em", "newton", None}, default="em"
        What finishes the fit. "newton" begins at the estimate from moments and takes scoring steps
        to the maximum of the likelihood nearby: a few passes over the rows in all, where EM may
        take hundreds. It does not search among several maxima, so it is for many rows. None gives
        the estimate from moments alone, which reads the rows once.
    reg_covar : float, default=1e-6
        The smallest variance that a component may have in any direction, relative to the variance
        of the data there.
    max_iter : int, default=200
        The limit on iterations of each solver. With 0, the fit is its first start.
    tol : float, default=1e-6
        EM stops when a step raises the mean log-likelihood by less.
    weights_init : array of shape (m,), optional
        Weights to start from. If you give any part of a start, no other start is tried. The parts
        that you do not give come from where the fit would start by itself: around ``means_init`` if
        you give these, else from k-means (or what ``init_params`` names), and without rows in
        memory from the moment estimate.
    means_init : array of shape (m, n), optional
        Means to start from.
    covariances_init : array, optional
        Covariances to start from, in the shape of ``covariances_``.
    precisions_init : array, optional
        The inverses of ``covariances_init``, in the same shape, as scikit-learn takes them. Give
        one of the two.
    random_state : int, RandomState or None, default=None
        The seed of the random starts. A number makes fits repeatable.
    warm_start : bool, default=False
        Whether ``fit`` starts from the last solution.
    verbose : int, default=0
        1 shows a progress bar.
    verbose_interval : int, default=10
        Accepted so that calls of ``GaussianMixture`` work as they are. It changes nothing, because
        the progress bar keeps its own pace.
    n_jobs : int, optional
        The number of threads; by default as many as NumPy's linear algebra uses.
    moments : {"auto", "tensors", "samples"}, default="auto"
        What ``polish=None`` works on: the moment tensors, made in one pass, or the samples, read at
        every step. "auto" takes the cheaper.
    prior : {"auto", "cv", None} or float, default="auto"
        How firmly the covariances of the components are held together, so that none collapses onto
        a handful of rows. The strength is a number of rows. "auto" is 3n - 1 for full covariances
        and 2 for diag and spherical, and "cv" lets cross-validation choose. With many rows the
        effect vanishes. With a prior, no component is narrower than what rounding of the columns
        hides. None maximises the likelihood alone, as scikit-learn does. A tied covariance has no
        others to be held to. If X has gaps, covariance matrices are also held to that of all rows,
        with the weight of n²/4 rows times the share of gaps, or less where many rows have none: few
        rows show many features together, and without a prior covariances can become flat where
        hardly any row would tell.
    outliers : {"none", "auto", "uniform"} or float, default="none"
        Whether some rows may belong to no component. If so, the fit has a background of constant
        density that takes them in, and ``predict`` gives -1 for them. "auto" finds the density from
        the other rows: that of rows spread evenly over their box. "uniform" takes the box of all
        rows, as R's mclust does. A number is "auto" with so large a share of outliers at most; else
        it is 0.5. Where there are no outliers the fit is one without a background. With
        ``polish=None`` rows count less the farther off they lie, which is taken out of the result
        again; there is a share of outliers then, but no background to tell which they are.

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
    objective_ : float
        The difference of the moments at the start that led to the result.
    lower_bound_ : float
        The mean log-likelihood of a row; NaN without polish, which does not look at it.
    lower_bounds_ : list of float
        The values that the starts have led to.
    agreement_ : Agreement or None
        How many starts were followed (``starts``), how many of them came to the groups of the best
        (``agreeing``), and how far below it the best of the others is (``gap``, in nats a row);
        ``sentence`` says it in words. None if there was nothing to search for.
    log_posterior_ : float
        ``lower_bound_`` less the penalty of the prior: what the fit maximises.
    prior_strength_ : float
        The strength of the prior, in rows; 0 if there is none.
    collapsed_ : ndarray of int
        The components that rest on too few rows, or have no width in some direction. There is a
        warning about them, and BIC and AIC mean little then.
    history_ : list of float
        The difference of the moments after each iteration of that start.
    outlier_share_ : float
        The share of the rows that belong to no component; 0 if there is no background.
    moments_ : MomentTensors
        After ``partial_fit``: the moments of all batches.

    See Also
    --------
    KnownCovarianceMixture : Components that differ only in their means, under known noise.
    select : Compares numbers of components and covariance types.
    sklearn.mixture.GaussianMixture : The class that this one replaces.

    Notes
    -----
    With rows in memory, EM [2]_ maximises the log-likelihood less ν/4 Σ_k ‖log Σ_k - L‖², where L
    is the mean of the log Σ_k and ν the strength of the prior. Repairs exchange a merge for a
    split, an idea of [3]_. Fits of moments minimise Σ_k w_k ‖M_k - M̂_k‖², the weighted difference
    of the moments of the mixture and of the data, without forming a tensor [1]_. "optimal" weights
    are those of the generalised method of moments [4]_.

    References
    ----------
    .. [1] J. M. Pereira, J. Kileel and T. G. Kolda, "Tensor Moments of Gaussian Mixture Models:
       Theory and Applications", arXiv:2202.06930, 2022.
    .. [2] A. P. Dempster, N. M. Laird and D. B. Rubin, "Maximum Likelihood from Incomplete Data via
       the EM Algorithm", Journal of the Royal Statistical Society, Series B, 39, 1977.
    .. [3] N. Ueda, R. Nakano, Z. Ghahramani and G. E. Hinton, "SMEM Algorithm for Mixture Models",
       Neural Computation, 12, 2000.
    .. [4] L. P. Hansen, "Large Sample Properties of Generalized Method of Moments Estimators",
       Econometrica, 50, 1982.

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

    _solved = (*SOLVED, "n_components_", "covariance_type_", "outlier_share_")

    def __init__(
        self,
        n_components: int | Literal["auto"] = 1,
        *,
        covariance_type: CovarianceName | Literal["auto"] = "full",
        order: int | Literal["auto"] = "auto",
        order_weights: ArrayLike | Literal["auto"] = "auto",
        omega: float | None = None,
        weighting: Literal["auto", "optimal", "orders"] = "auto",
        augmentation: Literal["implicit", "post-processing"] = "implicit",
        solver: SolverName = "auto",
        init: Init = "auto",
        init_params: InitParams = "auto",
        n_init: int | Literal["auto"] = "auto",
        polish: Literal["em", "newton"] | None = "em",
        reg_covar: float = 1e-6,
        max_iter: int = 200,
        tol: float = 1e-6,
        weights_init: ArrayLike | None = None,
        means_init: ArrayLike | None = None,
        covariances_init: ArrayLike | None = None,
        precisions_init: ArrayLike | None = None,
        random_state: object = None,
        warm_start: bool = False,
        verbose: int = 0,
        verbose_interval: int = 10,
        n_jobs: int | None = None,
        moments: Literal["auto", "tensors", "samples"] = "auto",
        prior: float | Literal["auto", "cv"] | None = "auto",
        outliers: float | Literal["none", "auto", "uniform"] = "none",
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
        self.init_params = init_params
        self.n_init = n_init
        self.polish = polish
        self.reg_covar = reg_covar
        self.max_iter = max_iter
        self.tol = tol
        self.weights_init = weights_init
        self.means_init = means_init
        self.covariances_init = covariances_init
        self.precisions_init = precisions_init
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.verbose_interval = verbose_interval
        self.n_jobs = n_jobs
        self.moments = moments
        self.prior = prior
        self.outliers = outliers

    def _check_settings(self) -> None:
        check_mixture_settings(self)

    @property
    def _is_auto(self) -> bool:
        """Whether something is left to the rows."""
        return "auto" in (self.n_components, self.covariance_type)

    @property
    def _needs_memory(self) -> bool:
        return self._is_auto or self.outliers != "none" or self.prior == "cv"

    def _order(self, sizes: Sizes) -> int:
        if self._is_auto:
            refuse_auto(self, "a stream keeps moments; give a number and a type")
        planned_outliers(self, sizes)  # which a stream has none of
        return mixture_order(self, sizes)

    def _solve(self, read: Reader, rows: bool) -> None:
        if not self._is_auto:
            return super()._solve(read, rows)
        if not rows:
            refuse_auto(self, "moments do not have them; give a number and a type")
        with thread_limit(self.n_jobs):
            found = chosen(self, read(), generator(self.random_state))
            self._conclude(found.problem, found.fit)
        return None

    def _plan(self, sizes: Sizes) -> Plan:
        return plan_mixture(self, sizes, self._previous_solution())

    def _plan_as_fitted(self, sizes: Sizes) -> Plan:
        chosen = with_choice(self, self.covariance_type_, self.n_components_)
        background = self.mixture_.background
        if background is None and self.polish is not None:  # none were found
            chosen.outliers = "none"
        plan = plan_mixture(chosen, sizes, None)
        if background is None or plan.outliers is None:
            return plan
        return replace(plan, outliers=plan.outliers._replace(widths=background.widths))

    def _problem(self, data: Data | ObservedData, plan: Plan) -> Problem:
        if plan.outliers is not None and not plan.polish:
            return windowed_problem(data, plan, plan.outliers.most)
        return mixture_problem(data, plan)

    def _set(self, problem: Problem, fit: Fit) -> None:
        self.n_components_ = len(fit.parameters.weights)
        self.covariance_type_ = problem.frame.kind.name
        try:
            super()._set(problem, fit)
            self.outlier_share_ = outlier_share(fit.parameters.weights)
        except np.linalg.LinAlgError as error:
            raise ValueError(
                f"a fitted covariance is singular with reg_covar={self.reg_covar:g}; raise it, "
                "or drop constant or dependent features"
            ) from error

    def _n_parameters(self) -> int:
        count = parameter_count(self.mixture_.atoms.covariance.kind, *self.means_.shape)
        if self.mixture_.background is None:
            return count
        return count + background_parameters(self.mixture_.n_features)
