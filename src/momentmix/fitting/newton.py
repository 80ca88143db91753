"""Newton's method and scoring: from near the maximum to the maximum.

EM is slow where components overlap, because its step takes rows as if their components were known.
Newton's step uses the observed information, and near a maximum it ends in a handful of passes,
where EM takes hundreds. The cost of a pass grows as the square of the number of parameters.

Scoring needs two or three passes over the rows from a good start. A pass that makes the sums of an
EM step also gives the slope of the likelihood: by Fisher's identity it is that of rows whose
components are known, at their expected sums. The curvature would cost much more, but a sample of
the rows has nearly the same as all rows. So a step is Newton's with the slope of all rows and the
curvature of a sample, and costs as much as a step of EM. Each component has coordinates of its own,
in which the curvature hardly changes from step to step, so it is computed anew only when steps
become slow. The change of the slope along the last step corrects the curvature in that direction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from momentmix.fit import Fit, Parameters, outlier_share
from momentmix.fitting.em import Likelihood, LikelihoodHere, Target, part_of
from momentmix.fitting.information import Directions, information, penalty_slope
from momentmix.rows.memory import MemoryRows, Rows, Sums, draw_points
from momentmix.support.array import to_numpy
from momentmix.support.stopping import stopped

#: The longest step in any direction, in units of the components' own widths, because the
#: likelihood is nearly quadratic only that far. This is a round number that was not tuned; smaller
#: ones take more steps.
LONGEST = 0.5
#: Every direction is taken to have at least this share of the largest curvature, so that steps stay
#: finite. This is a round number that was not tuned.
FLATTEST = 1e-6
#: A step that does not gain is halved up to this often, and then EM takes some steps. These are
#: round numbers that were not tuned; they affect the number of passes.
NEWTON_HALVINGS, EM_STEPS = 4, 10


def climb_by_newton(
    likelihood: LikelihoodHere, start: Parameters, *, tol: float, max_iter: int
) -> Fit:
    """Climb from a start to the maximum nearby, until a step would gain less than ``tol``."""
    at, value, passes, converged = start, _value(likelihood, start), 1, False
    for _ in range(max_iter):
        found = information(likelihood, at)
        directions = found.directions
        step, gain = step_of(directions, found.slope, found.curvature)
        passes += 1
        if gain < tol:
            converged = True
            break
        gained = False
        for k in range(NEWTON_HALVINGS):
            there = take_step(likelihood.target, directions, step / 2**k)
            reached = _value(likelihood, there)
            passes += 1
            if reached > value:
                at, value, gained = there, reached, True
                break
        if not gained:
            result = likelihood.fit(at, tol=tol, max_iter=EM_STEPS)
            passes += result.n_iter
            at, value = result.parameters, result.log_posterior
            if result.converged:
                converged = True
                break
    return Fit(
        at,
        log_likelihood=value + likelihood.penalty(at),
        log_posterior=value,
        n_iter=passes,
        converged=converged,
    )


def _value(likelihood: LikelihoodHere, parameters: Parameters) -> float:
    return likelihood.value(parameters) - likelihood.penalty(parameters)


def step_of(
    directions: Directions, slope: np.ndarray, curvature: np.ndarray
) -> tuple[np.ndarray, float]:
    """Newton's step in the directions of a mixture, and its expected gain.

    Where the likelihood curves upwards, the sign of the curvature is reversed.
    """
    basis = directions.basis
    values, vectors = np.linalg.eigh(basis.T @ curvature @ basis)
    sizes = np.maximum(np.abs(values), FLATTEST * np.abs(values).max())
    along = vectors.T @ (basis.T @ slope)
    step = basis @ (vectors @ (along / sizes))
    gain = float(slope @ step) / 2
    return step * min(1.0, LONGEST / max(float(np.abs(step).max()), 1e-300)), gain


def take_step(target: Target, directions: Directions, step: np.ndarray) -> Parameters:
    """The parameters after a step, with normalised weights and covariances above the floor."""
    m, n = directions.m, directions.n
    weights, means, covariances = directions.parameters
    weights = weights * np.exp(step[:m])
    change = directions.here @ step
    means = means + change[m : m + m * n].reshape(m, n)
    if not directions.known:
        coordinates = target.kind.coordinates(m, n)
        covariances = covariances + coordinates.decode(change[m + m * n :])
        covariances = target.kind.raise_to(covariances, target.floor)
    rest = outlier_share(directions.parameters.weights)
    return Parameters(weights / (weights.sum() + rest), means, covariances)


#: The curvature comes from SAMPLE rows, which gives it a sampling error of about 1/√20,000 = 0.7 %.
#: Mixtures of more than MOST_PARAMETERS parameters take EM, because the cost of the curvature grows
#: as the square of their number. Both are round numbers that were not tuned.
SAMPLE, MOST_PARAMETERS = 20_000, 1000
#: The curvature is computed anew unless a step leaves less than this share of the expected gain.
#: This is a round number that was not tuned; it affects the number of passes alone.
FAST = 0.1
#: Scoring stops when less than this many nats per parameter are left to gain in all rows together.
#: By chance alone, the maximum exceeds the truth by half a nat per parameter, so this is 2 % of it.
SMALL_ERROR = 0.01
#: A step that does not gain is halved this many times before EM takes over. This is a round number
#: that was not tuned; each halving costs a pass.
HALVINGS = 3


def slope_of_sums(likelihood: Likelihood[Rows], directions: Directions, sums: Sums) -> np.ndarray:
    """The gradient of the mean log-likelihood less the penalty, from sums of a pass; (size,)."""
    kind, tangent, n = directions.kind, directions.tangent, directions.n
    _, shares, firsts, seconds = sums
    safe = np.maximum(shares, 1e-300)[:, None]
    means, slope = firsts / safe, np.zeros(directions.size)
    matrices = np.zeros((directions.m, n, n))
    if not directions.known:
        scatter = kind.of(kind.estimate(shares, means, seconds / safe), n)
        matrices = np.broadcast_to(to_numpy(scatter.matrices()), matrices.shape)
    for j, root in enumerate(directions.roots):
        Z = tangent.whiten(root, (means[j] - directions.parameters.means[j])[None])
        C = tangent.whiten_both_sides(root, matrices[j][None])
        of_one = np.concatenate([[1.0], Z[0], tangent.features(Z, C)[0]])
        slope[directions.own[j]] += shares[j] * of_one
    slope[: directions.m] -= directions.parameters.weights
    return np.asarray(slope - penalty_slope(likelihood, directions))


def curvature_of_some(
    likelihood: Likelihood[Rows], parameters: Parameters, rng: np.random.Generator
) -> np.ndarray:
    """The negative Hessian per row of what a fit maximises, from some of the rows."""
    return information(_some(likelihood, parameters, rng), parameters).curvature


def _some(
    likelihood: Likelihood[Rows], parameters: Parameters, rng: np.random.Generator
) -> LikelihoodHere:
    """Some of the rows in memory; if there are none, rows drawn from the mixture."""
    if likelihood.here is None:
        Z = draw_points(likelihood.target.kind, parameters, SAMPLE, rng)
        # The weight of the prior depends on how many rows there are.
        drawn = MemoryRows(Z, None, likelihood.target.kind, likelihood.rows.count)
        return Likelihood(drawn, likelihood.target)
    rows = likelihood.here.rows
    if len(rows.X) <= SAMPLE:
        return likelihood.here
    shares = rows.weights / rows.weights.sum()
    places = rng.choice(len(rows.X), SAMPLE, p=shares)
    return part_of(likelihood.here, places, None, 1.0)


def with_secant(curvature: np.ndarray, step: np.ndarray, change: np.ndarray) -> np.ndarray:
    """The curvature corrected by how the slope of all rows has changed along a step.

    It is the update of Broyden, Fletcher, Goldfarb and Shanno: H - Hs(Hs)ᵀ/sᵀHs + yyᵀ/sᵀy for a
    step s along which the slope falls by y. O(size²).
    """
    along, explained = float(step @ change), curvature @ step
    expected = float(step @ explained)
    if along <= 0 or expected <= 0:
        return curvature
    return np.asarray(
        curvature - np.outer(explained, explained / expected) + np.outer(change, change / along)
    )


def _with_curvature(likelihood: Likelihood[Rows], fit: Fit, rng: np.random.Generator) -> Fit:
    """A fit with the curvature at its end; rows in memory give that when it is needed."""
    if isinstance(likelihood.rows, MemoryRows):
        return fit
    return replace(fit, curvature=curvature_of_some(likelihood, fit.parameters, rng))


def climb_by_scoring(
    likelihood: Likelihood[Rows],
    start: Parameters,
    rng: np.random.Generator,
    *,
    tol: float,
    max_iter: int,
    callback: Callable[[int, float], None] | None = None,
) -> tuple[Fit, bool]:
    """Take scoring steps until the next should gain less than ``tol``; each costs one pass.

    The expected gain must also be small beside the sampling error (``SMALL_ERROR``). A step that
    does not gain is halved. EM takes over after ``HALVINGS`` of them, as happens if the information
    is singular, and if there are more than ``MOST_PARAMETERS`` parameters; the second result says
    so. After Ctrl-C the best so far is the result.
    """
    target = likelihood.target
    at, passes, gain = target.with_room_for_background(start), 0, np.inf
    best, step, halvings = Fit(at, log_posterior=-np.inf), np.empty(0), 0
    directions, slope, curvature = Directions.of(target, at), step, None
    enough = min(tol, SMALL_ERROR * directions.size / likelihood.rows.count)
    if directions.size > MOST_PARAMETERS:
        return likelihood.fit(at, tol=tol, max_iter=max_iter, callback=callback), True
    try:
        while passes < max_iter and not (passes and stopped()):
            sums = likelihood.rows.sums(at, 1, target.box)
            passes += 1
            value = float(sums.log_likelihoods[0])
            log_posterior = value - likelihood.penalty(at)
            if log_posterior < best.log_posterior:
                halvings += 1
                if halvings > HALVINGS:
                    last = likelihood.fit(best.parameters, tol=tol, max_iter=max_iter - passes)
                    return replace(last, n_iter=last.n_iter + passes), True
                step = step / 2
            else:
                best = Fit(
                    at,
                    log_likelihood=value,
                    log_posterior=log_posterior,
                    n_iter=passes,
                    strengths=target.strengths,
                )
                if callback is not None:
                    callback(passes, value)
                directions = Directions.of(target, at)
                before, last_gain = slope, gain
                slope = slope_of_sums(likelihood, directions, sums)
                if curvature is not None:
                    curvature = with_secant(curvature, step, before - slope)
                    step, gain = step_of(directions, slope, curvature)
                if curvature is None or halvings or enough < gain > FAST * last_gain:
                    curvature = curvature_of_some(likelihood, at, rng)
                    step, gain = step_of(directions, slope, curvature)
                halvings = 0
                if gain < enough:
                    return _with_curvature(likelihood, replace(best, converged=True), rng), False
            at = take_step(target, directions, step)
    except KeyboardInterrupt:  # in a pass over rows elsewhere
        return best, False
    return best if stopped() else _with_curvature(likelihood, best, rng), False
