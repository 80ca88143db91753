"""What is given: data in the coordinates of a fit, as their moments and as their likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from momentmix.blocks.rows import BlockRows
from momentmix.covariance import Anchor, Bound, Kind
from momentmix.data.blocks import BlockData
from momentmix.data.content import LARGE_DATA
from momentmix.data.crowding import Crowding, sheltered_frame
from momentmix.data.dominance import warn_of_dominance
from momentmix.data.frame import Frame
from momentmix.data.gaps import check_gaps, tensors_with_gaps
from momentmix.data.observed import ObservedData
from momentmix.data.parameters import Parameters, outlier_share
from momentmix.data.rounding import least_variances, rounding_variances
from momentmix.data.sources import AtomData, Data, TensorData
from momentmix.distributions.background import Background
from momentmix.distributions.mixture import Mixture
from momentmix.distributions.moment_tensors import MomentTensors
from momentmix.fitting.plan import Plan
from momentmix.likelihood.blocks import BlockLikelihood
from momentmix.likelihood.density import Density
from momentmix.likelihood.em import Likelihood
from momentmix.likelihood.observed import ObservedLikelihood
from momentmix.likelihood.rows import RowLikelihood
from momentmix.matching.estimate import MixtureMoments
from momentmix.matching.fit import Fit
from momentmix.matching.order_weights import gaussian_weights, sampling_weights
from momentmix.support.array import to_numpy
from momentmix.support.warnings import warn_user


class Moments(Protocol):
    """The moments of data, and fits to them alone."""

    def single(self) -> Fit:
        """One component, which every method agrees on."""

    def guess(self, rng: np.random.Generator) -> Parameters:
        """What there is before anything was tried."""

    def estimate(self, rng: np.random.Generator, start: Parameters | None, verbose: int) -> Fit:
        """The moment estimate, from a start if there is one."""


class Coordinates(Protocol):
    """The coordinates of a fit, and the way between them and those of X."""

    kind: Kind  # of covariances in the coordinates of X
    log_volume: float

    @property
    def factor(self) -> Bound:
        """By which differences are multiplied on the way to the coordinates of X."""

    def apply(self, X: np.ndarray) -> np.ndarray:
        """Points in the coordinates of the fit."""

    def forward(self, parameters: Parameters) -> Parameters:
        """Parameters in the coordinates of the fit."""

    def back(self, parameters: Parameters) -> Parameters:
        """Parameters in the coordinates of X."""


class Collapse(NamedTuple):
    """Which components are not to be trusted; all (m,)."""

    flat: np.ndarray  # those without extent in some direction
    thin: np.ndarray  # those that rest on too few samples
    counts: np.ndarray  # samples that each rests on


@dataclass(frozen=True)
class Problem:
    """Coordinates, moments, and the likelihood where there is one; nothing here is left to chance.

    ``floor`` bounds covariances from below, in the coordinates of the fit; None where they are
    known.
    """

    frame: Coordinates
    moments: Moments
    likelihood: Likelihood | None
    count: float  # samples, as far as is known before a pass
    floor: Bound | None
    rows: AtomData | None = None  # rows in memory, in the coordinates of X
    elsewhere: BlockRows | None = None  # rows that count their passes
    passes: int = 0  # over rows in memory, that it took to get here
    definite: bool = True  # covariances can be inverted; known noise may be singular
    widths: np.ndarray | None = None  # of the box of a background, in the units of X; (n,)

    def collapse(self, fit: Fit) -> Collapse | None:
        """Which components have collapsed; None where covariances are known."""
        if self.floor is None:
            return None
        kind, (weights, means, covariances) = self.frame.kind, fit.parameters
        counts = weights * (self.count if self.likelihood is None else self.likelihood.count)
        flat = np.broadcast_to(kind.on_floor(covariances, self.floor), weights.shape)
        if self.likelihood is None and fit.bound > 0:  # widths that the moments do not tell
            flat = flat | kind.on_floor(covariances, fit.bound)
        thin = np.zeros(len(weights), dtype=bool)
        if len(weights) > 1:
            thin = kind.too_few(counts, means.shape[1])
        return Collapse(flat, thin, counts)

    def restored(self, fit: Fit) -> Fit:
        """The fit in the coordinates of X."""
        parameters, shift = self.frame.back(fit.parameters), self.frame.log_volume
        value = fit.log_likelihood - shift
        if self.rows is not None and self._is_scored(fit.parameters):
            # Of the parameters as they will be: rounded in the units of X, which a peak notices.
            mixture = mixture_of(self.frame.kind, parameters, fit.widths)
            scores = to_numpy(mixture.log_prob(self.rows.X))
            value = float(np.average(scores, weights=self.rows.weights))
        passes = fit.n_passes + self.passes if self.elsewhere is None else self.elsewhere.n_passes
        return replace(
            fit,
            parameters=parameters,
            log_likelihood=value,
            log_posterior=value - (fit.log_likelihood - fit.log_posterior),
            log_likelihoods=tuple(one - shift for one in fit.log_likelihoods),
            n_passes=passes,
        )

    def _is_scored(self, parameters: Parameters) -> bool:
        assert self.rows is not None
        small = self.rows.X.size <= LARGE_DATA
        return small or (
            self.likelihood is not None
            and Density.of(self.likelihood.kind, parameters).peaks is not None
        )


def mixture_of(
    kind: Kind,
    parameters: Parameters,
    widths: np.ndarray | None,
    names: Sequence[str] | None = None,
) -> Mixture:
    """Parameters in the coordinates of X as a mixture, with a background if it has widths."""
    weights, means, covariances = parameters
    background = None if widths is None else Background(outlier_share(weights), widths)
    return Mixture(
        weights / weights.sum(),
        means,
        np.ascontiguousarray(covariances),
        kind.name,
        feature_names=names,
        background=background,
    )


def mixture_problem(data: Data | ObservedData, plan: Plan, frame: Frame | None = None) -> Problem:
    """The problem of a mixture whose covariances are to be found.

    ``frame`` has the coordinates of the fit of rows in memory, where they are not the rows' own.
    """
    if isinstance(data, BlockData):
        return _of_blocks(data, plan)
    if plan.polish and isinstance(data, AtomData | ObservedData):
        if isinstance(data, AtomData):
            problem = _of_rows(data, plan, frame)
        else:
            problem = _of_observed(data, plan, frame)
        outliers = plan.outliers
        if outliers is None or outliers.widths is None:
            return problem
        return with_background(problem, outliers.widths, outliers.most)
    if isinstance(data, ObservedData):
        return _of_moments(data.moments(plan.order, plan.tensors), replace(plan, tensors=False))
    return _of_moments(data, plan)


def with_background(problem: Problem, widths: np.ndarray, most: float) -> Problem:
    """The problem with a background of so many units in each feature of X."""
    likelihood = problem.likelihood
    assert isinstance(likelihood, RowLikelihood)
    volume = problem.frame.log_volume
    return replace(
        problem,
        likelihood=likelihood.with_background(np.log(widths), volume, most),
        widths=widths,
    )


def _of_rows(rows: AtomData, plan: Plan, frame: Frame | None) -> Problem:
    """Rows in memory: the likelihood decides, and moments are starts at most."""
    frame, crowding = _row_frame(rows, plan, frame)
    within = rows.within(frame)
    scaled = within.in_order()
    likelihood = _row_likelihood(rows, scaled, frame, plan)
    if crowding is not None:
        likelihood.crowding = crowding.at(np.argsort(within.order_of_rows()))
    weights = gaussian_weights(plan.order)
    if plan.search == "moments":  # weighted by the noise of these rows
        weights = sampling_weights(scaled.X, scaled.weights, plan.order)
    matched = tensors_of(scaled, plan.order) if plan.tensors else scaled
    moments = _moments(matched, frame, plan, weights, likelihood.floor)
    passes = int(plan.tensors)
    return Problem(frame, moments, likelihood, rows.count, likelihood.floor, rows, passes=passes)


def _of_observed(data: ObservedData, plan: Plan, frame: Frame | None) -> Problem:
    """Rows with gaps or noise in memory: as other rows, with the likelihood of what was seen."""
    _warn_of_light_rows(plan, data.rows, data.count)
    frame, crowding = _row_frame(data, plan, frame)
    rows, rounding = data.within(frame), plan.rounding and data.table.noise is None
    likelihood = ObservedLikelihood(
        rows,
        data.weights,
        plan.kind,
        _floor(data.table.X, data.weights, data.count, frame, plan.floor, rounding),
        prior=plan.prior,
        count=data.count,
        to_features=frame.to_features,
        anchor=_anchor(plan, data.share, data.whole),
    )
    likelihood.crowding = crowding
    scaled = AtomData.of_rows(rows.X, data.weights, data.count)
    if plan.search == "moments" and not data.gaps:  # with gaps, starts from filled rows will do
        scaled = data.debiased().within(frame)
    moments = _moments(scaled, frame, plan, gaussian_weights(plan.order), likelihood.floor)
    return Problem(frame, moments, likelihood, data.count, likelihood.floor)


def resized(problem: Problem, data: AtomData | ObservedData, plan: Plan) -> Problem:
    """The problem of as many components as a plan has: coordinates and rows are the same.

    Only what holds covariances where gaps leave them open depends on the number.
    """
    moments, likelihood, frame = problem.moments, problem.likelihood, problem.frame
    assert isinstance(moments, MixtureMoments)
    assert isinstance(frame, Frame)
    if isinstance(data, ObservedData) and likelihood is not None:
        likelihood = likelihood.with_anchor(_anchor(plan, data.share, data.whole))
    weights = gaussian_weights(plan.order)
    moments = _moments(moments.data, frame, plan, weights, moments.floor)
    return replace(problem, moments=moments, likelihood=likelihood)


def _anchor(plan: Plan, share: float, whole: float) -> Anchor | None:
    """What holds covariances if a share of the cells are gaps, and so many rows have none."""
    matrices = 1 if plan.kind.common else plan.m
    return plan.kind.anchor(plan.n, share, whole / matrices) if plan.anchored else None


def _of_moments(data: Data, plan: Plan) -> Problem:
    """Moments alone; also those of rows in memory, where nothing but moments is asked for."""
    if isinstance(data, AtomData) and data.atoms.covariance.zero:
        warn_of_dominance(data.X, data.weights)
    if plan.tensors:
        data = tensors_of(data, plan.order)
    frame = _frame(data, plan)
    scaled, weights = data.within(frame), gaussian_weights(plan.order)
    moments = _moments(scaled, frame, plan, weights, plan.floor)
    floor, passes = moments.model.floor, int(plan.tensors)
    return Problem(frame, moments, None, data.count, floor, passes=passes)


def _of_blocks(data: BlockData, plan: Plan) -> Problem:
    """Rows elsewhere: EM goes on there from the moment estimate."""
    source, share = moments_of_blocks(data, plan)
    frame = _frame(source, plan)
    scaled, weights = source.within(frame), gaussian_weights(plan.order)
    likelihood: Likelihood | None = None
    if plan.polish:
        likelihood = BlockLikelihood(
            data.elsewhere,
            frame,
            plan.kind,
            plan.floor,
            prior=plan.prior,
            observed=share > 0 or data.elsewhere.noisy,
            # How many rows have no gap, one pass does not tell; so many if gaps are independent.
            anchor=_anchor(plan, share, source.count * (1 - share) ** plan.n),
        )
    moments = _moments(scaled, frame, plan, weights, plan.floor)
    return Problem(frame, moments, likelihood, source.count, plan.floor, elsewhere=data.elsewhere)


def moments_of_blocks(data: BlockData, plan: Plan) -> tuple[Data, float]:
    """What the moments of rows elsewhere are made of, and the share of cells there that are gaps.

    Rows with gaps or noise are always summed up as tensors. Where gaps show, that takes another
    pass.
    """
    if not plan.tensors and not data.elsewhere.noisy:
        return data, 0.0
    tensors = tensors_with_gaps(data.elsewhere, plan.order)
    if not data.elsewhere.noisy:  # moments of noisy rows may contradict each other by chance
        check_gaps(tensors)
    return TensorData(tensors), 1 - float(np.mean(tensors.presence))


def _frame(data: Data | ObservedData, plan: Plan) -> Frame:
    """Centred and scaled coordinates; the paper's ω speaks of the given origin and one unit."""
    frame = data.frame(plan.kind)
    return frame if plan.omega is None else Frame.about_the_origin(plan.kind, frame)


def _row_frame(
    data: AtomData | ObservedData, plan: Plan, frame: Frame | None
) -> tuple[Frame, Crowding | None]:
    """The same for rows in memory, unless there is one.

    Some of them may be far off and belong to no component; which, is known then.
    """
    if frame is not None:
        return frame, None
    if plan.outliers is None or plan.omega is not None:
        return _frame(data, plan), None
    return sheltered_frame(data, plan.kind)


def _moments(
    scaled: Data, frame: Frame, plan: Plan, weights: list[float], floor: Bound
) -> MixtureMoments:
    """The moments of data in a frame, with weights of the orders for plans that have none."""
    model = plan.model(plan.weights(frame.unit, weights))
    return MixtureMoments(model, scaled, plan.init, plan.n_init, floor)


def tensors_of(data: Data, order: int) -> TensorData:
    """The moments that one pass over rows in memory gives."""
    assert isinstance(data, AtomData)
    tensors = MomentTensors.from_samples(data.X, order, data.weights)
    return TensorData(tensors, data.count)


def _row_likelihood(rows: AtomData, scaled: AtomData, frame: Frame, plan: Plan) -> RowLikelihood:
    _warn_of_light_rows(plan, len(rows.X), rows.count)
    return RowLikelihood(
        scaled.X,
        scaled.weights,
        plan.kind,
        _floor(rows.X, rows.weights, rows.count, frame, plan.floor, plan.rounding),
        prior=plan.prior,
        count=rows.count,
        to_features=frame.to_features,
    )


def _warn_of_light_rows(plan: Plan, p: int, count: float) -> None:
    """Warn where rows weigh next to nothing beside the prior."""
    if plan.prior is not None and count < 0.1 * p:
        warn_user(
            f"the weights of {p} rows sum to {count:g}, and count as so many rows beside "
            "the prior; scale them to sum to the number of rows, or use prior=None",
            UserWarning,
        )


def _floor(
    X: np.ndarray,
    weights: np.ndarray | None,
    count: float,
    frame: Frame,
    least: float,
    rounding: bool,
) -> Bound:
    """The least covariance in a frame, also by what rounding of the rows has hidden."""
    hidden = least_variances(X)
    if rounding:
        hidden = np.maximum(hidden, rounding_variances(X, weights, count))
    return frame.bound(least, hidden)
