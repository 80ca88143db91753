"""The plan of a fit: the parameters of an estimator, resolved for data of a given size.

A plan decides all that can be decided without the data themselves. It is a function of the
parameters and of a few sizes, so it can be made, or refused, before any work is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from momentmix.covariance import Kind, LogNormalPrior, Spherical, covariance_type
from momentmix.data.parameters import Parameters
from momentmix.distributions.mixture import Mixture
from momentmix.fitting.asked import (
    CommonSettings,
    CovarianceSettings,
    KnownNoiseSettings,
    LikelihoodSettings,
    MomentSettings,
    Sizes,
)
from momentmix.fitting.given import (
    Outliers,
    Start,
    check_covariances_init,
    check_means_init,
    check_outliers,
    check_weights_init,
)
from momentmix.fitting.orders import (
    check_order_weights,
    choose_order,
    choose_weighting,
    known_noise_order,
    moment_order,
)
from momentmix.likelihood.starts import InitParams
from momentmix.matching.costs import is_explicit, tensors_pay
from momentmix.matching.matching import Augmentation, Model, SolverName, Weighting
from momentmix.matching.starts import Init
from momentmix.moments.orders import augmented_weights
from momentmix.tensors.packed import total_size

#: The least variance of a component even for reg_covar=0, relative to that of the data. The density
#: of a component of one row must stay finite, and float64 must hold the least eigenvalue of a
#: covariance matrix to five digits, which 1e-10 allows.
LEAST_VARIANCE = 1e-10
#: The same if moments are matched. This is a round number that was not tuned.
LEAST_MATCHED_VARIANCE = 1e-9
#: The most iterations and the tolerance of moment fits that are only starts of EM, and the
#: tolerance of estimates. These are round numbers that were not tuned: EM corrects its starts, and
#: estimates are exact to far less than their sampling noise.
START_ITERATIONS, START_TOL, ESTIMATE_TOL = 30, 3e-5, 1e-9


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
    order: int
    order_weights: tuple[float, ...] | None  # as given; None: derived from sampling noise
    omega: float | None
    augmentation: Augmentation
    solver: SolverName
    tensors: bool  # one pass makes moments, which replace the rows
    init: Init
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
    weighting: Weighting = "orders"
    explicit: bool = False  # moments and their Jacobian are held in memory
    prior: LogNormalPrior | None = None
    cross_validated: bool = False  # the strength of the prior is still to be found
    anchored: bool = False  # covariances are held where gaps leave them undetermined
    rounding: bool = False  # no covariance is less than what rounding of the columns hides
    floor: float = 0.0  # the least variance, in units of the data
    outliers: Outliers | None = None  # rows may belong to no component

    def weights(self, unit: float, derived: Sequence[float]) -> list[float]:
        """Weights over the orders: from ω in the unit of a frame, as given, or as derived."""
        if self.omega is not None:
            return list(augmented_weights(self.order, self.omega / unit))
        return list(derived if self.order_weights is None else self.order_weights)

    def model(self, weights: Sequence[float]) -> Model:
        """The model whose moments are matched: well, or roughly if they are only starts of EM."""
        rough = self.search in ("plain", "moments") or self.method == "newton"
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
            rough=rough,
        )


def plan_likelihood(s: LikelihoodSettings, sizes: Sizes, last: Mixture | None) -> Plan:
    """The plan of GaussianMixture; ``last`` is the previous solution, if there is one.

    The likelihood is maximised, and moments can only be starts.
    """
    kind, m, n = covariance_type(s.covariance_type), int(s.n_components), sizes.n
    outliers, newton = plan_outliers(s, sizes), s.method == "newton"
    if outliers is not None and (newton or s.init_params == "moments"):
        raise ValueError(
            f"outliers={s.outliers!r} goes with method='auto' or 'em' and with plain starts: "
            f"outliers ruin moments and Newton's steps; got method={s.method!r} and "
            f"init_params={s.init_params!r}"
        )
    search = _search(s, sizes)
    rough = search != "estimate" or newton
    order = choose_order(kind, m, sizes, check=search == "estimate", start=rough)
    explicit, given = is_explicit(kind, m, n, order), _start_of_user(s, kind, n)
    pays = tensors_pay(sizes.rows, kind, m, n, order)
    return Plan(
        kind=kind,
        m=m,
        n=n,
        order=order,
        order_weights=None,
        omega=None,
        augmentation="implicit",
        solver="auto",
        weighting=choose_weighting(explicit, total_size(n, order), rough=search != "estimate"),
        explicit=explicit,
        tensors=pays and search == "estimate",
        # Several fits of moments start at random rows. A single estimate uses these in turn with
        # rows that are far from each other.
        init="random" if search == "moments" else "auto",
        n_init=_count(s.n_init),
        polish=True,
        method=s.method,
        search=search,
        init_params=s.init_params,
        prior=kind.prior(n, s.prior),
        cross_validated=s.prior == "cv" and sizes.place == "memory",
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


def plan_moments(s: MomentSettings, sizes: Sizes, last: Mixture | None) -> Plan:
    """The plan of MomentMixture: moments are matched as well as they can be."""
    kind, m, n = covariance_type(s.covariance_type), int(s.n_components), sizes.n
    outliers, order = plan_outliers(s, sizes), moment_order(s, sizes)
    explicit = is_explicit(kind, m, n, order) and (
        s.moments != "samples" or sizes.order is not None
    )
    pays = s.moments == "auto" and tensors_pay(sizes.rows, kind, m, n, order)
    order_weights, given = check_order_weights(s, order), _start_of_user(s, kind, n)
    weighting: Weighting = "orders"
    if s.omega is None and order_weights is None:
        weighting = choose_weighting(explicit, total_size(n, order), s.weighting)
    return Plan(
        kind=kind,
        m=m,
        n=n,
        order=order,
        order_weights=order_weights,
        omega=s.omega,
        augmentation=s.augmentation,
        solver=s.solver,
        weighting=weighting,
        explicit=explicit,
        tensors=(pays or s.moments == "tensors") and sizes.place != "moments",
        init=s.init,
        n_init=_count(s.n_init),
        polish=False,
        outliers=outliers,
        floor=max(float(s.reg_covar), LEAST_VARIANCE),
        tol=ESTIMATE_TOL,
        max_iter=int(s.max_iter),
        start=_last(s, kind, n, last) or given,
        by_weight=not s.warm_start and given is None,
        verbose=s.verbose,
    )


def plan_known_noise(s: KnownNoiseSettings, sizes: Sizes, last: Mixture | None) -> Plan:
    """The plan of KnownCovarianceMixture, in coordinates where the known noise is spherical."""
    m, n, order = int(s.n_components), sizes.n, known_noise_order(s, sizes)
    given = _known_noise_start(s, n)
    return Plan(
        kind=Spherical,
        m=m,
        n=n,
        order=order,
        order_weights=check_order_weights(s, order),
        omega=s.omega,
        augmentation=s.augmentation,
        solver=s.solver,
        tensors=sizes.place == "elsewhere",
        init=s.init,
        n_init=_count(s.n_init),
        polish=sizes.place != "moments" and s.polish == "em",
        search="both" if s.n_init == "auto" else "estimate",
        tol=float(s.tol),
        max_iter=int(s.max_iter),
        start=_last(s, None, n, last) or given,
        by_weight=not s.warm_start and given is None,
        verbose=s.verbose,
    )


def plan_outliers(s: CovarianceSettings, sizes: Sizes) -> Outliers | None:
    """The outliers that were asked for, if any; they need rows in memory."""
    outliers = check_outliers(s.outliers)
    if outliers is None or sizes.place == "memory":
        return outliers
    where = "elsewhere" if sizes.place == "elsewhere" else "moments, and no rows"
    raise ValueError(
        f"outliers={s.outliers!r} looks at rows in memory, but these are {where}; fit a sample of "
        "the rows, or use outliers=None"
    )


# Starts


def _count(n_init: int | Literal["auto"]) -> int | None:
    return None if n_init == "auto" else int(n_init)


def _last(s: CommonSettings, kind: Kind | None, n: int, last: Mixture | None) -> Start | None:
    """The last solution, if the fit is to start from there and the model is the same.

    Without a ``kind`` covariances are known, and those of the last solution do not count.
    """
    if not s.warm_start or last is None:
        return None
    if (last.n_components, last.n_features) != (int(s.n_components), n):
        return None
    if kind is not None and last.atoms.covariance.kind is not kind:
        return None
    return Start(*Parameters.of(last))


def _search(s: LikelihoodSettings, sizes: Sizes) -> Search:
    """Where EM starts: at fits of moments only if these are asked for.

    For rows elsewhere there is one estimate from all rows, which is better than any from a sample.
    """
    if s.init_params != "moments":
        return "plain"
    several = s.n_init != "auto" and s.method != "newton" and sizes.place == "memory"
    return "moments" if several else "estimate"


def _start_of_user(s: CovarianceSettings, kind: Kind, n: int) -> Start | None:
    m = int(s.n_components)
    covariances = check_covariances_init(kind, m, n, s.covariances_init, s.precisions_init)
    start = Start(
        check_weights_init(s.weights_init, m), check_means_init(s.means_init, m, n), covariances
    )
    return None if all(part is None for part in start) else start


def _known_noise_start(s: KnownNoiseSettings, n: int) -> Start | None:
    """A start without covariances; the default weights are equal."""
    m = int(s.n_components)
    weights, means = check_weights_init(s.weights_init, m), check_means_init(s.means_init, m, n)
    if weights is None and means is None:
        return None
    return Start(np.full(m, 1 / m) if weights is None else weights, means, np.empty((m, 0)))
