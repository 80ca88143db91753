"""The problem of rows whose labels are known, and its solution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from momentmix.data.frame import Frame
from momentmix.data.observed import ObservedData
from momentmix.data.parameters import Parameters, by_weight
from momentmix.data.sources import Data
from momentmix.distributions.mixture import Mixture
from momentmix.fitting.building import mixture_problem
from momentmix.fitting.plan import Plan
from momentmix.likelihood.em import EMResult
from momentmix.likelihood.labelled import LabelledLikelihood
from momentmix.likelihood.rows import RowLikelihood


@dataclass(frozen=True)
class LabelledProblem:
    """Coordinates of all rows, and the likelihood of the rows of each label."""

    frame: Frame
    likelihood: LabelledLikelihood

    def solve(self, starts: Sequence[Mixture | None], plan: Plan) -> EMResult:
        """EM from a mixture for each label, or from one component if there is none."""
        parts = zip(starts, self.likelihood.parts, strict=True)
        mixtures = [
            part.single() if start is None else self.frame.forward(Parameters.of(start))
            for start, part in parts
        ]
        start = self.likelihood.start(mixtures)
        return self.likelihood.fit(start, tol=plan.tol, max_iter=plan.max_iter)

    def mixtures(self, result: EMResult, names: Sequence[str] | None) -> list[Mixture]:
        """The mixture of each label in the coordinates of X."""
        kind, found = self.frame.kind, []
        for parameters in self.likelihood.separate(result.parameters):
            ordered = by_weight(kind, self.frame.back(parameters))
            found.append(Mixture(*ordered, kind.name, feature_names=names))
        return found

    def flat(self, result: EMResult) -> np.ndarray:
        """Whether each label has a component without extent in some direction; (labels,)."""
        floor, kind = self.likelihood.floor, self.frame.kind
        parts = self.likelihood.separate(result.parameters)
        return np.array([bool(np.any(kind.on_floor(part.covariances, floor))) for part in parts])


def labelled_problem(
    whole: Data | ObservedData,
    parts: Sequence[Data | ObservedData],
    sizes: Sequence[int],
    plan: Plan,
) -> LabelledProblem:
    """The problem from all rows, the rows of each label, and the numbers of their components."""
    frame = whole.frame(plan.kind)
    alone = replace(plan, prior=None, rounding=False)  # both are applied to all labels together
    likelihoods = []
    for part in parts:
        likelihood = mixture_problem(part, alone, frame).likelihood
        assert isinstance(likelihood, RowLikelihood)
        likelihoods.append(likelihood)
    of_all = mixture_problem(whole, plan, frame).likelihood
    assert of_all is not None
    return LabelledProblem(frame, LabelledLikelihood(likelihoods, sizes, of_all))
