"""Gaussian mixtures through their moments."""

from momentmix._warnings import CollapseWarning
from momentmix.atoms import Gradient
from momentmix.decomposition import SymmetricCP, symmetric_cp
from momentmix.dense import dense_moment
from momentmix.estimator import MomentMixture
from momentmix.known_covariance import KnownCovarianceMixture
from momentmix.mixture import Mixture
from momentmix.moments import contract, contract_grad, inner, inner_grad, squared_distance
from momentmix.orders import augmented_weights
from momentmix.samples import Samples, debiased_moment
from momentmix.tensors import MomentTensors

__all__ = [
    "CollapseWarning",
    "Gradient",
    "KnownCovarianceMixture",
    "Mixture",
    "MomentMixture",
    "MomentTensors",
    "Samples",
    "SymmetricCP",
    "augmented_weights",
    "contract",
    "contract_grad",
    "debiased_moment",
    "dense_moment",
    "inner",
    "inner_grad",
    "squared_distance",
    "symmetric_cp",
]

__version__ = "0.1.0"
