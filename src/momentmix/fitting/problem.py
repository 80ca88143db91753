"""The problem of a fit: rows or moments in coordinates of their own, and what is fitted to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np
from scipy.linalg import null_space

from momentmix.blocks.block_rows import BlockRows
from momentmix.covariance import Anchor, Bound, Kind
from momentmix.distributions.mixture import Background, Mixture
from momentmix.fit import Fit, Parameters, outlier_share
from momentmix.fitting.em import Likelihood, LikelihoodHere, Target
from momentmix.fitting.plan import Plan
from momentmix.matching.estimate import MixtureMoments
from momentmix.matching.orders import gaussian_weights, sampling_weights
from momentmix.rows.data import AtomData, Data, Gaps, MomentData, RowData, TensorData, rows_to_fit
from momentmix.rows.elsewhere import BlockData, ElsewhereRows
from momentmix.rows.frame import LARGE_DATA, Frame
from momentmix.rows.incomplete import check_gaps
from momentmix.rows.memory import Box, Density, Rows
from momentmix.rows.screening import (
    Crowding,
    constant_columns,
    constant_variances,
    least_variances,
    repeating_columns,
    rounding_variances,
    warn_of_dominance,
)
from momentmix.support.array import to_numpy
from momentmix.support.messages import warn_user


class Moments(Protocol):
    """The moments of data, and fits to them alone."""

    def single(self) -> Fit:
        """One component, which has the mean and the covariance of the data."""

    def estimate(self, rng: np.random.Generator, start: Parameters | None, verbose: int) -> Fit:
        """The moment estimate, from a start if there is one."""


class FrameLike(Protocol):
    """The coordinates of a fit, and the maps between them and those of X."""

    kind: Kind  # of covariances in the coordinates of X
    log_volume: float

    @property
    def factor(self) -> Bound:
        """The factor that takes differences to the coordinates of X."""

    def apply(self, X: np.ndarray) -> np.ndarray:
        """Points in the coordinates of the fit."""

    def forward(self, parameters: Parameters) -> Parameters:
        """Parameters in the coordinates of the fit."""

    def back(self, parameters: Parameters) -> Parameters:
        """Parameters in the coordinates of X."""


#: A component is exact in a column if its variance is at most EXACT times the least there. A column
#: takes part in a direction if its share of it is more than TAKES_PART of the largest. Both are
#: round numbers that were not tuned; they decide which columns are named.
EXACT, TAKES_PART = 2.0, 0.1


class Floors(NamedTuple):
    """The least covariances of components, and the columns that they come from."""

    bound: Bound  # no covariance is below it; in the coordinates of the fit
    bare: Bound  # the same without what columns that repeat values add
    variances: np.ndarray  # the least variance of each column, in the units of X; (n,)
    repeating: np.ndarray  # columns that repeat values, on a grid or off it; (n,)
    units: np.ndarray  # the deviations of the columns; (n,)


class Collapse(NamedTuple):
    """Which components are not to be trusted.

    Where rows share a value of a column, a component may be as narrow as the column's resolution.
    It has not collapsed then: the floor is the same for all fits, so their likelihoods compare. Nor
    does a component collapse that rests on few rows under a prior: the logarithm of its variance in
    a direction lies below the common one by no more than its rows over those of the prior. But its
    shape is mostly that of the others, so there is a warning.
    """

    flat: np.ndarray  # components without extent in a direction that no shared value explains; (m,)
    thin: np.ndarray  # components that rest on too few samples; (m,)
    counts: np.ndarray  # the number of samples that each rests on; (m,)
    columns: tuple[int, ...] = ()  # the columns in which flat components have no extent
    held: bool = False  # thin components have a shape nevertheless, by the prior

    @property
    def components(self) -> np.ndarray:
        """The components that have collapsed for either reason; (m,) booleans."""
        return np.asarray(self.flat if self.held else self.flat | self.thin)


@dataclass(frozen=True)
class Problem:
    """Coordinates, the likelihood if there is one, and moments; nothing here is random.

    ``moments`` makes the moments that a plan asks for. ``floor`` bounds covariances from below, in
    the coordinates of the fit; it is None if they are known.
    """

    frame: FrameLike
    moments: Callable[[Plan], Moments]
    likelihood: Likelihood[Rows] | None
    count: float  # the number of samples
    floor: Bound | None
    rows: AtomData | None = None  # complete rows in memory, in the coordinates of X
    elsewhere: BlockRows | None = None  # rows elsewhere, which count their own passes
    passes: int = 0  # the passes over rows in memory so far
    definite: bool = True  # covariances can be inverted; known noise may be singular
    constant: tuple[int, ...] = ()  # columns that are constant in the rows
    dependent: tuple[int, ...] = ()  # columns that are copies or exact sums of others
    floors: Floors | None = None  # of rows, with ``floor`` as their bound

    @property
    def here(self) -> LikelihoodHere | None:
        """The likelihood of rows in memory, all or a sample; None if there are none."""
        return None if self.likelihood is None else self.likelihood.here

    @property
    def all_here(self) -> LikelihoodHere | None:
        """The likelihood of rows in memory, if these are all rows."""
        return self.here if self.elsewhere is None else None

    @property
    def widths(self) -> np.ndarray | None:
        """The widths of the box of a background, in the units of X, if there is one; (n,)."""
        box = None if self.likelihood is None else self.likelihood.target.box
        return None if box is None else box.widths

    def collapse(self, fit: Fit) -> Collapse | None:
        """Which components have collapsed; None if covariances are known."""
        if self.floor is None:
            return None
        kind, (weights, means, covariances) = self.frame.kind, fit.parameters
        counts = weights * self.count
        bare = self.floor if self.floors is None else self.floors.bare
        flat = np.broadcast_to(self._on_floor(covariances, bare, means.shape[1]), weights.shape)
        if self.likelihood is None and fit.bound > 0:  # widths that the moments do not determine
            flat = flat | kind.on_floor(covariances, fit.bound)
        thin = kind.too_few(counts, means.shape[1]) & (len(weights) > 1)
        held = fit.strengths.alike > 0
        return Collapse(flat, thin, counts, self._flattened(fit, flat), held)

    def _on_floor(self, covariances: np.ndarray, floor: Bound, n: int) -> np.ndarray:
        """Which covariances have no extent in some direction in which all rows together have some.

        A constant column is also an axis of its own in the coordinates of the fit.
        """
        kind = self.frame.kind
        if kind.one_unit or not (self.constant or self.dependent):
            return kind.on_floor(covariances, floor)
        if kind.thin:
            kept = np.delete(np.arange(n), self.constant)
            floor = np.broadcast_to(floor, n)[kept]
            covariances = np.asarray(kind.of(covariances, n).marginal(kept).array)
        else:
            null = getattr(self.frame, "null", None) if self.dependent else None
            axes = np.delete(np.eye(n), self.constant, axis=1)
            basis = axes if null is None else null_space(null.T)
            floor = basis.T @ (floor if np.ndim(floor) else floor * np.eye(n)) @ basis
            covariances = np.asarray(kind.of(covariances, n).project(basis).array)
        return kind.on_floor(covariances, floor) if covariances.size else np.zeros(1, dtype=bool)

    def _flattened(self, fit: Fit, flat: np.ndarray) -> tuple[int, ...]:
        """The columns that take part in the narrowest direction of each flat component."""
        kind, n = self.frame.kind, fit.parameters.means.shape[1]
        kept = np.setdiff1d(np.arange(n), self.constant)
        if self.floors is None or kind.one_unit or not np.any(flat) or len(kept) == 0:
            return ()
        own = kind.of(np.asarray(self.frame.back(fit.parameters).covariances), n)
        units = self.floors.units[kept]
        if kind.thin:  # its narrowest direction is a column
            widths = np.asarray(own.spread())[:, kept] / units**2
            return tuple(
                kept[np.unique((widths if own.shared else widths[flat]).argmin(1))].tolist()
            )
        some = np.asarray(own.matrices())[:, kept][:, :, kept] / np.outer(units, units)
        narrowest = np.abs(np.linalg.eigh(some if own.shared else some[flat])[1][:, :, 0])
        part = narrowest > TAKES_PART * narrowest.max(axis=1, keepdims=True)
        return tuple(kept[part.any(axis=0)].tolist())

    def exact_columns(self, fit: Fit) -> tuple[int, ...]:
        """The columns in which a component is as narrow as it may be, on a value of many rows."""
        if self.floors is None or self.frame.kind.one_unit:
            return ()
        kind, n = self.frame.kind, fit.parameters.means.shape[1]
        own = kind.of(np.asarray(self.frame.back(fit.parameters).covariances), n)
        variances = np.asarray(own.spread())
        exact = (variances <= EXACT * self.floors.variances) & self.floors.repeating
        return tuple(np.setdiff1d(np.flatnonzero(exact.any(axis=0)), self.constant).tolist())

    def restore(self, fit: Fit) -> Fit:
        """The fit in the coordinates of X."""
        parameters, shift = self.frame.back(fit.parameters), self.frame.log_volume
        plain = fit.log_likelihood
        if self.likelihood is not None and self.likelihood.target.sharpness != 1:
            plain = self.likelihood.rows.log_likelihood(fit.parameters, self.likelihood.target.box)
        value = plain - shift
        if self.rows is not None and self._is_scored(self.rows, fit.parameters):
            # Rounding in the units of X can change the density of a narrow peak, so the value is
            # computed from the parameters in these units.
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

    def _is_scored(self, rows: AtomData, parameters: Parameters) -> bool:
        """Whether the log-likelihood is computed again: it costs little, or a peak needs it."""
        small, likelihood = rows.X.size <= LARGE_DATA, self.likelihood
        return small or (
            likelihood is not None
            and Density.of(likelihood.target.kind, parameters).peaks is not None
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
        np.asarray(covariances, order="C"),
        kind.plain().name,
        feature_names=names,
        background=background,
    )


def mixture_problem(data: Data, plan: Plan) -> Problem:
    """The problem of a mixture whose covariances are to be found."""
    if not plan.polish:
        return _of_moments(data, plan)
    if isinstance(data, BlockData):
        return _of_blocks(data, plan)
    if isinstance(data, RowData):
        return _of_rows(data, plan)
    raise ValueError("moments have no likelihood; fit rows, or use MomentMixture")


def with_background(problem: Problem, widths: np.ndarray, most: float) -> Problem:
    """The problem with a background over a box of these widths, in the units of X."""
    likelihood = problem.likelihood
    if likelihood is None:
        return problem
    target = replace(likelihood.target, box=Box(widths, problem.frame.log_volume, most))
    return replace(problem, likelihood=replace(likelihood, target=target))


def _of_rows(data: RowData, plan: Plan) -> Problem:
    """Rows in memory: the likelihood is maximised, and moments can only be starts."""
    _warn_of_light_rows(plan, data.rows, data.count)
    frame, crowding = _row_frame(data, plan)
    floors = floors_of(data, frame, plan)
    rows = data.rows_within(frame, plan.kind, crowding)
    target = target_of(data, plan, frame, floors)

    def moments(plan: Plan) -> MixtureMoments:
        order = plan.model.order
        source, weights = AtomData.of_memory(rows), gaussian_weights(order)
        if plan.search == "moments" and rows.complete:  # weighted by the noise of these rows
            weights = sampling_weights(source.X, source.weights, order)
        matched: MomentData = source.matched(order, plan.tensors)
        if plan.search == "moments" and data.gaps is not None and not data.gaps.share:
            matched = data.matched(order, tensors=False).within(frame)
        return _moments(matched, frame, plan, weights, target.floor)

    constant = tuple(constant_columns(data.X).tolist())
    return Problem(
        frame,
        moments,
        Likelihood(rows, target),
        data.count,
        target.floor,
        data if isinstance(data, AtomData) else None,
        passes=int(plan.tensors),
        constant=constant,
        dependent=dependent_columns(frame, data.rows, constant),
        floors=floors,
    )


def target_of(data: RowData, plan: Plan, frame: Frame, floors: Floors) -> Target:
    """What a plan fits to rows in memory, in the coordinates of a frame."""
    box = None
    if plan.outliers is not None and plan.outliers.widths is not None:
        box = Box(plan.outliers.widths, frame.log_volume, plan.outliers.most)
    anchor = _anchor(plan, data.gaps)
    sharpness, bound = plan.sharpness, floors.bound
    prior = None if plan.prior is None else plan.prior.along(frame.factor)
    target = Target(plan.kind, bound, None, prior, anchor, box, sharpness)
    return target.beside(data.count)


def resize(problem: Problem, data: RowData, plan: Plan) -> Problem:
    """The same problem for the number of components of another plan.

    Coordinates and rows stay the same. Only the anchor of covariances under gaps depends on the
    number.
    """
    likelihood = problem.likelihood
    if likelihood is None:
        return problem
    target = replace(likelihood.target, anchor=_anchor(plan, data.gaps))
    return replace(problem, likelihood=replace(likelihood, target=target))


def _anchor(plan: Plan, gaps: Gaps | None) -> Anchor | None:
    """The anchor of covariances of rows with gaps, if the plan asks for it."""
    if gaps is None or not plan.anchored:
        return None
    matrices = 1 if plan.kind.common else plan.m
    return plan.kind.anchor(plan.n, gaps.share, gaps.whole / matrices)


def _of_moments(data: Data, plan: Plan) -> Problem:
    """The problem of moments alone; they may be those of rows in memory."""
    if isinstance(data, AtomData) and data.atoms.covariance.zero:
        warn_of_dominance(data.X, data.weights)
    elsewhere = data.elsewhere if isinstance(data, BlockData) else None
    matched = data.matched(plan.model.order, plan.tensors)
    frame = _frame(matched, plan)
    scaled = matched.within(frame)

    def moments(plan: Plan) -> MixtureMoments:
        return _moments(scaled, frame, plan, gaussian_weights(plan.model.order), plan.floor)

    floor, passes = moments(plan).model.floor, int(plan.tensors)
    return Problem(frame, moments, None, matched.count, floor, elsewhere=elsewhere, passes=passes)


def _of_blocks(data: BlockData, plan: Plan) -> Problem:
    """Rows elsewhere: a search on a sample of them, and passes over all.

    If the sample holds every row, they are treated as rows in memory.
    """
    elsewhere = data.elsewhere
    tensors, draw = data.look(plan.model.order if plan.tensors else 2)
    own = rows_to_fit(
        draw.rows.X, draw.counts, plan.m, draw.rows.noise, elsewhere.names, elsewhere.device
    )
    if draw.whole:
        here = _of_rows(own, plan)
        return replace(here, passes=here.passes + elsewhere.n_passes)
    if plan.tensors and not elsewhere.noisy:  # moments of noisy rows may be inconsistent by chance
        check_gaps(tensors)
    count, share = tensors.weight, 1 - float(np.mean(tensors.presence))
    incomplete = elsewhere.noisy or share > 0
    frame = _frame(own if own.gaps is not None else TensorData(tensors), plan)
    # One pass does not count the rows without gaps; this is their number if gaps are independent.
    gaps = Gaps(share, count * (1 - share) ** plan.n)
    floors = floors_of(own, frame, plan)
    target = replace(target_of(own, plan, frame, floors), anchor=_anchor(plan, gaps))
    drawn = own.rows_within(frame, plan.kind).counted_as(count)
    rows = ElsewhereRows(elsewhere, frame, plan.kind, count, incomplete, drawn)
    constant = tuple(constant_columns(own.X).tolist())

    def moments(plan: Plan) -> MixtureMoments:
        explicit = plan.tensors or plan.search != "estimate" or incomplete
        source: MomentData = TensorData(tensors, count) if explicit else data
        weights = gaussian_weights(plan.model.order)
        return _moments(source.within(frame), frame, plan, weights, target.floor)

    return Problem(
        frame,
        moments,
        Likelihood(rows, target),
        count,
        target.floor,
        elsewhere=elsewhere,
        constant=constant,
        dependent=dependent_columns(frame, own.rows, constant),
        floors=floors,
    )


def _frame(data: Data, plan: Plan) -> Frame:
    """Centred and scaled coordinates; with the paper's ω, about the origin and in one unit."""
    frame = data.frame(plan.kind)
    return Frame.about_the_origin(plan.kind, frame) if plan.at_the_origin else frame


def _row_frame(data: RowData, plan: Plan) -> tuple[Frame, Crowding | None]:
    """The coordinates for rows in memory.

    If outliers are allowed, the coordinates leave them out, and the crowding tells which they are.
    """
    if plan.outliers is None or plan.at_the_origin:
        return _frame(data, plan), None
    crowding = Crowding.of(data.filled(plan.kind), data.counts)
    return data.take(crowding.in_a_crowd()).frame(plan.kind), crowding


def _moments(
    scaled: MomentData, frame: Frame, plan: Plan, weights: list[float], floor: Bound
) -> MixtureMoments:
    """The moments of data in a frame; ``weights`` of the orders are for models that have none."""
    return MixtureMoments(plan.model.weigh(frame.unit, weights), scaled, plan.n_init, floor)


def _warn_of_light_rows(plan: Plan, p: int, count: float) -> None:
    """Warn if the rows weigh little beside the prior."""
    if plan.prior is not None and count < 0.1 * p:
        warn_user(
            f"the weights of {p} rows sum to {count:g}, and count as so many rows beside "
            "the prior; scale them to sum to the number of rows, or use prior=None",
            UserWarning,
        )


def floors_of(data: RowData, frame: Frame, plan: Plan) -> Floors:
    """The least covariances in a frame, which allow for the rounding of columns if that is asked.

    Where a column repeats values without a step, or with one that is tiny beside its deviation, the
    least variance that the plan allows anywhere counts as hidden by rounding. A constant column has
    no variance to which the least one could be relative.
    """
    X = data.X
    hidden, rounded = least_variances(X), rounding_variances(X, data.weights, data.count)
    bare, repeating = frame.bound(plan.floor, hidden), np.zeros(data.n, dtype=bool)
    if plan.rounding and not data.noisy:
        repeating = (rounded > 0) | repeating_columns(X, data.weights)
        shared = np.maximum(rounded, plan.floor * frame.units**2)
        hidden = np.where(repeating, np.maximum(hidden, shared), hidden)
    constant = constant_columns(X)
    if len(constant) and not frame.kind.one_unit:
        steps = np.sqrt(12 * rounded[rounded > 0])
        values = np.nanmax(X[:, constant], axis=0)
        fresh = constant_variances(values, steps, frame.units[constant])
        hidden[constant] = np.maximum(hidden[constant], fresh)
    least = plan.floor * frame.units**2 + hidden
    return Floors(frame.bound(plan.floor, hidden), bare, least, repeating, frame.units)


def dependent_columns(frame: Frame, rows: int, constant: Sequence[int]) -> tuple[int, ...]:
    """The columns that are copies or exact sums of others, in a frame of so many distinct rows.

    Few rows fill few directions, whatever the columns are.
    """
    if frame.null is None or rows - 1 <= frame.n - frame.null.shape[1]:
        return ()
    part = np.linalg.norm(frame.null, axis=1) > TAKES_PART / np.sqrt(frame.n)
    return tuple(np.setdiff1d(np.flatnonzero(part), constant).tolist())
