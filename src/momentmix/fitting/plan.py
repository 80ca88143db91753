"""What is asked for: an estimator's parameters, resolved for data of a given size.

A plan leaves nothing to decide but by looking at the data themselves. It is a function of the
parameters and of a few sizes, so that it can be made, and refused, before any work is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from momentmix.covariance import Kind, LogNormalPrior, Spherical, common_noise, covariance_type
from momentmix.data.parameters import Parameters
from momentmix.data.sources import Place
from momentmix.distributions.mixture import Mixture
from momentmix.fitting.given import (
    Outliers,
    Start,
    given_covariances,
    given_means,
    given_outliers,
    given_weights,
)
from momentmix.likelihood.starts import InitParams
from momentmix.matching.costs import EXPLICIT_PARAMETERS, is_explicit, tensors_pay
from momentmix.matching.identifiability import (
    HIGHEST_ORDER,
    check_order,
    check_rank,
    is_enough,
    needed_order,
)
from momentmix.matching.matching import Augmentation, Model, SolverName, Weighting
from momentmix.matching.starts import NEAREST, Init
from momentmix.moments.orders import augmented_weights
from momentmix.tensors.packed import total_size

#: How many times as many moments as parameters make an estimate nearly as good as maximum
#: likelihood, and the order up to which they are sought.
AMPLE, AMPLE_ORDER = 2.1, 8
#: Distinct moments of order 4 up to which that order is taken where moments are not explicit.
AFFORDABLE = 1 << 20
#: Distinct moments up to which their inverse covariance is the weight of a fit.
OPTIMAL_MOMENTS = 2000
#: The least variance of a component even for reg_covar=0, relative to that of the data: one of a
#: single row must stay finite, and a covariance matrix hold its least eigenvalue to five digits.
LEAST_VARIANCE = 1e-10
#: The same where moments are matched.
LEAST_MATCHED_VARIANCE = 1e-9
#: Iterations and tolerance of moment fits that are only to be starts of EM, and of estimates.
START_ITERATIONS, START_TOL, ESTIMATE_TOL = 30, 3e-5, 1e-9


class CommonSettings(Protocol):
    """Parameters that every estimator has, as their documentation describes them."""

    n_components: int | Literal["auto"]
    order_weights: Literal["auto"] | Sequence[float]
    omega: float | None
    augmentation: Augmentation
    solver: SolverName
    init: Init
    n_init: int | Literal["auto"]
    polish: Literal["em", "newton"] | None
    max_iter: int
    tol: float
    weights_init: np.ndarray | None
    means_init: np.ndarray | None
    warm_start: bool
    verbose: int
    n_jobs: int | None


class MixtureSettings(CommonSettings, Protocol):
    """Parameters of MomentMixture."""

    order: int | Literal["auto"]
    covariance_type: str
    weighting: Literal["auto", "optimal", "orders"]
    reg_covar: float
    init_params: InitParams
    covariances_init: np.ndarray | None
    precisions_init: np.ndarray | None
    verbose_interval: int
    moments: Literal["auto", "tensors", "samples"]
    prior: float | Literal["auto", "cv"] | None
    outliers: float | Literal["none", "auto", "uniform"]


class KnownNoiseSettings(CommonSettings, Protocol):
    """Parameters of KnownCovarianceMixture."""

    order: int
    covariance: ArrayLike | Literal["estimate"]


class Sizes(NamedTuple):
    """What a plan has to know of the data."""

    n: int  # features
    rows: int = 0  # that are read at each evaluation of a cost
    order: int | None = None  # the highest order of which moments are known, if not all are
    place: Place = "moments"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is fitted, to what, and for how long.

    What has a default is for covariances that are to be found, and left alone where they are known.
    """

    kind: Kind
    m: int
    n: int
    order: int
    order_weights: tuple[float, ...] | None  # as given; None: derived from sampling noise
    omega: float | None
    augmentation: Augmentation
    solver: SolverName
    tensors: bool  # one pass makes moments, which take the place of the rows
    init: Init
    n_init: int | None  # None: as many as it takes
    polish: bool  # there is a likelihood, and it is climbed
    tol: float
    max_iter: int
    start: Start | None
    by_weight: bool  # components are put in the order of their weights
    verbose: int
    scoring: bool = False  # by Newton's steps and not by EM's
    search: Literal["plain", "moments", "estimate"] = "estimate"  # where EM starts
    init_params: InitParams = "auto"  # which plain starts
    weighting: Weighting = "orders"
    explicit: bool = False  # moments and their Jacobian are held
    prior: LogNormalPrior | None = None
    cross_validated: bool = False  # the strength of the prior is still to be found
    anchored: bool = False  # covariances are held where gaps leave them open
    rounding: bool = False  # no covariance is less than what rounding of the columns hides
    floor: float = 0.0  # the least variance, in units of the data
    outliers: Outliers | None = None  # rows may belong to no component

    def weights(self, unit: float, derived: Sequence[float]) -> list[float]:
        """Weights over the orders: ω in a frame's unit, those given, or those derived."""
        if self.omega is not None:
            return list(augmented_weights(self.order, self.omega / unit))
        return list(derived if self.order_weights is None else self.order_weights)

    def model(self, weights: Sequence[float]) -> Model:
        """What moments are matched by: as an estimate of its own, or roughly as starts of EM."""
        rough = self.search != "estimate"
        return Model(
            kind=self.kind,
            m=self.m,
            n=self.n,
            order=self.order,
            weights=weights,
            augmentation=self.augmentation,
            weighting=self.weighting,
            solver=self.solver,
            floor=max(self.floor, LEAST_MATCHED_VARIANCE),
            max_iter=min(self.max_iter, START_ITERATIONS) if rough else self.max_iter,
            tol=START_TOL if rough else ESTIMATE_TOL,
            explicit=self.explicit,
        )


def plan_mixture(s: MixtureSettings, sizes: Sizes, last: Mixture | None) -> Plan:
    """The plan of MomentMixture; ``last`` is the solution before, if there was one.

    With rows in memory the likelihood decides, and moments are starts at most. Elsewhere, or
    without rows, the moments are matched as well as they can be.
    """
    kind, m, n = covariance_type(s.covariance_type), int(s.n_components), sizes.n
    outliers = planned_outliers(s, sizes)
    polish, scoring = sizes.place != "moments" and s.polish is not None, s.polish == "newton"
    in_memory = polish and sizes.place == "memory" and not scoring
    order = mixture_order(s, sizes, check=not in_memory or s.order != "auto")
    explicit = is_explicit(kind, m, n, order) and (
        s.moments != "samples" or sizes.order is not None
    )
    pays = s.moments == "auto" and tensors_pay(sizes.rows, kind, m, n, order)
    given = _mixture_start(s, kind, n)
    return Plan(
        kind=kind,
        m=m,
        n=n,
        order=order,
        order_weights=_order_weights(s, order),
        omega=s.omega,
        augmentation=s.augmentation,
        solver=s.solver,
        weighting=_weighting(s, explicit, total_size(n, order), rough=in_memory),
        explicit=explicit,
        tensors=(pays or s.moments == "tensors") and not in_memory and sizes.place != "moments",
        init=NEAREST.get(s.init_params, s.init),
        n_init=_count(s.n_init),
        polish=polish,
        scoring=scoring,
        search=_search(s) if in_memory else "estimate",
        init_params=s.init_params,
        prior=kind.prior(n, s.prior),
        cross_validated=s.prior == "cv" and polish and sizes.place == "memory",
        anchored=s.prior is not None,
        rounding=s.prior is not None,
        outliers=outliers,
        floor=max(float(s.reg_covar), LEAST_VARIANCE),
        tol=float(s.tol),
        max_iter=int(s.max_iter),
        start=_last(s, kind, n, last) or given,
        by_weight=not s.warm_start and given is None,
        verbose=s.verbose,
    )


def plan_known_noise(s: KnownNoiseSettings, sizes: Sizes, last: Mixture | None) -> Plan:
    """The plan of KnownCovarianceMixture: in its coordinates the noise is spherical, and known."""
    m, n, order = int(s.n_components), sizes.n, known_noise_order(s, sizes)
    given = _known_noise_start(s, n)
    return Plan(
        kind=Spherical,
        m=m,
        n=n,
        order=order,
        order_weights=_order_weights(s, order),
        omega=s.omega,
        augmentation=s.augmentation,
        solver=s.solver,
        tensors=sizes.place == "elsewhere",
        init=s.init,
        n_init=_count(s.n_init),
        polish=sizes.place != "moments" and s.polish == "em",
        tol=float(s.tol),
        max_iter=int(s.max_iter),
        start=_last(s, None, n, last) or given,
        by_weight=not s.warm_start and given is None,
        verbose=s.verbose,
    )


def planned_outliers(s: MixtureSettings, sizes: Sizes) -> Outliers | None:
    """Whether rows may belong to no component, for which they have to be here."""
    outliers = given_outliers(s.outliers)
    if outliers is None or sizes.place == "memory":
        return outliers
    where = "elsewhere" if sizes.place == "elsewhere" else "moments, and no rows"
    raise ValueError(
        f"outliers={s.outliers!r} looks at rows in memory, but these are {where}; fit a sample of "
        "the rows, or use outliers='none'"
    )


# Orders and their weights


def customary_order(kind: Kind, m: int, n: int) -> int:
    """The order that "auto" takes: ample moments, where they are few enough to be explicit.

    For covariance matrices at least 4, up to some 70 features: errors with order 3 are up to 20
    times those with order 4 (benchmarks/default.py). For variances alone 3 does as well where its
    moments are ample.
    """
    least = needed_order(kind, m, n)
    wanted = least if kind.diagonal else max(least, 4)
    if not kind.common:  # where the means alone must follow from the higher orders
        most = max(wanted, AMPLE_ORDER)
        while wanted < most and not is_enough(kind, m, n, wanted, AMPLE):
            wanted += 1
    for order in range(min(wanted, HIGHEST_ORDER), 2 if kind.diagonal else 3, -1):
        if is_explicit(kind, m, n, order) and is_enough(kind, m, n, order):
            return order
    affordable = total_size(n, 4) <= AFFORDABLE and is_enough(kind, m, n, 4)
    return 4 if affordable and not kind.diagonal else least


def mixture_order(s: MixtureSettings, sizes: Sizes, check: bool = True) -> int:
    """The order to match, with ``check`` one that can determine the parameters."""
    kind = covariance_type(s.covariance_type)
    m, n, known = int(s.n_components), sizes.n, sizes.order
    if s.order == "auto":
        order = min(customary_order(kind, m, n), HIGHEST_ORDER)
        if known is not None and is_enough(kind, m, n, known):
            order = min(order, known)
    else:
        order = int(s.order)
    if check:
        check_order(kind, m, n, order)
    if known is not None and order > known:
        raise ValueError(
            f"{m} {kind.name} components in {n} feature(s) need moments of order {order}, but "
            f"these were kept up to order {known}; accumulate with order={order}"
        )
    return order


def known_noise_order(s: KnownNoiseSettings, sizes: Sizes) -> int:
    """The order to match, one that can tell the means apart."""
    order = s.order
    if isinstance(order, bool) or not isinstance(order, int | np.integer) or order < 3:
        raise ValueError(
            f"order must be a whole number of at least 3, got {order!r}: means and weights do "
            "not follow from the first two moments"
        )
    order = int(order)
    check_rank(s.n_components, sizes.n, order, single=False, name="n_components")
    if not isinstance(s.covariance, str):
        common_noise(s.covariance, sizes.n)  # a bad one is refused before any pass
    weights = _order_weights(s, order)
    if weights is not None and (weights[-1] == 0 or not any(weights[1:-1])):
        raise ValueError(
            "order_weights must not be 0 for the highest order, nor for all others: one order "
            f"alone does not tell means from weights; got {s.order_weights!r}"
        )
    if sizes.order is not None and order > sizes.order:
        raise ValueError(
            f"order={order} is asked for, but these moments were kept up to order {sizes.order}; "
            f"accumulate with order={order}"
        )
    return order


def _order_weights(s: CommonSettings, order: int) -> tuple[float, ...] | None:
    """Weights over the orders as given; None where they are to be derived, or ω is given."""
    if s.omega is not None or isinstance(s.order_weights, str):
        return None
    try:
        weights = tuple(float(w) for w in s.order_weights)
    except (TypeError, ValueError):
        weights = ()
    if len(weights) != order + 1 or min(weights) < 0 or not np.all(np.isfinite(weights)):
        raise ValueError(
            f"order_weights must be 'auto' or {order + 1} numbers that are not negative, "
            f"one for each order 0..{order}; got {s.order_weights!r}"
        )
    return weights


def _weighting(s: MixtureSettings, explicit: bool, count: int, rough: bool) -> Weighting:
    """How residuals of ``count`` moments are weighted, if neither ω nor weights are given."""
    if s.omega is not None or not isinstance(s.order_weights, str):
        return "orders"
    few = explicit and count <= OPTIMAL_MOMENTS
    if s.weighting == "optimal" and not few:
        raise ValueError(
            f"weighting='optimal' needs the inverse of a matrix of all {count} moments; it "
            f"serves up to {OPTIMAL_MOMENTS} of them and {EXPLICIT_PARAMETERS} parameters. "
            "Use weighting='auto' or 'orders'"
        )
    if s.weighting == "orders" or not explicit:
        return "orders"
    return "optimal" if few and not rough else "hermite"  # starts of EM need not be efficient


# Starts


def _count(n_init: int | Literal["auto"]) -> int | None:
    return None if n_init == "auto" else int(n_init)


def _last(s: CommonSettings, kind: Kind | None, n: int, last: Mixture | None) -> Start | None:
    """The last solution, if the fit is to start from there and the model is the same.

    Without a ``kind`` covariances are known, and those of the last solution do not matter.
    """
    if not s.warm_start or last is None:
        return None
    if (last.n_components, last.n_features) != (int(s.n_components), n):
        return None
    if kind is not None and last.atoms.covariance.kind is not kind:
        return None
    return Start(*Parameters.of(last))


def _search(s: MixtureSettings) -> Literal["plain", "moments"]:
    """Where EM starts on rows in memory: at moment fits only if so many of a kind are asked for."""
    return "moments" if s.n_init != "auto" and s.init != "auto" else "plain"


def _mixture_start(s: MixtureSettings, kind: Kind, n: int) -> Start | None:
    m = int(s.n_components)
    covariances = given_covariances(kind, m, n, s.covariances_init, s.precisions_init)
    start = Start(given_weights(s.weights_init, m), given_means(s.means_init, m, n), covariances)
    return None if all(part is None for part in start) else start


def _known_noise_start(s: KnownNoiseSettings, n: int) -> Start | None:
    """A start whose covariances need not be said; means alone have equal weights."""
    m = int(s.n_components)
    weights, means = given_weights(s.weights_init, m), given_means(s.means_init, m, n)
    if weights is None and means is None:
        return None
    return Start(np.full(m, 1 / m) if weights is None else weights, means, np.empty((m, 0)))
