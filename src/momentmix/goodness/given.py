"""Checks of the input of tests: a mixture, rows with weights, an order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from momentmix.distributions.mixture import Mixture
from momentmix.estimators.gaussian_mixture import GaussianMixture
from momentmix.estimators.moment_mixture import MomentMixture
from momentmix.goodness.distances import check_order
from momentmix.support.array import ArrayLike, as_float_array, to_numpy
from momentmix.support.checks import whole_number
from momentmix.tensors.packed import total_size

#: The fewest rows that are tested. A small number that was not tuned: tests of fewer rows would
#: find only the grossest differences.
LEAST_ROWS = 8
#: The most multiplications of a test whose order nobody asked for; beyond them the default order is
#: lowered. A round number that was not tuned; it affects which orders are tested by default.
MOST_WORK = 2e10


class UntestableError(ValueError):
    """The mixture or the rows cannot be tested; the message says why."""


def mixture_of(model: object) -> Mixture:
    """A mixture, or that of a fitted estimator, in NumPy and float64."""
    if isinstance(model, GaussianMixture | MomentMixture):
        found = getattr(model, "mixture_", None)
        if found is None:
            raise ValueError(f"the {type(model).__name__} is not fitted; call fit first")
        model = found
    if not isinstance(model, Mixture):
        raise TypeError(
            f"a Mixture, or a fitted GaussianMixture or MomentMixture, is needed, got "
            f"{type(model).__name__}; of another estimator give mixture_, "
            "with estimated=False"
        )
    if model.background is not None:
        raise UntestableError(
            "a test compares all rows with the components, and this mixture has a background for "
            "outliers; fit the rows that predict does not give -1, and test that fit"
        )
    weights, means, covariances = (
        to_numpy(part).astype(np.float64, copy=False)
        for part in (model.weights, model.means, model.covariances)
    )
    names = model.feature_names
    return Mixture(weights, means, covariances, model.covariance_type, feature_names=names)


def check_rows(X: ArrayLike, name: str = "X", gaps: bool = False) -> np.ndarray:
    """Rows (p, n) in NumPy and float64, without gaps unless they are allowed."""
    array = to_numpy(as_float_array(X, name, (2,))).astype(np.float64, copy=False)
    if np.isinf(array).any():
        raise ValueError(f"{name} must not hold infinity")
    if not gaps and np.isnan(array).any():
        raise ValueError(f"{name} must not hold NaN here; fill the gaps, or drop those rows")
    return array


def rows_to_test(
    mixture: Mixture, X: ArrayLike, sample_weight: ArrayLike | None
) -> tuple[np.ndarray, np.ndarray]:
    """Rows that have weight and some value, and how often each counts; (p, n) and (p,)."""
    rows = check_rows(X, gaps=True)
    if rows.shape[1] != mixture.n_features:
        raise ValueError(
            f"X has {rows.shape[1]} feature(s), but the mixture has {mixture.n_features}"
        )
    counts = np.ones(len(rows))
    if sample_weight is not None:
        counts = to_numpy(as_float_array(sample_weight, "sample_weight", (1,))).astype(np.float64)
        if counts.shape != (len(rows),) or not np.all(counts >= 0) or np.isinf(counts).any():
            raise ValueError(
                f"sample_weight must be {len(rows)} numbers, one for each row and none of them "
                "negative"
            )
    told = (counts > 0) & ~np.isnan(rows).all(axis=1)
    if np.sum(told) < LEAST_ROWS:
        raise UntestableError(
            f"a test needs at least {LEAST_ROWS} rows, got {np.sum(told)}, not counting rows "
            "without weight or values"
        )
    return rows[told], counts[told]


class Work(NamedTuple):
    """The number of multiplications that a test takes, roughly."""

    each: float  # for each moment
    once: float  # for all of them together

    def of(self, n: int, order: int) -> float:
        """Of all moments of n features up to an order."""
        return total_size(n, order) * self.each + self.once


def order_to_test(order: int | None, n: int, work: Work) -> int:
    """The highest order: the one asked for, or 4, or less where that would be costly."""
    if order is None:
        order = 4
        while order > 2 and work.of(n, order) > MOST_WORK:
            order -= 1
        return order
    whole_number("order", order, 1)
    check_order(order, n)
    return int(order)
