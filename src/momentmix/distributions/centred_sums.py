"""Sums of all monomials of rows about a centre, which can be added and moved to other centres.

The centre is near the mean, because about the origin a fourth moment of data at 10⁶ ± 1 would be
lost in rounding. An exact formula moves the sums to any other centre.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from momentmix.covariance import Covariance, Full, Zero
from momentmix.moments.atoms import Atoms
from momentmix.support.array import Array, array_device, index_array, to_numpy
from momentmix.tensors.dense import packed_indices
from momentmix.tensors.isserlis import atom_sums
from momentmix.tensors.packed import (
    entry_orders,
    linear_map,
    order_slice,
    plus_gaussian,
    square_places,
)

#: What is done with NaN: it is an error, or each entry sums over the rows that have its values.
Missing: TypeAlias = Literal["error", "pairwise"]
#: About how many rows of a batch are averaged to find a centre for it. A round number that was not
#: tuned; any centre amid the rows keeps the sums accurate.
_PILOT_ROWS = 1024
#: Rows in a block when gaps double the features. A round number; it affects only memory and speed.
_PAIRWISE_ROWS = 1 << 15
#: A difference of two sums of weights below this share of the larger counts as rounding. A round
#: number well above float64's 1e-16, which rounding errors of many sums can add up to; not tuned.
_ROUNDING = 1e-12
#: Sums below it lose digits.
_LEAST = 1e-307


def check_missing(missing: str) -> Missing:
    """Return ``missing`` if it is one of the two words, and raise a ValueError otherwise."""
    if missing == "error":
        return "error"
    if missing == "pairwise":
        return "pairwise"
    raise ValueError(f"missing must be 'error' or 'pairwise', got {missing!r}")


class GapsError(ValueError):
    """Raised for gaps in rows that should have none."""


class _Location(NamedTuple):
    """Weight, mean and variance of each feature; (n,) each."""

    weight: np.ndarray
    mean: np.ndarray
    variance: np.ndarray


@dataclass(frozen=True)
class CentredSums:
    """Σ_i w_i Π_{a∈I} (x_i - centre)_a for all multi-indices I of orders 0..d, in packed layout.

    If ``missing`` is "pairwise", each row is summed as a row of 2n features: x - centre with 0 for
    missing values, followed by 1 for each feature that is present and 0 for the others. The sums of
    monomials of the latter are the weights of the monomials of the former.
    """

    centre: np.ndarray  # (n,)
    sums: np.ndarray  # (N,)
    order: int
    missing: Missing
    squares: float  # Σ_i w_i², for the effective number of rows

    @property
    def weight(self) -> float:
        return float(self.sums[0])

    @property
    def presence(self) -> np.ndarray:
        """For each feature, the share of the weight in rows that have its value; (n,)."""
        n = len(self.centre)
        if self.missing == "error" or self.weight <= 0:
            return np.ones(n)
        return self.sums[n + 1 : 2 * n + 1] / self.weight

    def worth(self, count: int) -> float:
        """The effective number of rows, (Σw)² / Σw²; ``count`` itself if the weights are equal."""
        if not 0 < self.squares < np.inf:
            return float(count if self.weight > 0 else 0)
        found = self.weight / self.squares * self.weight
        return found if found < (1 - 1e-9) * count else float(count)

    def plus(self, other: CentredSums) -> CentredSums:
        """The sums over the rows of both. The centre is kept within half a deviation of the mean.

        If it has to move, each side is moved directly to the new mean. Moving the heavier side by
        way of a distant centre would lose its digits.
        """
        centre = self._common_centre(other)
        total = self._about(centre) + other._about(centre)
        return CentredSums(centre, total, self.order, self.missing, self.squares + other.squares)

    def minus(self, other: CentredSums) -> CentredSums:
        """The sums over the rows that are here and not in ``other``.

        Rounding errors of about 1e-16 of the larger sums remain. The centre follows the mean of the
        remaining rows, as in :meth:`plus`. Weights that remain by rounding alone become 0.
        """
        if other.weight > (1 + _ROUNDING) * self.weight:
            raise ValueError(
                f"rows of weight {other.weight:.6g} cannot be taken out of rows of weight "
                f"{self.weight:.6g}; if these were decayed, decay the rows to take out as well"
            )
        squares = max(0.0, self.squares - other.squares)
        if self.weight - other.weight <= _ROUNDING * self.weight:
            return CentredSums(self.centre, np.zeros_like(self.sums), self.order, self.missing, 0.0)

        def rest(centre: np.ndarray) -> CentredSums:
            left = self._about(centre) - other._about(centre)
            return CentredSums(centre, left, self.order, self.missing, squares)

        found = rest(self.centre)
        weight, mean, variance = found._location()
        far = (mean - self.centre) ** 2 > 0.25 * variance
        return rest(mean) if np.any(far & (weight > 0)) else found

    def scaled(self, factor: float) -> CentredSums:
        """The sums over the same rows, each with ``factor`` times its weight."""
        return replace(self, sums=factor * self.sums, squares=factor**2 * self.squares)

    def with_presence(self) -> CentredSums:
        """The same sums in the "pairwise" form. This is exact, because no value is missing."""
        if self.missing == "pairwise":
            return self
        n, sums = len(self.centre), []
        for k in range(self.order + 1):
            doubled = packed_indices(2 * n, k)
            powers = (doubled < n).sum(axis=1)  # degree in x; the other factors are ones
            found = np.empty(len(doubled))
            for j in range(k + 1):
                own = powers == j
                radix = n ** np.arange(j)[::-1]
                keys, wanted = packed_indices(n, j) @ radix, doubled[own, :j] @ radix
                found[own] = self.sums[order_slice(n, j)][np.searchsorted(keys, wanted)]
            sums.append(found)
        return CentredSums(self.centre, np.concatenate(sums), self.order, "pairwise", self.squares)

    def averages(self, centre: np.ndarray) -> np.ndarray:
        """The moments of orders 0..d about ``centre``, packed; (N,)."""
        if self.missing == "error":
            return self._about(centre) / self.weight
        n = len(self.centre)
        identity = np.eye(n)
        totals = linear_map(self.sums, np.hstack([identity, np.diag(self.centre - centre)]))
        weights = linear_map(self.sums, np.hstack([np.zeros((n, n)), identity]))
        if np.any(weights <= 0):
            at = int(np.argmax(weights <= 0))
            k = int(entry_orders(n, self.order)[at])
            features = packed_indices(n, k)[at - order_slice(n, k).start].tolist()
            raise ValueError(
                f"no row has values of all the features {sorted(set(features))}, so their joint "
                "moment is not known; drop one of these features"
            )
        return totals / weights

    def centre_near(self, middle: np.ndarray) -> np.ndarray:
        """The centre for a batch around ``middle``: this one if it is near, which saves a shift."""
        weight, _, variance = self._location()
        near = (middle - self.centre) ** 2 < variance
        return self.centre if np.all(near & (weight > 0)) else middle

    def _about(self, centre: np.ndarray) -> np.ndarray:
        """The sums about another centre, by an exact formula."""
        shift = self.centre - centre
        if not np.any(shift):
            return self.sums
        n = len(centre)
        if self.missing == "error":
            return plus_gaussian(self.sums, n, shift)
        identity = np.eye(n)  # present features move, the others stay 0
        move = np.block([[identity, np.diag(shift)], [np.zeros_like(identity), identity]])
        return linear_map(self.sums, move)

    def _common_centre(self, other: CentredSums) -> np.ndarray:
        """The present centre or, if it is too far from the mean of both sides, that mean."""
        sides = self._location(), other._location()
        total = np.maximum(sides[0].weight + sides[1].weight, 1e-300)
        mean = sum(side.weight * side.mean for side in sides) / total
        spread = sum(side.weight * (side.variance + (side.mean - mean) ** 2) for side in sides)
        far = (mean - self.centre) ** 2 > 0.25 * np.maximum(spread / total, 0)
        return mean if np.any(far & (total > 1e-300)) else self.centre

    def _location(self) -> _Location:
        n, sums = len(self.centre), self.sums
        weight, width = np.full(n, sums[0]), n
        if self.missing == "pairwise":
            weight, width = sums[n + 1 : 2 * n + 1], 2 * n
        safe = np.where(weight > 0, weight, 1)
        shift = sums[1 : n + 1] / safe
        square = np.zeros(n) if self.order < 2 else sums[square_places(width)[:n]] / safe
        return _Location(weight, self.centre + shift, np.maximum(square - shift**2, 0))


def sums_of_rows(
    rows: Atoms, order: int, missing: Missing, earlier: CentredSums | None
) -> CentredSums:
    """The sums over rows without their noise, about the centre of ``earlier`` sums or a new one.

    ``rows`` have the weights 1.0 or (p,), and minus the noise as their covariance. A ValueError
    names the entry that is not finite, or says that powers overflow.
    """
    xp, X = rows.xp, rows.means
    present = None
    if missing == "pairwise":
        X = xp.astype(X, xp.float64)
        present = xp.astype(~xp.isnan(X), X.dtype)
        X = xp.where(xp.isnan(X), xp.zeros_like(X), X)
        rows = Atoms(rows.weights, X, rows.covariance, xp)
    centre, spread = _pilot(rows, present)
    if earlier is not None:
        centre = earlier.centre_near(centre)
    with np.errstate(over="ignore", invalid="ignore"):
        if present is None:
            sums = atom_sums(rows, centre, order)
        else:
            origin = np.zeros(2 * len(centre))
            blocks = (
                slice(a, min(a + _PAIRWISE_ROWS, len(rows)))
                for a in range(0, len(rows), _PAIRWISE_ROWS)
            )
            doubled = (_with_presence(rows.take(at), present[at, :], centre) for at in blocks)
            sums = np.sum([atom_sums(block, origin, order) for block in doubled], axis=0)
    if not np.all(np.isfinite(sums)):
        raise _not_finite(X, order)
    least, weight = np.min(spread, where=spread > 0, initial=np.inf), float(sums[0])
    if weight > 0 and np.log(weight) + order * np.log(least) < np.log(_LEAST):
        raise ValueError(
            f"the powers of order {order} underflow: a column of X varies by {least:.3g} where "
            f"weights sum to {weight:.3g}; rescale the features or the weights"
        )
    return CentredSums(centre, sums, order, missing, _sum_of_squares(rows))


def _sum_of_squares(rows: Atoms) -> float:
    """Σ w² over the rows; infinite if it overflows."""
    if isinstance(rows.weights, float):
        return len(rows) * rows.weights**2
    weights = rows.xp.astype(rows.weights, rows.xp.float64, copy=False)
    with np.errstate(over="ignore", under="ignore"):
        return float(rows.xp.sum(weights * weights))


def _pilot(rows: Atoms, present: Array | None) -> tuple[np.ndarray, np.ndarray]:
    """The mean of some evenly spaced rows, and how far they go from it in each column.

    Any point amid the rows that count is a good centre.
    """
    X, xp, p = rows.means, rows.xp, len(rows)
    chosen = np.arange(0, p, max(1, p // _PILOT_ROWS))
    if not isinstance(rows.weights, float):
        counted = np.flatnonzero(to_numpy(rows.weights) > 0)
        chosen = counted[:: max(1, len(counted) // _PILOT_ROWS)]
    if len(chosen) == 0:
        return np.zeros(X.shape[1]), np.zeros(X.shape[1])
    some = index_array(chosen, X)
    pilot = to_numpy(xp.take(X, some, axis=0)).astype(np.float64)
    counts: np.ndarray | int = len(pilot)
    there: np.ndarray | float = 1.0
    if present is not None:
        there = to_numpy(xp.take(present, some, axis=0))
        counts = np.maximum(there.sum(axis=0), 1)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = pilot.sum(axis=0) / counts
        mean = np.where(np.isfinite(mean), mean, 0.0)
        return mean, np.max(np.abs(pilot - mean) * there, axis=0)


def _with_presence(atoms: Atoms, present: Array, centre: np.ndarray) -> Atoms:
    """Atoms in 2n features: x - centre with 0 for gaps, then 1 where present. So is the noise."""
    xp, n = atoms.xp, present.shape[1]
    middle = xp.asarray(centre, dtype=present.dtype, device=array_device(present))
    points = xp.concat([(atoms.means - middle) * present, present], axis=1)
    covariance: Covariance = Zero(2 * n)
    if not atoms.covariance.zero:
        matrices = to_numpy(atoms.covariance.matrices()).astype(np.float64)
        mask = to_numpy(present).astype(np.float64)
        padded = np.zeros((len(mask), 2 * n, 2 * n))
        padded[:, :n, :n] = matrices * mask[:, :, None] * mask[:, None, :]
        covariance = Full(padded, 2 * n)
    return Atoms(atoms.weights, points, covariance, xp)


def _not_finite(X: Array, order: int) -> ValueError:
    rows = to_numpy(X)
    bad = np.argwhere(~np.isfinite(rows))
    if len(bad):
        row, column = bad[0]
        more = f" ({len(bad):,} such entries in all)" if len(bad) > 1 else ""
        kind = ValueError if np.any(np.isinf(rows)) else GapsError
        return kind(
            f"row {row}, column {column} of X is {rows[row, column]}{more}; drop or fill such "
            "rows, or, for NaN, accumulate MomentTensors with missing='pairwise'"
        )
    return ValueError(
        f"the powers of order {order} overflow: the largest entry of X is "
        f"{np.abs(rows).max():.3g}; rescale the features"
    )
