"""Split and merge: leave a local optimum of the likelihood where one component covers two clusters
and two share one, which EM cannot do by itself.

The gain of splitting a component is measured by a small EM fit of two components to its own
samples; the loss of merging two is known in closed form from their moments.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np

from momentmix.covariance import make_covariance, merged_covariance, replaced
from momentmix.em import EMResult, Likelihood, Parameters, softmax


class Split(NamedTuple):
    """Two components in place of one, and what they gain in mean log-likelihood."""

    gain: float
    weights: np.ndarray  # (2,), shares of the component's own weight
    means: np.ndarray
    covariances: np.ndarray


def split_and_merge(
    likelihood: Likelihood,
    fit: EMResult,
    rng: np.random.Generator,
    *,
    tol: float,
    max_iter: int,
    tries: int,
) -> EMResult:
    """Exchange merges for splits as long as one of the ``tries`` most promising gains."""
    if len(fit.parameters.weights) < 3 or likelihood.kind == "tied" or fit.interrupted:
        return fit
    n_iter = fit.n_iter
    improved = True
    while improved:
        improved = False
        for candidate in _candidates(likelihood, fit.parameters, rng)[:tries]:
            trial = likelihood.fit(candidate, tol=tol, max_iter=12)
            n_iter += trial.n_iter
            if trial.worth < fit.worth - 0.05 and not trial.interrupted:
                continue
            if not trial.converged and not trial.interrupted:
                trial = likelihood.fit(trial.parameters, tol=tol, max_iter=max_iter)
                n_iter += trial.n_iter
            if trial.worth > fit.worth + 10 * tol:
                fit, improved = trial, True
                break
            if trial.interrupted:
                return fit._replace(n_iter=n_iter, interrupted=True)
    return fit._replace(n_iter=n_iter)


def relocate(
    likelihood: Likelihood,
    fit: EMResult,
    rng: np.random.Generator,
    *,
    tol: float,
    max_iter: int,
    tries: int,
) -> EMResult:
    """Move a component that is cheap to lose onto the samples around a random one, if it gains.

    Finds small tight clusters, which no split points to. Each try is a few EM steps.
    """
    m, p = len(fit.parameters.weights), len(likelihood.X)
    if m < 2 or fit.interrupted:
        return fit
    n_iter, fresh = fit.n_iter, True
    for _ in range(tries):
        if fresh:
            log_joint = likelihood.log_joint(fit.parameters)
            losses = drop_losses(log_joint.copy(), likelihood.weights, fit.parameters.weights)
            R, _ = softmax(log_joint)
            # Cheap ones more often, none never.
            ranks = np.argsort(np.argsort(losses))
            chance = 0.5**ranks
            fresh = False
        i = int(rng.choice(m, p=chance / chance.sum()))
        near = np.sum((likelihood.X - likelihood.X[rng.integers(p)]) ** 2, axis=1)
        count = int(np.exp(rng.uniform(np.log(3), np.log(max(4, p / m)))))
        chosen = np.argsort(near)[:count]
        trial = R.copy()
        trial[:, i] = 0
        trial /= np.maximum(trial.sum(axis=1, keepdims=True), 1e-300)
        trial[chosen] = 0
        trial[chosen, i] = 1
        result = likelihood.fit(likelihood.from_responsibilities(trial), tol=1e-4, max_iter=25)
        n_iter += result.n_iter
        if result.worth > fit.worth - 0.01:
            result = likelihood.fit(result.parameters, tol=tol, max_iter=max_iter)
            n_iter += result.n_iter
        if result.worth > fit.worth + 10 * tol:
            fit, fresh = result, True
        if result.interrupted:
            return fit._replace(n_iter=n_iter, interrupted=True)
    return fit._replace(n_iter=n_iter)


def _candidates(
    likelihood: Likelihood, parameters: Parameters, rng: np.random.Generator
) -> list[Parameters]:
    """Mixtures with one component split, and two others merged or one other left out.

    The most promising come first.
    """
    kind, m = likelihood.kind, len(parameters.weights)
    log_joint = likelihood.log_joint(parameters)
    dropped = drop_losses(log_joint.copy(), likelihood.weights, parameters.weights)
    merged = merge_losses(kind, parameters)
    R, _ = softmax(log_joint)
    splits = {k: _split(likelihood, R[:, k], rng) for k in range(m)}
    scored: list[tuple[float, int, int, int]] = []
    for k, split in splits.items():
        if split.gain > -np.inf:
            others = [i for i in range(m) if i != k]
            scored += [(split.gain - dropped[i], k, i, i) for i in others]
            scored += [(split.gain - merged[i, j], k, i, j) for i, j in combinations(others, 2)]
    scored.sort(reverse=True)
    chosen: list[Parameters] = []
    seen: set[tuple[int, int, int]] = set()
    for _, k, i, j in scored:
        # After one candidate with a split and one with a sacrifice, their further pairings wait.
        if {(k, k, -1), (i, j, 0)} <= seen:
            continue
        seen |= {(k, k, -1), (i, j, 0)}
        chosen.append(_exchanged(kind, parameters, splits[k], k, i, j))
        if len(chosen) == 2 * m:
            break
    return chosen


def drop_losses(L: np.ndarray, weights: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """What leaving out each component costs in mean log-likelihood, the others kept; (m,).

    L (p, m) is log λ_j N(x_i; μ_j, Σ_j), and is overwritten.
    """
    p, m = L.shape
    top = np.argmax(L, axis=1)
    rest = L.copy()
    rest[np.arange(p), top] = -np.inf
    _, without_top = softmax(rest) if m > 1 else (rest, np.full(p, -np.inf))
    R, log_density = softmax(L)
    R[np.arange(p), top] = 0
    losses = -(weights @ np.log1p(-R))
    losses += np.bincount(top, weights * (log_density - without_top), minlength=m)
    return losses + np.log1p(-np.minimum(shares, 1 - 1e-16))


def _split(likelihood: Likelihood, r: np.ndarray, rng: np.random.Generator) -> Split:
    """The best of a few splits of one component, by EM on the samples that are mostly its own.

    The gain is -∞ where there are too few of them.
    """
    best = Split(-np.inf, *[np.empty(0)] * 3)
    own = np.flatnonzero(r > 0.5)
    weights = likelihood.weights[own] * r[own]
    share = float(weights.sum())
    if len(own) < 8 or share <= 0:
        return best
    local = likelihood.part(own, weights / share)
    X = local.X
    one = local.from_responsibilities(np.ones((len(own), 1)))
    single = local.value(one)
    for direction in _directions(local, one, rng):
        side = (X - one.means[0]) @ direction > 0
        if not 2 <= side.sum() <= len(side) - 2:
            continue
        start = local.from_responsibilities(np.column_stack([side, ~side]).astype(float))
        two = local.fit(start, tol=1e-3, max_iter=10)
        gain = share * (two.log_likelihood - single)
        if np.isfinite(gain) and gain > best.gain:
            best = Split(gain, *two.parameters)
    return best


def _directions(local: Likelihood, one: Parameters, rng: np.random.Generator) -> list[np.ndarray]:
    """Where a component may fall apart: its longest axis, as it is and in its own metric."""
    centred = (local.X - one.means[0]) * np.sqrt(local.weights)[:, None]
    variances = np.sum(centred**2, axis=0) + 1e-300
    raw = np.linalg.svd(centred, full_matrices=False)[2][0]
    scaled = np.linalg.svd(centred / np.sqrt(variances), full_matrices=False)[2][0]
    return [raw, scaled / np.sqrt(variances), rng.normal(size=len(raw)) / np.sqrt(variances)]


def merge_losses(kind: str, parameters: Parameters) -> np.ndarray:
    """What merging each pair costs in mean log-likelihood if components do not overlap; (m, m).

    A component of share λ and covariance Σ contributes λ (log λ - log det Σ / 2) + constant.
    """
    weights, means, covariances = parameters
    m, n = means.shape
    covariance = make_covariance(kind, covariances, n)
    half_logs = covariance.half_log_determinants()
    own = weights * (np.log(np.maximum(weights, 1e-300)) - half_logs)
    losses = np.full((m, m), np.inf)
    for i, j in combinations(range(m), 2):
        share, _, merged = _merged(kind, parameters, i, j)
        half_log = make_covariance(kind, merged[None], n).half_log_determinants()[0]
        losses[i, j] = losses[j, i] = own[i] + own[j] - share * (np.log(share) - half_log)
    return losses


def _merged(
    kind: str, parameters: Parameters, i: int, j: int
) -> tuple[float, np.ndarray, np.ndarray]:
    weights, means, covariances = parameters
    share = float(weights[i] + weights[j])
    a, b = weights[i] / share, weights[j] / share
    mean = a * means[i] + b * means[j]
    within = a * covariances[i] + b * covariances[j]
    return share, mean, within + a * b * merged_covariance(kind, means[i] - means[j])


def _exchanged(
    kind: str, parameters: Parameters, split: Split, k: int, i: int, j: int
) -> Parameters:
    """k split into places k and j; i and j merged into place i, or i = j left out."""
    weights, means = parameters.weights.copy(), parameters.means.copy()
    covariances = replaced(kind, parameters.covariances, [k, j], split.covariances)
    weights[[k, j]], means[[k, j]] = weights[k] * split.weights, split.means
    if i != j:
        weights[i], means[i], merged = _merged(kind, parameters, i, j)
        covariances = replaced(kind, covariances, [i], merged[None])
    return Parameters(weights / weights.sum(), means, covariances)
