"""The bootstrap: the fit again, on rows drawn anew, from where it ended.

"rows" draws rows with replacement, "weights" gives every row a random weight (the Bayesian
bootstrap), and "parametric" draws new rows from the fitted mixture, with the gaps and errors of the
rows. Each refit starts at the fit itself, so components keep their places, and those that have
swapped places are put back. Where EM is slow, Newton's method carries a refit to the maximum; EM
alone would stop early and underestimate how far parameters move.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.optimize import linear_sum_assignment

from momentmix.covariance import Kind
from momentmix.data.parameters import Parameters
from momentmix.likelihood.newton import climb
from momentmix.likelihood.rows import RowLikelihood
from momentmix.likelihood.scores import Directions
from momentmix.support.array import to_numpy
from momentmix.support.checks import probability
from momentmix.support.parallel import parallel_map, worker_count
from momentmix.support.progress import Progress

BootstrapKind = Literal["rows", "weights", "parametric"]
#: With at most NEWTON_PARAMETERS parameters, Newton's method takes over from EM after EM_STEPS
#: steps, and goes on until a step gains less than TOP nats per row. These are round numbers that
#: were not tuned; the first two affect time, and TOP has to be small beside the standard errors.
NEWTON_PARAMETERS, EM_STEPS, TOP = 300, 15, 1e-8


@dataclass(frozen=True)
class Bootstrap:
    """Parameters of refitted mixtures, each with one more axis in front, of length ``n_boot``.

    Attributes
    ----------
    weights : ndarray of shape (n_boot, m)
    means : ndarray of shape (n_boot, m, n)
    covariances : ndarray of shape (n_boot, ...)
    interrupted : bool
        Whether Ctrl-C ended it before all were made.
    """

    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray
    interrupted: bool = False

    @property
    def n_boot(self) -> int:
        """The number of refitted mixtures."""
        return len(self.weights)

    def standard_errors(self) -> Parameters:
        """The standard deviation of each parameter over the refitted mixtures."""
        parts = self.weights, self.means, self.covariances
        return Parameters(*(part.std(axis=0, ddof=1) for part in parts))

    def confidence_intervals(self, level: float = 0.95) -> tuple[Parameters, Parameters]:
        """The quantiles of each parameter between which the refitted mixtures lie, low and high.

        Parameters
        ----------
        level : float, default=0.95
            The share of the mixtures that lies between.

        Returns
        -------
        low, high : tuple of objects with ``weights``, ``means`` and ``covariances``
        """
        probability("level", level)
        parts = self.weights, self.means, self.covariances
        ends = (1 - level) / 2, (1 + level) / 2
        low, high = (Parameters(*(np.quantile(part, q, axis=0) for part in parts)) for q in ends)
        return low, high

    def __repr__(self) -> str:
        _, m, n = self.means.shape
        ended = ", interrupted" if self.interrupted else ""
        return f"<Bootstrap of {self.n_boot} mixtures of {m} components in {n} features{ended}>"


def bootstrap_fits(
    likelihood: RowLikelihood,
    fit: Parameters,
    n_boot: int,
    kind: BootstrapKind,
    rng: np.random.Generator,
    *,
    tol: float,
    max_iter: int,
    verbose: int = 0,
) -> tuple[list[Parameters], bool]:
    """Parameters of fits to rows drawn anew, in the fit's coordinates; and whether interrupted."""
    found: dict[int, Parameters] = {}
    seeds = rng.spawn(n_boot)
    draw, small = _DRAWS[kind], Directions.of(likelihood, fit).size <= NEWTON_PARAMETERS

    def refit(i: int) -> None:
        rows = draw(likelihood, fit, seeds[i])
        steps = EM_STEPS if small else max_iter
        result = rows.fit(fit, tol=TOP if small else tol, max_iter=steps)
        if small and not result.converged and not result.interrupted:
            result = climb(rows, result.parameters, tol=TOP, max_iter=max_iter)
        if result.interrupted:
            raise KeyboardInterrupt
        found[i] = match_components(likelihood.kind, result.parameters, fit)
        progress.step(i, result.log_likelihood)

    with Progress(verbose, n_boot, "refits") as progress, suppress(KeyboardInterrupt):
        parallel_map(refit, range(n_boot), worker_count(np))
    return [found[i] for i in sorted(found)], len(found) < n_boot


def _draw_rows(
    likelihood: RowLikelihood, fit: Parameters, rng: np.random.Generator
) -> RowLikelihood:
    count = max(round(likelihood.count), 1)
    drawn = rng.multinomial(count, likelihood.weights / likelihood.weights.sum())
    return likelihood.reweight(drawn / count)


def _draw_weights(
    likelihood: RowLikelihood, fit: Parameters, rng: np.random.Generator
) -> RowLikelihood:
    drawn = rng.gamma(likelihood.weights * likelihood.count)
    return likelihood.reweight(drawn / drawn.sum())


def _draw_from_the_fit(
    likelihood: RowLikelihood, fit: Parameters, rng: np.random.Generator
) -> RowLikelihood:
    return likelihood.draw(fit, rng)


_DRAWS: dict[
    BootstrapKind, Callable[[RowLikelihood, Parameters, np.random.Generator], RowLikelihood]
] = {"rows": _draw_rows, "weights": _draw_weights, "parametric": _draw_from_the_fit}


def match_components(kind: Kind, parameters: Parameters, to: Parameters) -> Parameters:
    """The components in the order in which they are closest to those of ``to``, by divergence."""
    m, n = to.means.shape
    if m == 1:
        return parameters
    shape = (m, n, n)
    ours, theirs = (
        np.broadcast_to(to_numpy(kind.of(part.covariances, n).matrices()), shape)
        for part in (parameters, to)
    )
    precisions = np.linalg.inv(theirs)
    away = parameters.means[None, :, :] - to.means[:, None, :]
    squares = np.einsum("jki,jil,jkl->jk", away, precisions, away)
    traces = np.einsum("jil,kli->jk", precisions, ours)
    logs = np.linalg.slogdet(ours)[1]
    # Twice the divergence, up to terms that are the same in all of a row.
    order = linear_sum_assignment(squares + traces - logs)[1]
    weights, means, covariances = parameters
    return Parameters(weights[order], means[order], kind.take_components(covariances, order))
