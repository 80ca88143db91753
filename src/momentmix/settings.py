"""What the parameters of an estimator mean: checked, and turned into a model to fit.

The functions take the estimator as ``s`` (its settings) and do not change it.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from momentmix import matching, search
from momentmix.choices import (
    EXPLICIT_PARAMETERS,
    HIGHEST_ORDER,
    OPTIMAL_MOMENTS,
    check_order,
    customary_order,
    gaussian_weights,
    is_enough,
    is_explicit,
)
from momentmix.covariance import COVARIANCE_TYPES
from momentmix.data import Data, TensorData
from momentmix.em import Likelihood, Parameters
from momentmix.frame import Frame
from momentmix.mixture import Mixture
from momentmix.orders import augmented_weights
from momentmix.packed import total_size
from momentmix.starts import INITS, around_points


def check_settings(s: Any) -> None:
    """Of MomentMixture."""
    check_common_settings(s, (*INITS, "auto"))
    one_of(s, "covariance_type", COVARIANCE_TYPES)
    number(s, "order", Integral, 2, ("auto",))
    number(s, "reg_covar", Real, 0)
    one_of(s, "weighting", ("auto", "orders", "optimal"))
    one_of(s, "moments", ("auto", "tensors", "samples"))
    if s.prior is not None:
        number(s, "prior", Real, 0, ("auto", "cv"))


def check_common_settings(s: Any, inits: tuple) -> None:
    """Of every estimator; the number of components, the solver and how it ends."""
    number(s, "n_components", Integral, 1)
    number(s, "n_init", Integral, 1, ("auto",))
    number(s, "max_iter", Integral, 1)
    number(s, "tol", Real, 0)
    one_of(s, "augmentation", ("implicit", "post-processing"))
    one_of(s, "solver", ("auto", "gauss-newton", "lbfgs"))
    one_of(s, "init", inits)
    one_of(s, "polish", ("em", None))
    if isinstance(s.order_weights, str) and s.order_weights != "auto":
        raise ValueError(f"order_weights must be 'auto' or numbers, got {s.order_weights!r}")


def generator(random_state: Any) -> np.random.Generator:
    """NumPy's generator from whatever scikit-learn takes as a random state."""
    return np.random.default_rng(check_random_state(random_state).randint(2**31, size=4))


def one_of(s: Any, name: str, allowed: tuple) -> None:
    if getattr(s, name) not in allowed:
        raise ValueError(f"{name} must be one of {allowed}, got {getattr(s, name)!r}")


def number(s: Any, name: str, kind: Any, least: float, words: tuple = ()) -> None:
    value = getattr(s, name)
    if isinstance(value, str) and value in words:
        return
    if isinstance(value, bool) or not isinstance(value, kind) or not value >= least:
        what = "a whole number" if kind is Integral else "a number"
        extra = "".join(f", or {word!r}" for word in words)
        raise ValueError(f"{name} must be {what} of at least {least}{extra}, got {value!r}")


def weights_over_orders(s: Any, order: int, unit: float, auto: Any = gaussian_weights) -> list:
    """ω in the frame's unit, the given weights, or those of ``auto``."""
    if s.omega is not None:
        return list(augmented_weights(order, float(s.omega) / unit))
    if isinstance(s.order_weights, str):
        return list(auto(order))
    weights = [float(w) for w in s.order_weights]
    if len(weights) != order + 1 or min(weights) < 0 or not np.all(np.isfinite(weights)):
        raise ValueError(
            f"order_weights must be 'auto' or {order + 1} numbers that are not negative, "
            f"one for each order 0..{order}; got {s.order_weights!r}"
        )
    return weights


def frame_for(s: Any, data: Data) -> Frame:
    """Centred and scaled coordinates; the paper's ω speaks of the given origin instead."""
    frame = data.frame(s.covariance_type)
    return frame if s.omega is None else Frame.about_the_origin(s.covariance_type, frame)


def order_for(s: Any, n: int, held: int | None = None, pure: bool = True) -> int:
    """The order to match, checked; ``held`` is the highest that the data know."""
    kind, m = s.covariance_type, int(s.n_components)
    if s.order == "auto":
        order = min(customary_order(kind, m, n), HIGHEST_ORDER)
        if held is not None and is_enough(kind, m, n, held):
            order = min(order, held)
    else:
        order = int(s.order)
    if pure or s.order != "auto":
        check_order(kind, m, n, order)
    if held is not None and order > held:
        raise ValueError(
            f"{m} {kind} components in {n} feature(s) need moments of order {order}, but these "
            f"were kept up to order {held}; accumulate with order={order}"
        )
    return order


def model_for(
    s: Any, data: Data, unit: float, pure: bool, auto_weights: Any = gaussian_weights
) -> matching.Model:
    kind, m, n = s.covariance_type, int(s.n_components), data.n
    held = data.tensors.order if isinstance(data, TensorData) else None
    order = order_for(s, n, held, pure)
    explicit = is_explicit(kind, m, n, order)
    if s.moments == "samples" and not isinstance(data, TensorData):
        explicit = False
    weights = weights_over_orders(s, order, unit, auto_weights)
    weighting = "orders"
    if s.omega is None and isinstance(s.order_weights, str):
        weighting = _weighting(s, explicit, total_size(n, order), pure)
    return matching.Model(
        kind=kind,
        m=m,
        n=n,
        order=order,
        weights=weights,
        augmentation=s.augmentation,
        weighting=weighting,
        solver=s.solver,
        floor=max(float(s.reg_covar), 1e-9),
        max_iter=int(s.max_iter) if pure else min(int(s.max_iter), 30),
        tol=1e-9 if pure else 3e-5,
        explicit=explicit,
    )


def _weighting(s: Any, explicit: bool, count: int, pure: bool) -> str:
    few = explicit and count <= OPTIMAL_MOMENTS
    if s.weighting == "optimal" and not few:
        raise ValueError(
            f"weighting='optimal' needs the inverse of a matrix of all {count} moments; it "
            f"serves up to {OPTIMAL_MOMENTS} of them and {EXPLICIT_PARAMETERS} parameters. "
            "Use weighting='auto' or 'orders'"
        )
    if s.weighting == "orders" or not explicit:
        return "orders"
    # Starts for EM need not be efficient.
    return "optimal" if few and pure else "hermite"


def given_start(
    s: Any, model: matching.Model, frame: Frame, likelihood: Likelihood | None
) -> Parameters | None:
    m, n = model.m, model.n
    last = s._previous_solution()
    if s.warm_start and last is not None and last[1].shape == (m, n):
        return frame.forward(Parameters(*last))
    names = ("weights_init", "means_init", "covariances_init")
    if all(getattr(s, name) is None for name in names):
        return None
    weights = np.full(m, 1 / m) if s.weights_init is None else s.weights_init
    if s.means_init is None:
        raise ValueError("weights_init or covariances_init need means_init as well")
    means = np.asarray(s.means_init, dtype=np.float64)
    if means.shape != (m, n):
        raise ValueError(f"means_init must have shape {(m, n)}, got {means.shape}")
    covariances = s.covariances_init
    if covariances is None:
        points = frame.apply(means)
        scaled = around_points(s.covariance_type, points)
        if likelihood is not None:
            scaled = search.nearest_start(likelihood, likelihood.X, points)
            if s.weights_init is None and scaled.weights.min() > 0:
                weights = scaled.weights
        covariances = frame.back(scaled).covariances
    mixture = Mixture(weights, means, covariances, s.covariance_type)
    return frame.forward(Parameters(mixture.weights, mixture.means, mixture.covariances))
