"""Solutions of 1, 2, 3 and more components, each found from those with one component more or less.

A component is added by a cut through the solution at hand, and removed by a merge. The sweep goes
up and down through the numbers until nothing improves, which has the effect of repairs: on the way,
a split is exchanged for a merge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from momentmix.data.parameters import Parameters
from momentmix.likelihood.em import EMResult
from momentmix.likelihood.moves import PROMISING
from momentmix.likelihood.resize import grown, shrunk
from momentmix.likelihood.rows import RowLikelihood
from momentmix.likelihood.starts import plain_starts

#: The number of cuts or merges of a solution that are tried, and the first EM steps of each. With
#: three tries, the sweep missed solutions that an ordinary fit of that number found. The steps are
#: as in search.py.
TRIES, FIRST_STEPS = 12, 5
#: The tolerance of EM on the way, and the least gain that counts as an improvement, in nats a row.
#: GAIN is above ROUGH, so that a solution does not seem better because EM went on a little longer.
#: Both are round numbers that were not tuned.
ROUGH, GAIN = 1e-4, 3e-4
#: The most times that the sweep goes down and up. This is a round number that was not tuned; it
#: ends earlier if nothing improves.
ROUNDS = 3


class Sweep:
    """The solutions found so far, by their number of components (``found``).

    ``likelihood_of`` gives the likelihood for m components; all are of the same rows. The solutions
    are rough, but good enough to be compared. ``callback`` is called for each.
    """

    def __init__(
        self,
        likelihood_of: Callable[[int], RowLikelihood],
        rng: np.random.Generator,
        tol: float,
        max_iter: int,
        callback: Callable[[str, float], None] = lambda what, value: None,
    ) -> None:
        self.likelihood_of, self.rng, self.callback = likelihood_of, rng, callback
        self.rough, self.max_iter = max(tol, ROUGH), max_iter
        self.found: dict[int, EMResult] = {}
        self.interrupted, self.n_iter = False, 0
        self._unused: dict[int, set[int]] = {}  # numbers not yet tried from a solution

    def grow(self) -> None:
        """Find a solution with one component more, from cuts of the last one and from k-means."""
        m = len(self.found) + 1
        likelihood = self.likelihood_of(m)
        if m == 1:
            self._consider(1, lambda: [likelihood.single()])
        else:
            self._step(m - 1, m, plain=True)

    def settle(self, numbers: Iterable[int]) -> None:
        """Go down and up again through neighbouring numbers, as long as something improves."""
        pairs = [(m, m + 1) for m in sorted(numbers) if m + 1 in self.found]
        for _ in range(ROUNDS):
            better = [self._step(high, low) for low, high in reversed(pairs) if low > 1]
            better += [self._step(low, high) for low, high in pairs]
            if not any(better):
                return

    def _step(self, source: int, target: int, plain: bool = False) -> bool:
        """Try to reach a better solution of one number from that of its neighbour, once."""
        if self.interrupted or target not in self._unused[source]:
            return False
        self._unused[source].discard(target)
        likelihood, known = self.likelihood_of(target), self.found[source].parameters

        def starts() -> list[Parameters]:
            if target < source:
                return shrunk(likelihood, known)[:TRIES]
            cuts = grown(likelihood, known, self.rng)[:TRIES]
            return [*cuts, next(plain_starts(likelihood, target, self.rng))] if plain else cuts

        return self._consider(target, starts)

    def _consider(self, m: int, starts: Callable[[], list[Parameters]]) -> bool:
        """Run EM from the best of some starts; whether it finds a better solution than is known."""
        likelihood, before = self.likelihood_of(m), self.found.get(m)
        known = -np.inf if before is None else before.log_posterior
        try:
            made = starts()
            if not made:  # nothing can be cut
                made = [next(plain_starts(likelihood, m, self.rng))]
            trials = likelihood.try_steps(made, FIRST_STEPS)
            self.n_iter += len(made) * FIRST_STEPS
            best = max(trials, key=lambda trial: trial.worth)
            if best.log_posterior > known - PROMISING and not best.interrupted:
                best = likelihood.fit(best.parameters, tol=self.rough, max_iter=self.max_iter)
                self.n_iter += best.n_iter
        except KeyboardInterrupt:
            self.interrupted = True
            return False
        self.interrupted = best.interrupted
        if best.log_posterior < known + GAIN:
            return False
        self.found[m] = best
        self._unused[m] = {m - 1, m + 1}
        self.callback("likelihood", best.log_likelihood)
        return True
