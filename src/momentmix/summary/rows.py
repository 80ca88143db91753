"""What rows are like: their columns, how surely they belong to components, and the odd ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri, xlogy

from momentmix.distributions.mixture import Mixture
from momentmix.selection.criteria import relative_entropy
from momentmix.summary.components import (
    counted,
    feature_variances,
    fine_percent,
    listed,
    overall_mean_and_deviation,
)
from momentmix.summary.origin import MeasuredRows
from momentmix.support.array import to_numpy


class ColumnSummary(NamedTuple):
    """One column of the rows that a fit saw.

    The last three say what gaps and error bars cost, as shares of the variance of the column.
    """

    name: str
    mean: float
    deviation: float
    minimum: float
    median: float
    maximum: float
    gaps: int  # empty cells
    rows: int  # that the gaps are counted among
    gaps_known: float = np.nan  # how much the other columns tell about a gap; NaN if none
    error_share: float = 0.0  # of the variance of the values, the share due to noise
    known: float = 1.0  # how much a row tells about this column, on average

    @property
    def gap_share(self) -> float:
        return self.gaps / self.rows if self.rows else 0.0


def column_summaries(
    X: np.ndarray,
    names: Sequence[str],
    gaps: Mapping[str, int] | None = None,
    rows: int | None = None,
) -> list[ColumnSummary]:
    """Summaries of the columns of X (p, n). ``gaps`` are counts; by default the NaN in X count.

    ``rows`` is the number of rows among which ``gaps`` were counted.
    """
    told = {} if gaps is None else gaps
    return [_summary(name, X[:, i], told.get(name), rows) for i, name in enumerate(names)]


def _summary(name: str, column: np.ndarray, gaps: int | None, rows: int | None) -> ColumnSummary:
    values = column[~np.isnan(column)]
    total, missing = len(column), len(column) - len(values)
    if gaps is not None:
        total, missing = total if rows is None else rows, gaps
    if len(values) == 0:
        return ColumnSummary(name, np.nan, np.nan, np.nan, np.nan, np.nan, missing, total)
    low, middle, high = float(np.min(values)), float(np.median(values)), float(np.max(values))
    mean, deviation = float(np.mean(values)), float(np.std(values))
    return ColumnSummary(name, mean, deviation, low, middle, high, missing, total)


#: The most rows that are drawn for each column, and the most multiplications for all of them. Round
#: numbers: the standard error of a share from 1,000 rows is at most 1.6 %.
MOST_ROWS, MOST_WORK = 1000, 2 * 10**9
#: An average over fewer drawn rows is not shown, unless the column has no more. A round number.
_FEWEST_ROWS = 10
#: Numbers in a block of covariances, 32 MiB. It affects memory and speed only.
_COVARIANCE_NUMBERS = 4_000_000


def with_costs(
    columns: Sequence[ColumnSummary],
    mixture: Mixture,
    X: np.ndarray,
    errors: np.ndarray | None = None,
) -> list[ColumnSummary]:
    """The columns, with what gaps and error bars in the rows X (p, n) cost.

    Given a row x, feature i has the variance Var[v_i | x] under the mixture. So the share
    1 - Var[v_i | x] / Var[v_i] of its variance is known: 1 for an exact value, and 0 for a gap
    about which the other features tell nothing. If rows are many, the share is an average over a
    random draw. It is NaN where it would take too long to find out.
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
    known = _known(mixture, MeasuredRows(X, errors).some(rows))

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


def _known(mixture: Mixture, rows: MeasuredRows) -> np.ndarray:
    """1 - Var[v_i | x] / Var[v_i] for each feature of the rows; (k, n)."""
    variances = overall_mean_and_deviation(mixture)[1] ** 2
    step = max(1, _COVARIANCE_NUMBERS // (mixture.n_components * mixture.n_features**2))
    left = [np.zeros((0, mixture.n_features))]
    for part in rows.parts(step):
        covariances = to_numpy(mixture.denoise(part.X, part.noise)[1])
        left.append(np.diagonal(covariances, axis1=1, axis2=2))
    return 1 - np.concatenate(left) / np.where(variances > 0, variances, 1.0)


#: A row is sure if its largest probability is at least the first number, and doubtful if it is
#: below the second. Round numbers; they affect only the counts in summaries and reports.
SURE, DOUBTFUL = 0.9, 0.8
#: Numbers in a block of rows and probabilities, 32 MiB. It affects memory and speed only.
_BLOCK_NUMBERS = 4_000_000


class ConfusedPair(NamedTuple):
    """Two components, and how many rows that one of them takes belong to the other."""

    first: int
    second: int
    rows: float  # expected, given the mixture


@dataclass(frozen=True)
class Assignment:
    """A summary of the probabilities with which rows belong to components.

    A component *takes* the rows that belong to it more probably than to any other.
    """

    taken: np.ndarray  # (m,) rows that each component takes
    doubtful: np.ndarray  # (m,) of these, rows with a probability below DOUBTFUL
    sure: int  # rows with a probability of SURE or more
    shared: np.ndarray  # (m, m) probabilities of component j, summed over the rows that i takes
    entropy: float = 0.0  # -Σ p log p of the probabilities p, over all rows and components

    def __add__(self, other: Assignment) -> Assignment:
        """The summary of both sets of rows together."""
        return Assignment(
            self.taken + other.taken,
            self.doubtful + other.doubtful,
            self.sure + other.sure,
            self.shared + other.shared,
            self.entropy + other.entropy,
        )

    @property
    def relative_entropy(self) -> float:
        """1 if every row surely belongs to one component, 0 if all are equally likely."""
        return relative_entropy(self.entropy, self.rows, len(self.taken))

    @property
    def uncertainty(self) -> float:
        """The probability that a row belongs to another component than the one that takes it."""
        return 1 - float(np.trace(self.shared)) / max(self.rows, 1)

    @property
    def rows(self) -> int:
        return int(self.taken.sum())

    @property
    def mean_probability(self) -> np.ndarray:
        """The mean probability of the rows that each component takes, NaN if it has none; (m,)."""
        taken = np.where(self.taken > 0, self.taken, np.nan)
        return np.diagonal(self.shared) / taken

    def confused_pairs(self, least: float = 0.5) -> list[ConfusedPair]:
        """Pairs that share at least this many rows, the most confused first."""
        both = self.shared + self.shared.T
        rows, columns = np.triu_indices(len(both), 1)
        found = [
            ConfusedPair(int(i), int(j), float(both[i, j]))
            for i, j in zip(rows, columns, strict=True)
            if both[i, j] >= least
        ]
        return sorted(found, key=lambda pair: -pair.rows)


def assignment_of(mixture: Mixture, X: np.ndarray, errors: np.ndarray | None = None) -> Assignment:
    """How surely each row of X (p, n) belongs to its component.

    The rows are read in blocks, and beside a block only O(m²) numbers are held. NaN is a gap, and
    rows without any value do not count. ``errors`` (p, n) are the error bars of the values, as
    standard deviations.
    """
    m = mixture.n_components
    taken, doubtful, sure = np.zeros(m, dtype=int), np.zeros(m, dtype=int), 0
    shared, entropy = np.zeros((m, m)), 0.0
    told = MeasuredRows(X, errors).some(~np.isnan(X).all(axis=1))
    for part in told.parts(max(1, _BLOCK_NUMBERS // (m + mixture.n_features))):
        probabilities = to_numpy(mixture.predict_proba(part.X, part.noise))
        labels = np.argmax(probabilities, axis=1)
        largest = np.max(probabilities, axis=1)
        taken += np.bincount(labels, minlength=m)
        doubtful += np.bincount(labels[largest < DOUBTFUL], minlength=m)
        sure += int(np.sum(largest >= SURE))
        shared += np.eye(m)[labels].T @ probabilities
        entropy -= float(np.sum(xlogy(probabilities, probabilities)))
    return Assignment(taken, doubtful, sure, shared, entropy)


#: Outliers that a table shows, that a sentence names, and whose distances are computed. Round
#: numbers: the first two fit on a page, and the third affects only which columns count as odd.
MOST_SHOWN, MOST_NAMED, _MOST_MEASURED = 20, 5, 1000


class Outlier(NamedTuple):
    """A row that more probably than not belongs to no component.

    The nearest component is chosen so that a few values far off do not decide it. Deviations are
    standard deviations of that component, widened by the row's error bars if it has any.
    """

    number: int  # of the row in its table, from 0
    values: np.ndarray  # (n,), NaN in a gap
    component: int  # the nearest
    feature: int  # in which the row lies farthest from it
    deviations: float  # by which it lies above the mean there, or below


@dataclass(frozen=True)
class Outliers:
    """The outliers of a fit that looks for them; there may be none.

    Parameters
    ----------
    share : float
        The weight of the background: the share of outliers that the fit expects among any rows.
    total : int
        The number of rows with some value.
    which : array of bool of shape (p,)
        The outliers among the rows.
    worst : sequence of Outlier
        Those that lie farthest out, at most MOST_SHOWN, the farthest first.
    features : list of int
        All features, first those in which the worst rows lie farthest out.
    """

    share: float
    total: int
    which: np.ndarray
    worst: Sequence[Outlier] = ()
    features: Sequence[int] = ()

    @property
    def rows(self) -> int:
        return int(self.which.sum())

    @property
    def sentence(self) -> str:
        """How many there are, and which lie farthest out."""
        if self.rows == 0:
            return "Every row belongs to a component: there are no outliers."
        one = self.rows == 1
        names = [f"{row.number:,}" for row in self.worst[:MOST_NAMED]]
        which = "it is" if one else "they are" if self.rows <= len(names) else "farthest out are"
        share = fine_percent(self.rows / self.total)
        return (
            f"{self.rows:,} of {counted(self.total, 'row')} ({share}) "
            f"{'belongs' if one else 'belong'} to no component; {which} row{'s' * (not one)} "
            f"{listed(names)}, counted from 0."
        )


def outliers_of(
    mixture: Mixture,
    X: np.ndarray,
    errors: np.ndarray | None = None,
    numbers: np.ndarray | None = None,
) -> Outliers:
    """The outliers among rows X (p, n), in which NaN is a gap.

    ``errors`` (p, n) are the error bars of the values, and ``numbers`` (p,) the numbers of the rows
    in their table. Without a background there are no outliers.
    """
    told = ~np.isnan(X).all(axis=1)
    background, total = mixture.background, int(told.sum())
    if background is None:
        return Outliers(0.0, total, np.zeros(len(X), dtype=bool))
    rows = MeasuredRows(X, errors)
    log_joint = to_numpy(mixture.log_joint(X, rows.noise))
    log_odds = np.logaddexp.reduce(log_joint, axis=1) - background.log_joint(X)
    which = told & (log_odds < 0)
    places = np.flatnonzero(which)
    places = places[np.argsort(log_odds[places], kind="stable")]
    places = places[:_MOST_MEASURED]
    worst, z = _measured(mixture, rows, places, numbers, True)
    return Outliers(background.share, total, which, worst, _by_oddness(z))


def _measured(
    mixture: Mixture,
    rows: MeasuredRows,
    places: np.ndarray,
    numbers: np.ndarray | None,
    robust: bool,
) -> tuple[list[Outlier], np.ndarray]:
    """The first of these rows, and how far all of them lie from their components."""
    nearest, z = _measure(mixture, rows.some(places), robust)
    worst = []
    for place, component, far in zip(places[:MOST_SHOWN], nearest, z, strict=False):
        feature = int(np.nanargmax(np.abs(far)))
        number = int(place if numbers is None else numbers[place])
        worst.append(Outlier(number, rows.X[place], int(component), feature, float(far[feature])))
    return worst, z


def far_rows(
    mixture: Mixture, rows: MeasuredRows, numbers: np.ndarray | None = None
) -> tuple[int, list[Outlier]]:
    """How many rows lie farther out than chance explains, and the farthest of them.

    A value does, if it is farther from the nearest component than the farthest of so many values
    of a Gaussian would be in 95 of 100 tables.
    """
    p, n = rows.X.shape
    step = max(1, _BLOCK_NUMBERS // (mixture.n_components * n))
    sizes = [np.nan_to_num(np.abs(_measure(mixture, part, False)[1])) for part in rows.parts(step)]
    far = np.concatenate([size.max(axis=1) for size in sizes])
    places = np.flatnonzero(far > -ndtri(0.025 / (p * n)))
    places = places[np.argsort(-far[places], kind="stable")]
    return len(places), _measured(mixture, rows, places[:MOST_NAMED], numbers, False)[0]


def _measure(
    mixture: Mixture, rows: MeasuredRows, robust: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """The nearest component of each row (k,), and how far its values lie from that mean; (k, n).

    With z_i in deviations, the nearest component has the least max |z_i|, or if ``robust``, the
    least Σ log(1 + z_i²), which one odd value does not decide.
    """
    variances = feature_variances(mixture)[None, :, :]
    if rows.errors is not None:
        variances = variances + rows.errors[:, None, :] ** 2
    scale = np.sqrt(np.where(variances > 0, variances, 1.0))
    z = (rows.X[:, None, :] - to_numpy(mixture.means)) / scale
    size = np.nansum(np.log1p(z**2), axis=2) if robust else np.nanmax(np.abs(z), axis=2)
    nearest = size.argmin(axis=1)
    return nearest, z[np.arange(len(z)), nearest]


def _by_oddness(z: np.ndarray) -> list[int]:
    """Features, sorted by how many rows of z (k, n) lie farthest out in them, then by how far."""
    size = np.where(np.isnan(z), 0.0, np.abs(z))
    rows = np.bincount(size.argmax(axis=1), minlength=z.shape[1])
    return [int(i) for i in np.lexsort((-size.sum(axis=0), -rows))]
