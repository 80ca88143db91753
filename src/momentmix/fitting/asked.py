"""What is asked for: the parameters of an estimator, and the sizes of its data."""

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
