"""Rows whose labels are known: one fit for all labels, each of which has components of its own.

The components of all labels form one long mixture, in which a row can belong only to the components
of its label. So the prior holds the covariances of all labels together, and all labels share a tied
covariance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from momentmix.covariance import Kind
from momentmix.distributions.mixture import Mixture
from momentmix.fit import Fit, Parameters, by_weight
from momentmix.fitting.em import Likelihood, Target, single
from momentmix.fitting.plan import Plan
from momentmix.fitting.problem import floors_of, target_of
from momentmix.rows.data import RowData
from momentmix.rows.frame import Frame
from momentmix.rows.memory import Box, MemoryRows, Rows, Sums


class LabelledRows(Rows):
    """The rows of several labels, in the same coordinates.

    ``sizes`` are the numbers of their components. They make the sums of one mixture, without a
    background; no search sees them.
    """

    def __init__(self, parts: Sequence[MemoryRows], sizes: Sequence[int], kind: Kind) -> None:
        self.parts, self.kind = parts, kind
        self.count = float(sum(part.count for part in parts))
        self.complete = all(part.complete for part in parts)
        self._ends = [0, *np.cumsum(sizes).tolist()]

    @property
    def here(self) -> None:
        return None  # no search sees rows of all labels at once

    def sums(
        self,
        parameters: Parameters,
        groups: int = 1,
        box: Box | None = None,
        sharpness: float = 1.0,
    ) -> Sums:
        if groups != 1 or box is not None or sharpness != 1:
            raise NotImplementedError("rows with labels have one mixture and no background")
        return self.sums_of(self.separate(parameters))

    def sums_of(self, mixtures: Sequence[Parameters]) -> Sums:
        """The sums of an EM step from a mixture for each label."""
        value, found = 0.0, []
        for part, mixture in zip(self.parts, mixtures, strict=True):
            share = part.count / self.count
            of_label = part.sums(mixture)
            value += share * float(of_label.log_likelihoods[0])
            found.append([share * sums for sums in of_label[1:]])
        return Sums(np.array([value]), *(np.concatenate(one) for one in zip(*found, strict=True)))

    def separate(self, parameters: Parameters) -> list[Parameters]:
        """The mixture of each label, whose weights sum to 1."""
        weights, means, covariances = parameters
        found = []
        for start, end in pairwise(self._ends):
            own = np.arange(start, end)
            shares = weights[own] / weights[own].sum()
            found.append(
                Parameters(shares, means[own], self.kind.take_components(covariances, own))
            )
        return found


@dataclass(frozen=True)
class LabelledProblem:
    """Coordinates of all rows, the rows of each label in them, and what is fitted to all."""

    frame: Frame
    rows: LabelledRows
    target: Target

    def solve(self, starts: Sequence[Mixture | None], plan: Plan) -> Fit:
        """EM from a mixture for each label, or from one component if there is none."""
        alone = replace(self.target, prior=None)
        mixtures = [
            single(Likelihood(part, alone))
            if start is None
            else self.frame.forward(Parameters.of(start))
            for start, part in zip(starts, self.rows.parts, strict=True)
        ]
        start = self.target.maximise(self.rows.sums_of(mixtures), self.rows.count)
        likelihood = Likelihood(self.rows, self.target)
        return likelihood.fit(start, tol=plan.tol, max_iter=plan.max_iter)

    def mixtures(self, fit: Fit, names: Sequence[str] | None) -> list[Mixture]:
        """The mixture of each label in the coordinates of X."""
        kind, found = self.frame.kind, []
        for parameters in self.rows.separate(fit.parameters):
            ordered = by_weight(kind, self.frame.back(parameters))
            found.append(Mixture(*ordered, kind.name, feature_names=names))
        return found

    def flat(self, fit: Fit) -> np.ndarray:
        """Whether each label has a component without extent in some direction; (labels,)."""
        floor, kind = self.target.floor, self.frame.kind
        parts = self.rows.separate(fit.parameters)
        return np.array([bool(np.any(kind.on_floor(part.covariances, floor))) for part in parts])


def labelled_problem(
    whole: RowData, parts: Sequence[RowData], sizes: Sequence[int], plan: Plan
) -> LabelledProblem:
    """The problem from all rows, the rows of each label, and the numbers of their components."""
    frame = whole.frame(plan.kind)
    rows = [part.rows_within(frame, plan.kind) for part in parts]
    target = target_of(whole, plan, frame, floors_of(whole, frame, plan))
    return LabelledProblem(frame, LabelledRows(rows, sizes, plan.kind), target)
