"""Mixtures near a solution with one component more or one less, from which EM goes on.

The gain of a split and the loss of a merge are computed as in moves.py. There a split has to gain
more than a merge loses; here each is made alone.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from momentmix.covariance import Kind
from momentmix.data.content import DIGITS
from momentmix.data.parameters import Parameters
from momentmix.likelihood.moves import drop_losses, merge_losses, merge_pair, principal_axes
from momentmix.likelihood.rows import RowLikelihood

#: A component is cut along each of the AXES that ``principal_axes`` returns, if at least LEAST_ROWS
#: rows are mostly its own. The latter is a round number that was not tuned; moves.py has it too.
AXES, LEAST_ROWS = 3, 8


def grown(
    likelihood: RowLikelihood, parameters: Parameters, rng: np.random.Generator
) -> list[Parameters]:
    """Mixtures with one component cut in two; the cut that should gain most comes first.

    Each cut goes through the mean of a component, across one of a few axes. The classification
    likelihood compares the cuts before EM has taken a step: a cut through one Gaussian loses
    log 2 + ½ log(1 - 2/π) = 0.19 nats per row, and one between two clusters gains.
    """
    kind, X, m = likelihood.kind, likelihood.X, len(parameters.weights)
    R, _ = likelihood.responsibilities(parameters)
    along = np.zeros((AXES, *R.shape))
    for k in range(m):
        own = np.flatnonzero(R[:, k] > 0.5)
        weights = likelihood.weights[own] * R[own, k]
        if len(own) >= LEAST_ROWS and (share := float(weights.sum())) > 0:
            weights = weights / share
            centre = weights @ X[own]
            axes = principal_axes(X[own] - centre, weights, kind.by_feature, rng)
            along[:, :, k] = ((X - centre) @ axes.T).T
    cuts: list[tuple[float, int, Parameters]] = []
    for one in along:
        above = one > 10.0**-DIGITS * np.abs(one).max(axis=0)
        halves = likelihood.from_responsibilities(np.hstack([R * above, R * ~above]))
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


def shrunk(likelihood: RowLikelihood, parameters: Parameters) -> list[Parameters]:
    """Mixtures with two components merged or one left out; the least expected loss comes first."""
    kind, m = likelihood.kind, len(parameters.weights)
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
