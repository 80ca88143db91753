"""The covariance of the errors of a fit to many rows, from the information in them.

For maximum likelihood it is the inverse of the information, "observed" or that of the squares of
scores ("opg"), or the sandwich H⁻¹GH⁻¹ of both, which also holds if the rows are not quite from a
mixture of this kind. With a prior, H is the curvature of what the fit maximises.

For moments, θ̂ minimises ‖F(M(θ) - M̂)‖² and moves with M̂ by the pseudoinverse of FJ, J = ∂M/∂θ.
The covariance of M̂ is known from the mixture's moments of twice the order, so no rows are needed.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from momentmix.covariance import Kind
from momentmix.data.parameters import Parameters
from momentmix.likelihood.em import Likelihood
from momentmix.likelihood.information import Information, information
from momentmix.likelihood.scores import Directions
from momentmix.matching.estimate import MixtureMoments
from momentmix.matching.objective import PackedObjective
from momentmix.matching.parametrisation import Parametrisation
from momentmix.support.array import to_numpy
from momentmix.tensors.isserlis import moment_covariance

InformationKind = Literal["observed", "opg", "sandwich"]
#: Numbers of a mixture up to which their covariance is a matrix worth having.
MOST_PARAMETERS = 5000
#: Share of the largest eigenvalue of the information below which a direction is not determined.
SINGULAR = 1e-10
#: Share of what a parameter can move at all from which it moves along an open direction.
TOUCHED = 1e-6


class NoStandardErrors(ValueError):
    """Nothing can be said about the errors of a fit, for a reason that is told."""


class Errors(NamedTuple):
    """The covariance of the errors of a fit, in directions in which it can move.

    It is zero along the ``open`` directions (size, k), which the data do not determine.
    """

    directions: Directions
    covariance: np.ndarray  # (size, size)
    open: np.ndarray

    def natural(self, factor: float | np.ndarray) -> np.ndarray:
        """That of weights, means and numbers of covariances, in other coordinates.

        What changes along an open direction has NaN.
        """
        T = self.directions.natural(factor)
        covariance = np.asarray(T @ self.covariance @ T.T)
        size = np.abs(T).max(axis=1, keepdims=True)
        unknown = np.any(np.abs(T @ self.open) > TOUCHED * size, axis=1)
        covariance[unknown, :] = covariance[:, unknown] = np.nan
        return covariance


def likelihood_errors(
    likelihood: Likelihood, parameters: Parameters, kind: InformationKind
) -> Errors:
    """Of a maximum of the likelihood, with a prior or without; one pass over the rows."""
    check_size(likelihood.kind, parameters, likelihood.variance is not None)
    found = information(likelihood, parameters)
    meat = _centred(found) if kind == "sandwich" else None
    return curvature_errors(found.directions, _bread(found, kind), likelihood.count, meat)


def curvature_errors(
    directions: Directions, bread: np.ndarray, count: float, meat: np.ndarray | None = None
) -> Errors:
    """H⁻¹/p, or H⁻¹GH⁻¹/p, of a curvature H a row and squares G of scores, for p rows."""
    basis = directions.basis
    values, vectors = np.linalg.eigh(basis.T @ bread @ basis)
    low = values <= SINGULAR * max(float(values[-1]), 0.0)
    # Half of the inverse, of which the square is taken.
    root = vectors[:, ~low] / np.sqrt(values[~low])
    inverse = root @ root.T
    if meat is not None:
        inverse = inverse @ (basis.T @ meat @ basis) @ inverse
    return Errors(directions, basis @ inverse @ basis.T / count, basis @ vectors[:, low])


def _bread(found: Information, kind: InformationKind) -> np.ndarray:
    return _centred(found) + found.penalty if kind == "opg" else found.curvature


def _centred(found: Information) -> np.ndarray:
    """The covariance of scores, whose mean is not zero where a prior holds against them."""
    return found.outer - np.outer(found.score, found.score)


def moment_errors(moments: MixtureMoments, parameters: Parameters, count: float) -> Errors:
    """Of a fit to the moments of so many rows, if they are from a mixture of this kind."""
    model = moments.model
    check_size(model.kind, parameters)
    directions = Directions(model.kind, parameters)
    m, n = parameters.means.shape
    # One component is its mean and covariance: moments of order 2.
    order = 2 if m == 1 else model.order
    matching = moments.with_order(2).matching if m == 1 else moments.matching
    if matching.moments is None:
        raise NoStandardErrors(
            f"a fit to so many moments (order {order} of {n} features) is one of inner products "
            "alone, and there is no covariance of all of them; fit with polish='em'"
        )
    if model.weighting == "optimal" and m > 1:
        matching = matching.weighted_for(parameters)
    free = Parametrisation(model.kind, m, n, augmentation="free")
    objective = matching.objective(free)
    assert isinstance(objective, PackedObjective)
    _, J = objective.residual_and_jacobian(free.encode(*parameters))
    matrices = to_numpy(model.kind.of(parameters.covariances, n).matrices())
    omega = moment_covariance(parameters.weights, parameters.means, matrices, order)
    weighted = objective.weighted(objective.weighted(omega).T)
    basis = directions.basis
    left, values, right = np.linalg.svd(J @ directions.natural() @ basis, full_matrices=False)
    low = values <= np.sqrt(SINGULAR) * values[0]
    back = (right[~low].T / values[~low]) @ left[:, ~low].T
    small = back @ weighted @ back.T / count
    return Errors(directions, basis @ small @ basis.T, basis @ right[low].T)


def check_size(kind: Kind, parameters: Parameters, known: bool = False) -> None:
    m, n = parameters.means.shape
    count = m + m * n + (0 if known else kind.coordinates(m, n).size)
    if count > MOST_PARAMETERS:
        raise NoStandardErrors(
            f"this mixture has {count:,} parameters, and the covariance of their errors is kept "
            f"for up to {MOST_PARAMETERS:,}; use a simpler covariance_type, fewer features, or "
            "bootstrap"
        )
