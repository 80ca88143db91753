"""Gaussian mixtures through their moments."""

from momentmix.atoms import Gradient
from momentmix.dense import dense_moment
from momentmix.estimator import MomentMixture
from momentmix.mixture import Mixture
from momentmix.moments import contract, contract_grad, inner, inner_grad, squared_distance
from momentmix.orders import augmented_weights
from momentmix.samples import Samples
from momentmix.tensors import MomentTensors

__all__ = [
    "Gradient",
    "Mixture",
    "MomentMixture",
    "MomentTensors",
    "Samples",
    "augmented_weights",
    "contract",
    "contract_grad",
    "dense_moment",
    "inner",
    "inner_grad",
    "squared_distance",
]

__version__ = "0.1.0"
