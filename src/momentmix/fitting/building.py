"""Builds the problem of a fit from rows in memory, rows elsewhere, rows with gaps, or moments."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from momentmix.covariance import Anchor, Bound
from momentmix.data.blocks import BlockData
from momentmix.data.crowding import Crowding, frame_without_outliers
from momentmix.data.dominance import warn_of_dominance
from momentmix.data.frame import Frame
from momentmix.data.gaps import check_gaps
from momentmix.data.observed import ObservedData
from momentmix.data.rounding import (
    constant_columns,
    constant_variances,
    least_variances,
    rounding_variances,
)
from momentmix.data.rows import rows_to_fit
from momentmix.data.sources import AtomData, Data, TensorData
from momentmix.distributions.moment_tensors import MomentTensors
from momentmix.fitting.plan import Plan
from momentmix.fitting.problem import Problem
from momentmix.likelihood.blocks import BlockLikelihood
from momentmix.likelihood.observed import ObservedLikelihood
from momentmix.likelihood.rows import RowLikelihood
from momentmix.matching.estimate import MixtureMoments
from momentmix.matching.order_weights import gaussian_weights, sampling_weights
from momentmix.support.warnings import warn_user


def mixture_problem(data: Data | ObservedData, plan: Plan, frame: Frame | None = None) -> Problem:
    """The problem of a mixture whose covariances are to be found.

    ``frame`` gives the coordinates of a fit to rows in memory, if they do not follow from the rows.
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
    """The problem with a background over a box of these widths, in the units of X."""
    likelihood = problem.likelihood
    assert isinstance(likelihood, RowLikelihood)
    volume = problem.frame.log_volume
    return replace(
        problem,
        likelihood=likelihood.with_background(np.log(widths), volume, most),
        widths=widths,
    )


def _of_rows(rows: AtomData, plan: Plan, frame: Frame | None) -> Problem:
    """Rows in memory: the likelihood is maximised, and moments can only be starts."""
    frame, crowding = _row_frame(rows, plan, frame)
    within = rows.within(frame)
    scaled = within.in_order()
    likelihood = _row_likelihood(rows, scaled, frame, plan)
    if crowding is not None:
        likelihood.crowding = crowding.at(np.argsort(within.order_of_rows()))
    likelihood = likelihood.on(rows.device)
    weights = gaussian_weights(plan.order)
    if plan.search == "moments":  # weighted by the noise of these rows
        weights = sampling_weights(scaled.X, scaled.weights, plan.order)
    matched = tensors_of(scaled, plan.order) if plan.tensors else scaled
    moments = _moments(matched, frame, plan, weights, likelihood.floor)
    passes = int(plan.tensors)
    return Problem(
        frame,
        moments,
        likelihood,
        rows.count,
        likelihood.floor,
        rows,
        passes=passes,
        constant=tuple(constant_columns(rows.X)),
    )


def _of_observed(data: ObservedData, plan: Plan, frame: Frame | None) -> Problem:
    """Rows in memory with gaps or noise: like others, with the likelihood of observed values."""
    _warn_of_light_rows(plan, data.rows, data.count)
    frame, crowding = _row_frame(data, plan, frame)
    within, rounding = data.within(frame), plan.rounding and data.table.noise is None
    scaled = AtomData.of_rows(within.X, data.weights, data.count)
    order, scaled = scaled.order_of_rows(), scaled.in_order()
    likelihood = ObservedLikelihood(
        within.take(order)._replace(one=within.one),
        scaled.weights,
        plan.kind,
        _floor(data.table.X, data.weights, data.count, frame, plan.floor, rounding),
        prior=plan.prior,
        count=data.count,
        to_features=frame.to_features,
        anchor=_anchor(plan, data.share, data.whole),
    )
    likelihood.crowding = None if crowding is None else crowding.at(np.argsort(order))
    if plan.search == "moments" and not data.gaps:  # with gaps, starts from filled rows will do
        scaled = data.debias().within(frame)
    moments = _moments(scaled, frame, plan, gaussian_weights(plan.order), likelihood.floor)
    constant = tuple(constant_columns(data.table.X))
    return Problem(frame, moments, likelihood, data.count, likelihood.floor, constant=constant)


def resize(problem: Problem, data: AtomData | ObservedData, plan: Plan) -> Problem:
    """The same problem for the number of components of another plan.

    Coordinates and rows stay the same. Only the anchor of covariances under gaps depends on the
    number.
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
    """The anchor of covariances if a share of cells are gaps and ``whole`` rows have none."""
    matrices = 1 if plan.kind.common else plan.m
    return plan.kind.anchor(plan.n, share, whole / matrices) if plan.anchored else None


def _of_moments(data: Data, plan: Plan) -> Problem:
    """The problem of moments alone; they may be those of rows in memory."""
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
    """Rows elsewhere: a search on a sample of them, and passes over all.

    If the sample holds every row, they are treated as rows in memory.
    """
    if not plan.polish:
        source, _ = moments_of_blocks(data, plan)
        problem = _of_moments(source, replace(plan, tensors=False))
        return replace(problem, elsewhere=data.elsewhere)
    look = data.first_pass(plan.order if plan.tensors else 2, draw=True)
    tensors, draw, noisy = look.tensors, look.draw, data.elsewhere.noisy
    assert draw is not None
    own = rows_to_fit(draw.rows.X, draw.counts, plan.m, draw.rows.noise, data.elsewhere.names)
    if isinstance(own, AtomData):
        own.device = data.elsewhere.device
    if draw.whole:
        here = mixture_problem(own, plan)
        return replace(here, passes=here.passes + data.elsewhere.n_passes)
    if plan.tensors and not noisy:  # moments of noisy rows may be inconsistent by chance
        check_gaps(tensors)
    observed = noisy or look.gaps > 0
    frame = _frame(own if isinstance(own, ObservedData) else TensorData(tensors), plan)
    drawn = mixture_problem(own, replace(plan, tensors=False), frame)
    some = drawn.likelihood
    assert isinstance(some, RowLikelihood)
    some.count = tensors.weight
    likelihood = BlockLikelihood(
        data.elsewhere,
        frame,
        plan.kind,
        some.floor,
        prior=plan.prior,
        observed=observed,
        # One pass does not count the rows without gaps; this is their number if gaps are
        # independent of each other.
        anchor=_anchor(plan, look.gaps, tensors.weight * (1 - look.gaps) ** plan.n),
        count=tensors.weight,
        some=some,
    )
    explicit = plan.tensors or plan.search != "estimate" or observed
    source = TensorData(tensors, tensors.weight) if explicit else data
    scaled, weights = source.within(frame), gaussian_weights(plan.order)
    moments = _moments(scaled, frame, plan, weights, some.floor)
    return Problem(
        frame,
        moments,
        likelihood,
        tensors.weight,
        some.floor,
        elsewhere=data.elsewhere,
        constant=drawn.constant,
    )


def moments_of_blocks(data: BlockData, plan: Plan) -> tuple[Data, float]:
    """The source of the moments of rows elsewhere, and the share of their cells that are gaps.

    Rows with noise are always summed up as tensors.
    """
    if not plan.tensors and not data.elsewhere.noisy:
        return data, 0.0
    look = data.first_pass(plan.order, draw=False)
    if not data.elsewhere.noisy:  # moments of noisy rows may be inconsistent by chance
        check_gaps(look.tensors)
    return TensorData(look.tensors, look.tensors.weight), look.gaps


def _frame(data: Data | ObservedData, plan: Plan) -> Frame:
    """Centred and scaled coordinates; with the paper's ω, about the origin and in one unit."""
    frame = data.frame(plan.kind)
    return frame if plan.omega is None else Frame.about_the_origin(plan.kind, frame)


def _row_frame(
    data: AtomData | ObservedData, plan: Plan, frame: Frame | None
) -> tuple[Frame, Crowding | None]:
    """The coordinates for rows in memory, unless ``frame`` is given.

    If outliers are allowed, the coordinates leave them out, and the crowding tells which they are.
    """
    if frame is not None:
        return frame, None
    if plan.outliers is None or plan.omega is not None:
        return _frame(data, plan), None
    return frame_without_outliers(data, plan.kind)


def _moments(
    scaled: Data, frame: Frame, plan: Plan, weights: list[float], floor: Bound
) -> MixtureMoments:
    """The moments of data in a frame; ``weights`` of the orders are for plans that have none."""
    model = plan.model(plan.weights(frame.unit, weights))
    return MixtureMoments(model, scaled, plan.init, plan.n_init, floor)


def tensors_of(data: Data, order: int) -> TensorData:
    """The moments from one pass over rows in memory."""
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
    """Warn if the rows weigh little beside the prior."""
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
    """The least covariance in a frame, which with ``rounding`` allows for the rounding of columns.

    A constant column has no variance to which the least one could be relative.
    """
    hidden, rounded = least_variances(X), rounding_variances(X, weights, count)
    if rounding:
        hidden = np.maximum(hidden, rounded)
    constant = constant_columns(X)
    if len(constant) and not frame.kind.one_unit:
        steps = np.sqrt(12 * rounded[rounded > 0])
        values = np.nanmax(X[:, constant], axis=0)
        fresh = constant_variances(values, steps, frame.units[constant])
        hidden[constant] = np.maximum(hidden[constant], fresh)
    return frame.bound(least, hidden)
