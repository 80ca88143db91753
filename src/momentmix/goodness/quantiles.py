"""Quantiles of rows and the quantiles expected under a mixture, for pictures."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr
from scipy.stats import beta, chi2

from momentmix.distributions.given_rows import probabilities
from momentmix.distributions.mixture import Mixture
from momentmix.goodness.given import check_rows, mixture_of
from momentmix.support.array import ArrayLike, to_numpy

#: Points of a picture: evenly spaced ranks, and the outermost ranks at each end. Round numbers that
#: affect only how the picture looks.
_EVENLY, _OUTERMOST = 200, 25
#: Grid points of a mixture's distribution function, which is interpolated between them. A round
#: number, fine enough for a picture.
_GRID = 4000


class Quantiles(NamedTuple):
    """Quantiles of rows and of the mixture at the same ranks, with a 95 % band."""

    expected: np.ndarray  # (q,), rising
    found: np.ndarray  # (q,)
    low: np.ndarray  # (q,), of the band that holds 95 % of samples of the mixture, rank by rank
    high: np.ndarray  # (q,)


class Projection(NamedTuple):
    """The rows along one direction."""

    name: str
    quantiles: Quantiles
    distance: float  # the largest difference of the two distribution functions


def complete_rows(mixture: Mixture, X: ArrayLike) -> np.ndarray:
    """Rows in which gaps are filled once at random, given the other values of the row."""
    rows = check_rows(X, gaps=True)
    if rows.shape[1] != mixture.n_features:
        raise ValueError(
            f"X has {rows.shape[1]} feature(s), but the mixture has {mixture.n_features}"
        )
    rows = rows[~np.isnan(rows).all(axis=1)]
    if not np.isnan(rows).any():
        return rows
    return to_numpy(mixture.impute(rows, 1, random_state=0))[0]


def distance_quantiles(model: object, X: ArrayLike) -> tuple[Quantiles, list[Quantiles]]:
    """Quantiles of Mahalanobis distances of rows from their components, of all and of each.

    Each row counts for each component with its probability of belonging to it. Weighted in this
    way, the squared distances of samples of the mixture have a χ² distribution with n degrees of
    freedom.
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
    """Weighted distances, and the square roots of quantiles of χ²."""
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

    The candidates are the features and the axes along which the components lie furthest apart.
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
    # Interpolation needs a rising function, and it is flat at both ends.
    rising = np.concatenate([[True], np.diff(cdf) > 0])
    expected, low, high = (
        np.interp(shares, cdf[rising], grid[rising]) for shares in (ranks, *_band(ranks, p))
    )
    own = np.interp(ranks, (np.arange(p) + 0.5) / p, values)
    return Projection(
        name, Quantiles(expected, own, low, high), float(max(after.max(), before.max()))
    )


def _ranks(count: float) -> np.ndarray:
    """Ranks in (0, 1): evenly spaced ones, and each of the outermost rows."""
    each = 1 / max(count, 2.0)
    ends = each * (np.arange(min(_OUTERMOST, int(count) // 2)) + 0.5)
    evenly = np.linspace(each / 2, 1 - each / 2, min(_EVENLY, max(int(count), 2)))
    return np.unique(np.concatenate([ends, evenly, 1 - ends]))


def _band(ranks: np.ndarray, count: float) -> tuple[np.ndarray, np.ndarray]:
    """The shares of a distribution between which these ranks lie in 95 % of samples.

    The i-th smallest of N uniform values has the distribution Beta(i, N + 1 - i).
    """
    i = ranks * count + 0.5
    low, high = (beta.ppf(share, i, count + 1 - i) for share in (0.025, 0.975))
    return low, high
