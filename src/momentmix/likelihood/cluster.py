"""The likelihood of rows on a cluster: one pass a step."""

from __future__ import annotations

from functools import reduce

import numpy as np

from momentmix.cluster.rows import DaskRows, plus
from momentmix.covariance import Anchor, Kind, LogNormalPrior
from momentmix.data.frame import Frame
from momentmix.data.observed import CompletedRows, shifts_of_gaps
from momentmix.data.parameters import Parameters
from momentmix.likelihood.density import Density, Sums
from momentmix.likelihood.em import Likelihood
from momentmix.likelihood.observed import ObservedLikelihood
from momentmix.observed import ObservedRows, noise_of_rows
from momentmix.support.array import ArrayLike, to_numpy


class ClusterLikelihood(Likelihood):
    """EM whose sums are made where the rows are, which may have gaps and noise if ``observed``."""

    def __init__(
        self,
        rows: DaskRows,
        frame: Frame,
        kind: Kind,
        floor: float,
        variance: float | None = None,
        prior: LogNormalPrior | None = None,
        observed: bool = False,
        anchor: Anchor | None = None,
    ) -> None:
        super().__init__(kind, floor, variance, prior, anchor=anchor)
        self.rows, self.frame, self.observed = rows, frame, observed

    @property
    def complete(self) -> bool:
        return not self.observed

    def sums(self, parameters: Parameters, groups: int = 1) -> Sums:
        if self.observed:
            found = self.rows.total(_observed_sums, self.frame, self.kind, parameters, groups)
        else:
            density = Density.of(self.kind, parameters, groups)
            found = self.rows.total(_em_sums, self.frame, self.kind, density)
        weight, *sums = found
        self.count = float(weight)
        return Sums(*(part / weight for part in sums))


def _em_sums(
    X: np.ndarray, weights: np.ndarray | None, frame: Frame, kind: Kind, density: Density
) -> tuple[np.ndarray, ...]:
    Z = frame.apply(X)
    w = np.ones(len(X)) if weights is None else weights
    step = max(256, (4 << 20) // (8 * (2 * Z.shape[1] + density.quadratic.shape[1])))

    def block(rows: slice) -> tuple[np.ndarray, ...]:
        sums = density.step_sums(Z[rows], to_numpy(kind.features(Z[rows])), w[rows])
        return (np.asarray(np.sum(w[rows])), *sums)

    return reduce(plus, (block(slice(a, a + step)) for a in range(0, max(len(Z), 1), step)))


def _observed_sums(
    X: np.ndarray,
    weights: np.ndarray | None,
    frame: Frame,
    kind: Kind,
    parameters: Parameters,
    groups: int,
    noise_covariance: ArrayLike | None = None,
) -> tuple[np.ndarray, ...]:
    told = np.flatnonzero(~np.all(np.isnan(X), axis=1))
    if len(told) == 0:
        return _no_sums(kind, parameters, groups)
    observed = ObservedRows(X, noise_of_rows(noise_covariance, X)).take(told)
    observed = observed.scaled(frame.centre, frame.units)
    w = np.ones(len(told)) if weights is None else weights[told]
    # Where the rows lie does not matter for sums, so nothing stands in for them.
    rows = CompletedRows(observed, np.empty(observed.X.shape), shifts_of_gaps(observed, frame))
    here = ObservedLikelihood(rows, w, kind, 0.0, to_features=frame.to_features)
    return (np.asarray(np.sum(w)), *here.sums(parameters, groups))


def _no_sums(kind: Kind, parameters: Parameters, groups: int) -> tuple[np.ndarray, ...]:
    """Sums over no rows."""
    count, n = parameters.means.shape
    shapes = (), (groups,), (count,), (count, n), (count, kind.width(n))
    return tuple(np.zeros(shape) for shape in shapes)
