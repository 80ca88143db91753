"""Sums of all monomials of rows about a centre, which can be added and moved to other centres.

They are kept about a centre near the mean (exact shifts bring them to any other), because about
the origin a fourth moment of data at 10⁶ ± 1 would drown in rounding.
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

#: What is done with NaN: it is an error, or each entry is taken over the rows that have it.
Missing: TypeAlias = Literal["error", "pairwise"]
#: Rows that tell where a batch lies.
_PILOT_ROWS = 1024
#: Rows that are doubled in width at a time.
_PAIRWISE_ROWS = 1 << 15
#: The share of a sum of weights below which a difference of two may be nothing but rounding.
_ROUNDING = 1e-12
#: Sums below it lose digits.
_LEAST = 1e-307


def checked_missing(missing: str) -> Missing:
    """``missing`` if it is one of the two; else a ValueError."""
    if missing == "error":
        return "error"
    if missing == "pairwise":
        return "pairwise"
    raise ValueError(f"missing must be 'error' or 'pairwise', got {missing!r}")


class GapsError(ValueError):
    """There are gaps where none were expected."""


class _Location(NamedTuple):
    """Weight, mean and variance of each feature; (n,) each."""

    weight: np.ndarray
    mean: np.ndarray
    variance: np.ndarray


@dataclass(frozen=True)
class CentredSums:
    """Σ_i w_i Π_{a∈I} (x_i - centre)_a for all multi-indices I of orders 0..d, in packed layout.

    Where ``missing`` is "pairwise", each row stands for a row of 2n features: x - centre, with 0 in
    the place of what is missing, and then 1 for each feature that is present and 0 for the others.
    Monomials of the latter are the weights that the monomials of the former have.
    """

    centre: np.ndarray  # (n,)
    sums: np.ndarray  # (N,)
    order: int
    missing: Missing
    squares: float  # Σ_i w_i², which tells how many rows of equal weight these are worth

    @property
    def weight(self) -> float:
        return float(self.sums[0])

    @property
    def presence(self) -> np.ndarray:
        """The share of the weight that rows with a value have, for each feature; (n,)."""
        n = len(self.centre)
        if self.missing == "error" or self.weight <= 0:
            return np.ones(n)
        return self.sums[n + 1 : 2 * n + 1] / self.weight

    def worth(self, count: int) -> float:
        """(Σw)² / Σw² of so many rows; ``count`` itself where their weights are equal."""
        if not 0 < self.squares < np.inf:
            return float(count if self.weight > 0 else 0)
        found = self.weight / self.squares * self.weight
        return found if found < (1 - 1e-9) * count else float(count)

    def plus(self, other: CentredSums) -> CentredSums:
        """The sums over the rows of both. The centre stays within half a deviation of the mean.

        Where it has to move, both sides go to the new mean straight from where they are: by way of
        a centre far from the heavier side its digits would be lost.
        """
        centre = self._common_centre(other)
        total = self._about(centre) + other._about(centre)
        return CentredSums(centre, total, self.order, self.missing, self.squares + other.squares)

    def minus(self, other: CentredSums) -> CentredSums:
        """The sums over the rows that are here and not in ``other``.

        Rounding of about 1e-16 of the larger sums stays behind. The centre follows the mean of what
        is left, as in :meth:`plus`. Weights that are left by rounding alone become 0.
        """
        if other.weight > (1 + _ROUNDING) * self.weight:
            raise ValueError(
                f"rows of the weight {other.weight:.6g} cannot be taken out of rows of the weight "
                f"{self.weight:.6g}; if these were decayed, decay those that leave alike"
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
        """The sums of the same rows as "pairwise" ones, exactly: no row lacks anything."""
        if self.missing == "pairwise":
            return self
        n, sums = len(self.centre), []
        for k in range(self.order + 1):
            doubled = packed_indices(2 * n, k)
            powers = (doubled < n).sum(axis=1)  # of x; the others are of ones
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
                f"no row has all of the features {sorted(set(features))} present, so that their "
                "joint moment is not known; drop a feature"
            )
        return totals / weights

    def centre_near(self, middle: np.ndarray) -> np.ndarray:
        """The centre for a batch around ``middle``: this one, which saves a shift, if near."""
        weight, _, variance = self._location()
        near = (middle - self.centre) ** 2 < variance
        return self.centre if np.all(near & (weight > 0)) else middle

    def _about(self, centre: np.ndarray) -> np.ndarray:
        """The sums about another centre, exactly."""
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
        """The centre there is, or the mean of both sides where that lies too far from it."""
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
    """The sums over rows, less their noise, about the centre of ``earlier`` ones or one of their
    own.

    ``rows`` have the weights 1.0 or (p,), and minus the noise for a covariance. A ValueError says
    which entry is not finite, or that powers overflow.
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
    """Σ w² over the rows; infinite where it overflows."""
    if isinstance(rows.weights, float):
        return len(rows) * rows.weights**2
    weights = rows.xp.astype(rows.weights, rows.xp.float64, copy=False)
    with np.errstate(over="ignore", under="ignore"):
        return float(rows.xp.sum(weights * weights))


def _pilot(rows: Atoms, present: Array | None) -> tuple[np.ndarray, np.ndarray]:
    """The mean of some rows spread over all, and how far they go from it in each column.

    Any point amid the rows that count serves as a centre.
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
    """Atoms in 2n features: x - centre, 0 where missing; and 1 where present. Noise likewise."""
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
