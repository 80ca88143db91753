"""Rows that belong to no component: how many there are, which, and what is odd about each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from momentmix.distributions.mixture import Mixture
from momentmix.observed import noise_of_errors
from momentmix.summary.component import feature_variances
from momentmix.summary.words import counted, fine_percent, listed
from momentmix.support.array import to_numpy

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
    noise = None if errors is None else noise_of_errors(errors)
    log_joint = to_numpy(mixture.log_joint(X, noise))
    log_odds = np.logaddexp.reduce(log_joint, axis=1) - background.log_joint(X)
    which = told & (log_odds < 0)
    places = np.flatnonzero(which)
    places = places[np.argsort(log_odds[places], kind="stable")]
    places = places[:_MOST_MEASURED]
    nearest, z = _measure(mixture, X[places], None if errors is None else errors[places])
    worst = []
    for place, component, far in zip(places[:MOST_SHOWN], nearest, z, strict=False):
        feature = int(np.nanargmax(np.abs(far)))
        number = int(place if numbers is None else numbers[place])
        worst.append(Outlier(number, X[place], int(component), feature, float(far[feature])))
    return Outliers(background.share, total, which, worst, _by_oddness(z))


def _measure(
    mixture: Mixture, X: np.ndarray, errors: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """The nearest component of each row (k,), and how far its values lie from that mean; (k, n).

    With z_i in deviations, the nearest component has the least Σ log(1 + z_i²). A sum of squares
    would be dominated by the one odd value, and so would choose the widest component.
    """
    variances = feature_variances(mixture)[None, :, :]
    if errors is not None:
        variances = variances + errors[:, None, :] ** 2
    scale = np.sqrt(np.where(variances > 0, variances, 1.0))
    z = (X[:, None, :] - to_numpy(mixture.means)) / scale
    nearest = np.nansum(np.log1p(z**2), axis=2).argmin(axis=1)
    return nearest, z[np.arange(len(X)), nearest]


def _by_oddness(z: np.ndarray) -> list[int]:
    """Features, sorted by how many rows of z (k, n) lie farthest out in them, then by how far."""
    size = np.where(np.isnan(z), 0.0, np.abs(z))
    rows = np.bincount(size.argmax(axis=1), minlength=z.shape[1])
    return [int(i) for i in np.lexsort((-size.sum(axis=0), -rows))]
