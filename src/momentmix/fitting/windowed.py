"""The problem of moments where some rows may belong nowhere: a fit through a Gaussian window.

One row far off decides what fourth moments are. So rows count less the farther off they lie, by a
Gaussian window about the rows that have neighbours. Moments of rows that are weighted so are
those of a mixture again (window.py). They are matched as any others, and the window is taken out of
the parameters in closed form. Weights then sum to the share of rows that belong to the mixture.

A uniform background looks like a component of the window's own shape. Taking that out changed
little, because a window as narrow as this one leaves little of it. The price of a narrow window is
that a small cluster far from all others is taken for outliers.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from momentmix.data.crowding import sheltered_frame
from momentmix.data.observed import ObservedData
from momentmix.data.parameters import Parameters
from momentmix.data.sources import AtomData, Data
from momentmix.data.window import Window
from momentmix.fitting.building import mixture_problem
from momentmix.fitting.plan import Plan
from momentmix.fitting.problem import Problem
from momentmix.matching.fit import Fit
from momentmix.support.warnings import CollapseWarning, warn_user

#: The variance of the window for each feature, in units of rows that have neighbours, and the
#: least number of features for which it is taken. Chosen by the errors of means with and without
#: outliers: a wider one lets more of those in, and a narrower one wastes rows.
WINDOW, LEAST_FEATURES = 0.25, 2
#: The largest variance of a component, in the same units.
WIDEST = 4.0


class WindowedMoments:
    """The moments of rows seen through a window, and mixtures of all rows that have them.

    ``seen`` is the problem of the rows as they are seen, and ``mass`` how much they count.
    """

    def __init__(self, seen: Problem, window: Window, mass: float, most: float) -> None:
        self.seen, self.window, self.mass, self.most = seen, window, mass, most

    def single(self) -> Fit:
        return self._of_all_rows(self.seen.moments.single())

    def guess(self, rng: np.random.Generator) -> Parameters:
        return self._out_of(self.seen.frame.back(self.seen.moments.guess(rng)))

    def estimate(self, rng: np.random.Generator, start: Parameters | None, verbose: int = 0) -> Fit:
        if start is not None:
            start = self.window.into(start)
            start = start._replace(weights=start.weights / start.weights.sum())
            start = self.seen.frame.forward(start)
        return self._of_all_rows(self.seen.moments.estimate(rng, start, verbose))

    def _of_all_rows(self, fit: Fit) -> Fit:
        """A fit to what is seen as one of all rows."""
        parameters = self.seen.frame.back(fit.parameters)
        wide = self.window.too_wide(parameters)
        if np.any(wide) and not fit.interrupted:
            warn_user(
                f"{np.count_nonzero(wide)} of {len(wide)} covariances are wider than rows near the "
                "middle tell, and were bounded; ask for fewer components, or use polish='em'",
                CollapseWarning,
            )
        return replace(fit, parameters=self._out_of(parameters), bound=self._bound(fit.bound))

    def _out_of(self, parameters: Parameters) -> Parameters:
        """Without the window; the weights sum to 1 less the share of outliers, which is bounded."""
        found = self.window.out_of(parameters._replace(weights=self.mass * parameters.weights))
        total = float(np.sum(found.weights))
        return found._replace(weights=found.weights * (np.clip(total, 1 - self.most, 1.0) / total))

    def _bound(self, bound: float) -> float:
        """A lower bound of variances that are seen, as one of those of all rows, or a bit more."""
        size = np.linalg.norm(np.atleast_2d(self.seen.frame.factor), 2)
        variance, window = bound * float(size) ** 2, self.window
        if variance > 0:
            variance /= max(1 - variance / window.variance, window.variance / WIDEST)
        return variance


def windowed_problem(data: Data | ObservedData, plan: Plan, most: float) -> Problem:
    """The problem of a moment fit where up to a share of the rows, ``most``, belong nowhere."""
    if not isinstance(data, AtomData):
        raise ValueError(
            "outliers need complete and exact rows in memory with polish=None, and these have gaps "
            "or errors, or are elsewhere; use polish='em', or outliers='none'"
        )
    if plan.omega is not None:
        raise ValueError(
            f"omega={plan.omega:g} refers to the origin of X, which a fit with outliers and "
            "polish=None does not know; give order_weights, or use outliers='none'"
        )
    frame, _ = sheltered_frame(data, plan.kind)
    window = Window(plan.kind, plan.n, WINDOW * max(plan.n, LEAST_FEATURES), WIDEST)
    scaled = data.within(frame)
    weights = window.weights(scaled.X) * (1 / len(data.X) if data.weights is None else data.weights)
    mass = float(weights.sum())
    rows = AtomData.of_rows(scaled.X, weights / mass, data.count)
    seen = mixture_problem(rows, plan)
    moments = WindowedMoments(seen, window, mass, most)
    return Problem(frame, moments, None, data.count, plan.floor, passes=1 + seen.passes)
