"""The bootstrap likelihood ratio test: are m components enough, or are there m + 1?

The distribution of the likelihood ratio of m against m + 1 components is not known, because under
the null hypothesis a component has no weight or two are the same. McLachlan (1987) simulates it:
data sets are drawn from the fitted mixture of m components, and each is fitted with m and m + 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from momentmix.covariance import CovarianceName
from momentmix.distributions.mixture import Mixture
from momentmix.estimators.base import Table
from momentmix.estimators.gaussian_mixture import GaussianMixture, plan_of, sweeps
from momentmix.fit import Parameters
from momentmix.fitting.moves import grown
from momentmix.fitting.plan import Plan
from momentmix.fitting.problem import Problem, mixture_problem, resize
from momentmix.fitting.solve import solve
from momentmix.fitting.sweep import Found, likelihood_in
from momentmix.rows.data import RowData
from momentmix.support.checks import generator, probability, whole_number
from momentmix.support.messages import Progress
from momentmix.support.parallel import (
    parallel_map,
    single_threaded_blas,
    thread_limit,
    worker_count,
)
from momentmix.support.stopping import stoppable, stopped

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

#: The number of cuts of the smaller fit from which EM finds the larger one, and the first EM steps
#: of each. These are round numbers that were not tuned. The data and all replicates use the same,
#: so the level does not depend on them; fewer lose power, and more take longer.
TRIES, FIRST_STEPS = 3, 6
#: The tolerances of EM with m and with m + 1 components, and its most steps, for the data as for
#: every replicate. NULL_TOL is the smaller, so that replicates do not gain what their smaller fit
#: has left over. These are round numbers that were not tuned.
NULL_TOL, TOL, STEPS = 2e-5, 1e-4, 60
#: The probability RISK that the decision differs from that of infinitely many replicates, and the
#: number of replicates after which half of it may be used up, as in Gandy (2009), who takes 1e-3
#: too. HALF_SPENT is a round number that was not tuned; it affects how early tests can stop.
RISK, HALF_SPENT = 1e-3, 50
#: The most replicates unless a number is given: one less than 200, so that p can be 5 % exactly. It
#: is a round number; most decisions need fewer.
DEFAULT_REPLICATES = 199
#: The number of replicates that are made in parallel before the decision is checked again. This is
#: a round number: the decision does not depend on it, only speed does.
BATCH = 8


class BLRT(NamedTuple):
    """The result of a bootstrap likelihood ratio test."""

    n_components: int  # m, which is tested against m + 1
    statistic: float  # twice the gain in log-likelihood, less the penalty of the prior
    p_value: float  # (1 + exceedances) / (1 + n_boot)
    rejected: bool  # whether m components are too few, at the level of the test
    n_boot: int  # the number of replicates that it took
    exceedances: int  # the number of replicates whose statistic is at least that of the data
    interrupted: bool  # whether Ctrl-C ended the test before it had decided


def blrt(
    X: Table,
    n_components: int,
    *,
    covariance_type: CovarianceName = "full",
    level: float = 0.05,
    n_boot: int | None = None,
    sample_weight: ArrayLike | None = None,
    noise_covariance: ArrayLike | None = None,
    random_state: object = None,
    verbose: int = 0,
    **settings: Any,
) -> BLRT:
    """Test m components against m + 1 by a parametric bootstrap.

    The larger fit is grown from the smaller one, on the data as in each replicate. By default
    replicates end as soon as the decision is certain: a clear one takes some 20 to 150 of them.

    Parameters
    ----------
    X : array of shape (p, n)
        The rows. NaN is a gap, and replicates have the same gaps.
    n_components : int
        The smaller number of components, m.
    covariance_type : {"full", "tied", "diag", "spherical", "tied-diag", "tied-spherical"}, \
            default="full"
        The shapes that components may have.
    level : float, default=0.05
        The level of the test: how often m components are rejected if they are right.
    n_boot : int, optional
        The number of replicates. If you give one, the test makes them all unless it cannot reject
        any more, so p-values go down to 1 / (n_boot + 1): ask for 1,999 to report p < .001. By
        default there are at most 199.
    sample_weight : array of shape (p,), optional
        How many times each row counts; a replicate has as many rows as the weights sum to.
    noise_covariance : scalar or array, optional
        The covariance of known errors in the rows, which replicates have too.
    random_state : int, RandomState or None, default=None
        The seed of the replicates and of the fit.
    verbose : int, default=0
        1 shows a progress bar.
    **settings
        Those of GaussianMixture.

    Returns
    -------
    BLRT
        A named tuple with ``p_value``, ``rejected``, ``statistic`` and ``n_boot``.

    References
    ----------
    .. [1] G. J. McLachlan, "On Bootstrapping the Likelihood Ratio Test Statistic for the Number of
       Components in a Normal Mixture", Applied Statistics, 36, 1987.
    .. [2] A. Gandy, "Sequential Implementation of Monte Carlo Tests with Uniformly Bounded
       Resampling Risk", Journal of the American Statistical Association, 104, 2009.

    Examples
    --------
    >>> from momentmix import Mixture
    >>> from momentmix.selection import blrt
    >>> truth = Mixture([0.5, 0.5], [[0, 0], [4, 0]], [1.0, 1.0], "spherical")
    >>> X, _ = truth.sample(300, random_state=0)
    >>> [blrt(X, m, covariance_type="spherical", random_state=0).rejected for m in (1, 2)]
    [True, False]
    """
    whole_number("n_components", n_components, 1)
    probability("level", level)
    check_replicates(n_boot, level)
    estimator = GaussianMixture(
        n_components,
        covariance_type=covariance_type,
        random_state=random_state,
        verbose=verbose,
        **settings,
    )
    estimator._validate_params()  # type: ignore[no-untyped-call]
    data = estimator._data(X, sample_weight, noise_covariance)
    if not isinstance(data, RowData) or not sweeps(estimator, data):
        raise ValueError(
            "the test needs rows in memory and fits by EM; leave method, init_params, the starts "
            "and max_iter at their defaults"
        )
    rng = generator(random_state)
    with thread_limit(estimator.n_jobs):
        plan = plan_of(estimator, data, covariance_type, n_components)
        problem = mixture_problem(data, plan)
        found = Found(problem, plan, solve(problem, plan, rng))
        return blrt_of(estimator, found, data, rng, level=level, n_boot=n_boot)


def check_replicates(n_boot: int | None, level: float) -> None:
    """Refuse numbers of replicates that are too few to reject."""
    if n_boot is None:
        return
    whole_number("n_boot", n_boot, 1)
    if n_boot < 1 / level - 1:
        raise ValueError(
            f"n_boot={n_boot} replicates cannot reject at level={level:g}; it takes at least "
            f"{int(np.ceil(1 / level - 1))}"
        )


def blrt_of(
    estimator: GaussianMixture,
    found: Found,
    data: RowData,
    rng: np.random.Generator,
    *,
    level: float,
    n_boot: int | None = None,
) -> BLRT:
    """The test of a fit that was made already."""
    most = DEFAULT_REPLICATES if n_boot is None else n_boot
    if found.plan.outliers is not None:
        raise ValueError(
            "the bootstrap likelihood ratio test draws rows from a mixture, and from a background "
            f"none can be drawn; use outliers=None, not {estimator.outliers!r}"
        )
    m, kind = found.plan.m, found.plan.kind
    fitted = found.problem.frame.back(found.fit.parameters)
    null = Mixture(*fitted, kind.plain().name)
    plans = plan_of(estimator, data, kind.name, m), plan_of(estimator, data, kind.name, m + 1)

    def replicate(seed: int) -> float:
        own = np.random.default_rng(seed)
        drawn = data.draw(null, own)
        problem = mixture_problem(drawn, plans[0])
        return _statistic(problem, drawn, plans, problem.frame.forward(fitted), own)

    exceedances = made = 0
    decision = None
    bounds = stopping_bounds(level, most)
    observed = _statistic(found.problem, data, plans, found.fit.parameters, rng)
    with (
        Progress(found.plan.verbose, most, "replicates") as progress,
        single_threaded_blas(),
        stoppable(),
    ):
        while decision is None and not stopped():
            seeds = [int(seed) for seed in rng.integers(2**63, size=BATCH)]
            workers = worker_count(np)
            values = parallel_map(replicate, seeds, workers)
            for value in () if stopped() else values:
                made += 1
                exceedances += value >= observed
                progress.iteration(1, value)
                low, high = next(bounds)
                # A number that was given is for the p-value, and not for the verdict alone.
                done = n_boot is None or made == most
                if exceedances >= high or (exceedances <= low and done):
                    decision = exceedances <= low
                    break
    p_value = (1 + exceedances) / (1 + made)
    rejected = p_value <= level if decision is None else decision
    return BLRT(m, observed, p_value, bool(rejected), made, int(exceedances), decision is None)


def stopping_bounds(level: float, n_boot: int) -> Iterator[tuple[int, int]]:
    """After each replicate, the exceedances up to which to reject, and from which not to.

    They are those of Gandy (2009): if the p-value is the level itself, the probability to have
    reached either bound stays below the risk that may be used up by then, which is RISK in all. At
    the end, and as soon as the rest cannot change it, (1 + exceedances) / (1 + n_boot) decides.
    """
    allowed = int(np.floor(level * (n_boot + 1) + 1e-9)) - 1  # exceedances up to which p ≤ level
    alive = np.ones(1)  # probabilities of 0, 1, … exceedances and no decision yet
    low, wrong_low, wrong_high = -1, 0.0, 0.0
    offset = 0  # the number of exceedances that the first entry of ``alive`` stands for
    for n in range(1, n_boot + 1):
        alive = (1 - level) * np.append(alive, 0) + level * np.append(0, alive)
        spent = RISK * n / (n + HALF_SPENT)
        low, high = offset - 1, offset + len(alive)
        below, above = np.cumsum(alive), np.cumsum(alive[::-1])
        few = int(np.searchsorted(below, spent - wrong_low, side="right"))
        many = int(np.searchsorted(above, spent - wrong_high, side="right"))
        if few:
            low, wrong_low = low + few, wrong_low + float(below[few - 1])
        if many:
            high, wrong_high = high - many, wrong_high + float(above[many - 1])
        alive = alive[few : len(alive) - many]
        offset += few
        yield max(low, allowed - (n_boot - n)), min(high, allowed + 1)


def _statistic(
    problem: Problem,
    data: RowData,
    plans: tuple[Plan, Plan],
    start: Parameters,
    rng: np.random.Generator,
) -> float:
    """Twice the gain in log-likelihood of one more component, found by cutting one in two."""
    smaller, larger = (likelihood_in(resize(problem, data, plan)) for plan in plans)
    null = smaller.fit(start, tol=NULL_TOL, max_iter=STEPS)
    cuts = grown(larger, null.parameters, rng)[:TRIES]
    if not cuts:
        return 0.0
    best = larger.best_after(cuts, FIRST_STEPS)
    full = larger.fit(best.parameters, tol=TOL, max_iter=STEPS)
    return 2 * problem.count * (full.log_posterior - null.log_posterior)
