"""The problem of moments with outliers: a fit through a Gaussian window.

A single distant row can dominate fourth moments. So rows are down-weighted with distance, by a
Gaussian window about the rows that have neighbours. Moments of rows with such weights are again
those of a mixture (window.py). They are matched like any others, and the effect of the window on
the parameters is undone in closed form. Weights then sum to the share of rows that belong to the
mixture.

A uniform background looks like a component of the window's own shape. To remove it changed little,
because so narrow a window leaves little of it. The price of a narrow window is that a small cluster
far from all others is taken for outliers.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from momentmix.data.crowding import frame_without_outliers
from momentmix.data.observed import ObservedData
from momentmix.data.parameters import Parameters
from momentmix.data.sources import AtomData, Data
from momentmix.data.window import Window
from momentmix.fitting.building import mixture_problem
from momentmix.fitting.plan import Plan
from momentmix.fitting.problem import Problem
from momentmix.matching.fit import Fit
from momentmix.support.warnings import CollapseWarning, warn_user

#: The variance of the window is WINDOW times the number of features, or LEAST_FEATURES if there are
#: fewer, in units of the variance of rows that have neighbours. It was chosen by the errors of
#: means with and without outliers: a wider window lets more of these in, a narrower wastes rows.
WINDOW, LEAST_FEATURES = 0.25, 2
#: The largest variance of a component, in the same units. The window shows little of wider ones.
#: This is a round number that was not tuned.
WIDEST = 4.0


class WindowedMoments:
    """The moments of rows seen through a window, and fits of all rows to them.

    ``seen`` is the problem of the weighted rows, ``mass`` is the sum of their weights, and ``most``
    the largest share of outliers.
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
        """The fit of all rows that follows from a fit through the window."""
        parameters = self.seen.frame.back(fit.parameters)
        wide = self.window.too_wide(parameters)
        if np.any(wide) and not fit.interrupted:
            warn_user(
                f"{np.count_nonzero(wide)} of {len(wide)} covariances are wider than rows near the "
                "middle can show, and were bounded; ask for fewer components, or use "
                "GaussianMixture",
                CollapseWarning,
            )
        return replace(fit, parameters=self._out_of(parameters), bound=self._bound(fit.bound))

    def _out_of(self, parameters: Parameters) -> Parameters:
        """Undo the window; weights then sum to 1 less the share of outliers, at most ``most``."""
        found = self.window.out_of(parameters._replace(weights=self.mass * parameters.weights))
        total = float(np.sum(found.weights))
        return found._replace(weights=found.weights * (np.clip(total, 1 - self.most, 1.0) / total))

    def _bound(self, bound: float) -> float:
        """A lower bound of variances through the window as one for all rows, or a bit more."""
        size = np.linalg.norm(np.atleast_2d(self.seen.frame.factor), 2)
        variance, window = bound * float(size) ** 2, self.window
        if variance > 0:
            variance /= max(1 - variance / window.variance, window.variance / WIDEST)
        return variance


def windowed_problem(data: Data | ObservedData, plan: Plan, most: float) -> Problem:
    """The problem of a moment fit in which up to the share ``most`` of the rows are outliers."""
    if not isinstance(data, AtomData):
        raise ValueError(
            "outliers need complete and exact rows in memory where moments are fitted, and these "
            "have gaps or errors, or are elsewhere; use GaussianMixture, or outliers=None"
        )
    if plan.omega is not None:
        raise ValueError(
            f"omega={plan.omega:g} refers to the origin of X, which a fit of moments with outliers "
            "does not know; give order_weights, or use outliers=None"
        )
    frame, _ = frame_without_outliers(data, plan.kind)
    window = Window(plan.kind, plan.n, WINDOW * max(plan.n, LEAST_FEATURES), WIDEST)
    scaled = data.within(frame)
    weights = window.weights(scaled.X) * (1 / len(data.X) if data.weights is None else data.weights)
    mass = float(weights.sum())
    rows = AtomData.of_rows(scaled.X, weights / mass, data.count)
    seen = mixture_problem(rows, plan)
    moments = WindowedMoments(seen, window, mass, most)
    return Problem(frame, moments, None, data.count, plan.floor, passes=1 + seen.passes)
