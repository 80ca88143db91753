"""EM with a prior, whatever the covariance type and wherever the rows are.

A step needs sums over the rows, which ``Rows`` make, and a target, which says what is maximised.
Several mixtures can take their steps at once, as one long list of components. On small data that
costs little more than the steps of one mixture.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from momentmix.covariance import Anchor, Bound, Kind, LogNormalPrior, Pull, Strengths
from momentmix.fit import DIGITS, Fit, Parameters, outlier_share
from momentmix.rows.memory import Box, MemoryRows, Rows, Sums, needs_no_features
from momentmix.solvers import Anderson
from momentmix.support.stopping import stopped

#: If a moment estimate has a variance below FLAT, its variances are raised to WIDE before EM starts
#: there, both in units of the variance of the data. These are round numbers that were not tuned;
#: they decide only where EM starts.
FLAT, WIDE = 0.01, 0.1
#: The share that a background starts with. EM can raise or lower it, but cannot leave 0. This is a
#: round number that was not tuned.
OPENING = 0.01


@dataclass(frozen=True)
class Target:
    """What is fitted.

    ``floor`` bounds every covariance from below (``Covariance.raise_to``). ``variance`` is the
    known variance of all spherical components, if there is one, and does not change. ``anchor``
    holds covariances that gaps leave undetermined. With a ``box``, rows may belong to no component:
    the weights of a mixture then sum to less than 1, and the rest is the share of the background.

    With a ``sharpness`` γ above 1, clusters are sought: in place of the likelihood, the mean of
    1/γ log Σ_k (λ_k^ρ f_k)^γ is maximised. For large γ it is that of rows that each belong to one
    component. EM for it has the responsibilities (λ_k^ρ f_k)^γ / Σ_j (λ_j^ρ f_j)^γ; its
    M-step is the usual one. ``RHO`` in rows/memory.py says what ρ is for.
    """

    kind: Kind
    floor: Bound
    variance: float | None = None
    prior: LogNormalPrior | None = None
    anchor: Anchor | None = None
    box: Box | None = None
    sharpness: float = 1.0

    def beside(self, count: float) -> Target:
        """The same, with a prior that is not too strong for so many rows."""
        return self if self.prior is None else replace(self, prior=self.prior.beside(count))

    @property
    def strengths(self) -> Strengths:
        """The strengths of the prior, in rows; 0 if there is none."""
        return Strengths() if self.prior is None else self.prior.strengths

    def penalties(
        self, covariances: np.ndarray, groups: int = 1
    ) -> tuple[np.ndarray | float, Pull | None]:
        """The penalty of each of some mixtures (S,), in nats, and the prior at their covariances.

        Covariances (S m, …) stand one mixture after the other.
        """
        total: np.ndarray | float = 0.0
        pull = None
        if self.prior is not None:
            pull = self.prior.at(covariances, groups)
            total = pull.penalties.reshape(groups, -1).sum(axis=1)
        if self.anchor is not None:
            total = total + self.anchor.penalties(covariances, groups)
        return total, pull

    def penalty_gradients(self, covariances: np.ndarray, groups: int = 1) -> np.ndarray:
        """The gradients of the penalties in the covariances of some mixtures."""
        total = np.zeros(covariances.shape)
        if self.prior is not None:
            total += self.prior.at(covariances, groups).gradients()
        if self.anchor is not None:
            total += self.anchor.gradients(covariances)
        return total

    def maximise(
        self, sums: Sums, count: float, pull: Pull | None = None, groups: int = 1
    ) -> Parameters:
        """The M-step from sums over rows that count for ``count`` rows.

        ``pull`` is the prior at the current covariances. Without it, the step is rough: the rows of
        the prior are taken to have the pooled covariance of all components.
        """
        _, shares, firsts, seconds = sums
        safe = np.maximum(shares, 1e-300)[:, None]
        means = firsts / safe
        by_group = shares.reshape(groups, -1)
        total = by_group.sum(axis=1, keepdims=True)
        even = np.where(total > 0, by_group / np.maximum(total, 1e-300), 1 / by_group.shape[1])
        if self.box is not None:
            even = even * np.clip(total, 1 - self.box.most, 1.0)
        weights = even.reshape(-1)
        if self.variance is not None:
            return Parameters(weights, means, np.full(len(shares), self.variance))
        scatter, counts = self.kind.estimate(shares, means, seconds / safe), count * shares
        if self.anchor is not None:
            counts, scatter = self.anchor.pool(counts, scatter)
        if pull is not None:
            scatter = pull.step(counts, scatter)
        elif self.prior is not None:
            scatter = self.prior.pool(counts, scatter, groups)
        return Parameters(weights, means, self.kind.raise_to(scatter, self.floor))

    def at_points(self, weights: np.ndarray, means: np.ndarray, spread: np.ndarray) -> Parameters:
        """Components at some means, each with the same variances (n,), or with the known one."""
        m = len(means)
        if self.variance is not None:
            return Parameters(weights, means, np.full(m, self.variance))
        fresh = self.kind.repeat(m, spread if self.kind.thin else np.diag(spread))
        return Parameters(weights, means, self.kind.raise_to(fresh, self.floor))

    def restricted(self, parameters: Parameters) -> Parameters:
        """The parameters with covariances that the type allows."""
        allowed = self.kind.restrict(parameters.weights, parameters.covariances)
        return parameters._replace(covariances=allowed)

    def with_room_for_background(self, parameters: Parameters, groups: int = 1) -> Parameters:
        """The mixtures with a share left for the background, which EM cannot raise from 0."""
        if self.box is None:
            return parameters
        weights = parameters.weights.reshape(groups, -1)
        total = weights.sum(axis=1, keepdims=True)
        least, most = 1 - self.box.most, 1 - min(OPENING, self.box.most / 2)
        room = np.where(total > 1 - 1e-9, most, np.clip(total, least, 1.0))
        return parameters._replace(weights=(weights / total * room).reshape(-1))

    def widen(self, parameters: Parameters) -> Parameters:
        """Widen flat covariances, so that every component has rows nearby when EM starts."""
        if self.variance is not None or self.kind.smallest_variance(parameters.covariances) >= FLAT:
            return parameters
        raised = self.kind.raise_to(parameters.covariances, WIDE)
        return parameters._replace(covariances=raised)


#: An EM run that still gains after this many steps is extrapolated from then on. This is a round
#: number that was not tuned; it mostly affects time, since an extrapolation that loses is undone.
PATIENCE = 20
#: The EM steps that fit a single component to rows with gaps or noise. This is a round number that
#: was not tuned; the result need not be exact, because EM or a comparison of splits follows.
SINGLE_STEPS = 20
#: Steps for a single component of factors end when all further ones should gain less, in nats a
#: row. A round number that was not tuned; it is small beside the gain of a split that pays.
SINGLE_TOL = 1e-3
#: Strengths change the fit that they are learned from, so this is repeated, at most so many times.
#: Of some 70 tables, pairs of overlapping balls changed most, and settled within these rounds.
ROUNDS = 4

Somewhere = TypeVar("Somewhere", bound=Rows, covariant=True)


class Step(NamedTuple):
    """The log-likelihoods of some mixtures, and where an EM step leads each."""

    log_likelihood: np.ndarray  # (S,)
    log_posterior: np.ndarray  # (S,)
    after: Parameters


@dataclass(frozen=True)
class Likelihood(Generic[Somewhere]):
    """Rows, wherever they are, and a target: the likelihood that EM climbs by sums over the rows.

    What is maximised is the log-posterior: the mean log-likelihood less the penalty per row.
    """

    rows: Somewhere
    target: Target

    @property
    def here(self) -> LikelihoodHere | None:
        """The likelihood of rows in memory, all or a sample; None if no rows are in memory."""
        return None if self.rows.here is None else Likelihood(self.rows.here, self.target)

    @property
    def closed(self) -> bool:
        """Whether the M-step for one component is the maximum, so that EM has no slow tail."""
        return self.rows.complete and not self.target.kind.iterated

    def value(self, parameters: Parameters) -> float:
        """The mean log-likelihood, or what takes its place if clusters are sought."""
        return self.rows.log_likelihood(parameters, self.target.box, self.target.sharpness)

    def penalty(self, parameters: Parameters) -> float:
        """The penalty of the prior and the anchor, per row."""
        total, _ = self.target.penalties(parameters.covariances)
        return float(np.sum(total)) / self.rows.count

    def evaluate(self, fit: Fit) -> Fit:
        """A fit with its log-likelihood and log-posterior: one pass over the rows."""
        value = self.value(fit.parameters)
        log_posterior = value - self.penalty(fit.parameters)
        return replace(fit, log_likelihood=value, log_posterior=log_posterior)

    def step(self, parameters: Parameters, groups: int = 1, rough: bool = False) -> Step:
        """One EM step of each of some mixtures.

        It raises the log-posterior, unless a covariance overshoots. A ``rough`` one spares the
        logarithms of covariances that the prior needs, and its log-posterior lacks the penalty.
        """
        sums = self.rows.sums(parameters, groups, self.target.box, self.target.sharpness)
        covariances = parameters.covariances
        penalties, pull = (0.0, None) if rough else self.target.penalties(covariances, groups)
        values, count = sums.log_likelihoods, self.rows.count
        after = self.target.maximise(sums, count, pull, groups)
        return Step(values, values - penalties / count, after)

    def learn(self, parameters: Parameters) -> Likelihood[Somewhere]:
        """The same with the strengths of the prior that a fit suggests: one pass over the rows.

        Rows elsewhere are so many that the strengths hardly matter, so they stay.
        """
        prior = self.target.prior
        if prior is None or prior.customary is None or not isinstance(self.rows, MemoryRows):
            return self
        sums = self.rows.sums(parameters, 1, self.target.box)
        _, shares, firsts, seconds = sums
        safe = np.maximum(shares, 1e-300)[:, None]
        scatter = self.target.kind.estimate(shares, firsts / safe, seconds / safe)
        at = prior.at(parameters.covariances)
        learned = prior.learned(self.rows.count * shares, scatter, at)
        return self if learned.strengths == prior.strengths else self.with_prior(learned)

    def of_strengths(self, found: Strengths) -> Likelihood[Somewhere]:
        """The same with strengths of the prior that a fit may have learned."""
        prior = self.target.prior
        return self if prior is None else self.with_prior(prior.of_strengths(found))

    def with_prior(self, prior: LogNormalPrior) -> Likelihood[Somewhere]:
        """The same with another prior."""
        target = replace(self.target, prior=prior).beside(self.rows.count)
        return replace(self, target=target)

    def fit(
        self,
        parameters: Parameters,
        *,
        tol: float,
        max_iter: int,
        callback: Callable[[int, float], None] | None = None,
    ) -> Fit:
        """EM steps until the mean log-posterior gains less than ``tol``.

        A long run is extrapolated (Anderson's mixing). A step that loses is undone: an
        extrapolation at once, and covariances that overshot by halving the step. The point where
        the last of ``max_iter`` steps leads is evaluated too. After Ctrl-C the best so far is the
        result.
        """
        target = self.target
        start = target.restricted(target.with_room_for_background(parameters))
        run, i = _Run(start, target.strengths), 0
        for i in range(1, max_iter + 2):
            if run.parameters is not run.after:  # where no step has led
                run.parameters = self.target.restricted(run.parameters)
            try:
                step = self.step(run.parameters)
            except KeyboardInterrupt:  # in a pass over rows elsewhere
                break
            gain = float(step.log_posterior[0]) - run.log_posterior
            if _is_less(float(step.log_posterior[0]), run.log_posterior) and run.retreat():
                continue
            run.accept(step)
            if abs(gain) < tol and (self.closed or run.is_level(gain, tol)):
                return run.result(min(i, max_iter), converged=True)
            if i > max_iter or stopped():
                break
            alive = step.after
            if run.revivals < len(alive.weights):
                alive = revive(self, step.after)
            if alive is not step.after:
                run.restart(alive)
            else:
                run.advance(target, i)
            if callback is not None:
                callback(i, run.log_likelihood)
        return run.result(min(i, max_iter))

    def settle(self, fit: Fit, tol: float, max_iter: int) -> tuple[Likelihood[Somewhere], Fit]:
        """A fit again with the strengths that it suggests, until these stay, and the likelihood.

        ``n_passes`` of the result are the steps of the runs before its last, that of ``fit`` too.
        """
        likelihood = self
        for _ in range(ROUNDS):
            again = likelihood.learn(fit.parameters)
            if again is likelihood:
                break
            passes = fit.n_passes + fit.n_iter
            fit = again.fit(fit.parameters, tol=tol, max_iter=max_iter)
            likelihood, fit = again, replace(fit, n_passes=passes)
        return likelihood, fit

    def try_steps(self, starts: Sequence[Parameters], steps: int) -> list[Fit]:
        """A few EM steps from each start, all at once.

        In many columns, where logarithms of matrices are dear, all but the last two are rough.
        """
        if self.target.kind.together:
            kept = (start for i, start in enumerate(starts) if i == 0 or not stopped())
            return [self.fit(start, tol=0.0, max_iter=steps - 1) for start in kept]
        S, wide = len(starts), needs_no_features(self.target.kind, starts[0].means.shape[1])
        at = Parameters(*(np.concatenate(parts) for parts in zip(*starts, strict=True)))
        at = self.target.with_room_for_background(at, S)
        for i in range(steps):
            rough = wide and i < steps - 2 and not stopped()
            step = self.step(at, S, rough)
            before, at = at, step.after
            if stopped() and not rough:
                break
        ends = zip(*(np.split(part, S) for part in before), strict=True)
        values = zip(step.log_likelihood, step.log_posterior, strict=True)
        return [
            Fit(
                Parameters(*end),
                log_likelihood=float(one),
                log_posterior=float(other),
                n_iter=steps,
                strengths=self.target.strengths,
            )
            for end, (one, other) in zip(ends, values, strict=True)
        ]

    def best_after(self, starts: Sequence[Parameters], steps: int) -> Fit:
        """The best after a few EM steps from each start; its steps are those of all."""
        best = max(self.try_steps(starts, steps), key=lambda trial: trial.worth)
        return replace(best, n_iter=len(starts) * steps)


#: A likelihood of rows in memory, with which a search can work.
LikelihoodHere: TypeAlias = Likelihood[MemoryRows]


def sample_of(likelihood: LikelihoodHere, rng: np.random.Generator) -> LikelihoodHere:
    """The same, or that of rows drawn by weight if there are very many."""
    rows = likelihood.rows.sample(rng)
    return likelihood if rows is likelihood.rows else replace(likelihood, rows=rows)


def part_of(
    likelihood: LikelihoodHere, places: np.ndarray, weights: np.ndarray | None, share: float
) -> LikelihoodHere:
    """The likelihood of some of the rows, which have new weights and count for a share of all."""
    rows = likelihood.rows.take(places, weights, share)
    return Likelihood(rows, likelihood.target.beside(rows.count))


def responsibilities(
    likelihood: LikelihoodHere, parameters: Parameters
) -> tuple[np.ndarray, np.ndarray]:
    """Posterior probabilities (p, m) and log densities (p,), as EM takes them."""
    target = likelihood.target
    return likelihood.rows.responsibilities(parameters, target.box, target.sharpness)


def from_responsibilities(likelihood: LikelihoodHere, R: np.ndarray) -> Parameters:
    """The M-step from responsibilities (p, m), which may sum to less than 1 in a row."""
    rows = likelihood.rows
    return likelihood.target.maximise(rows.weighted_sums(R), rows.count)


def single(likelihood: LikelihoodHere) -> Parameters:
    """One component for all rows, of nearly the highest likelihood."""
    one = from_responsibilities(likelihood, np.ones((len(likelihood.rows.X), 1)))
    if likelihood.closed:
        return one
    tol = SINGLE_TOL if likelihood.rows.complete else 0.0
    return likelihood.fit(one, tol=tol, max_iter=SINGLE_STEPS).parameters


def revive(likelihood: Likelihood[Rows], parameters: Parameters) -> Parameters:
    """Move components with less than about one sample to where the fit is worst.

    This needs all rows in memory.
    """
    weights, means, covariances = parameters
    rows, target = likelihood.rows, likelihood.target
    least = 1.5 / rows.count if rows.count > 1 else 0.0
    gone = weights < min(least, 0.5 / len(weights))
    if not isinstance(rows, MemoryRows) or not gone.any() or gone.all():
        return parameters
    dead, living = np.flatnonzero(gone), np.flatnonzero(~gone)
    kept = target.kind.take_components(covariances, living)
    total = float(weights.sum())
    alive = Parameters(weights[living], means[living], kept)
    _, log_density = rows.responsibilities(alive, target.box)
    ranked = np.argsort(np.round(log_density, DIGITS), kind="stable")
    worst = np.resize(ranked, len(dead))  # some twice, where rows are few
    means, weights = means.copy(), weights.copy()
    means[dead] = rows.X[worst]
    weights[dead] = 1 / len(weights)
    centre = rows.weights @ rows.X
    spread = rows.weights @ (rows.X - centre) ** 2 / 4 + 1e-6
    fresh = target.at_points(weights[dead], means[dead], spread).covariances
    covariances = target.kind.replace_components(covariances, list(dead), fresh)
    return Parameters(weights / weights.sum() * total, means, covariances)


def _is_less(value: float, before: float) -> bool:
    """Whether a mean log-likelihood is below another by more than rounding."""
    return value < before - 1e-13 * abs(before) if np.isfinite(before) else False


class _Run:
    """An EM run: the last point, where its step leads, the point to try next, and the best.

    The best is the last one, unless rounding has kept a step from gaining.
    """

    def __init__(self, start: Parameters, strengths: Strengths) -> None:
        self.strengths = strengths  # of the prior
        self.parameters = self.last = self.after = start
        self.log_posterior = self.log_likelihood = -np.inf
        self._best = start, -np.inf, -np.inf  # with its log-likelihood and log-posterior
        self.revivals = self._halvings = 0
        self._gain = np.inf
        self._guessed = False
        self._anderson: Anderson | None = None  # of a long run

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

    def advance(self, target: Target, i: int) -> None:
        """Go to where the step leads, or beyond it if the run is long."""
        self._guessed = i >= PATIENCE
        self.parameters = self.after
        if self._guessed:
            self._anderson = self._anderson or Anderson()
            guess = self._anderson.guess(_encode(self.last), _encode(self.after))
            self.parameters = _decode(target, guess, self.after)

    def retreat(self) -> bool:
        """Go back from a point that was worse; false if there is no way back."""
        if self._guessed:
            self._guessed, self._anderson = False, None
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
        self._anderson, self.parameters = None, alive

    def result(self, n_iter: int, converged: bool = False) -> Fit:
        parameters, value, log_posterior = self._best
        return Fit(
            parameters,
            log_likelihood=value,
            log_posterior=log_posterior,
            n_iter=n_iter,
            converged=converged,
            strengths=self.strengths,
        )


def _encode(parameters: Parameters) -> np.ndarray:
    """Parameters as one vector, for extrapolation."""
    weights, means, covariances = parameters
    shares = np.append(weights, outlier_share(weights))
    logs = np.log(np.maximum(shares, 1e-300))
    return np.concatenate([logs, means.reshape(-1), covariances.reshape(-1)])


def _decode(target: Target, x: np.ndarray, like: Parameters) -> Parameters:
    """The inverse of ``_encode``, made into valid parameters."""
    m, size = len(like.weights), like.means.size
    shares = np.exp(x[: m + 1] - np.max(x[: m + 1]))
    if target.box is None:
        shares[m] = 0.0
    shares /= shares.sum()
    covariances = x[m + 1 + size :].reshape(like.covariances.shape)
    if target.variance is None:
        covariances = target.kind.raise_to(covariances, target.floor)
    means = x[m + 1 : m + 1 + size].reshape(like.means.shape)
    return Parameters(shares[:m], means, covariances)
