"""The covariance of the errors of a fit to many rows, from the information in them.

For maximum likelihood it is the inverse of the information: the observed one, that of the squares
of scores ("opg"), or the sandwich H⁻¹GH⁻¹ of both, which also holds if the rows are not quite from
a mixture of this kind. With a prior, H is the curvature of what the fit maximises.

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
#: The most parameters whose covariance is computed: the matrix then has 200 MB. This is a round
#: number that was not tuned; more would take more memory, and time as the cube of the number.
MOST_PARAMETERS = 5000
#: A direction in which the information is below this share of its largest eigenvalue counts as not
#: determined. It lies well above the rounding of float64 (1e-16), and was not tuned.
SINGULAR = 1e-10
#: A parameter has no standard error if it moves along an undetermined direction by more than this
#: share of what it moves at all. This is a round number, well above rounding, that was not tuned.
TOUCHED = 1e-6


class NoStandardErrors(ValueError):
    """A fit has no standard errors; the message says why."""


class Errors(NamedTuple):
    """The covariance of the errors of a fit, in the directions in which it can move.

    It is zero along the ``open`` directions (size, k), which the data do not determine.
    """

    directions: Directions
    covariance: np.ndarray  # (size, size)
    open: np.ndarray

    def natural(self, factor: float | np.ndarray) -> np.ndarray:
        """The covariance of weights, means and numbers of covariances, in other coordinates.

        It is NaN for parameters that change along an open direction.
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
    """Errors of a maximum of the likelihood, with a prior or without; one pass over the rows."""
    check_size(likelihood.kind, parameters, likelihood.variance is not None)
    found = information(likelihood, parameters)
    meat = _centre(found) if kind == "sandwich" else None
    return curvature_errors(found.directions, _bread(found, kind), likelihood.count, meat)


def curvature_errors(
    directions: Directions, bread: np.ndarray, count: float, meat: np.ndarray | None = None
) -> Errors:
    """H⁻¹/p, or H⁻¹GH⁻¹/p, for p rows, a curvature H per row and squares G of scores."""
    basis = directions.basis
    values, vectors = np.linalg.eigh(basis.T @ bread @ basis)
    low = values <= SINGULAR * max(float(values[-1]), 0.0)
    # A root of the inverse.
    root = vectors[:, ~low] / np.sqrt(values[~low])
    inverse = root @ root.T
    if meat is not None:
        inverse = inverse @ (basis.T @ meat @ basis) @ inverse
    return Errors(directions, basis @ inverse @ basis.T / count, basis @ vectors[:, low])


def _bread(found: Information, kind: InformationKind) -> np.ndarray:
    return _centre(found) + found.penalty if kind == "opg" else found.curvature


def _centre(found: Information) -> np.ndarray:
    """The covariance of scores, whose mean is not zero if there is a prior."""
    return found.outer - np.outer(found.score, found.score)


def moment_errors(moments: MixtureMoments, parameters: Parameters, count: float) -> Errors:
    """Errors of a fit to the moments of ``count`` rows, if these are from such a mixture."""
    model = moments.model
    check_size(model.kind, parameters)
    directions = Directions(model.kind, parameters)
    m, n = parameters.means.shape
    # One component is its mean and covariance: moments of order 2.
    order = 2 if m == 1 else model.order
    matching = moments.with_order(2).matching if m == 1 else moments.matching
    if matching.moments is None:
        raise NoStandardErrors(
            f"a fit to so many moments (order {order} of {n} features) uses only inner products, "
            "and the covariance of all moments is too large; fit the likelihood of the rows"
        )
    if model.weighting == "optimal" and m > 1:
        matching = matching.weight_for(parameters)
    free = Parametrisation(model.kind, m, n, augmentation="free")
    objective = matching.objective(free)
    assert isinstance(objective, PackedObjective)
    _, J = objective.residual_and_jacobian(free.encode(*parameters))
    matrices = to_numpy(model.kind.of(parameters.covariances, n).matrices())
    omega = moment_covariance(parameters.weights, parameters.means, matrices, order)
    weighted = objective.weight(objective.weight(omega).T)
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
