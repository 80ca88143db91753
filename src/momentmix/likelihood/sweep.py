"""Solutions of 1, 2, 3 and more components, each found from those of the numbers beside it.

One component more is a cut through the solution at hand, one less a merge of two. So what one
number has learnt of the data serves the next, in both directions, until nothing improves: as a
repair exchanges a split for a merge, a way up and down does.
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

#: Cuts, and merges, of a solution that are looked at, and the steps that each takes first.
TRIES, FIRST_STEPS = 12, 5
#: Nats a row to which EM climbs on the way, and by how many a solution has to be better.
ROUGH, GAIN = 1e-4, 3e-4
#: Times that the numbers are gone through, down and up.
ROUNDS = 3


class Sweep:
    """Solutions by their number of components, as far as they are known: ``found``.

    ``likelihood_of`` gives the likelihood of a mixture of m components, which are all of the same
    rows. The solutions are rough, good enough to be compared; ``callback`` is told of each.
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
        self._unused: dict[int, set[int]] = {}  # numbers to which a solution has not led yet

    def grow(self) -> None:
        """One component more than so far, from cuts through the last solution and from k-means."""
        m = len(self.found) + 1
        likelihood = self.likelihood_of(m)
        if m == 1:
            self._consider(1, lambda: [likelihood.single()])
        else:
            self._step(m - 1, m, plain=True)

    def settle(self, numbers: Iterable[int]) -> None:
        """Down and up again through neighbouring numbers, as long as something improves."""
        pairs = [(m, m + 1) for m in sorted(numbers) if m + 1 in self.found]
        for _ in range(ROUNDS):
            better = [self._step(high, low) for low, high in reversed(pairs) if low > 1]
            better += [self._step(low, high) for low, high in pairs]
            if not any(better):
                return

    def _step(self, source: int, target: int, plain: bool = False) -> bool:
        """From the solution of one number to that of the next, unless it has been there."""
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
        """EM from the best of some starts; whether it leads to a better solution than is known."""
        likelihood, before = self.likelihood_of(m), self.found.get(m)
        known = -np.inf if before is None else before.log_posterior
        try:
            made = starts()
            if not made:  # nothing can be cut
                made = [next(plain_starts(likelihood, m, self.rng))]
            trials = likelihood.look_at(made, FIRST_STEPS)
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
