"""The plan of a fit: what users ask for, checked, and resolved for data of a given size.

A plan decides all that can be decided without the data themselves. It is a function of the
parameters of an estimator and of a few sizes, so it can be made, or refused, before any work is
done. Each estimator makes its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from momentmix.covariance import (
    Kind,
    LogNormalPrior,
    component_covariance,
    join,
)
from momentmix.distributions.mixture import Mixture
from momentmix.fit import Parameters
from momentmix.matching.model import Model
from momentmix.rows.data import Place
from momentmix.support.array import ArrayLike, as_float_array, to_numpy


class Sizes(NamedTuple):
    """What a plan has to know of the data."""

    n: int  # the number of features
    rows: int = 0  # the rows that are read at each evaluation of a cost
    order: int | None = None  # the highest order whose moments are known, if not all are
    place: Place = "moments"


#: The largest share of outliers unless a smaller one is given. Robust statistics customarily stops
#: at one half, because beyond it nobody can say which rows are the outliers.
MOST_OUTLIERS = 0.5


class OutlierPlan(NamedTuple):
    """What is asked for if some rows may belong to no component."""

    most: float  # the largest share of such rows
    robust: bool  # the density of their background is found from the other rows
    widths: np.ndarray | None = None  # of the box of the background, if they are known


def check_outliers(outliers: str | float | None) -> OutlierPlan | None:
    """The outliers that a user asks for by None, "auto", "uniform" or the largest share."""
    if isinstance(outliers, str):
        return OutlierPlan(MOST_OUTLIERS, outliers == "auto")
    return OutlierPlan(float(outliers), robust=True) if outliers else None


class Start(NamedTuple):
    """Where a fit is to start, in the coordinates of X; parts that are None will be guessed."""

    weights: np.ndarray | None
    means: np.ndarray | None
    covariances: np.ndarray | None


def check_weights_init(weights: ArrayLike | None, m: int) -> np.ndarray | None:
    """``weights_init`` (m,), made to sum to 1 to the last bit."""
    if weights is None:
        return None
    array = to_numpy(as_float_array(weights, "weights_init", (1,))).astype(np.float64)
    total = float(np.sum(array))
    if array.shape != (m,) or not np.all(array >= 0) or not abs(total - 1) <= 1e-6:
        raise ValueError(
            f"weights_init must be {m} numbers, none of them negative, with sum 1; got "
            f"{len(array)} with sum {total:.10g}"
        )
    return array / total


def check_means_init(means: ArrayLike | None, m: int, n: int) -> np.ndarray | None:
    """``means_init`` (m, n)."""
    if means is None:
        return None
    array = to_numpy(as_float_array(means, "means_init", (2,))).astype(np.float64)
    if array.shape != (m, n):
        raise ValueError(f"means_init must have shape {(m, n)}, got {array.shape}")
    if not np.all(np.isfinite(array)):
        raise ValueError("means_init must be finite, but holds NaN or infinity")
    return array


def check_covariances_init(
    kind: Kind, m: int, n: int, covariances: ArrayLike | None, precisions: ArrayLike | None
) -> np.ndarray | None:
    """``covariances_init`` or the inverse of ``precisions_init``, in the shape of the type."""
    if covariances is not None and precisions is not None:
        raise ValueError(
            "covariances_init and precisions_init are each the inverse of the other; give one of "
            "them"
        )
    if covariances is not None:
        return _with_inverse(kind, m, n, covariances, "covariances_init")[0]
    if precisions is not None and kind.iterated:
        raise ValueError(f"{kind.name!r} has no precisions_init; give covariances_init")
    if precisions is not None:
        return _with_inverse(kind, m, n, precisions, "precisions_init")[1]
    return None


def _with_inverse(
    kind: Kind, m: int, n: int, array: ArrayLike, name: str
) -> tuple[np.ndarray, np.ndarray]:
    """An array of the type, checked, and its inverse."""
    checked = component_covariance(kind.plain().name, join(array, kind.name), m, n, name)
    if checked.kind is not kind.plain():
        raise ValueError(
            f"{name} has rank {checked.kind.rank}, but rank={kind.rank} is to be fitted"
        )
    matrices = to_numpy(checked.array).astype(np.float64)
    if kind.iterated:  # the precisions have no such form
        return matrices, matrices
    try:
        inverse = kind.precision_cholesky(matrices)[0]
    except np.linalg.LinAlgError:
        inverse = np.full_like(matrices, np.nan)
    if not np.all(np.isfinite(inverse)):
        raise ValueError(f"{name} must be positive definite")
    return matrices, inverse


#: The least variance of a component even for reg_covar=0, relative to that of the data. The density
#: of a component of one row must stay finite, and float64 must hold the least eigenvalue of a
#: covariance matrix to five digits, which 1e-10 allows.
LEAST_VARIANCE = 1e-10
#: The kind of start: "auto" for several, one by the name that scikit-learn gives it, or "moments",
#: which fitting/starts.py does not make.
InitParams: TypeAlias = Literal[
    "auto", "kmeans", "k-means++", "random", "random_from_data", "moments"
]
#: How the likelihood is climbed: by EM, by Newton's steps, or as the number of rows suggests.
Method: TypeAlias = Literal["auto", "em", "newton"]
#: Where EM starts: at plain starts, which are repaired; at several fits of moments; at the moment
#: estimate; or at this estimate and then also at plain starts.
Search: TypeAlias = Literal["plain", "moments", "estimate", "both"]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is fitted, to what, and for how long.

    Fields with a default matter only if covariances are to be found.
    """

    kind: Kind
    m: int
    n: int
    n_init: int | None  # None: until enough agree
    polish: bool  # there is a likelihood, and it is climbed
    tol: float
    max_iter: int
    start: Start | None
    by_weight: bool  # components are sorted by their weights
    verbose: int
    method: Method = "auto"  # how the last steps to the maximum are taken
    search: Search = "estimate"
    init_params: InitParams = "auto"  # the kind of plain starts
    prior: LogNormalPrior | None = None
    cross_validated: bool = False  # the strength of the prior is still to be found
    anchored: bool = False  # covariances are held where gaps leave them undetermined
    rounding: bool = False  # no covariance is less than what rounding of the columns hides
    floor: float = 0.0  # the least variance, in units of the data
    sharpness: float = 1.0  # above 1 if clusters are sought; see Target
    outliers: OutlierPlan | None = None  # rows may belong to no component
    known: Parameters | None = None  # a solution that a search from plain starts tries last
    matching: Model | None = None  # the moments that are matched; None for a likelihood alone

    @property
    def starts_at_rows(self) -> bool:
        """Whether EM starts at rows or at several fits of moments, and not at one estimate."""
        return self.search in ("plain", "moments")

    @property
    def model(self) -> Model:
        """The model whose moments are matched."""
        if self.matching is None:
            raise ValueError("this fit has no moments; use init_params='moments'")
        return self.matching

    @property
    def tensors(self) -> bool:
        """Whether one pass makes moments, which replace the rows."""
        return self.matching is not None and self.matching.tensors

    @property
    def at_the_origin(self) -> bool:
        """Whether coordinates are about the origin of X, to which the paper's ω refers."""
        return self.matching is not None and self.matching.omega is not None


def plan_outliers(asked: str | float | None, place: Place) -> OutlierPlan | None:
    """The outliers that were asked for, if any; they need rows in memory."""
    outliers = check_outliers(asked)
    if outliers is None or place == "memory":
        return outliers
    where = "elsewhere" if place == "elsewhere" else "moments, and no rows"
    raise ValueError(
        f"outliers={asked!r} looks at rows in memory, but these are {where}; fit a sample of "
        "the rows, or use outliers=None"
    )


def count_of_starts(n_init: int | Literal["auto"]) -> int | None:
    """The number of starts; None for as many as it takes until enough agree."""
    return None if n_init == "auto" else int(n_init)


def last_start(last: Mixture | None, kind: Kind | None, m: int, n: int) -> Start | None:
    """The last solution as a start, if there is one of the same model.

    Without a ``kind`` covariances are known, and those of the last solution do not count.
    """
    if last is None or (last.n_components, last.n_features) != (m, n):
        return None
    if kind is not None and last.atoms.covariance.kind is not kind.plain():
        return None
    return Start(*Parameters.of(last))


def given_start(
    kind: Kind,
    m: int,
    n: int,
    weights: ArrayLike | None,
    means: ArrayLike | None,
    covariances: ArrayLike | None,
    precisions: ArrayLike | None,
) -> Start | None:
    """The start that a user gives, in whole or in part; None if there is none."""
    start = Start(
        check_weights_init(weights, m),
        check_means_init(means, m, n),
        check_covariances_init(kind, m, n, covariances, precisions),
    )
    return None if all(part is None for part in start) else start
