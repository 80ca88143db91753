"""What the parameters of an estimator mean: checked, and turned into a model to fit.

The functions take the estimator as ``s`` (its settings) and do not change it.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from momentmix.covariance import COVARIANCE_TYPES, covariance_type
from momentmix.data.frame import Frame
from momentmix.data.parameters import Parameters
from momentmix.data.sources import Data, TensorData
from momentmix.distributions.mixture import Mixture
from momentmix.likelihood import search
from momentmix.likelihood.em import Likelihood
from momentmix.matching import matching
from momentmix.matching.choices import (
    EXPLICIT_PARAMETERS,
    HIGHEST_ORDER,
    OPTIMAL_MOMENTS,
    check_order,
    customary_order,
    gaussian_weights,
    is_enough,
    is_explicit,
)
from momentmix.matching.starts import INITS, around_points
from momentmix.moments.orders import augmented_weights
from momentmix.tensors.packed import total_size

#: Largest reg_covar, in units of the variance of the data.
LARGEST_FLOOR = 1e6


def check_settings(s: Any) -> None:
    """Of MomentMixture."""
    check_common_settings(s, (*INITS, "auto"))
    one_of(s, "covariance_type", COVARIANCE_TYPES)
    number(s, "order", Integral, 2, ("auto",))
    number(s, "reg_covar", Real, 0)
    if s.reg_covar > LARGEST_FLOOR:
        raise ValueError(f"reg_covar must be at most {LARGEST_FLOOR:g}, got {s.reg_covar!r}")
    one_of(s, "weighting", ("auto", "orders", "optimal"))
    one_of(s, "moments", ("auto", "tensors", "samples"))
    if s.prior is not None:
        number(s, "prior", Real, 0, ("auto", "cv"))
        if s.prior == np.inf:
            raise ValueError("prior must be finite; for one covariance of all use 'tied'")


def check_common_settings(s: Any, inits: tuple) -> None:
    """Of every estimator; the number of components, the solver and how it ends."""
    number(s, "n_components", Integral, 1)
    number(s, "n_init", Integral, 1, ("auto",))
    number(s, "max_iter", Integral, 0)
    number(s, "tol", Real, 0)
    if s.n_jobs is not None and (isinstance(s.n_jobs, bool) or not isinstance(s.n_jobs, Integral)):
        raise ValueError(f"n_jobs must be a whole number or None, got {s.n_jobs!r}")
    if s.omega is not None and not (isinstance(s.omega, Real) and 0 < float(s.omega) < np.inf):
        raise ValueError(f"omega must be a positive number, got {s.omega!r}")
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
    try:
        weights = [float(w) for w in s.order_weights]
    except (TypeError, ValueError):
        weights = []
    if len(weights) != order + 1 or min(weights) < 0 or not np.all(np.isfinite(weights)):
        raise ValueError(
            f"order_weights must be 'auto' or {order + 1} numbers that are not negative, "
            f"one for each order 0..{order}; got {s.order_weights!r}"
        )
    return weights


def frame_for(s: Any, data: Data) -> Frame:
    """Centred and scaled coordinates; the paper's ω speaks of the given origin instead."""
    kind = covariance_type(s.covariance_type)
    frame = data.frame(kind)
    return frame if s.omega is None else Frame.about_the_origin(kind, frame)


def order_for(s: Any, n: int, held: int | None = None, pure: bool = True) -> int:
    """The order to match, checked; ``held`` is the highest that the data know."""
    kind, m = covariance_type(s.covariance_type), int(s.n_components)
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
            f"{m} {kind.name} components in {n} feature(s) need moments of order {order}, but "
            f"these were kept up to order {held}; accumulate with order={order}"
        )
    return order


def model_for(
    s: Any, data: Data, unit: float, pure: bool, auto_weights: Any = gaussian_weights
) -> matching.Model:
    kind, m, n = covariance_type(s.covariance_type), int(s.n_components), data.n
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
    s: Any,
    model: matching.Model,
    frame: Frame,
    likelihood: Likelihood | None,
    rng: np.random.Generator,
) -> Parameters | None:
    """The last solution, or the user's start, in the frame; None where there is neither."""
    m, n = model.m, model.n
    last = s._previous_solution()
    if s.warm_start and last is not None and last[1].shape == (m, n):
        return frame.forward(Parameters(*last))
    if s.weights_init is None and s.means_init is None and s.covariances_init is None:
        return None
    guess = _guess(s, model, frame, likelihood, rng)
    parts = zip(("weights_init", "means_init", "covariances_init"), guess, strict=True)
    weights, means, covariances = (
        other if getattr(s, name) is None else getattr(s, name) for name, other in parts
    )
    mixture = Mixture(weights, means, covariances, s.covariance_type)
    try:
        model.kind.precision_cholesky(mixture.covariances)
    except np.linalg.LinAlgError:
        raise ValueError("covariances_init must be positive definite") from None
    return frame.forward(Parameters(mixture.weights, mixture.means, mixture.covariances))


def _guess(
    s: Any,
    model: matching.Model,
    frame: Frame,
    likelihood: Likelihood | None,
    rng: np.random.Generator,
) -> Parameters:
    """What stands in for the parts of a start that are not given: those of k-means as a rule."""
    m, n = model.m, model.n
    if s.means_init is None:
        if likelihood is None:
            raise ValueError("without rows, weights_init or covariances_init need means_init too")
        return frame.back(next(search.plain_starts(likelihood, m, rng)))
    means = np.asarray(s.means_init, dtype=np.float64)
    if means.shape != (m, n):
        raise ValueError(f"means_init must have shape {(m, n)}, got {means.shape}")
    points = frame.apply(means)
    if likelihood is None or not np.all(np.isfinite(points)):
        return frame.back(around_points(model.kind, points))
    nearest = search.nearest_start(likelihood, likelihood.X, points)
    if s.covariances_init is not None or nearest.weights.min() <= 0:
        nearest = nearest._replace(weights=np.full(m, 1 / m))
    return frame.back(nearest)
