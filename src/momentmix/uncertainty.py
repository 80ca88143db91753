"""How sure a fit is: standard errors, intervals, the bootstrap, and warnings about them.

For many rows estimates are normal, and standard errors and intervals follow from their covariance.
For maximum likelihood it is the inverse of the information: the observed one, that of the squares
of scores ("opg"), or the sandwich H⁻¹GH⁻¹ of both, which also holds if the rows are not quite from
a mixture of this kind. With a prior, H is the curvature of what the fit maximises. For moments, θ̂
minimises ‖F(M(θ) - M̂)‖² and moves with M̂ by the pseudoinverse of FJ, J = ∂M/∂θ. The covariance of
M̂ is known from the mixture's moments of twice the order, so no rows are needed.

The bootstrap fits rows drawn anew, from where the fit ended. "rows" draws rows with replacement,
"weights" gives every row a random weight (the Bayesian bootstrap), and "parametric" draws new rows
from the fitted mixture, with the gaps and errors of the rows. Components keep their places, and
those that have swapped places are put back. Where EM is slow, Newton's method carries a refit to
the maximum; EM alone would stop early and underestimate how far parameters move.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.stats import norm

from momentmix.covariance import Coordinates, Kind
from momentmix.fit import Parameters
from momentmix.fitting.em import Likelihood, LikelihoodHere
from momentmix.fitting.information import Directions, Information, information
from momentmix.fitting.newton import climb_by_newton
from momentmix.fitting.problem import Collapse
from momentmix.matching.estimate import MixtureMoments
from momentmix.matching.objective import PackedObjective, Parametrisation
from momentmix.rows.memory import MemoryRows, Rows
from momentmix.support.array import to_numpy
from momentmix.support.checks import probability
from momentmix.support.messages import NoStandardErrors, Progress, UncertaintyWarning, warn_user
from momentmix.support.parallel import parallel_map, worker_count
from momentmix.support.stopping import stoppable, stopped
from momentmix.tensors.isserlis import moment_covariance


@dataclass(frozen=True)
class NormalEstimate:
    """Parameters of a fit in the coordinates of X, and the covariance of their errors.

    ``covariance`` is that of weights, means and the numbers of covariances (``Coordinates``); there
    are none of these if the covariances are known.
    """

    kind: Kind
    parameters: Parameters
    covariance: np.ndarray

    def standard_errors(self) -> Parameters:
        """The standard deviation of the error of each parameter."""
        variances = np.diag(self.covariance)
        return self._shaped(np.sqrt(np.where(variances >= 0, variances, np.nan)))

    def intervals(self, level: float) -> tuple[Parameters, Parameters]:
        """The ends of intervals that hold each parameter with the probability ``level``.

        They are symmetric for means and covariances. For weights they are symmetric on the scale
        log λ/(1 - λ), which keeps them between 0 and 1, and for variances on the logarithmic scale.
        """
        z = float(norm.ppf((1 + level) / 2))
        weights, means, covariances = self.parameters
        errors = self.standard_errors()
        spread = weights * (1 - weights)
        known = spread > 0
        logits = np.log(weights[known] / (1 - weights[known]))
        away = z * errors.weights[known] / spread[known]
        variance = self._coordinates.variances
        relative = np.divide(
            errors.covariances, covariances, out=np.zeros_like(covariances), where=variance
        )
        with np.errstate(over="ignore"):  # an end beyond float64 is infinite
            ratio = np.exp(z * relative)
        ends = []
        for sign in (-1, 1):
            share = weights.copy()
            share[known] = 1 / (1 + np.exp(-(logits + sign * away)))
            moved = covariances + sign * z * errors.covariances
            scaled = covariances * ratio**sign
            at = np.where(variance, scaled, moved)
            ends.append(Parameters(share, means + sign * z * errors.means, at))
        return ends[0], ends[1]

    def entries(self) -> np.ndarray:
        """The covariance of the errors of all distinct entries, in the order of ``entry_names``."""
        scale = np.ones(len(self.covariance))
        if self.free:
            scale[-self._coordinates.size :] = self._coordinates.units
        return np.asarray(self.covariance * np.outer(scale, scale))

    @property
    def free(self) -> bool:
        """Whether covariances are among the parameters, and not known."""
        return len(self.covariance) > len(self.parameters.weights) + self.parameters.means.size

    @property
    def _coordinates(self) -> Coordinates:
        return self.kind.coordinates(*self.parameters.means.shape)

    def _shaped(self, numbers: np.ndarray) -> Parameters:
        """One number for each parameter, in the shapes of the parameters."""
        weights, means, covariances = self.parameters
        m, size = len(weights), means.size
        rest = np.zeros(covariances.shape)
        if self.free:
            rest = self._coordinates.decode(numbers[m + size :])
        return Parameters(numbers[:m], numbers[m : m + size].reshape(means.shape), rest)


def entry_names(kind: Kind | None, m: int, features: Sequence[str]) -> list[str]:
    """The names of the rows and columns of ``NormalEstimate.entries``.

    Without a ``kind`` the covariances are known, and none of them is a parameter.
    """
    found = [f"weight {j}" for j in range(m)]
    found += [f"mean {j} {name}" for j in range(m) for name in features]
    return found if kind is None else found + kind.coordinates(m, len(features)).names(features)


BootstrapKind = Literal["rows", "weights", "parametric"]
#: With at most NEWTON_PARAMETERS parameters, Newton's method takes over from EM after EM_STEPS
#: steps, and goes on until a step gains less than TOP nats per row. These are round numbers that
#: were not tuned; the first two affect time, and TOP has to be small beside the standard errors.
NEWTON_PARAMETERS, EM_STEPS, TOP = 300, 15, 1e-8


@dataclass(frozen=True)
class Bootstrap:
    """Parameters of refitted mixtures, each with one more axis in front, of length ``n_boot``.

    Attributes
    ----------
    weights : ndarray of shape (n_boot, m)
    means : ndarray of shape (n_boot, m, n)
    covariances : ndarray of shape (n_boot, ...)
    interrupted : bool
        Whether Ctrl-C ended it before all were made.
    """

    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray
    interrupted: bool = False

    @property
    def n_boot(self) -> int:
        """The number of refitted mixtures."""
        return len(self.weights)

    def standard_errors(self) -> Parameters:
        """The standard deviation of each parameter over the refitted mixtures."""
        parts = self.weights, self.means, self.covariances
        return Parameters(*(part.std(axis=0, ddof=1) for part in parts))

    def confidence_intervals(self, level: float = 0.95) -> tuple[Parameters, Parameters]:
        """The quantiles of each parameter between which the refitted mixtures lie, low and high.

        Parameters
        ----------
        level : float, default=0.95
            The share of the mixtures that lies between.

        Returns
        -------
        low, high : tuple of objects with ``weights``, ``means`` and ``covariances``
        """
        probability("level", level)
        parts = self.weights, self.means, self.covariances
        ends = (1 - level) / 2, (1 + level) / 2
        low, high = (Parameters(*(np.quantile(part, q, axis=0) for part in parts)) for q in ends)
        return low, high

    def __repr__(self) -> str:
        _, m, n = self.means.shape
        ended = ", interrupted" if self.interrupted else ""
        return f"<Bootstrap of {self.n_boot} mixtures of {m} components in {n} features{ended}>"


def bootstrap_fits(
    likelihood: LikelihoodHere,
    fit: Parameters,
    n_boot: int,
    kind: BootstrapKind,
    rng: np.random.Generator,
    *,
    tol: float,
    max_iter: int,
    verbose: int = 0,
) -> tuple[list[Parameters], bool]:
    """Parameters of fits to rows drawn anew, in the fit's coordinates; and whether interrupted."""
    found: dict[int, Parameters] = {}
    seeds = rng.spawn(n_boot)
    em = likelihood.target.kind.curved  # Newton's method has no coordinates
    small = not em and Directions.of(likelihood.target, fit).size <= NEWTON_PARAMETERS

    def refit(i: int) -> None:
        if stopped():
            return
        again = Likelihood(_draw(kind, likelihood, fit, seeds[i]), likelihood.target)
        steps = EM_STEPS if small else max_iter
        result = again.fit(fit, tol=TOP if small or em else tol, max_iter=steps)
        if small and not result.converged:
            result = climb_by_newton(again, result.parameters, tol=TOP, max_iter=max_iter)
        if not stopped():
            found[i] = match_components(likelihood.target.kind, result.parameters, fit)
            progress.step(i, result.log_likelihood)

    with Progress(verbose, n_boot, "refits") as progress, stoppable():
        parallel_map(refit, range(n_boot), worker_count(np))
    return [found[i] for i in sorted(found)], len(found) < n_boot


def _draw(
    kind: BootstrapKind, likelihood: LikelihoodHere, fit: Parameters, rng: np.random.Generator
) -> MemoryRows:
    """Rows drawn anew."""
    rows = likelihood.rows
    if kind == "rows":
        count = max(round(rows.count), 1)
        return rows.reweight(rng.multinomial(count, rows.weights / rows.weights.sum()) / count)
    if kind == "weights":
        drawn = rng.gamma(rows.weights * rows.count)
        return rows.reweight(drawn / drawn.sum())
    return rows.draw(fit, rng, likelihood.target.box)


def match_components(kind: Kind, parameters: Parameters, to: Parameters) -> Parameters:
    """The components in the order in which they are closest to those of ``to``, by divergence."""
    m, n = to.means.shape
    if m == 1:
        return parameters
    shape = (m, n, n)
    ours, theirs = (
        np.broadcast_to(to_numpy(kind.of(part.covariances, n).matrices()), shape)
        for part in (parameters, to)
    )
    precisions = np.linalg.inv(theirs)
    away = parameters.means[None, :, :] - to.means[:, None, :]
    squares = np.einsum("jki,jil,jkl->jk", away, precisions, away)
    traces = np.einsum("jil,kli->jk", precisions, ours)
    logs = np.linalg.slogdet(ours)[1]
    # Twice the divergence, up to terms that are the same in all of a row.
    order = linear_sum_assignment(squares + traces - logs)[1]
    weights, means, covariances = parameters
    return Parameters(weights[order], means[order], kind.take_components(covariances, order))


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
    likelihood: Likelihood[Rows], parameters: Parameters, kind: InformationKind
) -> Errors:
    """Errors of a maximum of the likelihood, with a prior or without; one pass over the rows."""
    target = likelihood.target
    check_size(target.kind, parameters, target.variance is not None)
    found = information(likelihood, parameters)
    meat = _centre(found) if kind == "sandwich" else None
    return curvature_errors(found.directions, _bread(found, kind), likelihood.rows.count, meat)


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


#: A standard error of more than this share of a component's own width is too large, because the
#: likelihood is not quadratic that far. Below it 95 % intervals have the coverage they claim, and
#: above it they do not (experiments/coverage.py).
FAR = 0.3
#: A component takes part in the largest error if its share is at least this part of the largest
#: share. This is a round number that was not tuned; it affects which components a warning names.
TAKES_PART = 0.1


def far_errors(errors: Errors) -> tuple[float, list[int]]:
    """The largest standard error in any direction, and the components that take part in it.

    Directions are in units of the components themselves: their widths, and logarithms of their
    weights and variances. So an error is small if it is much less than 1.
    """
    directions, covariance = errors.directions, errors.covariance.copy()
    # The share of outliers, which moves all weights alike, is often hardly known, and does not
    # move any component.
    m = directions.m
    covariance[:m] -= covariance[:m].mean(axis=0)
    covariance[:, :m] -= covariance[:, :m].mean(axis=1, keepdims=True)
    values, vectors = np.linalg.eigh(covariance)
    largest = float(np.sqrt(max(values[-1], 0.0)))
    squares = vectors[:, -1] ** 2
    shares = np.array([squares[places[: directions.n + 1]].sum() for places in directions.own])
    if not directions.common:
        shares = np.array([squares[places].sum() for places in directions.own])
    return largest, [int(j) for j in np.flatnonzero(shares >= TAKES_PART * shares.max())]


def warn_if_unreliable(errors: Errors, collapse: Collapse | None) -> None:
    """Warn if standard errors understate the uncertainty of the parameters."""
    said = []
    largest, components = far_errors(errors)
    if errors.open.shape[1]:
        said.append(
            "the rows do not determine all parameters, or the fit is not at a maximum; the "
            "standard errors of undetermined parameters are NaN"
        )
    elif largest > FAR:
        who = f"component {components[0]} overlaps others too much, or rests"
        if len(components) > 1:
            before = ", ".join(map(str, components[:-1]))
            who = f"components {before} and {components[-1]} overlap too much, or rest"
        said.append(
            f"{who} on too few rows: one standard error is {largest:.2g} of a component's own "
            "width, and intervals that wide cover less than they claim"
        )
    if collapse is not None and np.any(collapse.components):
        which = ", ".join(str(j) for j in np.flatnonzero(collapse.components))
        said.append(
            f"component(s) {which} rest on too few rows or have no width in some direction, where "
            "a lower bound and not the rows decides"
        )
    if said:
        warn_user(
            f"{'; '.join(said)}. Look at bootstrap, or ask for fewer components or a simpler "
            "covariance_type",
            UncertaintyWarning,
        )
