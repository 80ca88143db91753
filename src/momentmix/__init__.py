"""Gaussian mixtures through their moments."""

from momentmix.decomposition.symmetric_cp import SymmetricCP, symmetric_cp
from momentmix.distributions.mixture import Mixture
from momentmix.distributions.moment_tensors import MomentTensors
from momentmix.distributions.samples import Samples, debiased_moment
from momentmix.estimators.known_covariance import KnownCovarianceMixture
from momentmix.estimators.moment_mixture import MomentMixture
from momentmix.moments.atoms import Gradient
from momentmix.moments.functions import contract, contract_grad, inner, inner_grad, squared_distance
from momentmix.moments.orders import augmented_weights
from momentmix.support.warnings import CollapseWarning
from momentmix.tensors.dense import dense_moment

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
