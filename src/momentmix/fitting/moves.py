"""Exchanges and steps between numbers of components: split, merge, add, remove.

EM cannot leave an optimum where one component covers two clusters and two components share one
cluster. An exchange of a merge for a split can. The gain of splitting a component is measured by a
small EM fit of two components to its own samples; the loss of merging two follows in closed form
from their moments. In an exchange, a split has to gain more than a merge loses. To get a mixture
with one component more or one less, from which EM goes on, each is made alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from itertools import combinations
from typing import NamedTuple

import numpy as np

from momentmix.covariance import Kind, LogNormalPrior, Spherical
from momentmix.fit import DIGITS, Fit, Parameters
from momentmix.fitting.em import (
    Likelihood,
    LikelihoodHere,
    Target,
    from_responsibilities,
    part_of,
    responsibilities,
    single,
)
from momentmix.fitting.starts import whitener_of
from momentmix.rows.memory import MemoryRows, blunt, blunted, softmax
from momentmix.support.stopping import stopped

#: The EM steps after which a split, and an exchange, is judged. These are round numbers that were
#: not tuned: with fewer steps a search is faster and judges less well.
SPLIT_STEPS, EXCHANGE_STEPS = 8, 12
#: After its first steps an exchange goes on only if it is at most this many nats per row below the
#: best solution. This is a round number that was not tuned; a larger one costs time.
PROMISING = 0.2
#: The last repair of large data tries this many exchanges even if they promise no gain. An exchange
#: often gains more than it promised, because other components take over what a merge leaves; more
#: are tried while the surplus seen so far would make them gain. The number was not tuned.
TRIED_ANYWAY = 2
#: With at most this many entries of X, the steps of several mixtures at once cost little more than
#: those of one, so a search tries more starts and exchanges. This is a round number that was not
#: tuned.
SMALL_DATA = 10_000
#: A component is cut along each of the AXES that ``principal_axes`` returns, if at least LEAST_ROWS
#: rows are mostly its own. The latter is a round number that was not tuned.
AXES, LEAST_ROWS = 3, 8
#: The iterations that find the longest axis of a component. This is a round number that was not
#: tuned; the axis may be rough, because EM follows.
POWER_STEPS = 20


#: Pairs to merge and components to leave out that are tried with each split, those that cost least.
#: A round number, not tuned: up to 90 components all are tried; with 200 a fit no longer takes a
#: time that grows as the cube of their number.
MOST_SACRIFICES = 4096


class Exchange(NamedTuple):
    """Component k is split into two; in return i and j are merged, or i is left out if i = j."""

    gain: float  # the expected gain in mean log-likelihood
    k: int
    i: int
    j: int


class Attempt(NamedTuple):
    """A mixture after one or more exchanges, and the gain that they promise."""

    gain: float
    parameters: Parameters


class Split(NamedTuple):
    """Two components in place of one, and their gain in mean log-likelihood."""

    gain: float
    weights: np.ndarray  # (2,), shares of the component's own weight
    means: np.ndarray
    covariances: np.ndarray


def split_and_merge(
    likelihood: LikelihoodHere,
    fit: Fit,
    rng: np.random.Generator,
    *,
    tol: float,
    max_iter: int,
    tries: int = 5,
    anyway: int = 1,
    seen: Callable[[Fit], bool] = lambda fit: False,
) -> Fit:
    """Exchange merges for splits as long as one of the ``tries`` most promising exchanges gains.

    On small data all of them take their first steps at once, and the best goes on. On large data
    exchanges that promise nothing are left out, but ``anyway`` of them are tried in any case. A way
    that comes to an optimum that was ``seen`` before ends there. After Ctrl-C the best so far is
    the result.

    By how much the last exchanges gained more than they promised is the surplus that the next are
    trusted with; each vain one halves it. One tried anyway is the least that can correct a promise.
    Neither was tuned.
    """
    if len(fit.parameters.weights) < 2:
        return fit
    n_iter = fit.n_iter
    together = tries if likelihood.rows.X.size <= SMALL_DATA else 1
    improved, surplus = True, 0.0
    while improved and not stopped():
        improved = False
        candidates = _candidates(likelihood, fit.parameters, rng)[:tries]
        for i in range(0, len(candidates), together):
            batch = candidates[i : i + together]
            promise = batch[0].gain
            if stopped() or (together == 1 and i >= anyway and promise + surplus <= 0):
                break
            starts = [one.parameters for one in batch]
            trial = likelihood.best_after(starts, EXCHANGE_STEPS)
            n_iter += trial.n_iter
            if trial.log_posterior >= fit.log_posterior - PROMISING:
                trial = likelihood.fit(trial.parameters, tol=tol, max_iter=max_iter)
                n_iter += trial.n_iter
            gain = trial.log_posterior - fit.log_posterior
            surplus = max(surplus / 2, gain - promise)
            if gain > 10 * tol:
                fit, improved = trial, not seen(trial)
                break
    return replace(fit, n_iter=n_iter)


def relocations(
    likelihood: LikelihoodHere, parameters: Parameters, rng: np.random.Generator, count: int
) -> list[Parameters]:
    """Mixtures with one component moved onto the samples around a random sample.

    They lead to small tight clusters, which splits do not find.
    """
    X, (p, m) = likelihood.rows.X, (len(likelihood.rows.X), len(parameters.weights))
    R, _ = responsibilities(likelihood, parameters)
    result = []
    for _ in range(count):
        i = int(rng.integers(m))
        squares = np.sum((X - X[rng.integers(p)]) ** 2, axis=1)
        near = np.argsort(np.round(squares, DIGITS), kind="stable")
        rows = near[: int(np.exp(rng.uniform(np.log(3), np.log(max(4, p / m)))))]
        trial = R.copy()
        trial[:, i] = 0
        trial /= np.maximum(trial.sum(axis=1, keepdims=True), 1e-300)
        trial[rows] = 0
        trial[rows, i] = 1
        result.append(from_responsibilities(likelihood, trial))
    return result


def _candidates(
    likelihood: LikelihoodHere, parameters: Parameters, rng: np.random.Generator
) -> list[Attempt]:
    """Mixtures with one component split, and two others merged or one other left out.

    The most promising come first. The very first makes several promising exchanges at once, none of
    which touches a component of another.
    """
    kind, m = likelihood.target.kind, len(parameters.weights)
    dropped = drop_losses(likelihood, parameters)
    R, _ = responsibilities(likelihood, parameters)
    prior = likelihood.target.prior
    penalties = np.zeros(m)
    if prior is not None:
        pull = prior.at(parameters.covariances)
        prior, penalties = prior.about(pull.centre[0]), pull.penalties / likelihood.rows.count
    splits = _splits(likelihood, parameters, R, prior, rng)
    splits = {k: split for k, split in splits.items() if split.gain > 0}
    if not splits:
        return []
    losses = merge_losses(kind, parameters, prior, likelihood.rows.count)
    dropped -= penalties
    i, j = np.triu_indices(m)
    lost = np.where(i == j, dropped[i], losses[i, j])
    cheap = np.sort(np.argsort(np.round(lost, DIGITS), kind="stable")[:MOST_SACRIFICES])
    scored = _ranked(
        {k: split.gain for k, split in splits.items()}, lost[cheap], i[cheap], j[cheap]
    )

    def made(mixture: Parameters, exchange: Exchange) -> Parameters:
        return _exchange(kind, mixture, splits[exchange.k], exchange)

    kept = _without_repetition(scored, 2 * m)
    found = [Attempt(exchange.gain, made(parameters, exchange)) for exchange in kept]
    together = _independent(scored)
    if len(together) > 1:
        gain = sum(exchange.gain for exchange in together)
        found.insert(0, Attempt(gain, reduce(made, together, parameters)))
    return found


def _ranked(
    gains: dict[int, float], lost: np.ndarray, i: np.ndarray, j: np.ndarray
) -> list[Exchange]:
    """Each split with each sacrifice that leaves it alone, by what they gain, the best first."""
    each = np.array([*gains])
    k, at = np.repeat(each, len(lost)), np.tile(np.arange(len(lost)), len(each))
    alone = (i[at] != k) & (j[at] != k)
    k, at = k[alone], at[alone]
    gain = np.array([gains.get(x, 0.0) for x in range(max(gains) + 1)])[k] - lost[at]
    order = np.lexsort((j[at], i[at], k, -np.round(gain, DIGITS)))
    columns = (x[order].tolist() for x in (gain, k, i[at], j[at]))
    return [*map(Exchange, *columns)]


def _without_repetition(scored: list[Exchange], most: int) -> list[Exchange]:
    """The best exchanges, except those whose split and whose merge both occur in better ones."""
    kept: list[Exchange] = []
    splits: set[int] = set()
    sacrifices: set[tuple[int, int]] = set()
    for exchange in scored:
        sacrifice = exchange.i, exchange.j
        if exchange.k in splits and sacrifice in sacrifices:
            continue
        splits.add(exchange.k)
        sacrifices.add(sacrifice)
        kept.append(exchange)
        if len(kept) == most:
            break
    return kept


def _independent(scored: list[Exchange]) -> list[Exchange]:
    """Exchanges that should gain, the best first, no two of which touch the same component."""
    kept: list[Exchange] = []
    touched: set[int] = set()
    for exchange in scored:
        if exchange.gain <= 0:
            break
        components = set(exchange[1:])
        if touched.isdisjoint(components):
            touched |= components
            kept.append(exchange)
    return kept


def drop_losses(likelihood: LikelihoodHere, parameters: Parameters) -> np.ndarray:
    """The loss of mean log-likelihood when one component is left out, for each; (m,)."""
    sharpness = likelihood.target.sharpness
    L, weights, shares = (
        likelihood.rows.log_joint(blunted(parameters, sharpness)),
        likelihood.rows.weights,
        parameters.weights,
    )
    beyond = likelihood.rows.background(parameters, likelihood.target.box, 1, sharpness)
    background = None if beyond is None else beyond[0].T
    p, m = L.shape
    top = np.argmax(L, axis=1)
    rest = L.copy()
    rest[np.arange(p), top] = -np.inf
    alone = m == 1 and background is None
    without_top = np.full(p, -np.inf)
    if not alone:
        without_top = softmax(rest, 1, background, sharpness)[1]
    R, log_density = softmax(L, 1, background, sharpness)
    R[np.arange(p), top] = 0
    losses = -(weights @ np.log1p(-R)) / sharpness
    losses += np.bincount(top, weights * (log_density - without_top), minlength=m)
    return losses + blunt(sharpness) * np.log1p(-np.minimum(shares, 1 - 1e-16))


class Cuts(NamedTuple):
    """Component k cut in two in a few ways, on the rows that are mostly its own."""

    k: int
    places: np.ndarray  # of these rows
    share: float  # their weight, by their probabilities
    local: LikelihoodHere  # of these rows
    starts: list[Parameters]
    unit: np.ndarray | None = None  # U, if the rows of ``local`` are those of xᵀU

    @property
    def whole(self) -> float:
        """What the rows contribute to the mean log-posterior if the component stays whole."""
        one = single(self.local)
        return self.share * (self.local.value(one) - self.local.penalty(one))

    def back(self, means: np.ndarray) -> np.ndarray:
        """Means in the coordinates of X."""
        return means if self.unit is None else np.linalg.solve(self.unit.T, means.T).T


def _cuts(
    likelihood: LikelihoodHere,
    parameters: Parameters,
    k: int,
    r: np.ndarray,
    rng: np.random.Generator,
) -> list[Cuts]:
    """The cuts of component k with responsibilities r (p,), if it has enough rows.

    A matrix that all components share stays as it is, because few rows would not tell it: in units
    of it, two balls of known variance are to be fitted.
    """
    own = np.flatnonzero(r > 0.5)
    weights = likelihood.rows.weights[own] * r[own]
    share = float(weights.sum())
    if len(own) < LEAST_ROWS or share <= 0:
        return []
    weights = weights / share
    kind, X, unit = likelihood.target.kind, likelihood.rows.X[own], None
    local = part_of(likelihood, own, weights, share)
    if kind.common and not kind.thin and likelihood.rows.complete:
        unit = kind.precision_cholesky(parameters.covariances)[1]
        X = X @ unit
        balls = Target(Spherical, 0.0, variance=1.0, sharpness=likelihood.target.sharpness)
        local = Likelihood(MemoryRows(X, weights, Spherical, local.rows.count), balls)
    X = X - weights @ X
    along = X @ principal_axes(X, weights, kind.by_feature, rng).T
    middle = 10.0**-DIGITS * np.abs(along).max(axis=0)
    sides = [side for side in (along > middle).T if 2 <= side.sum() <= len(side) - 2]
    halves = [np.column_stack([side, ~side]).astype(float) for side in sides]
    starts = [from_responsibilities(local, R) for R in halves]
    return [Cuts(k, own, share, local, starts, unit)] if starts else []


def _splits(
    likelihood: LikelihoodHere,
    parameters: Parameters,
    R: np.ndarray,
    prior: LogNormalPrior | None,
    rng: np.random.Generator,
) -> dict[int, Split]:
    """The best of a few splits of each component, by EM on the samples that are mostly its own.

    On small data all of them take their steps at once, each with weights of its own for all rows.
    """
    rows, kind = likelihood.rows, likelihood.target.kind
    alone = replace(likelihood, target=replace(likelihood.target, prior=prior, box=None))
    each = [cuts for k in range(R.shape[1]) for cuts in _cuts(alone, parameters, k, R[:, k], rng)]
    owners = [cuts for cuts in each for _ in cuts.starts]
    small = rows.complete and rows.X.size <= SMALL_DATA and not kind.together
    if small and len(owners) > 1:
        weights = np.zeros((len(owners), len(rows.X)))
        for one, cuts in zip(weights, owners, strict=True):
            one[cuts.places] = cuts.share * cuts.local.rows.weights
        together = replace(alone, rows=MemoryRows(rows.X, weights, kind, rows.count))
        trials = together.try_steps([start for cuts in each for start in cuts.starts], SPLIT_STEPS)
        worths = [two.log_posterior for two in trials]
    else:
        trials = [two for cuts in each for two in cuts.local.try_steps(cuts.starts, SPLIT_STEPS)]
        worths = [cuts.share * two.log_posterior for cuts, two in zip(owners, trials, strict=True)]
    best: dict[int, Split] = {}
    whole = {cuts.k: cuts.whole for cuts in each}
    for cuts, two, worth in zip(owners, trials, worths, strict=True):
        gain = round(worth - whole[cuts.k], DIGITS)
        if np.isfinite(gain) and (cuts.k not in best or gain > best[cuts.k].gain):
            weights, means, covariances = two.parameters
            best[cuts.k] = Split(gain, weights, cuts.back(means), covariances)
    return best


def principal_axes(
    X: np.ndarray, weights: np.ndarray, by_feature: bool, rng: np.random.Generator
) -> np.ndarray:
    """Directions along which centred samples may fall into two clusters; (3, n).

    The first is the longest axis. The second is the longest axis in units of each feature's
    standard deviation if the covariance type treats features one by one (``by_feature``), else the
    direction of least kurtosis, which separates two clusters. The third leads from one random
    sample to another.
    """
    far = X[np.argmax(np.einsum("ij,ij->i", X, X))]
    axes = [_longest(X, weights, far)]
    if by_feature:
        scale = 1 / (np.sqrt(weights @ (X * X)) + 1e-150)
        axes.append(scale * _longest(X * scale, weights, far * scale))
    else:
        axes.append(_flattest(X, weights))
    i, j = rng.choice(len(X), 2, p=weights)
    return np.stack([*axes, X[i] - X[j]])


def _longest(X: np.ndarray, weights: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The leading principal axis, by power iteration from v."""
    for _ in range(POWER_STEPS):
        v = (weights * (X @ v)) @ X
        v = v / max(float(np.linalg.norm(v)), 1e-300)
    return v


def _flattest(X: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The direction of least kurtosis, from a covariance that weights samples by their distance."""
    whitener = whitener_of(X, weights)
    Y = X @ whitener
    squares = np.einsum("ij,ij->i", Y, Y)
    second = (Y * (weights * squares)[:, None]).T @ Y
    return whitener @ np.linalg.eigh(second)[1][:, 0]


def merge_losses(
    kind: Kind, parameters: Parameters, prior: LogNormalPrior | None = None, count: float = 1.0
) -> np.ndarray:
    """The loss of mean log-likelihood if a pair is merged and no components overlap; (m, m).

    A component of share λ and covariance Σ contributes λ (log λ - log det Σ / 2) + constant, less
    the penalty of a prior with a fixed centre for each of ``count`` rows.
    """
    if kind.common:
        return _common_losses(kind, parameters)

    def worth(shares: np.ndarray, covariances: np.ndarray) -> np.ndarray:
        half_logs = kind.of(covariances, parameters.means.shape[1]).half_log_determinants()
        own = shares * (np.log(np.maximum(shares, 1e-300)) - half_logs)
        return np.asarray(own if prior is None else own - prior.at(covariances).penalties / count)

    m = len(parameters.weights)
    own, losses = worth(parameters.weights, parameters.covariances), np.full((m, m), np.inf)
    for i in range(m - 1):
        pairs = [merge_pair(kind, parameters, i, j) for j in range(i + 1, m)]
        shares, _, merged = (np.array(part) for part in zip(*pairs, strict=True))
        losses[i, i + 1 :] = losses[i + 1 :, i] = own[i] + own[i + 1 :] - worth(shares, merged)
    return losses


def _common_losses(kind: Kind, parameters: Parameters) -> np.ndarray:
    """The same loss for components that share a covariance; (m, m).

    To first order it is λ_i λ_j d² / (2 λ) + λ_i log λ_i + λ_j log λ_j - λ log λ for λ = λ_i + λ_j,
    where d² is the squared distance of the means in units of the covariance.
    """
    weights, means, covariances = parameters
    squares, _ = kind.whitened_squares(covariances, means[None] - means[:, None])
    share = weights[:, None] + weights
    own = weights * np.log(np.maximum(weights, 1e-300))
    return np.asarray(
        np.outer(weights, weights) / share * squares / 2
        + (own[:, None] + own)
        - share * np.log(np.maximum(share, 1e-300))
    )


def merge_pair(
    kind: Kind, parameters: Parameters, i: int, j: int
) -> tuple[float, np.ndarray, np.ndarray]:
    """Share, mean and covariance of two components together; a shared covariance stays as it is."""
    weights, means, covariances = parameters
    share = float(weights[i] + weights[j])
    a, b = (weights[i] / share, weights[j] / share) if share > 0 else (0.5, 0.5)  # both empty
    mean = a * means[i] + b * means[j]
    if kind.common:
        return share, mean, covariances
    return share, mean, kind.merge((a, b), covariances[i], covariances[j], means[i] - means[j])


def _exchange(kind: Kind, parameters: Parameters, split: Split, exchange: Exchange) -> Parameters:
    """Put the halves of k into places k and j, and i and j merged into i; i = j is left out."""
    _, k, i, j = exchange
    weights, means = parameters.weights.copy(), parameters.means.copy()
    covariances = kind.replace_components(parameters.covariances, [k, j], split.covariances)
    weights[[k, j]], means[[k, j]] = weights[k] * split.weights, split.means
    if i != j:
        weights[i], means[i], one = merge_pair(kind, parameters, i, j)
        covariances = kind.replace_components(covariances, [i], one[None])
    weights *= parameters.weights.sum() / weights.sum()
    return Parameters(weights, means, covariances)


def grown(
    likelihood: LikelihoodHere, parameters: Parameters, rng: np.random.Generator
) -> list[Parameters]:
    """Mixtures with one component cut in two; the cut that should gain most comes first.

    Each cut goes through the mean of a component, across one of a few axes. The classification
    likelihood compares the cuts before EM has taken a step: a cut through one Gaussian loses
    log 2 + ½ log(1 - 2/π) = 0.19 nats per row, and one between two clusters gains.
    """
    kind, X, m = likelihood.target.kind, likelihood.rows.X, len(parameters.weights)
    R, _ = responsibilities(likelihood, parameters)
    along = np.zeros((AXES, *R.shape))
    for k in range(m):
        own = np.flatnonzero(R[:, k] > 0.5)
        weights = likelihood.rows.weights[own] * R[own, k]
        if len(own) >= LEAST_ROWS and (share := float(weights.sum())) > 0:
            weights = weights / share
            centre = weights @ X[own]
            axes = principal_axes(X[own] - centre, weights, kind.by_feature, rng)
            along[:, :, k] = ((X - centre) @ axes.T).T
    cuts: list[tuple[float, int, Parameters]] = []
    for one in along:
        above = one > 10.0**-DIGITS * np.abs(one).max(axis=0)
        halves = from_responsibilities(likelihood, np.hstack([R * above, R * ~above]))
        for k, gain in enumerate(_cut_gains(kind, parameters, halves)):
            if np.isfinite(gain):
                cuts.append((gain, k, _divide(kind, parameters, k, halves)))
    cuts.sort(key=lambda cut: (-np.round(cut[0], DIGITS), cut[1]))
    return [cut for _, _, cut in cuts]


def _cut_gains(kind: Kind, parameters: Parameters, halves: Parameters) -> np.ndarray:
    """The gain of each cut in mean classification likelihood; (m,), -∞ for an empty half."""
    m, n = parameters.means.shape

    def own(part: Parameters) -> np.ndarray:
        shares = np.maximum(part.weights, 1e-300)
        return shares * (np.log(shares) - kind.of(part.covariances, n).half_log_determinants())

    parts = own(halves)
    gains = parts[:m] + parts[m:] - own(parameters)
    return np.where(np.minimum(halves.weights[:m], halves.weights[m:]) > 0, gains, -np.inf)


def shrunk(likelihood: LikelihoodHere, parameters: Parameters) -> list[Parameters]:
    """Mixtures with two components merged or one left out; the least expected loss comes first."""
    kind, m = likelihood.target.kind, len(parameters.weights)
    dropped = drop_losses(likelihood, parameters)
    losses = merge_losses(kind, parameters)
    scored = [(float(dropped[i]), i, i) for i in range(m)]
    scored += [(float(losses[i, j]), i, j) for i, j in combinations(range(m), 2)]
    scored.sort(key=lambda one: (np.round(one[0], DIGITS), one[1:]))
    return [_unite(kind, parameters, i, j) for _, i, j in scored]


def _divide(kind: Kind, parameters: Parameters, k: int, halves: Parameters) -> Parameters:
    """Replace component k by its halves, k and m + k of ``halves``, at places k and m."""
    weights, means, covariances = parameters
    m = len(weights)
    places, two = np.append(np.arange(m), k), np.array([k, m + k])
    weights, means = weights[places], means[places]
    weights[[k, m]], means[[k, m]] = halves.weights[two], halves.means[two]
    fresh = kind.take_components(halves.covariances, two)
    widths = kind.replace_components(kind.take_components(covariances, places), [k, m], fresh)
    weights *= parameters.weights.sum() / weights.sum()
    return Parameters(weights, means, widths)


def _unite(kind: Kind, parameters: Parameters, i: int, j: int) -> Parameters:
    """Merge components i and j into place i, or leave i out if i = j."""
    weights, means, covariances = (part.copy() for part in parameters)
    if i != j:
        weights[i], means[i], one = merge_pair(kind, parameters, i, j)
        covariances = kind.replace_components(covariances, [i], one[None])
    kept = np.delete(np.arange(len(weights)), j)
    weights = weights[kept] * (parameters.weights.sum() / weights[kept].sum())
    return Parameters(weights, means[kept], kind.take_components(covariances, kept))
