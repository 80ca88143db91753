"""Fit one Gaussian to rows with gaps and noise by EM, to find their centre and spread."""

from __future__ import annotations

import numpy as np

from momentmix.covariance import anchor_rows
from momentmix.observed.part import Evaluated, Gaussians
from momentmix.observed.rows import ObservedRows

#: With more features than this, only variances are fitted if they are enough. A round number that
#: was not tuned; it bounds the cost, which grows with n³.
JOINT = 64
#: At most how many rows are used, evenly spaced. A round number that was not tuned; the Gaussian
#: only has to give coordinates and a start.
MOST_ROWS = 20_000
#: The most EM steps, and the gain in nats a row below which they end. Round numbers that were not
#: tuned; the fit that starts from here has its own tolerance.
STEPS, TOL = 30, 1e-3
#: The least share of a feature's variance that is not put down to noise at the start, so that the
#: variance stays positive if the stated noise is too large. A round number that was not tuned.
LEAST = 1e-3


def one_gaussian(
    rows: ObservedRows, weights: np.ndarray, count: float, independent: bool
) -> Gaussians:
    """A Gaussian of nearly maximal likelihood, with positive variances whatever the rows are.

    The weights count for ``count`` rows together. If gaps leave few rows that show many features
    together, correlations are poorly determined. So the covariance also rests on some artificial
    rows without correlation (Schafer's ridge prior), as many as ``anchor_rows`` gives a mixture.

    The result has a mean (1, n) and a covariance matrix (1, n, n), or variances (1, n) if there are
    very many features and these may be taken as ``independent``, in the noise too.
    """
    step = -(-len(rows) // MOST_ROWS)
    if step > 1:
        rows, weights = rows.take(np.arange(0, len(rows), step)), weights[::step]
    separate = rows.n > JOINT and rows.is_separate(independent)
    mean, variances, least = _by_feature(rows, weights)
    covariance = variances if separate else np.diag(variances)
    floor = least if separate else np.diag(least)
    whole = count * float(weights @ rows.seen.all(axis=1)) / float(weights.sum())
    ridge = anchor_rows(rows.n, 1 - float(np.mean(rows.seen)), whole) / count
    found, before = Gaussians(mean[None], covariance[None]), -np.inf

    def block(places: np.ndarray, here: Evaluated) -> tuple[float, np.ndarray, np.ndarray]:
        own = weights[places][None]
        first, second = here.expected(own)
        return float(np.sum(own * here.log_densities)), first[0], second[0]

    for _ in range(STEPS):
        values, firsts, seconds = zip(*rows.each(found, block), strict=True)
        value = sum(values)
        gain, before = value - before, value
        if gain < TOL * weights.sum():
            break
        away = np.sum(firsts, axis=0) / weights.sum()
        outer = away**2 if separate else np.outer(away, away)
        spread = np.sum(seconds, axis=0) / weights.sum() - outer
        if not separate:
            alone = np.diag(np.diag(spread))  # without correlations
            spread = ((spread + spread.T) / 2 + ridge * alone) / (1 + ridge)
        spread = spread + floor
        found = Gaussians(found.means + away, spread[None])
    return found


def _by_feature(
    rows: ObservedRows, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The mean, the variance without the noise, and the least variance to allow; (n,) each."""
    shares = weights[:, None] * rows.seen
    totals = np.maximum(shares.sum(axis=0), 1e-300)
    X = np.where(rows.seen, rows.X, 0.0)
    mean = np.sum(shares * X, axis=0) / totals
    squares = np.sum(shares * np.where(rows.seen, rows.X - mean, 0.0) ** 2, axis=0) / totals
    noise = np.sum(shares * rows.noise_variances(), axis=0) / totals
    constant = squares <= (16 * np.finfo(float).eps * np.abs(mean)) ** 2
    unit = np.median(squares[~constant]) if not np.all(constant) else 1.0
    squares = np.where(constant, 0.0, squares)
    least = 1e-10 * np.where(constant, unit, squares)
    own = np.maximum(squares - noise, LEAST * squares)
    return mean, np.maximum(own, least), least
