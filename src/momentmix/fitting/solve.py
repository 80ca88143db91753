"""One fit, from a problem and a plan to a mixture: the only place where the steps are put together.

    a given start               EM from there; without rows, moments matched from there
    one component               its mean and covariance
    no likelihood               the moment estimate
    rows                        EM from plain starts, each repaired, or from moment fits;
                                of many rows, a sample is searched, and scoring steps on all finish
    method="newton"             scoring steps finish, however many rows there are
    known noise                 EM from the moment estimate

If some rows may be outliers, the density of their background is found first. Whether there are any
outliers is decided last.

Ctrl-C ends each with the best so far.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import chain, islice

import numpy as np

from momentmix.data.parameters import Parameters, by_weight, order_by_weight
from momentmix.fitting.outliers import find_background, keep_background_if_it_pays
from momentmix.fitting.plan import Plan
from momentmix.fitting.problem import Problem
from momentmix.fitting.start import starting_point
from momentmix.likelihood.em import Likelihood
from momentmix.likelihood.rows import RowLikelihood
from momentmix.likelihood.scores import Directions
from momentmix.likelihood.scoring import climb_by_scoring
from momentmix.likelihood.search import Candidate, LikelihoodSearch, advance
from momentmix.likelihood.starts import plain_starts
from momentmix.likelihood.strength import cross_validated
from momentmix.matching.estimate import MixtureMoments
from momentmix.matching.fit import Fit
from momentmix.support.parallel import parallel_map, single_threaded_blas, worker_count
from momentmix.support.progress import Progress
from momentmix.support.warnings import warn_user

#: A solution that was found on a sample takes this many EM steps on all rows before it is compared.
#: This is a round number that was not tuned; more steps take time and judge better.
TRIAL_STEPS = 10
#: With a number of entries of X between these two, moment starts run on several threads. These are
#: round numbers that were not tuned: results do not depend on them, only speed does.
SIDE_BY_SIDE = 2e5, 4e6


def solve(problem: Problem, plan: Plan, rng: np.random.Generator, interrupted: bool = False) -> Fit:
    """The fit, in the coordinates of the problem; only a guess if it is ``interrupted`` already."""
    start: Parameters | None = None
    fit: Fit | None = None
    with suppress(KeyboardInterrupt):
        start = starting_point(problem, plan, rng, interrupted)
        if not interrupted:
            fit = _solve(problem, plan, start, rng)
    if fit is None:  # interrupted before anything was found
        fit = _guess(problem, start, rng)
    if plan.by_weight:
        curvature = fit.curvature
        if curvature is not None:
            directions = Directions(plan.kind, fit.parameters)
            places = directions.places_after(order_by_weight(fit.parameters))
            curvature = curvature[np.ix_(places, places)]
        parameters = by_weight(plan.kind, fit.parameters)
        fit = replace(fit, parameters=parameters, curvature=curvature)
    return fit


def _solve(
    problem: Problem, plan: Plan, start: Parameters | None, rng: np.random.Generator
) -> Fit | None:
    likelihood = problem.likelihood
    if plan.outliers is not None and isinstance(likelihood, RowLikelihood):
        problem, first = find_background(problem, plan, start, rng)
        found = _search(problem, plan, start, rng, first)
        return None if found is None else keep_background_if_it_pays(problem, plan, found)
    return _search(problem, plan, start, rng)


def _search(
    problem: Problem,
    plan: Plan,
    start: Parameters | None,
    rng: np.random.Generator,
    first: Parameters | None = None,
) -> Fit | None:
    """The fit to moments or to rows; ``first`` is a guess that is tried before other starts."""
    likelihood, simple = problem.likelihood, plan.outliers is None
    if simple and plan.m == 1 and start is None and (likelihood is None or likelihood.complete):
        only = problem.moments.single()
        return only if likelihood is None else _evaluate(only, likelihood)
    if likelihood is None:
        return problem.moments.estimate(rng, start, plan.verbose)
    if start is None and plan.max_iter == 0 and plan.search in ("plain", "moments"):
        assert likelihood.in_memory is not None
        # As in scikit-learn, the fit is its start.
        init = "auto" if plan.search == "moments" else plan.init_params
        start = next(plain_starts(likelihood.in_memory, plan.m, rng, init))
    fit = _climb(problem, likelihood, plan, start, rng, first)
    if fit is None or fit.interrupted:
        return fit
    if plan.cross_validated and likelihood.prior is not None:
        assert isinstance(likelihood, RowLikelihood)
        customary = likelihood.prior
        try:
            prior = cross_validated(likelihood, customary, fit.parameters, rng)
        except KeyboardInterrupt:
            return replace(fit, interrupted=True)
        if prior.strength != customary.strength:
            fit = _with_another_prior(problem, likelihood.with_prior(prior), plan, start, rng, fit)
    return fit


def _with_another_prior(
    problem: Problem,
    likelihood: RowLikelihood,
    plan: Plan,
    start: Parameters | None,
    rng: np.random.Generator,
    first: Fit,
) -> Fit:
    """The fit again with another prior; after Ctrl-C the first one, which is complete."""
    second: Fit | None = None
    with suppress(KeyboardInterrupt):
        second = _climb(problem, likelihood, plan, start, rng)
    if second is None or second.interrupted:
        return replace(first, interrupted=True)
    return replace(second, n_passes=first.n_passes + second.n_passes)


def _guess(problem: Problem, start: Parameters | None, rng: np.random.Generator) -> Fit:
    guess = Fit(problem.moments.guess(rng) if start is None else start, interrupted=True)
    return _evaluate_in_memory(guess, problem.likelihood)


def _evaluate_in_memory(fit: Fit, likelihood: Likelihood | None) -> Fit:
    """An interrupted fit with its log-likelihood, if that takes no pass over rows elsewhere."""
    return _evaluate(fit, likelihood) if isinstance(likelihood, RowLikelihood) else fit


def _evaluate(fit: Fit, likelihood: Likelihood) -> Fit:
    """A fit with its log-likelihood: one pass over the rows."""
    value = likelihood.value(fit.parameters)
    return replace(
        fit, log_likelihood=value, log_posterior=value - likelihood.penalty(fit.parameters)
    )


def _climb(
    problem: Problem,
    likelihood: Likelihood,
    plan: Plan,
    start: Parameters | None,
    rng: np.random.Generator,
    first: Parameters | None = None,
) -> Fit | None:
    """The best optimum of the likelihood that the search finds; None if there is none yet."""
    if start is not None:
        climb = _run_scoring if plan.method == "newton" else _run_em
        fit: Fit | None = climb(likelihood, Fit(start), plan, rng)
    elif plan.search in ("estimate", "both"):
        fit = _from_estimate(problem, likelihood, plan, rng)
    elif plan.search == "plain":
        fit = _from_plain_starts(likelihood, plan, rng, first)
    else:
        fit = _from_moment_fits(problem, likelihood, plan, rng)
    if fit is None or likelihood.prior is None:
        return fit
    return replace(fit, prior_strength=likelihood.prior.strength)


def _run_em(likelihood: Likelihood, fit: Fit, plan: Plan, rng: np.random.Generator) -> Fit:
    """EM from the parameters of a fit."""
    with Progress(plan.verbose, plan.max_iter, "EM steps") as progress:
        result = likelihood.fit(
            fit.parameters,
            tol=plan.tol,
            max_iter=plan.max_iter,
            callback=progress.step,
        )
    values = fit.log_likelihoods or (result.log_likelihood,)
    return replace(advance(fit, result), log_likelihoods=values)


def _run_scoring(likelihood: Likelihood, fit: Fit, plan: Plan, rng: np.random.Generator) -> Fit:
    """Scoring steps from the parameters of a fit."""
    with Progress(plan.verbose, plan.max_iter, "scoring steps") as progress:
        result, curvature, by_em = climb_by_scoring(
            likelihood,
            fit.parameters,
            rng,
            tol=plan.tol,
            max_iter=plan.max_iter,
            callback=progress.step,
        )
    if by_em:
        warn_user(
            "scoring steps made no progress, because components overlap too much for these rows or "
            f"there are too many parameters; EM took over, and the fit took {result.n_iter} passes",
            UserWarning,
        )
    values = (result.log_likelihood,)
    return replace(advance(fit, result), log_likelihoods=values, curvature=curvature)


def _from_plain_starts(
    likelihood: Likelihood, plan: Plan, rng: np.random.Generator, first: Parameters | None
) -> Fit | None:
    """EM from starts without moments, each repaired, until enough agree."""
    sample = likelihood.sample(rng)
    with Progress(plan.verbose, plan.n_init or 10) as progress:
        given = plan.n_init is not None
        search = LikelihoodSearch(
            sample, rng, plan.tol, plan.max_iter, progress.start, given, plan.method
        )
        candidates = search.promising_starts(plan.m, plan.init_params)
        if plan.n_init is not None:
            starts = plain_starts(sample, plan.m, rng, plan.init_params)
            candidates = map(Candidate, islice(starts, plan.n_init))
        if first is not None:
            # It replaces one of the search's own starts, unless there is a background.
            skipped = 1 if sample.background is None else 0
            candidates = chain([Candidate(first)], islice(candidates, skipped, None))
        return search.finish(likelihood, candidates, repair=True)


def _from_moment_fits(
    problem: Problem, likelihood: Likelihood, plan: Plan, rng: np.random.Generator
) -> Fit | None:
    """EM from as many moment fits as were asked for."""
    moments, count = problem.moments, plan.n_init
    assert isinstance(moments, MixtureMoments)
    assert count is not None
    sample = likelihood.sample(rng)
    starts = moments.starts(sample.X, sample.weights, count, rng)
    with Progress(plan.verbose, 2 * count + 10) as progress:
        search = LikelihoodSearch(
            sample, rng, plan.tol, plan.max_iter, progress.start, method=plan.method
        )

        def match(start: Parameters) -> Candidate:
            if search.interrupted:
                return Candidate(start)
            parameters, solution, _ = moments.matching.solve(start, strict=False)
            search.interrupted = search.interrupted or solution.interrupted
            progress.start("moments", solution.value)
            return Candidate(parameters, solution)

        candidates: list[Candidate] = []
        try:
            with single_threaded_blas():
                least, most = SIDE_BY_SIDE
                workers = worker_count(np) if least < sample.X.size < most else 1
                candidates = parallel_map(match, starts, workers)
        except KeyboardInterrupt:
            search.interrupted = True
        solutions = [c.solution for c in candidates if c.solution is not None]
        if search.interrupted:
            return _best_match(candidates, likelihood) if solutions else None
        fit = search.finish(likelihood, candidates, repair=False)
    if fit is None:
        return None
    passes = moments.matching.passes(sum(solution.n_passes for solution in solutions))
    return replace(fit, n_passes=fit.n_passes + passes)


def _best_match(candidates: list[Candidate], likelihood: Likelihood) -> Fit:
    """The moment fit of lowest cost, among those that were made before Ctrl-C."""
    solved = [(c.solution.value, c.parameters) for c in candidates if c.solution is not None]
    value, parameters = min(solved, key=lambda pair: pair[0])
    return _evaluate_in_memory(Fit(parameters, value, interrupted=True), likelihood)


def _from_estimate(
    problem: Problem, likelihood: Likelihood, plan: Plan, rng: np.random.Generator
) -> Fit:
    """EM from the moment estimate and, for rows in memory, from plain starts if asked for."""
    fit = problem.moments.estimate(rng, None, plan.verbose)
    if fit.interrupted:
        return _evaluate_in_memory(fit, likelihood)
    fit = replace(fit, parameters=likelihood.widen(fit.parameters))
    if plan.method == "newton":
        return _run_scoring(likelihood, fit, plan, rng)
    fit = _run_em(likelihood, fit, plan, rng)
    if fit.interrupted or plan.search != "both":
        return fit
    if isinstance(likelihood, RowLikelihood):
        fit = _best_of_both(likelihood, fit, plan, rng)
    return fit


def _best_of_both(likelihood: RowLikelihood, fit: Fit, plan: Plan, rng: np.random.Generator) -> Fit:
    """The fit, or the result of plain starts and repairs if that is better.

    These run on a sample of large data. Under much noise a solution that is good there may not be
    good on all rows, so all rows decide.
    """
    tol, max_iter = plan.tol, plan.max_iter
    sample = likelihood.sample(rng)
    try:
        with Progress(plan.verbose, 8, "EM starts") as progress, single_threaded_blas():
            search = LikelihoodSearch(sample, rng, tol, max_iter, progress.start)
            search.run([Candidate(fit.parameters)], repair=True)
            if not search.interrupted:
                search.run(search.promising_starts(plan.m), repair=True)
        if search.best is None or search.interrupted:
            return replace(fit, interrupted=True)
        rival = likelihood.fit(search.best.parameters, tol=tol, max_iter=TRIAL_STEPS)
        n_iter = rival.n_iter
        if rival.log_likelihood > fit.log_likelihood - tol and not rival.converged:
            rival = likelihood.fit(rival.parameters, tol=tol, max_iter=max_iter)
            n_iter += rival.n_iter
    except KeyboardInterrupt:
        return replace(fit, interrupted=True)
    passes = fit.n_passes + search.n_iter
    values = (fit.log_likelihood, *search.values)
    if rival.log_likelihood > fit.log_likelihood + tol:
        fit = advance(replace(fit, n_passes=passes), rival, n_iter)
    else:
        fit = replace(fit, n_passes=passes + n_iter)
    return replace(fit, log_likelihoods=values, interrupted=rival.interrupted)
