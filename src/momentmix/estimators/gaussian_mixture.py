"""GaussianMixture, the likelihood fit: its parameters, what they mean, and the plan they make.

If the number of components or the covariance type is "auto", the fit of lowest BIC is chosen.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from itertools import product
from numbers import Integral, Real
from typing import ClassVar, Literal, NoReturn, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import StrOptions

from momentmix.covariance import (
    COVARIANCE_TYPES,
    SHAPE_NAMES,
    CovarianceName,
    Kind,
    LowRank,
    ShapeName,
    fitted_type,
)
from momentmix.distributions.mixture import Mixture
from momentmix.estimators.base import Reader
from momentmix.estimators.inference import InferenceEstimator
from momentmix.estimators.predictions import OutlierAnswers
from momentmix.fit import Fit, outlier_share
from momentmix.fitting.background import background_parameters
from momentmix.fitting.plan import (
    LEAST_VARIANCE,
    MOST_OUTLIERS,
    InitParams,
    Method,
    Plan,
    Search,
    Sizes,
    count_of_starts,
    given_start,
    last_start,
    plan_outliers,
)
from momentmix.fitting.problem import Problem, mixture_problem
from momentmix.fitting.solve import solve
from momentmix.fitting.starts import INIT_PARAMS
from momentmix.fitting.sweep import PATIENCE, Found, best_of, can_sweep, numbers_for, sweep
from momentmix.matching.model import (
    ESTIMATE_TOL,
    LEAST_MATCHED_VARIANCE,
    START_ITERATIONS,
    START_TOL,
    Model,
)
from momentmix.matching.orders import (
    choose_order,
    choose_weighting,
    is_explicit,
    parameter_count,
    tensors_pay,
)
from momentmix.rows.data import Data, RowData
from momentmix.support.checks import Interval, generator
from momentmix.support.messages import CollapseWarning, warn_user
from momentmix.support.parallel import thread_limit
from momentmix.tensors.packed import total_size

#: The power to which a fit of clusters raises densities, chosen together with the power of weights
#: on the collections fcps, graves, sipu and g2mg: of 1.25, 1.5, 2 and 3, it finds the most.
SHARPNESS = 1.25


def refuse_auto(estimator: GaussianMixture, why: str) -> NoReturn:
    """Raise an error that names the parameters that are "auto" and cannot be chosen."""
    names = ("n_components", "covariance_type", "rank")[: 2 + estimator._chooses_rank]
    parameters = {name: getattr(estimator, name) for name in names}
    left_open = " and ".join(f"{name}='auto'" for name, value in parameters.items()
                             if value == "auto")  # fmt: skip
    raise ValueError(f"{left_open} compares likelihoods of rows in memory: {why}")


def choose(estimator: GaussianMixture, data: Data) -> tuple[Found, Found]:
    """The fit of lowest BIC among all numbers and types that the estimator leaves open.

    The second is the one of lowest BIC also if components of it have collapsed.
    """
    if not isinstance(data, RowData):
        refuse_auto(estimator, "for rows elsewhere, choose on a sample, and give the result here")
    name, m = estimator.covariance_type, estimator.n_components
    types = COVARIANCE_TYPES if name == "auto" else (name,)
    numbers, patience = ([int(m)], None) if m != "auto" else (numbers_for(data.count), PATIENCE)
    if not sweeps(estimator, data):
        refuse_auto(
            estimator,
            "it does not work with max_iter=0, a start of your own or init_params='moments'",
        )
    price = float(np.log(data.count))
    found: list[Found] = []
    # As many factors as features are a full covariance.
    ranks = range(1, max(data.n, 2)) if estimator._chooses_rank else range(1)
    for one, rank in product(types, ranks):
        each = with_choice(estimator, one, 1, rank or None)
        if rank and m != "auto":
            plan = plan_of(each, data, one, int(m))
            problem = mixture_problem(data, plan)
            fit = solve(problem, plan, generator(estimator.random_state))
            found.append(Found(problem, plan, fit))
        else:
            found += fits_of(each, data, one, numbers, patience=patience, price=price)
        lowest = min(found, key=lambda one: one.bic)
        # One component rests on all rows, however narrow it is.
        best = lowest if rank and m == 1 else best_of(found)
        if found[-1].fit.interrupted or best.plan.kind.rank < rank:
            break
    if found[-1].fit.interrupted:
        best = replace(best, fit=replace(best.fit, interrupted=True))
    return best, lowest


#: Passing over a fit is told if its criterion is better by more than TOLD (of the likelihood of
#: rows left out, in nats a row, by more than TOLD_HELD_OUT). Smaller differences decide little;
#: Kass and Raftery (1995) call more than ten in the BIC very strong evidence.
TOLD, TOLD_HELD_OUT = 10.0, 0.01


def warn_of_veto(passed: GaussianMixture, chosen: GaussianMixture, by: str, gain: float) -> None:
    """Warn that a fit was passed over, because components of it have collapsed."""
    if gain <= (TOLD_HELD_OUT if by == "cv" else TOLD):
        return
    m, name = passed.n_components_, passed.covariance_type_
    value = "held-out log-likelihood" if by == "cv" else by.upper()
    how = f"better by {gain:,.2f} nats a row" if by == "cv" else f"lower by {gain:,.0f}"
    warn_user(
        f"{m} component{'s' * (m > 1)} with {name} covariances would have a {value} {how} than the "
        f"{chosen.n_components_} chosen, but were passed over: {passed._why_collapsed}. If these "
        "components are real, ask for that number; else leave out the columns that make them "
        "(--exclude in the command), let a few odd rows be outliers (outliers='auto'), or try a "
        "simpler covariance_type",
        CollapseWarning,
    )


def quietly(estimator: GaussianMixture, found: Found) -> GaussianMixture:
    """``estimator_with`` for a fit that is only compared, without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator_with(estimator, found)


def sweeps(estimator: GaussianMixture, data: RowData) -> bool:
    """Whether fits of several numbers can share their work with these settings."""
    means, weights = estimator.means_init, estimator.weights_init
    widths = estimator.covariances_init, estimator.precisions_init
    if any(part is not None for part in (means, weights, *widths)):
        return False
    return can_sweep(plan_of(estimator, data, COVARIANCE_TYPES[0], 1))


def fits_of(
    estimator: GaussianMixture,
    data: RowData,
    kind: str,
    numbers: Sequence[int],
    *,
    patience: int | None,
    price: float | None,
    callback: Callable[[Found], None] = lambda found: None,
    seed: int | None = None,
) -> list[Found]:
    """Fits of one covariance type and some numbers of components, with the estimator's settings.

    Each is at least as good as a fit of its number from the estimator's ``random_state``, or from
    another ``seed``. If the numbers are left open (with ``patience``), the random numbers are
    always the same, so that the choice does not depend on ``random_state``. See
    ``fitting.sweep.sweep`` for the other arguments.
    """
    state = 0 if patience is not None else estimator.random_state
    return sweep(
        data,
        lambda m: plan_of(estimator, data, kind, m),
        numbers,
        np.random.default_rng(0 if seed is None else seed),
        lambda: generator(state if seed is None else seed),
        patience=patience,
        price=price,
        callback=callback,
    )


def estimator_with(estimator: GaussianMixture, found: Found) -> GaussianMixture:
    """An estimator with the same settings that holds a fit, and has its number and type."""
    one = with_choice(estimator, found.plan.kind.name, found.plan.m, found.plan.kind.rank)
    one._conclude(found.problem, found.fit)
    return one


def plan_of(estimator: GaussianMixture, data: RowData, kind: str, m: int) -> Plan:
    """The plan of a fit with this number and type, which replace those of the estimator."""
    sizes = Sizes(data.n, data.rows, data.order, data.place)
    return plan_likelihood(with_choice(estimator, kind, m), sizes, None)


def with_choice(
    estimator: GaussianMixture, kind: str, m: int, rank: int | None = None
) -> GaussianMixture:
    """The same settings, with a type and a number, and a rank if one is given."""
    one = copy(estimator)
    one.rank = estimator.rank if rank is None else rank
    one.n_components, one.covariance_type = m, cast(CovarianceName, kind)
    return one


#: The largest reg_covar, in units of the variance of the data. This is a round number: far more
#: than a fit can use, and so small that no square of it overflows.
LARGEST_FLOOR = 1e6
#: The allowed values of the parameters that fits of likelihoods and of moments share.
SHARED_CONSTRAINTS: dict[str, list[object]] = {
    "n_components": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
    "covariance_type": [StrOptions({*COVARIANCE_TYPES, *SHAPE_NAMES, "low-rank", "auto"})],
    "reg_covar": [Interval(Real, 0, LARGEST_FLOOR, closed="both")],
    "max_iter": [Interval(Integral, 0, None, closed="left")],
    "n_init": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
    "weights_init": ["array-like", None],
    "means_init": ["array-like", None],
    "covariances_init": ["array-like", Real, None],
    "precisions_init": ["array-like", Real, None],
    "random_state": ["random_state"],
    "warm_start": ["boolean"],
    "verbose": ["verbose"],
    "n_jobs": [Integral, None],
}
_OF_MOMENTS = "it is one of MomentMixture, the method of moments"


@dataclass(eq=False, repr=False)
class GaussianMixture(OutlierAnswers, InferenceEstimator):
    """Gaussian mixture model, with the parameters and methods of scikit-learn's class of this name.

    It maximises the likelihood of the rows, with a mild prior, by EM from several starts, and then
    repairs the result: it merges two components and splits a third while that improves the fit. So
    it often finds the right groups where restarts of EM stop at a poor solution. Rows may have gaps
    and known errors, and some may belong to no component.

    Parameters
    ----------
    n_components : int or "auto", default=1
        The number of components, m. "auto" takes the one of lowest BIC, and goes on until three
        in a row are no better. :func:`momentmix.select` shows the others too.
    covariance_type : {"full", "tied", "diag", "spherical", "tied-diag", "tied-spherical", \
            "low-rank", "auto"}, default="full"
        The shapes that components may have. "full": each its own ellipsoid. "tied": one ellipsoid
        for all. "diag": each its own ellipsoid along the axes, so that features do not correlate
        within a component. "spherical": each its own ball. "tied-diag" and "tied-spherical": one
        such ellipsoid, or ball, for all, as in latent profiles of equal variances. "low-rank": a
        few factors in each component, beside a variance of each feature (factor analysis), for
        hundreds and thousands of features; no n × n matrix is formed. "auto": the one of lowest
        BIC, without "low-rank". "VEE" and the like are mclust's names of eight more, in which
        components share volume, shape or orientation: fits by EM alone, without prior and standard
        errors.
    tol : float, default=1e-6
        EM stops when a step raises the mean log-likelihood by less.
    reg_covar : float, default=1e-6
        The smallest variance that a component may have in any direction, relative to the variance
        of the data there.
    max_iter : int, default=200
        The limit on iterations of EM. With 0, the fit is its first start.
    n_init : int or "auto", default="auto"
        The number of starts. "auto" runs EM from k-means and random starts and repairs each, until
        two end at the same solution or it has searched long enough. A number is the most starts;
        there are fewer only if two agree before.
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
        a handful of rows. The strength is a number of rows. "auto" learns from the rows how alike
        the covariances are: it is between a half and 256 times 3n - 1 for full covariances, and 2
        for diag and spherical. "cv" lets cross-validation choose. With many rows the effect
        vanishes. With a prior, no component is narrower than the rounding of the columns.
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
    goal : {"density", "clusters"}, default="density"
        What the fit is for. "density" maximises the likelihood, so that new rows are likely.
        "clusters" looks for groups that overlap little: it maximises a sharpened likelihood, in
        which rows between two components count less for both.
    rank : int or "auto", default="auto"
        How many factors each component has, if ``covariance_type`` is "low-rank"; "auto" adds one
        after the other as long as that lowers the BIC.

    Attributes
    ----------
    weights_ : ndarray of shape (m,)
        The share of each component. Components are sorted by it, the largest first, unless a start
        was given.
    means_ : ndarray of shape (m, n)
        The centre of each component.
    covariances_ : ndarray
        The covariances: (m, n, n) for full, (n, n) for tied, (m, n) for diag, (m,) for spherical.
        For low-rank a named pair of ``loadings`` (m, n, q) and ``variances`` (m, n), whose method
        ``matrices()`` gives the dense ones.
    precisions_ : ndarray
        Their inverses, in the same shape; None for low-rank.
    precisions_cholesky_ : ndarray
        The Cholesky factors of the inverses, as in scikit-learn.
    n_components_ : int
        The number of components, also where "auto" has found it.
    covariance_type_ : str
        The covariance type, also where "auto" has found it.
    rank_ : int
        The number of factors of each component; 0 if the type has none.
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
        ``lower_bound_`` less the penalty of the prior: what the fit maximises, if its goal is a
        density.
    prior_strength_ : float
        The strength of the prior, in rows; 0 if there is none. With "auto" it was learned: more
        than 3n - 1 (or 2) rows say that the shapes are alike, and fewer that they differ.
    diagonal_strength_ : float
        How many rows hold full covariances to the axes of the features. With "auto" they were
        learned; 0 if features depend on each other, or there is no such prior.
    collapsed_ : ndarray of int
        The components that have no width in some direction or, without a prior, rest on too few
        rows. There is a warning about them, and BIC and AIC mean little then.
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
    log Σ_k and ν the strength of the prior. Where features hardly depend on each other, τ/2 times
    minus the log determinants of the partial correlations is subtracted too. Repairs
    exchange a merge for a split, an idea of [2]_.

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

    n_components: int | Literal["auto"] = 1
    _: KW_ONLY
    covariance_type: CovarianceName | ShapeName | Literal["auto"] = "full"
    tol: float = 1e-6
    reg_covar: float = 1e-6
    max_iter: int = 200
    n_init: int | Literal["auto"] = "auto"
    init_params: InitParams = "auto"
    weights_init: ArrayLike | None = None
    means_init: ArrayLike | None = None
    precisions_init: ArrayLike | None = None
    random_state: object = None
    warm_start: bool = False
    verbose: int = 0
    verbose_interval: int = 10
    covariances_init: ArrayLike | None = None
    prior: float | Literal["auto", "cv"] | None = "auto"
    outliers: float | Literal["auto", "uniform"] | None = None
    method: Method = "auto"
    n_jobs: int | None = None
    goal: Literal["density", "clusters"] = "density"
    rank: int | Literal["auto"] = "auto"

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
        "goal": [StrOptions({"density", "clusters"})],
        "rank": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
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

    @property
    def _is_auto(self) -> bool:
        """Whether the number of components, the covariance type or the rank is "auto"."""
        return "auto" in (self.n_components, self.covariance_type) or self._chooses_rank

    @property
    def _chooses_rank(self) -> bool:
        """Whether covariances have a rank, and it is "auto"."""
        return self.covariance_type == LowRank.name and self.rank == "auto"

    @property
    def _needs_memory(self) -> bool:
        return self._is_auto or self.outliers is not None or self.prior == "cv"

    def _solve(self, read: Reader, rows: bool) -> None:
        if not self._is_auto:
            return super()._solve(read, rows)
        with thread_limit(self.n_jobs):
            found, lowest = choose(self, read())
            self._conclude(found.problem, found.fit)
            if lowest.collapsed > found.collapsed:
                warn_of_veto(quietly(self, lowest), self, "bic", found.bic - lowest.bic)
        return None

    def _plan(self, sizes: Sizes) -> Plan:
        return plan_likelihood(self, sizes, self._previous_solution())

    def _plan_as_fitted(self, sizes: Sizes) -> Plan:
        chosen = with_choice(self, self.covariance_type_, self.n_components_, self.rank_)
        background = self.mixture_.background
        if background is None:  # no outliers were found
            chosen.outliers = None
        plan = plan_likelihood(chosen, sizes, None)
        if background is None or plan.outliers is None:
            return plan
        return replace(plan, outliers=plan.outliers._replace(widths=background.widths))

    def _set(self, problem: Problem, fit: Fit) -> None:
        super()._set(problem, fit)
        self.outlier_share_ = outlier_share(fit.parameters.weights)
        self._set_likelihood(fit)
        self.rank_ = problem.frame.kind.rank

    def _n_parameters(self) -> int:
        kind = fitted_type(self.covariance_type_, self.rank_)
        count = parameter_count(kind, *self.means_.shape)
        if self.mixture_.background is None:
            return count
        return count + background_parameters(self.mixture_.n_features)


def plan_likelihood(s: GaussianMixture, sizes: Sizes, last: Mixture | None) -> Plan:
    """The plan of GaussianMixture; ``last`` is the previous solution, if there is one.

    The likelihood is maximised, and moments can only be starts.
    """
    kind, m, n = fitted_type(s.covariance_type, s.rank), int(s.n_components), sizes.n
    outliers = plan_outliers(s.outliers, sizes.place)
    if outliers is not None and (s.method == "newton" or s.init_params == "moments"):
        raise ValueError(
            f"outliers={s.outliers!r} goes with method='auto' or 'em' and with plain starts: "
            f"outliers ruin moments and Newton's steps; got method={s.method!r} and "
            f"init_params={s.init_params!r}"
        )
    if s.goal == "clusters" and s.method == "newton":
        raise ValueError(
            "goal='clusters' is climbed by EM, and method='newton' climbs the likelihood; use "
            "method='auto' or 'em', or goal='density'"
        )
    if kind.rank >= n:
        raise ValueError(f"rank must be less than the number of features, {n}; got {s.rank}")
    if kind.curved and (
        s.method == "newton" or s.init_params == "moments" or sizes.place != "memory"
    ):
        raise ValueError(
            f"covariance_type={kind.name!r} is fitted by EM to rows in memory; give such rows, and "
            "leave method and init_params at 'auto'"
        )
    parts = s.weights_init, s.means_init, s.covariances_init, s.precisions_init
    given, search = given_start(kind, m, n, *parts), _search(s, sizes)
    floor = max(float(s.reg_covar), LEAST_VARIANCE)
    return Plan(
        kind=kind,
        m=m,
        n=n,
        n_init=count_of_starts(s.n_init),
        polish=True,
        method="em" if kind.curved else s.method,
        search=search,
        init_params=s.init_params,
        prior=kind.prior(n, s.prior),
        cross_validated=s.prior == "cv" and sizes.place == "memory",
        anchored=s.prior is not None,
        rounding=s.prior is not None,
        sharpness=SHARPNESS if s.goal == "clusters" else 1.0,
        outliers=outliers,
        floor=floor,
        tol=float(s.tol),
        max_iter=int(s.max_iter),
        start=last_start(last if s.warm_start else None, kind, m, n) or given,
        by_weight=not s.warm_start and given is None,
        verbose=s.verbose,
        matching=None if search == "plain" else _model(s, kind, sizes, search, floor),
    )


def _model(s: GaussianMixture, kind: Kind, sizes: Sizes, search: Search, floor: float) -> Model:
    """The model of moments at which EM starts: well matched if it is one, roughly if several."""
    m, n, estimate = int(s.n_components), sizes.n, search == "estimate"
    rough = not estimate or s.method == "newton"
    order = choose_order(kind, m, n, known=sizes.order, check=estimate, start=rough)
    explicit = is_explicit(kind, m, n, order)
    return Model(
        kind=kind,
        m=m,
        n=n,
        order=order,
        weights=(),
        augmentation="implicit",
        weighting=choose_weighting(explicit, total_size(n, order), rough=not estimate),
        solver="auto",
        floor=max(floor, LEAST_MATCHED_VARIANCE),
        max_iter=min(int(s.max_iter), START_ITERATIONS) if rough else int(s.max_iter),
        tol=START_TOL if rough else ESTIMATE_TOL,
        explicit=explicit,
        rough=rough,
        tensors=estimate and tensors_pay(sizes.rows, kind, m, n, order),
        # Several fits of moments start at random rows. A single estimate uses these in turn with
        # rows that are far from each other.
        init="auto" if estimate else "random",
    )


def _search(s: GaussianMixture, sizes: Sizes) -> Search:
    """Where EM starts: at fits of moments only if these are asked for.

    For rows elsewhere there is one estimate from all rows, which is better than any from a sample.
    """
    if s.init_params != "moments":
        return "plain"
    several = s.n_init != "auto" and s.method != "newton" and sizes.place == "memory"
    return "moments" if several else "estimate"
