"""Moment fits with outliers: rows are seen through a Gaussian window.

A single distant row can dominate fourth moments. So each row counts with the weight
w(z) = exp(-‖z‖² / 2t), by a window about the rows that have neighbours. A mixture of Gaussians
stays one: a Gaussian N(μ, Σ) under the window is κ N(μ', Σ') with
    Σ' = (Σ⁻¹ + I/t)⁻¹ = t I - t² (t I + Σ)⁻¹,    μ' = t (t I + Σ)⁻¹ μ,
    κ = E[w(z)] = (2πt)^{n/2} N(0; μ, t I + Σ).
So moments of the weighted rows are matched like any others, and the inverse of these formulas gives
the parameters of all rows without any approximation. Weights then sum to the share of rows that
belong to the mixture.

A uniform background looks like a component of the window's own shape. To remove it changed little,
because so narrow a window leaves little of it. The price of a narrow window is that a small cluster
far from all others is taken for outliers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from momentmix.covariance import Kind
from momentmix.fit import Fit, Parameters
from momentmix.fitting.plan import Plan
from momentmix.fitting.problem import Problem, frame_without_outliers, mixture_problem
from momentmix.rows.data import AtomData, Data
from momentmix.support.messages import CollapseWarning, warn_user
from momentmix.support.stopping import stopped


@dataclass(frozen=True)
class Window:
    """w(z) = exp(-‖z‖² / 2t) for covariances of a kind in n features; ``variance`` is t.

    ``widest`` bounds the variances of components: seen through the window, very wide components
    all have nearly its own shape, so the data would not bound them.
    """

    kind: Kind
    n: int
    variance: float
    widest: float

    def weights(self, Z: np.ndarray) -> np.ndarray:
        """How much each row of Z (p, n) counts, at most 1; (p,)."""
        return np.asarray(np.exp(np.einsum("ij,ij->i", Z, Z) / (-2 * self.variance)))

    def into(self, parameters: Parameters) -> Parameters:
        """A mixture as seen through the window; its weights λκ do not sum to 1."""
        weights, means, covariances = parameters
        widened = covariances + self._shape(len(weights))
        log_kappa, linear = self._through(means, widened)
        inverse = self.kind.precision_cholesky(widened)[0]
        narrowed = self._shape(len(weights)) - self.variance**2 * inverse
        return Parameters(weights * np.exp(log_kappa), self.variance * linear, narrowed)

    def out_of(self, parameters: Parameters) -> Parameters:
        """The mixture that looks as given through the window; the inverse of ``into``.

        Weights above 1, which sampling errors may cause, are scaled so that the largest is 1.
        Covariances that are too wide to be told apart through the window are bounded by ``widest``.
        """
        weights, means, _ = parameters
        left = self.kind.raise_to(self._rest(parameters), self._least)
        linear = self._through(means, left)[1]
        widened = self.variance**2 * self.kind.precision_cholesky(left)[0]
        means = self.variance * linear
        with np.errstate(divide="ignore"):
            logs = np.log(weights) - self._through(means, widened)[0]
        weights = np.exp(logs - max(0.0, float(logs.max())))
        return Parameters(weights, means, widened - self._shape(len(weights)))

    def too_wide(self, parameters: Parameters) -> np.ndarray:
        """Which components are too wide for the window to tell; (m,), or (1,) if common."""
        return self.kind.on_floor(self._rest(parameters), self._least)

    def _shape(self, m: int) -> np.ndarray:
        """The matrix t I of the window for each of m components, in the shape of the type."""
        return self.kind.repeat(m, self.variance * np.eye(self.n))

    def _rest(self, parameters: Parameters) -> np.ndarray:
        """t I - Σ' = t² (t I + Σ)⁻¹, which must be positive."""
        return np.asarray(self._shape(len(parameters.weights)) - parameters.covariances)

    @property
    def _least(self) -> float:
        """The value of t² (t I + Σ)⁻¹ for the widest Σ."""
        return self.variance**2 / (self.variance + self.widest)

    def _through(self, means: np.ndarray, widened: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log κ (m,) and A⁻¹μ (m, n) for covariances A = t I + Σ in the shape of the type."""
        constant, linear, _ = self.kind.log_density_coefficients(means, widened)
        return constant + self.n / 2 * np.log(2 * np.pi * self.variance), linear


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

    def __init__(self, seen: Problem, plan: Plan, window: Window, mass: float, most: float) -> None:
        self.seen, self.moments = seen, seen.moments(plan)
        self.window, self.mass, self.most = window, mass, most

    def single(self) -> Fit:
        return self._of_all_rows(self.moments.single())

    def estimate(self, rng: np.random.Generator, start: Parameters | None, verbose: int = 0) -> Fit:
        if start is not None:
            start = self.window.into(start)
            start = start._replace(weights=start.weights / start.weights.sum())
            start = self.seen.frame.forward(start)
        return self._of_all_rows(self.moments.estimate(rng, start, verbose))

    def _of_all_rows(self, fit: Fit) -> Fit:
        """The fit of all rows that follows from a fit through the window."""
        parameters = self.seen.frame.back(fit.parameters)
        wide = self.window.too_wide(parameters)
        if np.any(wide) and not stopped():
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


def windowed_problem(data: Data, plan: Plan, most: float) -> Problem:
    """The problem of a moment fit in which up to the share ``most`` of the rows are outliers."""
    if not isinstance(data, AtomData):
        raise ValueError(
            "outliers need complete and exact rows in memory where moments are fitted, and these "
            "have gaps or errors, or are elsewhere; use GaussianMixture, or outliers=None"
        )
    if (omega := plan.model.omega) is not None:
        raise ValueError(
            f"omega={omega:g} refers to the origin of X, which a fit of moments with outliers "
            "does not know; give order_weights, or use outliers=None"
        )
    frame, _ = frame_without_outliers(data, plan.kind)
    window = Window(plan.kind, plan.n, WINDOW * max(plan.n, LEAST_FEATURES), WIDEST)
    scaled = data.within(frame)
    weights = window.weights(scaled.X) * (1 / len(data.X) if data.weights is None else data.weights)
    mass = float(weights.sum())
    rows = AtomData.of_rows(scaled.X, weights / mass, data.count)
    seen = mixture_problem(rows, plan)
    moments = WindowedMoments(seen, plan, window, mass, most)
    return Problem(
        frame, lambda plan: moments, None, data.count, plan.floor, passes=1 + seen.passes
    )
