"""Quantiles of rows beside those that a mixture leads one to expect, for pictures."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr
from scipy.stats import beta, chi2

from momentmix.distributions.given_rows import probabilities
from momentmix.distributions.mixture import Mixture
from momentmix.goodness.given import checked_rows, mixture_of
from momentmix.support.array import ArrayLike, to_numpy

#: Points of a picture: evenly spaced, and beside them the outermost ones.
_EVENLY, _OUTERMOST = 200, 25
#: Points at which a distribution function of a mixture is computed.
_GRID = 4000


class Quantiles(NamedTuple):
    """Of rows, and of the mixture at the same ranks, with what chance leads one to expect."""

    expected: np.ndarray  # (q,), rising
    found: np.ndarray  # (q,)
    low: np.ndarray  # (q,), of what 95 % of samples of a known mixture would have, rank by rank
    high: np.ndarray  # (q,)


class Projection(NamedTuple):
    """The rows along one direction."""

    name: str
    quantiles: Quantiles
    distance: float  # the largest difference of the two distribution functions


def complete_rows(mixture: Mixture, X: ArrayLike) -> np.ndarray:
    """Rows in which gaps are filled once at random, given the other values of the row."""
    rows = checked_rows(X, gaps=True)
    if rows.shape[1] != mixture.n_features:
        raise ValueError(
            f"X has {rows.shape[1]} feature(s), but the mixture has {mixture.n_features}"
        )
    rows = rows[~np.isnan(rows).all(axis=1)]
    if not np.isnan(rows).any():
        return rows
    return to_numpy(mixture.impute(rows, 1, random_state=0))[0]


def distance_quantiles(model: object, X: ArrayLike) -> tuple[Quantiles, list[Quantiles]]:
    """Mahalanobis distances of rows from their components, of all and by component.

    A row counts for each component with its probability there. Counted so, squared distances of
    samples of the mixture are distributed as chi-squared with n degrees of freedom.
    """
    mixture = mixture_of(model)
    rows = complete_rows(mixture, X)
    covariance = mixture.atoms.covariance
    whitener, _ = covariance.whitener()
    means = to_numpy(mixture.means)
    squares = np.stack(
        [
            np.sum(to_numpy(covariance.apply(whitener, j, rows - mean)) ** 2, axis=1)
            for j, mean in enumerate(means)
        ],
        axis=1,
    )
    R = to_numpy(probabilities(mixture.log_joint(rows)))
    n = mixture.n_features
    whole = _by_weight(squares.reshape(-1), R.reshape(-1), n)
    return whole, [_by_weight(d, r, n) for d, r in zip(squares.T, R.T, strict=True) if r.sum() > 3]


def _by_weight(squares: np.ndarray, weights: np.ndarray, n: int) -> Quantiles:
    """Distances with weights, beside the roots of quantiles of chi-squared."""
    order = np.argsort(squares)
    squares, weights = squares[order], weights[order]
    shares = (np.cumsum(weights) - weights / 2) / weights.sum()
    ranks = _ranks(weights.sum())
    found = np.sqrt(np.interp(ranks, shares, squares))
    expected, low, high = (
        np.sqrt(chi2.ppf(shares, n)) for shares in (ranks, *_band(ranks, weights.sum()))
    )
    return Quantiles(expected, found, low, high)


def projections(model: object, X: ArrayLike, most: int = 3) -> list[Projection]:
    """The rows along the directions in which they differ most from the mixture.

    Looked at are the features, and the axes along which the components lie furthest apart.
    """
    mixture = mixture_of(model)
    rows = complete_rows(mixture, X)
    n, weights, means = mixture.n_features, to_numpy(mixture.weights), to_numpy(mixture.means)
    matrices = np.broadcast_to(to_numpy(mixture.atoms.covariance.matrices()), (len(means), n, n))
    names = mixture.feature_names or [f"x{i}" for i in range(n)]
    directions = list(zip(names, np.eye(n), strict=True))
    within = np.tensordot(weights, matrices, axes=1)
    values, vectors = np.linalg.eigh(within)
    root = vectors / np.sqrt(np.maximum(values, 1e-300))
    apart = (means - weights @ means) @ root * np.sqrt(weights)[:, None]
    _, strengths, axes = np.linalg.svd(apart, full_matrices=False)
    for i, (strength, axis) in enumerate(zip(strengths, axes, strict=True)):
        if strength > 1e-6 and n > 1:
            directions.append((f"components' axis {i + 1}", root @ axis))
    found = [
        _projection(name, rows @ a, weights, means @ a, np.sqrt((matrices @ a) @ a))
        for name, a in directions
    ]
    return sorted(found, key=lambda one: -one.distance)[:most]


def _projection(
    name: str, values: np.ndarray, weights: np.ndarray, means: np.ndarray, deviations: np.ndarray
) -> Projection:
    values = np.sort(values)
    ends = [*(means - 7 * deviations), *(means + 7 * deviations), values[0], values[-1]]
    grid = np.linspace(min(ends), max(ends), _GRID)
    steps = np.maximum(deviations, 1e-300)
    cdf = ndtr((grid[:, None] - means) / steps) @ weights
    here = np.interp(values, grid, cdf)
    p = len(values)
    after, before = np.arange(1, p + 1) / p - here, here - np.arange(p) / p
    ranks = _ranks(p)
    # Where the function is flat, at both ends, any of its points would do.
    rising = np.concatenate([[True], np.diff(cdf) > 0])
    expected, low, high = (
        np.interp(shares, cdf[rising], grid[rising]) for shares in (ranks, *_band(ranks, p))
    )
    own = np.interp(ranks, (np.arange(p) + 0.5) / p, values)
    return Projection(
        name, Quantiles(expected, own, low, high), float(max(after.max(), before.max()))
    )


def _ranks(count: float) -> np.ndarray:
    """Ranks in (0, 1) that show the middle of so many rows and each of the outermost."""
    each = 1 / max(count, 2.0)
    ends = each * (np.arange(min(_OUTERMOST, int(count) // 2)) + 0.5)
    evenly = np.linspace(each / 2, 1 - each / 2, min(_EVENLY, max(int(count), 2)))
    return np.unique(np.concatenate([ends, evenly, 1 - ends]))


def _band(ranks: np.ndarray, count: float) -> tuple[np.ndarray, np.ndarray]:
    """Between which shares of a distribution the values of these ranks lie in 95 % of samples.

    The i-th of N values that are evenly distributed has the distribution Beta(i, N + 1 - i).
    """
    i = ranks * count + 0.5
    low, high = (beta.ppf(share, i, count + 1 - i) for share in (0.025, 0.975))
    return low, high
