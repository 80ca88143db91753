"""The choice of the number of components and the covariance type, if these are "auto"."""

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
from momentmix.fitting.plan import Plan, plan_likelihood
from momentmix.fitting.sweep import Found, best_of, can_sweep, search_again, sweep
from momentmix.support.checks import generator

if TYPE_CHECKING:
    from momentmix.estimators.gaussian_mixture import GaussianMixture

#: "auto" tries at most MOST components, and stops when PATIENCE numbers in a row were no better.
#: Both are round numbers that were not tuned; larger ones take more time and may find more
#: components.
MOST, PATIENCE = 10, 3


def refuse_auto(estimator: GaussianMixture, why: str) -> None:
    """Raise an error that names the parameters that are "auto" and cannot be chosen."""
    parameters = {name: getattr(estimator, name) for name in ("n_components", "covariance_type")}
    left_open = " and ".join(f"{name}='auto'" for name, value in parameters.items()
                             if value == "auto")  # fmt: skip
    raise ValueError(f"{left_open} compares likelihoods of rows in memory: {why}")


def choose(
    estimator: GaussianMixture, data: Data | ObservedData, rng: np.random.Generator
) -> Found:
    """The fit of lowest BIC among all numbers and types that the estimator leaves open."""
    if not isinstance(data, AtomData | ObservedData):
        refuse_auto(estimator, "for rows elsewhere, choose on a sample, and give the result here")
    assert isinstance(data, AtomData | ObservedData)
    name, m = estimator.covariance_type, estimator.n_components
    types = COVARIANCE_TYPES if name == "auto" else (name,)
    numbers, patience = ([int(m)], None) if m != "auto" else (range(1, MOST + 1), PATIENCE)
    if not sweeps(estimator, data):
        refuse_auto(
            estimator,
            "it does not work with max_iter=0, a start of your own or init_params='moments'",
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
    return search_again(best, generator(estimator.random_state))


def sweeps(estimator: GaussianMixture, data: AtomData | ObservedData) -> bool:
    """Whether fits of several numbers can share their work with these settings."""
    means, weights = estimator.means_init, estimator.weights_init
    widths = estimator.covariances_init, estimator.precisions_init
    if any(part is not None for part in (means, weights, *widths)):
        return False
    return can_sweep(plan_of(estimator, data, COVARIANCE_TYPES[0], 1))


def fits_of(
    estimator: GaussianMixture,
    data: AtomData | ObservedData,
    covariance_type: str,
    numbers: Sequence[int],
    rng: np.random.Generator,
    *,
    patience: int | None,
    price: float | None,
    callback: Callable[[Found], None] = lambda found: None,
) -> list[Found]:
    """Fits of one covariance type and some numbers of components, with the estimator's settings.

    See ``fitting.sweep.sweep`` for the other arguments.
    """
    return sweep(
        data,
        lambda m: plan_of(estimator, data, covariance_type, m),
        numbers,
        rng,
        patience=patience,
        price=price,
        callback=callback,
    )


def estimator_with(estimator: GaussianMixture, found: Found) -> GaussianMixture:
    """An estimator with the same settings that holds a fit, and has its number and type."""
    one = with_choice(estimator, found.plan.kind.name, found.plan.m)
    one._conclude(found.problem, found.fit)
    return one


def plan_of(
    estimator: GaussianMixture, data: AtomData | ObservedData, covariance_type: str, m: int
) -> Plan:
    """The plan of a fit with this number and type, which replace those of the estimator."""
    sizes = Sizes(data.n, data.rows, data.order, data.place)
    return plan_likelihood(with_choice(estimator, covariance_type, m), sizes, None)


def with_choice(estimator: GaussianMixture, covariance_type: str, m: int) -> GaussianMixture:
    """The same settings, with a type and a number."""
    one = copy(estimator)
    one.n_components, one.covariance_type = m, covariance_type
    return one
