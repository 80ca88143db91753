"""The likelihood of rows on a cluster: one pass a step."""

from __future__ import annotations

from functools import reduce

import numpy as np

from momentmix.cluster.rows import DaskRows, plus
from momentmix.covariance import Kind, LogNormalPrior
from momentmix.data.frame import Frame
from momentmix.data.parameters import Parameters
from momentmix.likelihood.density import Density, Sums
from momentmix.likelihood.em import Likelihood
from momentmix.support.array import to_numpy


class ClusterLikelihood(Likelihood):
    """EM whose sums are made where the rows are."""

    def __init__(
        self,
        rows: DaskRows,
        frame: Frame,
        kind: Kind,
        floor: float,
        variance: float | None = None,
        prior: LogNormalPrior | None = None,
    ) -> None:
        super().__init__(kind, floor, variance, prior)
        self.rows, self.frame = rows, frame

    def sums(self, parameters: Parameters, groups: int = 1) -> Sums:
        density = Density.of(self.kind, parameters, groups)
        weight, *sums = self.rows.total(_em_sums, self.frame, self.kind, density)
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
