"""What gaps and errors cost: how much of each column the rows still tell.

What is not known of feature i of a row x is Var[v_i | x], under the mixture. Of the whole variance,
1 - Var[v_i | x] / Var[v_i] is known: all of it where there is an exact value, nothing where there
is no value and the other features tell nothing either.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from momentmix.distributions.mixture import Mixture
from momentmix.observed import noise_of_errors
from momentmix.summary.columns import ColumnSummary
from momentmix.summary.component import overall_mean_and_deviation
from momentmix.support.array import to_numpy

#: Rows of each column that are looked at, and products of numbers that this may take.
MOST_ROWS, MOST_WORK = 1000, 2 * 10**9
#: Fewer rows than this say too little, where there are more.
_FEWEST_ROWS = 10
#: Numbers of covariances that are held at a time.
_BLOCK_NUMBERS = 4_000_000


def with_costs(
    columns: Sequence[ColumnSummary],
    mixture: Mixture,
    X: np.ndarray,
    errors: np.ndarray | None = None,
) -> list[ColumnSummary]:
    """The columns with what gaps and errors in rows X (p, n) cost.

    It is an average over rows that are drawn by chance, where there are many. NaN stands where it
    would take too long to find out.
    """
    gaps = np.isnan(X)
    if errors is None and not gaps.any():
        return list(columns)
    n = mixture.n_features
    work = mixture.n_components * n ** (2 if mixture.atoms.covariance.diagonal else 3)
    kinds = 1 if errors is None else 2  # of cells in a column: gaps, and values with errors
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
    """The mean of squared errors over the variance of the values, in which the errors are too."""
    variance = float(np.var(values))
    return float(np.mean(errors**2)) / variance if variance > 0 else np.inf


def _some(which: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """Positions where ``which`` (p,) is true: all, or a fair choice of ``most`` of them."""
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
