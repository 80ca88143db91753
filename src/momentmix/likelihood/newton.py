"""Newton's method on the penalised likelihood: few passes where EM takes hundreds of steps.

EM is slow where components overlap, because its step takes rows as if their components were known.
Newton's step uses the observed information, and near a maximum it ends in a handful of passes. The
cost of a pass grows as the square of the number of parameters.
"""

from __future__ import annotations

import numpy as np

from momentmix.data.parameters import Parameters, outlier_share
from momentmix.likelihood.em import EMResult, Likelihood
from momentmix.likelihood.information import information
from momentmix.likelihood.rows import RowLikelihood
from momentmix.likelihood.scores import Directions

#: The longest step in any direction, in units of the components' own widths, because the
#: likelihood is nearly quadratic only that far. This is a round number that was not tuned; smaller
#: ones take more steps.
LONGEST = 0.5
#: Every direction is taken to have at least this share of the largest curvature, so that steps stay
#: finite. This is a round number that was not tuned.
FLATTEST = 1e-6
#: A step that does not gain is halved up to this often, and then EM takes some steps. These are
#: round numbers that were not tuned; they affect the number of passes.
HALVINGS, EM_STEPS = 4, 10


def climb(likelihood: RowLikelihood, start: Parameters, *, tol: float, max_iter: int) -> EMResult:
    """Climb from a start to the maximum nearby, until a step would gain less than ``tol``.

    After Ctrl-C the result is the best so far.
    """
    at, value, passes, converged = start, _value(likelihood, start), 1, False
    try:
        for _ in range(max_iter):
            found = information(likelihood, at)
            directions = found.directions
            step, gain = step_of(directions, found.slope, found.curvature)
            passes += 1
            if gain < tol:
                converged = True
                break
            gained = False
            for k in range(HALVINGS):
                there = take_step(likelihood, directions, step / 2**k)
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
    except KeyboardInterrupt:
        return _result(likelihood, at, value, passes, False)._replace(interrupted=True)
    return _result(likelihood, at, value, passes, converged)


def _result(
    likelihood: RowLikelihood, at: Parameters, value: float, passes: int, converged: bool
) -> EMResult:
    return EMResult(at, value + likelihood.penalty(at), passes, converged, False, value)


def _value(likelihood: RowLikelihood, parameters: Parameters) -> float:
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


def take_step(likelihood: Likelihood, directions: Directions, step: np.ndarray) -> Parameters:
    """The parameters after a step, with normalised weights and covariances above the floor."""
    m, n = directions.m, directions.n
    weights, means, covariances = directions.parameters
    weights = weights * np.exp(step[:m])
    change = directions.here @ step
    means = means + change[m : m + m * n].reshape(m, n)
    if not directions.known:
        coordinates = likelihood.kind.coordinates(m, n)
        covariances = covariances + coordinates.decode(change[m + m * n :])
        covariances = likelihood.kind.raise_to(covariances, likelihood.floor)
    rest = outlier_share(directions.parameters.weights)
    return Parameters(weights / (weights.sum() + rest), means, covariances)
