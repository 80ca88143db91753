"""The problem of a fit: its coordinates, and the data there as moments and as a likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from momentmix.blocks.rows import BlockRows
from momentmix.covariance import Bound, Kind
from momentmix.data.content import LARGE_DATA
from momentmix.data.parameters import Parameters, outlier_share
from momentmix.data.sources import AtomData
from momentmix.distributions.background import Background
from momentmix.distributions.mixture import Mixture
from momentmix.likelihood.density import Density
from momentmix.likelihood.em import Likelihood
from momentmix.matching.fit import Fit
from momentmix.support.array import to_numpy


class Moments(Protocol):
    """The moments of data, and fits to them alone."""

    def single(self) -> Fit:
        """One component, which has the mean and the covariance of the data."""

    def guess(self, rng: np.random.Generator) -> Parameters:
        """Random components, for a fit that is interrupted before its first start."""

    def estimate(self, rng: np.random.Generator, start: Parameters | None, verbose: int) -> Fit:
        """The moment estimate, from a start if there is one."""


class Coordinates(Protocol):
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


class Collapse(NamedTuple):
    """Which components are not to be trusted; all (m,)."""

    flat: np.ndarray  # components without extent in some direction, constant columns apart
    thin: np.ndarray  # components that rest on too few samples
    counts: np.ndarray  # the number of samples that each rests on


@dataclass(frozen=True)
class Problem:
    """Coordinates, moments, and the likelihood if there is one; nothing here is random.

    ``floor`` bounds covariances from below, in the coordinates of the fit; it is None if they are
    known.
    """

    frame: Coordinates
    moments: Moments
    likelihood: Likelihood | None
    count: float  # the number of samples, as far as it is known before a pass
    floor: Bound | None
    rows: AtomData | None = None  # rows in memory, in the coordinates of X
    elsewhere: BlockRows | None = None  # rows elsewhere, which count their own passes
    passes: int = 0  # the passes over rows in memory so far
    definite: bool = True  # covariances can be inverted; known noise may be singular
    widths: np.ndarray | None = None  # of the box of a background, in the units of X; (n,)
    constant: tuple[int, ...] = ()  # columns that are constant in the rows

    def collapse(self, fit: Fit) -> Collapse | None:
        """Which components have collapsed; None if covariances are known."""
        if self.floor is None:
            return None
        kind, (weights, means, covariances) = self.frame.kind, fit.parameters
        counts = weights * (self.count if self.likelihood is None else self.likelihood.count)
        flat = np.broadcast_to(self._on_floor(covariances), weights.shape)
        if self.likelihood is None and fit.bound > 0:  # widths that the moments do not determine
            flat = flat | kind.on_floor(covariances, fit.bound)
        thin = np.zeros(len(weights), dtype=bool)
        if len(weights) > 1:
            thin = kind.too_few(counts, means.shape[1])
        return Collapse(flat, thin, counts)

    def _on_floor(self, covariances: np.ndarray) -> np.ndarray:
        """Which covariances have no extent in some direction, constant columns apart.

        A constant column is also an axis of its own in the coordinates of the fit.
        """
        kind, floor = self.frame.kind, self.floor
        assert floor is not None
        if self.constant and not kind.one_unit:
            n = covariances.shape[-1]
            kept = np.delete(np.arange(n), self.constant)
            if len(kept) == 0:
                return np.zeros(1, dtype=bool)
            covariances = np.asarray(kind.of(covariances, n).marginal(kept).array)
            floor = np.asarray(floor)
            for axis in range(floor.ndim):
                floor = floor.take(kept, axis)
        return kind.on_floor(covariances, floor)

    def restore(self, fit: Fit) -> Fit:
        """The fit in the coordinates of X."""
        parameters, shift = self.frame.back(fit.parameters), self.frame.log_volume
        value = fit.log_likelihood - shift
        if self.rows is not None and self._is_scored(fit.parameters):
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
