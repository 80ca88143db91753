"""One fit, from a problem and a plan to a mixture: here the steps of a fit are put together.

    a given start               EM from there; without rows, moments matched from there
    one component               its mean and covariance
    no likelihood               the moment estimate
    rows                        EM from plain starts, each repaired, or from moment fits;
                                of many rows, a sample is searched, and scoring steps on all finish
    method="newton"             scoring steps finish, however many rows there are
    known noise                 EM from the moment estimate

If some rows may be outliers, the density of their background is found first. Whether there are any
outliers is decided last. Cross-validation, if asked for, chooses the strength of the prior.

After Ctrl-C each ends at its next step with the best so far (``support/stopping.py``).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, islice

import numpy as np

from momentmix.fit import Fit, Parameters, by_weight, order_by_weight
from momentmix.fitting.background import find_background, keep_background_if_it_pays
from momentmix.fitting.em import Likelihood, LikelihoodHere, sample_of
from momentmix.fitting.held_out import cross_validate
from momentmix.fitting.information import Directions
from momentmix.fitting.newton import climb_by_scoring
from momentmix.fitting.plan import Plan, Start
from momentmix.fitting.problem import Problem
from momentmix.fitting.search import LikelihoodSearch
from momentmix.fitting.starts import nearest_start, plain_starts
from momentmix.matching.estimate import MixtureMoments
from momentmix.matching.model import around_points
from momentmix.rows.memory import Rows
from momentmix.support.messages import Progress, warn_user
from momentmix.support.parallel import parallel_map, single_threaded_blas, worker_count
from momentmix.support.stopping import stoppable, stopped

#: A solution that was found on a sample takes this many EM steps on all rows before it is compared.
#: This is a round number that was not tuned; more steps take time and judge better.
TRIAL_STEPS = 10
#: With a number of entries of X between these two, moment starts run on several threads. These are
#: round numbers that were not tuned: results do not depend on them, only speed does.
SIDE_BY_SIDE = 2e5, 4e6


def solve(problem: Problem, plan: Plan, rng: np.random.Generator) -> Fit:
    """The fit, in the coordinates of the problem."""
    with stoppable():
        start = starting_point(problem, plan, rng)
        fit = replace(_solve(problem, plan, start, rng), interrupted=stopped())
    if not plan.by_weight:
        return fit
    curvature = fit.curvature
    if curvature is not None:
        directions = Directions(plan.kind, fit.parameters)
        places = directions.places_after(order_by_weight(fit.parameters))
        curvature = curvature[np.ix_(places, places)]
    return replace(fit, parameters=by_weight(plan.kind, fit.parameters), curvature=curvature)


def _solve(problem: Problem, plan: Plan, start: Parameters | None, rng: np.random.Generator) -> Fit:
    if plan.outliers is None or problem.all_here is None:
        return _search(problem, plan, start, rng)
    problem, first = find_background(problem, plan, start, rng)
    found = _search(problem, plan, start, rng, first)
    return keep_background_if_it_pays(problem, plan, found)


def _search(
    problem: Problem,
    plan: Plan,
    start: Parameters | None,
    rng: np.random.Generator,
    first: Parameters | None = None,
) -> Fit:
    """The fit to moments or to rows; ``first`` is a guess that is tried before other starts."""
    likelihood, here = problem.likelihood, problem.here
    simple = plan.outliers is None and plan.m == 1 and start is None
    if simple and (likelihood is None or likelihood.closed):
        return _only_component(problem, plan)
    if likelihood is None:
        return problem.moments(plan).estimate(rng, start, plan.verbose)
    if start is None and here is not None and plan.max_iter == 0 and plan.starts_at_rows:
        # As in scikit-learn, the fit is its start.
        init = "auto" if plan.search == "moments" else plan.init_params
        start = next(plain_starts(here, plan.m, rng, init))
    fit = _climb(problem, likelihood, plan, start, rng, first)
    if not plan.cross_validated or here is None or here.target.prior is None or stopped():
        return fit
    prior = cross_validate(here, here.target.prior, fit.parameters, rng)
    if stopped() or prior.strengths == fit.strengths:
        return fit
    other = replace(likelihood, target=replace(likelihood.target, prior=prior))
    again = _climb(problem, other, plan, start, rng)
    if stopped():  # the first fit is complete
        return fit
    return replace(again, n_passes=fit.n_passes + again.n_passes)


def _only_component(problem: Problem, plan: Plan) -> Fit:
    """The fit of one component to complete rows or to moments, which has a closed form.

    One step of EM leads there from anywhere, because every row belongs to the component.
    """
    likelihood = problem.likelihood
    if likelihood is None or plan.matching is not None:
        only = problem.moments(plan).single()
        return only if likelihood is None else likelihood.evaluate(only)
    n = plan.n
    at_centre = likelihood.target.at_points(np.ones(1), np.zeros((1, n)), np.ones(n))
    only = Fit(likelihood.step(at_centre).after, n_iter=1, n_passes=1, converged=True)
    return likelihood.evaluate(only)


def _climb(
    problem: Problem,
    likelihood: Likelihood[Rows],
    plan: Plan,
    start: Parameters | None,
    rng: np.random.Generator,
    first: Parameters | None = None,
) -> Fit:
    """The best optimum of the likelihood that the search finds."""
    if start is not None:
        climb = _run_scoring if plan.method == "newton" else _run_em
        return climb(likelihood, Fit(start), plan, rng)
    if plan.search == "plain":
        return _from_plain_starts(likelihood, plan, rng, first)
    if plan.search == "moments":
        return _from_moment_fits(problem, likelihood, plan, rng)
    return _from_estimate(problem, likelihood, plan, rng)


def _run_em(likelihood: Likelihood[Rows], fit: Fit, plan: Plan, rng: np.random.Generator) -> Fit:
    """EM from the parameters of a fit."""
    with Progress(plan.verbose, plan.max_iter, "EM steps") as progress:
        likelihood = likelihood.learn(fit.parameters)
        result = likelihood.fit(
            fit.parameters, tol=plan.tol, max_iter=plan.max_iter, callback=progress.step
        )
        if result.converged:
            result = likelihood.settle(result, plan.tol, plan.max_iter)[1]
    values = fit.log_likelihoods or (result.log_likelihood,)
    return replace(result.after(fit), log_likelihoods=values)


def _run_scoring(
    likelihood: Likelihood[Rows], fit: Fit, plan: Plan, rng: np.random.Generator
) -> Fit:
    """Scoring steps from the parameters of a fit."""
    with Progress(plan.verbose, plan.max_iter, "scoring steps") as progress:
        result, by_em = climb_by_scoring(
            likelihood,
            fit.parameters,
            rng,
            tol=plan.tol,
            max_iter=plan.max_iter,
            callback=progress.step,
        )
    if by_em and not stopped():
        warn_user(
            "scoring steps made no progress, because components overlap too much for these rows or "
            f"there are too many parameters; EM took over, and the fit took {result.n_iter} passes",
            UserWarning,
        )
    return replace(result.after(fit), log_likelihoods=(result.log_likelihood,))


def _from_plain_starts(
    likelihood: Likelihood[Rows], plan: Plan, rng: np.random.Generator, first: Parameters | None
) -> Fit:
    """EM from starts without moments, each repaired, until enough agree."""
    sample = _sample_of(likelihood, rng)
    with Progress(plan.verbose, plan.n_init or 10) as progress:
        search = LikelihoodSearch(
            sample, rng, plan.tol, plan.max_iter, progress.start, method=plan.method
        )
        candidates = search.promising_starts(plan.m, plan.init_params)
        more = map(Fit, plain_starts(sample, plan.m, rng, plan.init_params))
        if first is not None:
            # It replaces one of the search's own starts, unless there is a background.
            skipped = 1 if sample.target.box is None else 0
            candidates = chain([Fit(first)], islice(candidates, skipped, None))
        last = [] if plan.known is None else [Fit(plan.known)]
        return search.finish(likelihood, candidates, True, more, plan.n_init, last)


def _sample_of(likelihood: Likelihood[Rows], rng: np.random.Generator) -> LikelihoodHere:
    """The likelihood of rows in memory that a search can use."""
    if likelihood.here is None:
        raise ValueError("a search needs rows in memory, and none were drawn from these")
    return sample_of(likelihood.here, rng)


def _from_moment_fits(
    problem: Problem, likelihood: Likelihood[Rows], plan: Plan, rng: np.random.Generator
) -> Fit:
    """EM from as many moment fits as were asked for."""
    moments = problem.moments(plan)
    assert isinstance(moments, MixtureMoments)  # known noise is not searched so
    sample, count = _sample_of(likelihood, rng), plan.n_init or 1
    starts = moments.starts(sample.rows.X, sample.rows.weights, count, rng)
    with Progress(plan.verbose, 2 * count + 10) as progress:

        def match(start: Parameters) -> Fit:
            fit = moments.match(start)
            progress.start("moments", fit.objective)
            return fit

        with single_threaded_blas():
            least, most = SIDE_BY_SIDE
            workers = worker_count(np) if least < sample.rows.X.size < most else 1
            candidates = parallel_map(match, starts, workers)
        search = LikelihoodSearch(
            sample, rng, plan.tol, plan.max_iter, progress.start, method=plan.method
        )
        passes = moments.matching.passes(sum(fit.n_passes for fit in candidates))
        fit = search.finish(likelihood, candidates, repair=False)
    return replace(fit, n_passes=fit.n_passes + passes)


def _from_estimate(
    problem: Problem, likelihood: Likelihood[Rows], plan: Plan, rng: np.random.Generator
) -> Fit:
    """EM from the moment estimate and, for rows in memory, from plain starts if asked for."""
    fit = problem.moments(plan).estimate(rng, None, plan.verbose)
    fit = replace(fit, parameters=likelihood.target.widen(fit.parameters))
    if plan.method == "newton":
        return _run_scoring(likelihood, fit, plan, rng)
    fit = _run_em(likelihood, fit, plan, rng)
    if plan.search == "both" and problem.all_here is not None:
        return _best_of_both(problem.all_here, fit, plan, rng)
    return fit


def _best_of_both(
    likelihood: LikelihoodHere, fit: Fit, plan: Plan, rng: np.random.Generator
) -> Fit:
    """The fit, or the result of plain starts and repairs if that is better.

    These run on a sample of large data. Under much noise a solution that is good there may not be
    good on all rows, so all rows decide.
    """
    tol, max_iter = plan.tol, plan.max_iter
    sample = sample_of(likelihood, rng)
    with Progress(plan.verbose, 8, "EM starts") as progress, single_threaded_blas():
        search = LikelihoodSearch(sample, rng, tol, max_iter, progress.start)
        search.run([Fit(fit.parameters)], repair=True)
        search.run(search.promising_starts(plan.m), repair=True)
    rival = likelihood.fit(search.found.parameters, tol=tol, max_iter=TRIAL_STEPS)
    n_iter = rival.n_iter
    if rival.log_likelihood > fit.log_likelihood - tol and not rival.converged:
        rival = likelihood.fit(rival.parameters, tol=tol, max_iter=max_iter)
        n_iter += rival.n_iter
    passes = fit.n_passes + search.n_iter
    values = (fit.log_likelihood, *search.values)
    if rival.log_likelihood > fit.log_likelihood + tol:
        fit = rival.after(replace(fit, n_passes=passes), n_iter)
    else:
        fit = replace(fit, n_passes=passes + n_iter)
    return replace(fit, log_likelihoods=values)


# The start that a user gives, whole or in part


def starting_point(problem: Problem, plan: Plan, rng: np.random.Generator) -> Parameters | None:
    """The start that was asked for, with its missing parts filled in; None if none was."""
    if plan.start is None:
        return None
    weights, means, covariances = plan.start
    if weights is None or means is None or covariances is None:
        guess = problem.frame.back(_first_guess(plan.start, problem, plan, rng))
        weights = guess.weights if weights is None else weights
        means = guess.means if means is None else means
        covariances = guess.covariances if covariances is None else covariances
    return problem.frame.forward(Parameters(weights, means, covariances))


def _first_guess(
    start: Start, problem: Problem, plan: Plan, rng: np.random.Generator
) -> Parameters:
    """A start that provides the parts that are not given."""
    if start.means is None:
        return _start_of_its_own(problem, plan, rng)
    points, here = problem.frame.apply(start.means), problem.here
    if here is None or not np.all(np.isfinite(points)):
        return around_points(plan.kind, points)
    nearest = nearest_start(here, here.rows.X, points)
    if start.covariances is not None or nearest.weights.min() <= 0:
        nearest = nearest._replace(weights=np.full(plan.m, 1 / plan.m))
    return nearest


def _start_of_its_own(problem: Problem, plan: Plan, rng: np.random.Generator) -> Parameters:
    """The fit's own start: usually k-means, or the moment estimate."""
    if plan.search == "plain" and problem.here is not None:
        return next(plain_starts(problem.here, plan.m, rng, plan.init_params))
    moments = problem.moments(plan)
    if plan.m == 1:
        return moments.single().parameters
    fit = moments.estimate(rng, None, plan.verbose)
    likelihood = problem.likelihood
    return fit.parameters if likelihood is None else likelihood.target.widen(fit.parameters)
