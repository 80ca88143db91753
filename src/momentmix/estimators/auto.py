"""The number of components and the covariance type, where they are left to the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from momentmix.covariance import COVARIANCE_TYPES
from momentmix.data.observed import ObservedData
from momentmix.data.sources import AtomData, Data
from momentmix.fitting.asked import Sizes
from momentmix.fitting.plan import Plan, plan_mixture
from momentmix.fitting.sweep import Found, best_of, can_sweep, searched, sweep
from momentmix.support.checks import generator

if TYPE_CHECKING:
    from momentmix.estimators.moment_mixture import MomentMixture

#: Components that "auto" tries at most, and numbers in a row that have to be worse before it stops.
MOST, PATIENCE = 10, 3


def refuse_auto(estimator: MomentMixture, why: str) -> None:
    """An error that names what was left open, where it cannot be found out."""
    parameters = {name: getattr(estimator, name) for name in ("n_components", "covariance_type")}
    left_open = " and ".join(f"{name}='auto'" for name, value in parameters.items()
                             if value == "auto")  # fmt: skip
    raise ValueError(f"{left_open} compares likelihoods of rows in memory: {why}")


def chosen(estimator: MomentMixture, data: Data | ObservedData, rng: np.random.Generator) -> Found:
    """The fit of lowest BIC among all numbers and types that the estimator leaves open."""
    if not isinstance(data, AtomData | ObservedData):
        refuse_auto(estimator, "elsewhere, choose on a sample, and give what was chosen")
    assert isinstance(data, AtomData | ObservedData)
    name, m = estimator.covariance_type, estimator.n_components
    types = COVARIANCE_TYPES if name == "auto" else (name,)
    numbers, patience = ([int(m)], None) if m != "auto" else (range(1, MOST + 1), PATIENCE)
    if not sweeps(estimator, data):
        refuse_auto(
            estimator,
            "polish=None or 'newton', max_iter=0, a start of one's own and starts by moments (init "
            "together with n_init) do not go with it",
        )
    price = float(np.log(data.count))
    found: list[Found] = []
    for one in types:
        found += fits_of(estimator, data, one, numbers, rng, patience=patience, price=price)
        if found[-1].fit.interrupted:
            break
    best = best_of(found)
    if found[-1].fit.interrupted:
        return replace(best, fit=replace(best.fit, interrupted=True))
    return searched(best, generator(estimator.random_state))


def sweeps(estimator: MomentMixture, data: AtomData | ObservedData) -> bool:
    """Whether fits of several numbers can share their work with these settings."""
    means, weights = estimator.means_init, estimator.weights_init
    widths = estimator.covariances_init, estimator.precisions_init
    if any(part is not None for part in (means, weights, *widths)):
        return False
    return can_sweep(plan_of(estimator, data, COVARIANCE_TYPES[0], 1))


def fits_of(
    estimator: MomentMixture,
    data: AtomData | ObservedData,
    covariance_type: str,
    numbers: Sequence[int],
    rng: np.random.Generator,
    *,
    patience: int | None,
    price: float | None,
    callback: Callable[[Found], None] = lambda found: None,
) -> list[Found]:
    """Fits of one covariance type and some numbers of components, as the estimator would make them.

    See ``fitting.sweep.sweep`` for the rest.
    """
    return sweep(
        data,
        lambda m: plan_of(estimator, data, covariance_type, m),
        numbers,
        rng,
        patience=patience,
        price=price,
        order=estimator.order,
        callback=callback,
    )


def fitted_as(estimator: MomentMixture, found: Found) -> MomentMixture:
    """An estimator with the same settings, the number and the type of a fit, and that fit."""
    one = with_choice(estimator, found.plan.kind.name, found.plan.m)
    one._conclude(found.problem, found.fit)
    return one


def plan_of(
    estimator: MomentMixture, data: AtomData | ObservedData, covariance_type: str, m: int
) -> Plan:
    """The plan of a fit with a number and a type, whatever the estimator says of these."""
    sizes = Sizes(data.n, data.rows, data.order, data.place)
    return plan_mixture(with_choice(estimator, covariance_type, m), sizes, None)


def with_choice(estimator: MomentMixture, covariance_type: str, m: int) -> MomentMixture:
    """The same settings, with a type and a number."""
    one = copy(estimator)
    one.n_components, one.covariance_type = m, covariance_type
    return one
