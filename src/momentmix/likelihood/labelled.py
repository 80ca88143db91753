"""The likelihood of rows whose labels are known: each label has components of its own.

The components of all labels form one long mixture, in which a row can belong only to the components
of its label. So the prior holds the covariances of all labels together, and all labels share a
tied covariance.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from momentmix.data.parameters import Parameters
from momentmix.likelihood.density import Sums
from momentmix.likelihood.em import Likelihood
from momentmix.likelihood.rows import RowLikelihood


class LabelledLikelihood(Likelihood):
    """The likelihood of the rows of several labels, each with components of its own.

    ``parts`` are the likelihoods of the rows of each label, in the same coordinates, and ``sizes``
    the numbers of their components. Bounds and priors come from ``whole``, the likelihood of all
    rows.
    """

    def __init__(
        self, parts: Sequence[RowLikelihood], sizes: Sequence[int], whole: Likelihood
    ) -> None:
        count = float(sum(part.count for part in parts))
        super().__init__(whole.kind, whole.floor, None, whole.prior, count, whole.anchor)
        self.parts = parts
        self._ends = [0, *np.cumsum(sizes).tolist()]

    @property
    def complete(self) -> bool:
        return all(part.complete for part in self.parts)

    def start(self, mixtures: Sequence[Parameters]) -> Parameters:
        """One EM step from a mixture for each label."""
        return self.maximise(self._sums(mixtures))

    def sums(self, parameters: Parameters, groups: int = 1) -> Sums:
        assert groups == 1  # only the search takes several mixtures at once, and there is none here
        return self._sums(self.separate(parameters))

    def _sums(self, mixtures: Sequence[Parameters]) -> Sums:
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
