"""One fit, from a problem and a plan to a mixture: the only place where the steps are put together.

    a start of one's own        EM from there; without rows, moments matched from there
    one component               its mean and covariance
    no likelihood               the moment estimate
    rows                        EM from plain starts, each repaired, or from moment fits;
                                of many rows, some are searched and all are scored
    polish="newton"             scoring steps from the moment estimate
    known noise                 EM from the moment estimate

Where rows may belong to no component, the density of those is settled first, and whether there are
any is decided last.

Ctrl-C ends each with the best so far.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import chain, islice

import numpy as np

from momentmix.data.parameters import Parameters, by_weight, order_by_weight
from momentmix.fitting.outliers import if_it_pays, settled
from momentmix.fitting.plan import Plan
from momentmix.fitting.problem import Problem
from momentmix.fitting.start import starting_point
from momentmix.likelihood.em import Likelihood
from momentmix.likelihood.rows import RowLikelihood
from momentmix.likelihood.scores import Directions
from momentmix.likelihood.scoring import scored
from momentmix.likelihood.search import Candidate, LikelihoodSearch, reached
from momentmix.likelihood.starts import plain_starts
from momentmix.likelihood.strength import cross_validated
from momentmix.matching.estimate import MixtureMoments
from momentmix.matching.fit import Fit
from momentmix.support.parallel import parallel_map, single_threaded_blas, worker_count
from momentmix.support.progress import Progress
from momentmix.support.warnings import warn_user

#: Steps on all rows after which a rival that was found on a sample is compared.
TRIAL_STEPS = 10
#: Entries of X between which moment starts are worked at side by side.
SIDE_BY_SIDE = 2e5, 4e6


def solve(problem: Problem, plan: Plan, rng: np.random.Generator, hurried: bool = False) -> Fit:
    """The fit, in the coordinates of the problem; at once a guess if there is no time left."""
    start: Parameters | None = None
    fit: Fit | None = None
    with suppress(KeyboardInterrupt):
        start = starting_point(problem, plan, rng, hurried)
        if not hurried:
            fit = _solved(problem, plan, start, rng)
    if fit is None:  # interrupted before anything was found
        fit = _guessed(problem, start, rng)
    if plan.by_weight:
        curvature = fit.curvature
        if curvature is not None:
            directions = Directions(plan.kind, fit.parameters)
            places = directions.reordered(order_by_weight(fit.parameters))
            curvature = curvature[np.ix_(places, places)]
        parameters = by_weight(plan.kind, fit.parameters)
        fit = replace(fit, parameters=parameters, curvature=curvature)
    return fit


def _solved(
    problem: Problem, plan: Plan, start: Parameters | None, rng: np.random.Generator
) -> Fit | None:
    likelihood = problem.likelihood
    if plan.outliers is not None and isinstance(likelihood, RowLikelihood):
        problem, first = settled(problem, plan, start, rng)
        found = _searched(problem, plan, start, rng, first)
        return None if found is None else if_it_pays(problem, plan, found)
    return _searched(problem, plan, start, rng)


def _searched(
    problem: Problem,
    plan: Plan,
    start: Parameters | None,
    rng: np.random.Generator,
    first: Parameters | None = None,
) -> Fit | None:
    """The fit to moments or to rows, of which ``first`` is a guess to look at before others."""
    likelihood, simple = problem.likelihood, plan.outliers is None
    if simple and plan.m == 1 and start is None and (likelihood is None or likelihood.complete):
        only = problem.moments.single()
        return only if likelihood is None else _valued(only, likelihood)
    if likelihood is None:
        return problem.moments.estimate(rng, start, plan.verbose)
    if start is None and plan.max_iter == 0 and plan.search != "estimate":
        assert likelihood.at_hand is not None
        # As in scikit-learn: a start alone.
        start = next(plain_starts(likelihood.at_hand, plan.m, rng, plan.init_params))
    fit = _climbed(problem, likelihood, plan, start, rng, first)
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
    """The fit once more; after Ctrl-C the first one, which was carried to its end."""
    second: Fit | None = None
    with suppress(KeyboardInterrupt):
        second = _climbed(problem, likelihood, plan, start, rng)
    if second is None or second.interrupted:
        return replace(first, interrupted=True)
    return replace(second, n_passes=first.n_passes + second.n_passes)


def _guessed(problem: Problem, start: Parameters | None, rng: np.random.Generator) -> Fit:
    guess = Fit(problem.moments.guess(rng) if start is None else start, interrupted=True)
    return _valued_at_hand(guess, problem.likelihood)


def _valued_at_hand(fit: Fit, likelihood: Likelihood | None) -> Fit:
    """An interrupted fit with its log-likelihood, if that takes no pass over rows elsewhere."""
    return _valued(fit, likelihood) if isinstance(likelihood, RowLikelihood) else fit


def _valued(fit: Fit, likelihood: Likelihood) -> Fit:
    """A fit with its log-likelihood: one pass over the rows."""
    value = likelihood.value(fit.parameters)
    return replace(
        fit, log_likelihood=value, log_posterior=value - likelihood.penalty(fit.parameters)
    )


def _climbed(
    problem: Problem,
    likelihood: Likelihood,
    plan: Plan,
    start: Parameters | None,
    rng: np.random.Generator,
    first: Parameters | None = None,
) -> Fit | None:
    """The best optimum of the likelihood that the plan looks for; None if there is none yet."""
    if start is not None:
        fit: Fit | None = _polished(likelihood, Fit(start), plan)
    elif plan.search == "estimate":
        fit = _from_estimate(problem, likelihood, plan, rng)
    elif plan.search == "plain":
        fit = _from_plain_starts(likelihood, plan, rng, first)
    else:
        fit = _from_moment_fits(problem, likelihood, plan, rng)
    if fit is None or likelihood.prior is None:
        return fit
    return replace(fit, prior_strength=likelihood.prior.strength)


def _polished(likelihood: Likelihood, fit: Fit, plan: Plan) -> Fit:
    """EM from the parameters of a fit."""
    with Progress(plan.verbose, plan.max_iter, "EM steps") as progress:
        result = likelihood.fit(
            fit.parameters,
            tol=plan.tol,
            max_iter=plan.max_iter,
            callback=progress.step,
        )
    values = fit.log_likelihoods or (result.log_likelihood,)
    return replace(reached(fit, result), log_likelihoods=values)


def _scored(likelihood: Likelihood, fit: Fit, plan: Plan, rng: np.random.Generator) -> Fit:
    """Scoring steps from the parameters of a fit."""
    with Progress(plan.verbose, plan.max_iter, "scoring steps") as progress:
        result, curvature, by_em = scored(
            likelihood,
            fit.parameters,
            rng,
            tol=plan.tol,
            max_iter=plan.max_iter,
            callback=progress.step,
        )
    if by_em:
        warn_user(
            "scoring steps did not lead ahead, since components overlap too much for the rows to "
            f"tell them apart or the parameters are too many; EM took over, after {result.n_iter} "
            "passes in all",
            UserWarning,
        )
    values = (result.log_likelihood,)
    return replace(reached(fit, result), log_likelihoods=values, curvature=curvature)


def _from_plain_starts(
    likelihood: Likelihood, plan: Plan, rng: np.random.Generator, first: Parameters | None
) -> Fit | None:
    """EM from starts without moments, each repaired, until enough agree."""
    sample = likelihood.sample(rng)
    with Progress(plan.verbose, plan.n_init or 10) as progress:
        given = plan.n_init is not None
        search = LikelihoodSearch(sample, rng, plan.tol, plan.max_iter, progress.start, given)
        candidates = search.promising(plan.m, plan.init_params)
        if plan.n_init is not None:
            starts = plain_starts(sample, plan.m, rng, plan.init_params)
            candidates = map(Candidate, islice(starts, plan.n_init))
        if first is not None:
            # In place of a start of its own, unless there are outliers.
            skipped = 1 if sample.background is None else 0
            candidates = chain([Candidate(first)], islice(candidates, skipped, None))
        return search.finished(likelihood, candidates, repair=True)


def _from_moment_fits(
    problem: Problem, likelihood: Likelihood, plan: Plan, rng: np.random.Generator
) -> Fit | None:
    """EM from as many moment fits as asked for."""
    moments, count = problem.moments, plan.n_init
    assert isinstance(moments, MixtureMoments)
    assert count is not None
    sample = likelihood.sample(rng)
    starts = moments.starts(sample.X, sample.weights, count, rng)
    with Progress(plan.verbose, 2 * count + 10) as progress:
        search = LikelihoodSearch(sample, rng, plan.tol, plan.max_iter, progress.start)

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
        fit = search.finished(likelihood, candidates, repair=False)
    if fit is None:
        return None
    passes = moments.matching.passes(sum(solution.n_passes for solution in solutions))
    return replace(fit, n_passes=fit.n_passes + passes)


def _best_match(candidates: list[Candidate], likelihood: Likelihood) -> Fit:
    """Of moment fits, some of which Ctrl-C has prevented, the one of lowest cost."""
    solved = [(c.solution.value, c.parameters) for c in candidates if c.solution is not None]
    value, parameters = min(solved, key=lambda pair: pair[0])
    return _valued_at_hand(Fit(parameters, value, interrupted=True), likelihood)


def _from_estimate(
    problem: Problem, likelihood: Likelihood, plan: Plan, rng: np.random.Generator
) -> Fit:
    """EM from the moment estimate; with rows in memory, plain starts may do better."""
    fit = problem.moments.estimate(rng, None, plan.verbose)
    if fit.interrupted:
        return _valued_at_hand(fit, likelihood)
    fit = replace(fit, parameters=likelihood.widened(fit.parameters))
    if plan.scoring:
        return _scored(likelihood, fit, plan, rng)
    fit = _polished(likelihood, fit, plan)
    if plan.n_init is None and isinstance(likelihood, RowLikelihood) and not fit.interrupted:
        fit = _best_of_both(likelihood, fit, plan, rng)
    return fit


def _best_of_both(likelihood: RowLikelihood, fit: Fit, plan: Plan, rng: np.random.Generator) -> Fit:
    """The fit, or what plain starts and repairs lead to if that is better.

    They run on a sample of large data. What looks good there under much noise may not be good on
    all rows, so all rows decide.
    """
    tol, max_iter = plan.tol, plan.max_iter
    sample = likelihood.sample(rng)
    try:
        with Progress(plan.verbose, 8, "EM starts") as progress, single_threaded_blas():
            search = LikelihoodSearch(sample, rng, tol, max_iter, progress.start)
            search.run([Candidate(fit.parameters)], repair=True)
            if not search.interrupted:
                search.run(search.promising(plan.m), repair=True)
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
        fit = reached(replace(fit, n_passes=passes), rival, n_iter)
    else:
        fit = replace(fit, n_passes=passes + n_iter)
    return replace(fit, log_likelihoods=values, interrupted=rival.interrupted)
