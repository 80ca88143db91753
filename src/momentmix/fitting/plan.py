"""What is asked for: an estimator's parameters, resolved for data of a given size.

A plan leaves nothing to decide but by looking at the data themselves. It is a function of the
parameters and of a few sizes, so that it can be made, and refused, before any work is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from momentmix.covariance import Kind, LogNormalPrior, Spherical, covariance_type
from momentmix.data.parameters import Parameters
from momentmix.distributions.mixture import Mixture
from momentmix.fitting.asked import CommonSettings, KnownNoiseSettings, MixtureSettings, Sizes
from momentmix.fitting.given import (
    Outliers,
    Start,
    given_covariances,
    given_means,
    given_outliers,
    given_weights,
)
from momentmix.fitting.orders import (
    given_order_weights,
    known_noise_order,
    mixture_order,
    weighting,
)
from momentmix.likelihood.starts import InitParams
from momentmix.matching.costs import is_explicit, tensors_pay
from momentmix.matching.matching import Augmentation, Model, SolverName, Weighting
from momentmix.matching.starts import NEAREST, Init
from momentmix.moments.orders import augmented_weights
from momentmix.tensors.packed import total_size

#: The least variance of a component even for reg_covar=0, relative to that of the data: one of a
#: single row must stay finite, and a covariance matrix hold its least eigenvalue to five digits.
LEAST_VARIANCE = 1e-10
#: The same where moments are matched.
LEAST_MATCHED_VARIANCE = 1e-9
#: Iterations and tolerance of moment fits that are only to be starts of EM, and of estimates.
START_ITERATIONS, START_TOL, ESTIMATE_TOL = 30, 3e-5, 1e-9


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
        rough = self.search != "estimate" or self.scoring
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


def plan_mixture(s: MixtureSettings, sizes: Sizes, last: Mixture | None) -> Plan:
    """The plan of MomentMixture; ``last`` is the solution before, if there was one.

    Where there are rows the likelihood decides, and moments are starts at most. Without rows, the
    moments are matched as well as they can be.
    """
    kind, m, n = covariance_type(s.covariance_type), int(s.n_components), sizes.n
    outliers = planned_outliers(s, sizes)
    polish, scoring = sizes.place != "moments" and s.polish is not None, s.polish == "newton"
    search = _search(s, sizes) if polish and not scoring else "estimate"
    searched = search != "estimate"
    determined = not searched or s.order != "auto"
    order = mixture_order(s, sizes, determined, start=searched or scoring)
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
        order_weights=given_order_weights(s, order),
        omega=s.omega,
        augmentation=s.augmentation,
        solver=s.solver,
        weighting=weighting(s, explicit, total_size(n, order), rough=searched),
        explicit=explicit,
        tensors=(pays or s.moments == "tensors") and not searched and sizes.place != "moments",
        init=NEAREST.get(s.init_params, s.init),
        n_init=_count(s.n_init),
        polish=polish,
        scoring=scoring,
        search=search,
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
        order_weights=given_order_weights(s, order),
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


def _search(s: MixtureSettings, sizes: Sizes) -> Literal["plain", "moments", "estimate"]:
    """Where EM starts: at moment fits only if so many of a kind are asked for.

    Elsewhere those are one estimate from all rows, since rows that are drawn have no better one.
    """
    if s.n_init == "auto" or s.init == "auto":
        return "plain"
    return "moments" if sizes.place == "memory" else "estimate"


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
