"""Expectation–maximisation with sample weights, for all covariance types at once.

A Gaussian's log density is linear in x and in the quadratic features of x that its covariance can
see, so an E-step is two matrix products and a softmax, and an M-step two more; only the features
depend on the covariance type. Rows are worked through in blocks, on a thread per core. Several
mixtures can take their steps at once, as one long list of components: on small data that costs
little more than the steps of one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from momentmix.covariance import Kind, LogNormalPrior, Pull
from momentmix.data.content import DIGITS
from momentmix.data.parameters import Parameters
from momentmix.solvers.anderson import Anderson
from momentmix.support.parallel import parallel_map, worker_count

_BLOCK_BYTES, _CACHE_BYTES = 4 << 20, 256 << 20
#: Size of the terms of a log density from which their cancellation costs more than eight digits.
SHARP = 1e8
#: Steps after which an EM run that still gains is extrapolated.
PATIENCE = 20


class EMResult(NamedTuple):
    parameters: Parameters
    log_likelihood: float  # mean over the samples
    n_iter: int
    converged: bool
    interrupted: bool
    log_posterior: float = -np.inf  # what is maximised: the same less the penalty of the prior


class Step(NamedTuple):
    """What some mixtures are worth, and where an EM step leads each."""

    log_likelihood: np.ndarray  # (S,)
    log_posterior: np.ndarray  # (S,)
    after: Parameters


class Peaks(NamedTuple):
    """Components so narrow that their densities are better had from distances to their means."""

    kind: Kind
    numbers: np.ndarray  # (J,)
    parameters: Parameters  # theirs alone

    @classmethod
    def of(cls, kind: Kind, parameters: Parameters, numbers: np.ndarray) -> Peaks:
        weights, means, covariances = parameters
        own = Parameters(weights[numbers], means[numbers], kind.taken(covariances, numbers))
        return cls(kind, numbers, own)

    def log_joint(self, X: np.ndarray) -> np.ndarray:
        """(J, p)"""
        weights, means, covariances = self.parameters
        squares, half_logs = self.kind.whitened_squares(covariances, X - means[:, None, :])
        constant = np.log(np.maximum(weights, 1e-300)) - half_logs
        return (constant - X.shape[1] * np.log(2 * np.pi) / 2)[:, None] - squares / 2


class Density(NamedTuple):
    """log λ_j N(x; μ_j, Σ_j) = constant_j + linear_jᵀx + quadratic_jᵀ(features of x)."""

    constant: np.ndarray  # (S m,)
    linear: np.ndarray  # (S m, n)
    quadratic: np.ndarray  # (S m, width)
    groups: int = 1  # S
    peaks: Peaks | None = None  # components of which the three terms cancel too far

    @classmethod
    def of(cls, kind: Kind, parameters: Parameters, groups: int = 1) -> Density:
        weights, means, covariances = parameters
        constant, linear, quadratic = kind.log_density_coefficients(means, covariances)
        constant = constant + np.log(np.maximum(weights, 1e-300))
        # Near its mean a component is the difference of terms of this size.
        sizes = np.max(-quadratic, axis=1) * (1 + np.einsum("ij,ij->i", means, means))
        sharp = np.flatnonzero(np.broadcast_to(sizes, len(means)) > SHARP)
        peaks = Peaks.of(kind, parameters, sharp) if len(sharp) else None
        return cls(constant, linear, quadratic, groups, peaks)

    def log_joint(self, X: np.ndarray, squares: np.ndarray) -> np.ndarray:
        """(S m, p), samples along memory: what follows runs over them."""
        L = self.linear @ X.T
        L += self.quadratic @ squares.T
        L += self.constant[:, None]
        if self.peaks is not None:
            L[self.peaks.numbers] = self.peaks.log_joint(X)
        return L

    def step_sums(self, X: np.ndarray, squares: np.ndarray, weights: np.ndarray) -> tuple:
        """What EM steps need of some rows: log-likelihoods, and sums of responsibilities."""
        L = self.log_joint(X, squares)
        R, log_density = softmax(L.reshape(self.groups, len(L) // self.groups, len(X)), axis=1)
        R *= weights
        R = R.reshape(L.shape)
        return log_density @ weights, R.sum(axis=1), R @ X, R @ squares


class EM:
    """The iteration: what is done with the sums over the rows, wherever the rows are.

    ``floor`` bounds every covariance from below (``Covariance.raised``). ``variance`` is that
    of all spherical components where it is known, and then stays. ``prior`` is that of the
    covariances, if any, beside ``count`` rows.
    """

    def __init__(
        self,
        kind: Kind,
        floor: Any,
        variance: float | None = None,
        prior: LogNormalPrior | None = None,
        count: float = np.inf,
    ) -> None:
        self.kind, self.floor, self.variance = kind, floor, variance
        self.prior, self.count = prior, count

    def sums(self, density: Density) -> tuple:
        """Log-likelihoods, and Σ w R, Σ w R xᵀ, Σ w R (features of x)ᵀ over rows of weight 1."""
        raise NotImplementedError

    def value(self, parameters: Parameters) -> float:
        """The mean log-likelihood."""
        return float(self.sums(Density.of(self.kind, parameters))[0][0])

    def penalty(self, parameters: Parameters) -> float:
        """That of the prior, a row."""
        if self.prior is None:
            return 0.0
        return float(np.sum(self.prior.at(parameters.covariances).penalties)) / self.count

    def step(self, parameters: Parameters, groups: int = 1) -> Step:
        """One EM step of each of some mixtures.

        At its end the penalised likelihood is higher, unless covariances go too far.
        """
        values, shares, firsts, seconds = self.sums(Density.of(self.kind, parameters, groups))
        pull, log_posteriors = None, values
        if self.prior is not None:
            pull = self.prior.at(parameters.covariances, groups)
            log_posteriors = values - pull.penalties.reshape(groups, -1).sum(axis=1) / self.count
        return Step(values, log_posteriors, self.maximise(shares, firsts, seconds, pull, groups))

    def maximise(
        self,
        shares: np.ndarray,
        firsts: np.ndarray,
        seconds: np.ndarray,
        pull: Pull | None = None,
        groups: int = 1,
    ) -> Parameters:
        """The M-step from sums of responsibilities, points and features.

        ``pull`` is the prior at the covariances so far; without them, its rows are taken to have
        the covariance that all components have in common.
        """
        safe = np.maximum(shares, 1e-300)[:, None]
        means = firsts / safe
        by_group = shares.reshape(groups, -1)
        weights = (by_group / by_group.sum(axis=1, keepdims=True)).reshape(-1)
        if self.variance is not None:
            return Parameters(weights, means, np.full(len(shares), self.variance))
        scatter = self.kind.fitted(shares, means, seconds / safe)
        if pull is not None:
            scatter = pull.step(self.count * shares, scatter)
        elif self.prior is not None:
            scatter = self.prior.pooled(self.count * shares, scatter)
        return Parameters(weights, means, self.kind.raised(scatter, self.floor))

    def revived(self, parameters: Parameters) -> Parameters:
        """The parameters, where need be with new starts for components that died out."""
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

        A long run is extrapolated (Anderson's mixing). Whatever does not gain is taken back: an
        extrapolation at once, covariances that went too far by halves. Where the last of
        ``max_iter`` steps leads is looked at too.
        """
        run, i = _Run(parameters), 0
        try:
            for i in range(1, max_iter + 2):
                step = self.step(run.parameters)
                gain = float(step.log_posterior[0]) - run.log_posterior
                if gain < -1e-13 * abs(run.log_posterior) and run.retreat():
                    continue
                run.accept(step)
                if abs(gain) < tol:
                    return run.result(min(i, max_iter), converged=True)
                if i > max_iter:
                    break
                alive = step.after
                if run.revivals < len(alive.weights):
                    alive = self.revived(step.after)
                if alive is not step.after:
                    run.restart(alive)
                else:
                    run.advance(self, i)
                if callback is not None:
                    callback(i, run.log_likelihood)
        except KeyboardInterrupt:
            return run.result(min(i, max_iter), interrupted=True)
        return run.result(max_iter)

    def look_at(self, starts: Sequence[Parameters], steps: int) -> list[EMResult]:
        """A few EM steps from each of some starts, all at once."""
        if self.kind.common or len(starts) == 1:  # one covariance a mixture, not a component
            return [self.fit(start, tol=0.0, max_iter=steps - 1) for start in starts]
        S = len(starts)
        at = Parameters(*(np.concatenate(parts) for parts in zip(*starts, strict=True)))
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


class _Run:
    """An EM run: the best point so far, where its step leads, and the point to look at next."""

    def __init__(self, start: Parameters) -> None:
        self.parameters = self.best = self.after = start
        self.log_posterior = self.log_likelihood = -np.inf
        self.revivals = self._halvings = 0
        self._guessed = False
        self._anderson = Anderson()

    def accept(self, step: Step) -> None:
        self.best, self.after = self.parameters, step.after
        self.log_posterior, self.log_likelihood = (
            float(step.log_posterior[0]),
            float(step.log_likelihood[0]),
        )
        self._halvings = 0

    def advance(self, em: EM, i: int) -> None:
        """On to where the step leads, or beyond it if the run is a long one."""
        self._guessed = i >= PATIENCE
        self.parameters = self.after
        if self._guessed:
            guess = self._anderson.guess(_encoded(self.best), _encoded(self.after))
            self.parameters = _decoded(em, guess, self.after)

    def retreat(self) -> bool:
        """Back from a point that was worth less; false where there is nothing to go back to."""
        if self._guessed:
            self._guessed = False
            self._anderson.forget()
            self.parameters = self.after
            return True
        self._halvings += 1
        if self._halvings > 20 or not np.isfinite(self.log_posterior):
            return False
        halfway = (self.best.covariances + self.parameters.covariances) / 2
        self.parameters = self.parameters._replace(covariances=halfway)
        return True

    def restart(self, alive: Parameters) -> None:
        self.revivals += 1
        self.log_posterior, self._guessed = -np.inf, False
        self._anderson.forget()
        self.parameters = alive

    def result(self, n_iter: int, converged: bool = False, interrupted: bool = False) -> EMResult:
        return EMResult(
            self.best, self.log_likelihood, n_iter, converged, interrupted, self.log_posterior
        )


def _encoded(parameters: Parameters) -> np.ndarray:
    """Parameters as one vector, for extrapolation."""
    weights, means, covariances = parameters
    logs = np.log(np.maximum(weights, 1e-300))
    return np.concatenate([logs, means.reshape(-1), covariances.reshape(-1)])


def _decoded(em: EM, x: np.ndarray, like: Parameters) -> Parameters:
    """The way back, to parameters that are valid."""
    m, size = len(like.weights), like.means.size
    weights = np.exp(x[:m] - np.max(x[:m]))
    covariances = x[m + size :].reshape(like.covariances.shape)
    if em.variance is None:
        covariances = em.kind.raised(covariances, em.floor)
    means = x[m : m + size].reshape(like.means.shape)
    return Parameters(weights / weights.sum(), means, covariances)


class Likelihood(EM):
    """The data of a maximum-likelihood fit, in centred and scaled coordinates.

    X (p, n); ``weights`` (p,) with sum 1, or None for equal ones, which together count for
    ``count`` rows, by default p. ``to_features`` (n, n) leads from these coordinates to the
    features in units of their own, where they differ.
    """

    def __init__(
        self,
        X: np.ndarray,
        weights: np.ndarray | None,
        kind: Kind,
        floor: Any,
        variance: float | None = None,
        prior: LogNormalPrior | None = None,
        count: float | None = None,
        to_features: np.ndarray | None = None,
    ) -> None:
        p, n = X.shape
        super().__init__(kind, floor, variance, prior, float(p) if count is None else count)
        self.X, self.to_features = X, to_features
        self.weights = np.full(p, 1 / p) if weights is None else weights
        self._least = 1.5 / self.count if self.count > 1 else 0.0
        width = kind.width(n)
        self._step = max(256, _BLOCK_BYTES // (8 * (2 * n + width)))
        # Squares are made again in each block; products of pairs of features are kept if they fit.
        keep = not kind.diagonal and 8 * p * width <= _CACHE_BYTES
        keep = keep or p <= self._step
        self._features = np.ascontiguousarray(kind.features(X)) if keep else None

    def part(
        self,
        rows: np.ndarray,
        weights: np.ndarray | None,
        share: float,
        prior: LogNormalPrior | None,
    ) -> Likelihood:
        """That of some of the rows, with other weights that are a share of all."""
        fixed = self.kind, self.floor, self.variance
        count = share * self.count
        return Likelihood(self.X[rows], weights, *fixed, prior, count, self.to_features)

    def _blocks(self) -> list[slice]:
        return [slice(a, a + self._step) for a in range(0, len(self.X), self._step)]

    def _quadratic(self, rows: slice) -> np.ndarray:
        if self._features is not None:
            return self._features[rows]
        return self.kind.features(self.X[rows])

    def _over_blocks(self, function: Callable[[slice], Any]) -> list[Any]:
        blocks = self._blocks()
        if len(blocks) == 1:
            return [function(blocks[0])]
        return parallel_map(function, blocks, worker_count(np))

    def log_joint(self, parameters: Parameters) -> np.ndarray:
        """log λ_j N(x_i; μ_j, Σ_j); (p, m)."""
        density = Density.of(self.kind, parameters)

        def block(rows: slice) -> np.ndarray:
            return density.log_joint(self.X[rows], self._quadratic(rows)).T

        return np.concatenate(self._over_blocks(block))

    def responsibilities(self, parameters: Parameters) -> tuple[np.ndarray, np.ndarray]:
        """Posterior probabilities (p, m) and log densities (p,)."""
        return softmax(self.log_joint(parameters))

    def value(self, parameters: Parameters) -> float:
        return float(self.weights @ self.responsibilities(parameters)[1])

    def sums(self, density: Density) -> tuple:
        def block(rows: slice) -> tuple:
            return density.step_sums(self.X[rows], self._quadratic(rows), self.weights[rows])

        return _summed(self._over_blocks(block))

    def from_responsibilities(self, R: np.ndarray) -> Parameters:
        """The M-step from responsibilities (p, m), which may leave some weight out."""

        def block(rows: slice) -> tuple:
            weighted = (R[rows] * self.weights[rows, None]).T
            return weighted.sum(axis=1), weighted @ self.X[rows], weighted @ self._quadratic(rows)

        return self.maximise(*_summed(self._over_blocks(block)))

    def revived(self, parameters: Parameters) -> Parameters:
        """Components left with less than about one sample start anew where the fit is worst."""
        weights, means, covariances = parameters
        dead = np.flatnonzero(weights < min(self._least, 0.5 / len(weights)))
        if len(dead) == 0:
            return parameters
        living = np.setdiff1d(np.arange(len(weights)), dead)
        if len(living) == 0:
            return parameters
        kept = self.kind.taken(covariances, living)
        alive = Parameters(weights[living], means[living], kept)
        _, log_density = self.responsibilities(alive)
        ranked = np.argsort(np.round(log_density, DIGITS), kind="stable")
        worst = np.resize(ranked, len(dead))  # some twice, where rows are few
        means, weights = means.copy(), weights.copy()
        means[dead] = self.X[worst]
        weights[dead] = 1 / len(weights)
        centre = self.weights @ self.X
        spread = np.diag(self.weights @ (self.X - centre) ** 2 / 4 + 1e-6)
        if self.variance is not None:
            spread = self.variance * np.eye(len(centre))
        fresh = self.kind.repeated(len(dead), spread)
        if self.variance is None:
            fresh = self.kind.raised(fresh, self.floor)
        covariances = self.kind.replaced(covariances, list(dead), fresh)
        return Parameters(weights / weights.sum(), means, covariances)


def _summed(parts: list[tuple]) -> tuple:
    return parts[0] if len(parts) == 1 else tuple(sum(part) for part in zip(*parts, strict=True))


def softmax(L: np.ndarray, axis: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """exp(L) with sum 1 along the axis, and the logarithms of the sums; L is overwritten."""
    highest = L.max(axis=axis, keepdims=True)
    L -= highest
    np.exp(L, out=L)
    total = L.sum(axis=axis, keepdims=True)
    L /= total
    return L, np.squeeze(highest + np.log(total), axis=axis)
