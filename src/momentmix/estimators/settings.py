"""The parameters of the estimators, checked one by one before anything else is done."""

from __future__ import annotations

from numbers import Integral

import numpy as np

from momentmix.covariance import COVARIANCE_TYPES
from momentmix.fitting.asked import CommonSettings, KnownNoiseSettings, MixtureSettings
from momentmix.fitting.given import given_outliers
from momentmix.likelihood.starts import INIT_PARAMS
from momentmix.matching.starts import INITS
from momentmix.support.checks import number, one_of, positive, whole_number

#: Largest reg_covar, in units of the variance of the data.
LARGEST_FLOOR = 1e6


def check_mixture_settings(s: MixtureSettings) -> None:
    """Of MomentMixture."""
    _check_common_settings(s, INITS, "auto")
    one_of("covariance_type", s.covariance_type, (*COVARIANCE_TYPES, "auto"))
    whole_number("order", s.order, 2, "auto")
    number("reg_covar", s.reg_covar, 0)
    if s.reg_covar > LARGEST_FLOOR:
        raise ValueError(f"reg_covar must be at most {LARGEST_FLOOR:g}, got {s.reg_covar!r}")
    one_of("polish", s.polish, ("em", "newton", None))
    one_of("weighting", s.weighting, ("auto", "orders", "optimal"))
    one_of("moments", s.moments, ("auto", "tensors", "samples"))
    one_of("init_params", s.init_params, INIT_PARAMS)
    if s.init != "auto" and s.init_params != "auto":
        raise ValueError(
            f"init={s.init!r} asks for starts by moments, and init_params={s.init_params!r} for "
            "plain starts of EM; give one of them"
        )
    whole_number("verbose_interval", s.verbose_interval, 1)
    if given_outliers(s.outliers) is not None and s.polish == "newton":
        raise ValueError(
            "polish='newton' begins at the moments of all rows, which outliers ruin, so it does "
            f"not go with outliers={s.outliers!r}; use polish='em', or outliers='none'"
        )
    if s.prior is not None:
        number("prior", s.prior, 0, "auto", "cv")
        if s.prior == np.inf:
            raise ValueError("prior must be finite; for one covariance of all use 'tied'")


def check_known_noise_settings(s: KnownNoiseSettings) -> None:
    """Of KnownCovarianceMixture."""
    _check_common_settings(s, ("auto", "random", "spectral"))
    one_of("polish", s.polish, ("em", None))
    if isinstance(s.covariance, str) and s.covariance != "estimate":
        raise ValueError(f"covariance must be numbers or 'estimate', got {s.covariance!r}")


def _check_common_settings(s: CommonSettings, inits: tuple[str, ...], *words: str) -> None:
    whole_number("n_components", s.n_components, 1, *words)
    whole_number("n_init", s.n_init, 1, "auto")
    whole_number("max_iter", s.max_iter, 0)
    number("tol", s.tol, 0)
    if s.n_jobs is not None and (isinstance(s.n_jobs, bool) or not isinstance(s.n_jobs, Integral)):
        raise ValueError(f"n_jobs must be a whole number or None, got {s.n_jobs!r}")
    if s.omega is not None:
        positive("omega", s.omega)
    one_of("augmentation", s.augmentation, ("implicit", "post-processing"))
    one_of("solver", s.solver, ("auto", "gauss-newton", "lbfgs"))
    one_of("init", s.init, inits)
    if isinstance(s.order_weights, str) and s.order_weights != "auto":
        raise ValueError(f"order_weights must be 'auto' or numbers, got {s.order_weights!r}")
