"""What gaps and noise cost: how much the rows still tell about each column.

Given a row x, feature i has the variance Var[v_i | x] under the mixture. So the share
1 - Var[v_i | x] / Var[v_i] of its variance is known: 1 for an exact value, and 0 for a gap about
which the other features tell nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from momentmix.distributions.mixture import Mixture
from momentmix.observed import noise_of_errors
from momentmix.summary.columns import ColumnSummary
from momentmix.summary.component import overall_mean_and_deviation
from momentmix.support.array import to_numpy

#: The most rows that are drawn for each column, and the most multiplications for all of them. Round
#: numbers: the standard error of a share from 1,000 rows is at most 1.6 %.
MOST_ROWS, MOST_WORK = 1000, 2 * 10**9
#: An average over fewer drawn rows is not shown, unless the column has no more. A round number.
_FEWEST_ROWS = 10
#: Numbers in a block of covariances, 32 MiB. It affects memory and speed only.
_BLOCK_NUMBERS = 4_000_000


def with_costs(
    columns: Sequence[ColumnSummary],
    mixture: Mixture,
    X: np.ndarray,
    errors: np.ndarray | None = None,
) -> list[ColumnSummary]:
    """The columns, with what gaps and error bars in the rows X (p, n) cost.

    If rows are many, it is an average over a random draw. It is NaN where it would take too long
    to find out.
    """
    gaps = np.isnan(X)
    if errors is None and not gaps.any():
        return list(columns)
    n = mixture.n_features
    work = mixture.n_components * n ** (2 if mixture.atoms.covariance.diagonal else 3)
    kinds = 1 if errors is None else 2  # of cells in a column: gaps, and values with error bars
    most = min(MOST_ROWS, MOST_WORK // (work * n * kinds))
    rng = np.random.default_rng(0)
    picked = [(_some(gaps[:, i], most, rng), _some(~gaps[:, i], most, rng)) for i in range(n)]
    looked_at = [rows for missing, there in picked for rows in (missing, there)[:kinds]]
    rows = np.unique(np.concatenate(looked_at))
    known = _known(mixture, X[rows], None if errors is None else errors[rows])

    def average(which: np.ndarray, i: int, all_of_them: int) -> float:
        if len(which) < min(_FEWEST_ROWS, all_of_them):
            return np.nan
        at = np.searchsorted(rows, which)
        return float(np.clip(known[at, i].mean(), 0, 1))

    found = []
    for i, column in enumerate(columns):
        missing = int(gaps[:, i].sum())
        there = len(X) - missing
        in_gaps = average(picked[i][0], i, missing) if missing else np.nan
        in_values, share = 1.0, 0.0
        if errors is not None and there and np.any(errors[~gaps[:, i], i]):
            in_values = average(picked[i][1], i, there)
            share = _error_share(X[~gaps[:, i], i], errors[~gaps[:, i], i])
        told = (there * in_values + (missing * in_gaps if missing else 0.0)) / max(len(X), 1)
        found.append(column._replace(gaps_known=in_gaps, error_share=share, known=told))
    return found


def _error_share(values: np.ndarray, errors: np.ndarray) -> float:
    """The mean squared error bar over the variance of the values, which includes the noise."""
    variance = float(np.var(values))
    return float(np.mean(errors**2)) / variance if variance > 0 else np.inf


def _some(which: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """Positions where ``which`` (p,) is true: all of them, or a random ``most``."""
    places = np.flatnonzero(which)
    return places if len(places) <= most else np.sort(rng.choice(places, most, replace=False))


def _known(mixture: Mixture, X: np.ndarray, errors: np.ndarray | None) -> np.ndarray:
    """1 - Var[v_i | x] / Var[v_i] for each feature of rows X (k, n); (k, n)."""
    variances = overall_mean_and_deviation(mixture)[1] ** 2
    result = np.empty(X.shape)
    step = max(1, _BLOCK_NUMBERS // (mixture.n_components * X.shape[1] ** 2))
    for start in range(0, len(X), step):
        part = slice(start, start + step)
        noise = None if errors is None else noise_of_errors(errors[part])
        covariances = to_numpy(mixture.denoise(X[part], noise)[1])
        left = np.diagonal(covariances, axis1=1, axis2=2)
        result[part] = 1 - left / np.where(variances > 0, variances, 1.0)
    return result
