"""What a plan is made from: the parameters of an estimator, and the sizes of its data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from momentmix.data.sources import Place
from momentmix.likelihood.starts import InitParams
from momentmix.matching.matching import Augmentation, SolverName
from momentmix.matching.starts import Init


class CommonSettings(Protocol):
    """Parameters that every estimator has, as their documentation describes them."""

    n_components: int | Literal["auto"]
    n_init: int | Literal["auto"]
    max_iter: int
    weights_init: np.ndarray | None
    means_init: np.ndarray | None
    warm_start: bool
    verbose: int
    n_jobs: int | None


class CovarianceSettings(CommonSettings, Protocol):
    """Parameters of mixtures whose covariances are to be found."""

    covariance_type: str
    reg_covar: float
    covariances_init: np.ndarray | None
    precisions_init: np.ndarray | None
    outliers: float | Literal["auto", "uniform"] | None


class LikelihoodSettings(CovarianceSettings, Protocol):
    """Parameters of GaussianMixture."""

    tol: float
    init_params: InitParams
    prior: float | Literal["auto", "cv"] | None
    method: Literal["auto", "em", "newton"]


class MatchingSettings(CommonSettings, Protocol):
    """Parameters of estimators that match moments."""

    order: int | Literal["auto"]
    order_weights: Literal["auto"] | Sequence[float]
    omega: float | None
    augmentation: Augmentation
    solver: SolverName
    init: Init


class MomentSettings(MatchingSettings, CovarianceSettings, Protocol):
    """Parameters of MomentMixture."""

    weighting: Literal["auto", "optimal", "orders"]
    moments: Literal["auto", "tensors", "samples"]


class KnownNoiseSettings(MatchingSettings, Protocol):
    """Parameters of KnownCovarianceMixture."""

    covariance: ArrayLike | Literal["estimate"]
    polish: Literal["em"] | None
    tol: float


class Sizes(NamedTuple):
    """What a plan has to know of the data."""

    n: int  # the number of features
    rows: int = 0  # the rows that are read at each evaluation of a cost
    order: int | None = None  # the highest order whose moments are known, if not all are
    place: Place = "moments"
