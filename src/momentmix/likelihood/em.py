"""Expectation–maximisation with a prior, whatever the covariance type and wherever the rows are.

A step needs sums over the rows: rows.py makes them for rows in memory, and blocks.py for rows
elsewhere. Several mixtures can take their steps at once, as one long list of components. On small
data that costs little more than the steps of one mixture.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Concatenate, NamedTuple, ParamSpec

import numpy as np

from momentmix.covariance import Anchor, Bound, Kind, LogNormalPrior, Pull
from momentmix.data.content import DIGITS
from momentmix.data.parameters import Parameters, outlier_share
from momentmix.likelihood.density import Sums
from momentmix.solvers.anderson import Anderson

if TYPE_CHECKING:
    from typing_extensions import Self

    from momentmix.likelihood.rows import RowLikelihood

Arguments = ParamSpec("Arguments")

#: If a moment estimate has a variance below FLAT, its variances are raised to WIDE before EM starts
#: there, both in units of the variance of the data. These are round numbers that were not tuned;
#: they decide only where EM starts.
FLAT, WIDE = 0.01, 0.1
#: An EM run that still gains after this many steps is extrapolated from then on. This is a round
#: number that was not tuned; it mostly affects time, since an extrapolation that loses is undone.
PATIENCE = 20
#: The share that a background starts with. EM can raise or lower it, but cannot leave 0. This is a
#: round number that was not tuned.
OPENING = 0.01


class EMResult(NamedTuple):
    parameters: Parameters
    log_likelihood: float  # mean over the samples
    n_iter: int
    converged: bool
    interrupted: bool
    log_posterior: float = -np.inf  # the log-likelihood less the penalties, which EM maximises

    @property
    def worth(self) -> float:
        """The log-posterior without digits that may be rounding; results are compared by it."""
        return round(self.log_posterior, DIGITS)


class Step(NamedTuple):
    """The log-likelihoods of some mixtures, and where an EM step leads each."""

    log_likelihood: np.ndarray  # (S,)
    log_posterior: np.ndarray  # (S,)
    after: Parameters


class Likelihood:
    """A likelihood of rows, wherever they are, that EM climbs by sums over them.

    ``floor`` bounds every covariance from below (``Covariance.raise_to``). ``variance`` is the
    known variance of all spherical components, if there is one, and does not change. ``prior`` is
    the prior of the covariances, if any, and stands beside ``count`` rows. ``anchor`` holds
    covariances that gaps leave undetermined.

    With a background, rows may belong to no component. The weights of a mixture then sum to less
    than 1, and the rest is the share of the background, at most ``most_outliers``.
    """

    #: The largest share of rows that may belong to no component; 0 without a background.
    most_outliers: float = 0.0

    def __init__(
        self,
        kind: Kind,
        floor: Bound,
        variance: float | None = None,
        prior: LogNormalPrior | None = None,
        count: float = np.inf,
        anchor: Anchor | None = None,
    ) -> None:
        self.kind, self.floor, self.variance = kind, floor, variance
        self.prior = None if prior is None else prior.beside(count)
        self.count, self.anchor = count, anchor

    def with_anchor(self, anchor: Anchor | None) -> Self:
        """The same rows with another anchor."""
        other = copy(self)
        other.anchor = anchor
        return other

    @property
    def in_memory(self) -> RowLikelihood | None:
        """The likelihood of rows in memory, all or a sample; None if no rows are in memory."""
        return None

    @property
    def complete(self) -> bool:
        """Whether rows have neither gaps nor errors, so that one component has a closed form."""
        return True

    def sums(self, parameters: Parameters, groups: int = 1) -> Sums:
        """The sums of an EM step of some mixtures over all rows, of total weight 1: one pass."""
        raise NotImplementedError

    def total(
        self,
        function: Callable[Concatenate[RowLikelihood, Arguments], tuple[np.ndarray, ...]],
        *arguments: Arguments.args,
        **named: Arguments.kwargs,
    ) -> tuple[np.ndarray, ...]:
        """The sums of a function over all rows, whose weights sum to 1.

        The function takes rows in memory, which may be a block of them.
        """
        raise NotImplementedError

    def sample(self, rng: np.random.Generator) -> RowLikelihood:
        """The likelihood of rows in memory that a search can use: all, or a sample by weight."""
        raise NotImplementedError

    def value(self, parameters: Parameters) -> float:
        """The mean log-likelihood."""
        return float(self.sums(parameters).log_likelihoods[0])

    def penalty(self, parameters: Parameters) -> float:
        """The penalty of the prior and the anchor, per row."""
        total = 0.0
        if self.prior is not None:
            total += float(np.sum(self.prior.at(parameters.covariances).penalties))
        if self.anchor is not None:
            total += float(self.anchor.penalties(parameters.covariances)[0])
        return total / self.count

    def penalty_gradients(self, covariances: np.ndarray, groups: int = 1) -> np.ndarray:
        """The gradients of ``penalty`` in the covariances of some mixtures, one after the other."""
        total = np.zeros(covariances.shape)
        if self.prior is not None:
            total += self.prior.at(covariances, groups).gradients()
        if self.anchor is not None:
            total += self.anchor.gradients(covariances)
        return total / self.count

    def step(self, parameters: Parameters, groups: int = 1) -> Step:
        """One EM step of each of some mixtures.

        It raises the penalised likelihood, unless a covariance overshoots.
        """
        sums = self.sums(parameters, groups)
        values, pull = sums.log_likelihoods, None
        log_posteriors = values
        if self.prior is not None:
            pull = self.prior.at(parameters.covariances, groups)
            log_posteriors = values - pull.penalties.reshape(groups, -1).sum(axis=1) / self.count
        if self.anchor is not None:
            penalties = self.anchor.penalties(parameters.covariances, groups)
            log_posteriors = log_posteriors - penalties / self.count
        return Step(values, log_posteriors, self.maximise(sums, pull, groups))

    def maximise(self, sums: Sums, pull: Pull | None = None, groups: int = 1) -> Parameters:
        """The M-step.

        ``pull`` is the prior at the current covariances. Without it, the rows of the prior are
        taken to have the pooled covariance of all components.
        """
        _, shares, firsts, seconds = sums
        safe = np.maximum(shares, 1e-300)[:, None]
        means = firsts / safe
        by_group = shares.reshape(groups, -1)
        total = by_group.sum(axis=1, keepdims=True)
        even = np.where(total > 0, by_group / np.maximum(total, 1e-300), 1 / by_group.shape[1])
        weights = (even * np.clip(total, 1 - self.most_outliers, 1.0)).reshape(-1)
        if self.variance is not None:
            return Parameters(weights, means, np.full(len(shares), self.variance))
        scatter, counts = self.kind.estimate(shares, means, seconds / safe), self.count * shares
        if self.anchor is not None:
            counts, scatter = self.anchor.pool(counts, scatter)
        if pull is not None:
            scatter = pull.step(counts, scatter)
        elif self.prior is not None:
            scatter = self.prior.pool(counts, scatter)
        return Parameters(weights, means, self.kind.raise_to(scatter, self.floor))

    def with_room_for_background(self, parameters: Parameters, groups: int = 1) -> Parameters:
        """The mixtures with a share left for the background, which EM cannot raise from 0."""
        if not self.most_outliers:
            return parameters
        weights = parameters.weights.reshape(groups, -1)
        total = weights.sum(axis=1, keepdims=True)
        least, most = 1 - self.most_outliers, 1 - min(OPENING, self.most_outliers / 2)
        room = np.where(total > 1 - 1e-9, most, np.clip(total, least, 1.0))
        return parameters._replace(weights=(weights / total * room).reshape(-1))

    def widen(self, parameters: Parameters) -> Parameters:
        """Widen flat covariances, so that every component has rows nearby when EM starts."""
        if self.variance is not None or self.kind.smallest_variance(parameters.covariances) >= FLAT:
            return parameters
        raised = self.kind.raise_to(parameters.covariances, WIDE)
        return parameters._replace(covariances=raised)

    def revive(self, parameters: Parameters) -> Parameters:
        """The parameters, with a new place for each component that has died out."""
        return parameters

    def fit(
        self,
        parameters: Parameters,
        *,
        tol: float,
        max_iter: int,
        callback: Callable[[int, float], None] | None = None,
    ) -> EMResult:
        """EM steps until the mean penalised log-likelihood gains less than ``tol``.

        A long run is extrapolated (Anderson's mixing). A step that loses is undone: an
        extrapolation at once, and covariances that overshot by halving the step. The point where
        the last of ``max_iter`` steps leads is evaluated too.
        """
        run, i = _Run(self.with_room_for_background(parameters)), 0
        try:
            for i in range(1, max_iter + 2):
                step = self.step(run.parameters)
                gain = float(step.log_posterior[0]) - run.log_posterior
                if _is_less(float(step.log_posterior[0]), run.log_posterior) and run.retreat():
                    continue
                run.accept(step)
                if abs(gain) < tol and (self.complete or run.is_level(gain, tol)):
                    return run.result(min(i, max_iter), converged=True)
                if i > max_iter:
                    break
                alive = step.after
                if run.revivals < len(alive.weights):
                    alive = self.revive(step.after)
                if alive is not step.after:
                    run.restart(alive)
                else:
                    run.advance(self, i)
                if callback is not None:
                    callback(i, run.log_likelihood)
        except KeyboardInterrupt:
            return run.result(min(i, max_iter), interrupted=True)
        return run.result(max_iter)

    def try_steps(self, starts: Sequence[Parameters], steps: int) -> list[EMResult]:
        """A few EM steps from each start, all at once; after Ctrl-C from fewer of them."""
        if self.kind.common or len(starts) == 1:  # one covariance a mixture, not a component
            results: list[EMResult] = []
            for start in starts:
                results.append(self.fit(start, tol=0.0, max_iter=steps - 1))
                if results[-1].interrupted:
                    break
            return results
        S = len(starts)
        at = Parameters(*(np.concatenate(parts) for parts in zip(*starts, strict=True)))
        at = self.with_room_for_background(at, S)
        for _ in range(steps):
            step = self.step(at, S)
            before, at = at, step.after
        ends = zip(*(np.split(part, S) for part in before), strict=True)
        return [
            EMResult(Parameters(*end), float(value), steps, False, False, float(log_posterior))
            for end, value, log_posterior in zip(
                ends, step.log_likelihood, step.log_posterior, strict=True
            )
        ]


def _is_less(value: float, before: float) -> bool:
    """Whether a mean log-likelihood is below another by more than rounding."""
    return value < before - 1e-13 * abs(before) if np.isfinite(before) else False


class _Run:
    """An EM run: the last point, where its step leads, the point to try next, and the best.

    The best is the last one, unless rounding has kept a step from gaining.
    """

    def __init__(self, start: Parameters) -> None:
        self.parameters = self.last = self.after = start
        self.log_posterior = self.log_likelihood = -np.inf
        self._best = start, -np.inf, -np.inf  # with its log-likelihood and log-posterior
        self.revivals = self._halvings = 0
        self._gain = np.inf
        self._guessed = False
        self._anderson = Anderson()

    def accept(self, step: Step) -> None:
        self.last, self.after = self.parameters, step.after
        self.log_posterior, self.log_likelihood = (
            float(step.log_posterior[0]),
            float(step.log_likelihood[0]),
        )
        if not _is_less(self.log_posterior, self._best[2]):
            self._best = self.last, self.log_likelihood, self.log_posterior
        self._halvings = 0

    def is_level(self, gain: float, tol: float) -> bool:
        """Whether all further steps together should gain less than ``tol``.

        Gaps and errors make steps short, and gains then fall slowly, by a constant factor. The last
        two gains give that factor.
        """
        before, self._gain = self._gain, gain
        if gain <= 1e-13 * abs(self.log_posterior):
            return True
        return before > gain and gain / (1 - gain / before) < tol

    def advance(self, likelihood: Likelihood, i: int) -> None:
        """Go to where the step leads, or beyond it if the run is long."""
        self._guessed = i >= PATIENCE
        self.parameters = self.after
        if self._guessed:
            guess = self._anderson.guess(_encode(self.last), _encode(self.after))
            self.parameters = _decode(likelihood, guess, self.after)

    def retreat(self) -> bool:
        """Go back from a point that was worse; false if there is no way back."""
        if self._guessed:
            self._guessed = False
            self._anderson.forget()
            self.parameters = self.after
            return True
        self._halvings += 1
        if self._halvings > 20 or not np.isfinite(self.log_posterior):
            return False
        halfway = (self.last.covariances + self.parameters.covariances) / 2
        self.parameters = self.parameters._replace(covariances=halfway)
        return True

    def restart(self, alive: Parameters) -> None:
        self.revivals += 1
        self.log_posterior, self._guessed = -np.inf, False
        self._best = self._best[0], self._best[1], -np.inf  # the move may lower it
        self._anderson.forget()
        self.parameters = alive

    def result(self, n_iter: int, converged: bool = False, interrupted: bool = False) -> EMResult:
        parameters, value, log_posterior = self._best
        return EMResult(parameters, value, n_iter, converged, interrupted, log_posterior)


def _encode(parameters: Parameters) -> np.ndarray:
    """Parameters as one vector, for extrapolation."""
    weights, means, covariances = parameters
    shares = np.append(weights, outlier_share(weights))
    logs = np.log(np.maximum(shares, 1e-300))
    return np.concatenate([logs, means.reshape(-1), covariances.reshape(-1)])


def _decode(likelihood: Likelihood, x: np.ndarray, like: Parameters) -> Parameters:
    """The inverse of ``_encode``, made into valid parameters."""
    m, size = len(like.weights), like.means.size
    shares = np.exp(x[: m + 1] - np.max(x[: m + 1]))
    if not likelihood.most_outliers:
        shares[m] = 0.0
    shares /= shares.sum()
    covariances = x[m + 1 + size :].reshape(like.covariances.shape)
    if likelihood.variance is None:
        covariances = likelihood.kind.raise_to(covariances, likelihood.floor)
    means = x[m + 1 : m + 1 + size].reshape(like.means.shape)
    return Parameters(shares[:m], means, covariances)
