"""The bootstrap: the fit again, on rows drawn anew, from where it ended.

"rows" draws rows with replacement, "weights" gives every row a random weight (the Bayesian
bootstrap), and "parametric" draws new rows from the fitted mixture, in the manner that the rows
were observed. Each refit starts at the fit itself, so components keep their places; where two have
changed places all the same, they are put back. Where EM creeps, Newton's method carries a refit to
the very top: EM alone would stop short of how far parameters can move.
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
#: Parameters up to which Newton's method pays, EM steps after which it takes over, and
#: what the last step gains at most.
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
        """How many refitted mixtures there are."""
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


def bootstrapped(
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
    """Parameters of fits to rows drawn anew, in the coordinates of the fit; and if interrupted."""
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
        found[i] = matched(likelihood.kind, result.parameters, fit)
        progress.step(i, result.log_likelihood)

    with Progress(verbose, n_boot, "refits") as progress, suppress(KeyboardInterrupt):
        parallel_map(refit, range(n_boot), worker_count(np))
    return [found[i] for i in sorted(found)], len(found) < n_boot


def _drawn_rows(
    likelihood: RowLikelihood, fit: Parameters, rng: np.random.Generator
) -> RowLikelihood:
    count = max(round(likelihood.count), 1)
    drawn = rng.multinomial(count, likelihood.weights / likelihood.weights.sum())
    return likelihood.reweighted(drawn / count)


def _drawn_weights(
    likelihood: RowLikelihood, fit: Parameters, rng: np.random.Generator
) -> RowLikelihood:
    drawn = rng.gamma(likelihood.weights * likelihood.count)
    return likelihood.reweighted(drawn / drawn.sum())


def _drawn_from_the_fit(
    likelihood: RowLikelihood, fit: Parameters, rng: np.random.Generator
) -> RowLikelihood:
    return likelihood.drawn(fit, rng)


_DRAWS: dict[
    BootstrapKind, Callable[[RowLikelihood, Parameters, np.random.Generator], RowLikelihood]
] = {"rows": _drawn_rows, "weights": _drawn_weights, "parametric": _drawn_from_the_fit}


def matched(kind: Kind, parameters: Parameters, to: Parameters) -> Parameters:
    """The components in the order in which they come closest to others, by divergences."""
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
    # Twice the divergence, but for what is the same for all of a row.
    order = linear_sum_assignment(squares + traces - logs)[1]
    weights, means, covariances = parameters
    return Parameters(weights[order], means[order], kind.taken(covariances, order))
