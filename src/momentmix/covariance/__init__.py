"""Covariances of a set of atoms: spherical, diag, tied, full, and the zero of points.

Each type has a file with everything particular to it; ``base.py`` says what a type must provide.
Code outside this folder never asks for the type. The names of types are for users and model files;
``covariance_type`` turns a name into the class that fits pass around.
"""

from momentmix.covariance.anchor import Anchor, anchor_rows
from momentmix.covariance.base import Bound, Covariance, Kind
from momentmix.covariance.coordinates import Coordinates
from momentmix.covariance.diagonal import Diagonal
from momentmix.covariance.full import Full
from momentmix.covariance.prior import LogNormalPrior, Pull
from momentmix.covariance.spherical import Spherical
from momentmix.covariance.tangent import Tangent
from momentmix.covariance.tied import Tied
from momentmix.covariance.validation import (
    COVARIANCE_TYPES,
    CovarianceName,
    common_noise,
    component_covariance,
    covariance_type,
    noise_covariance,
    one_for_each_row,
)
from momentmix.covariance.zero import Zero

__all__ = [
    "COVARIANCE_TYPES",
    "Anchor",
    "Bound",
    "Coordinates",
    "Covariance",
    "CovarianceName",
    "Diagonal",
    "Full",
    "Kind",
    "LogNormalPrior",
    "Pull",
    "Spherical",
    "Tangent",
    "Tied",
    "Zero",
    "anchor_rows",
    "common_noise",
    "component_covariance",
    "covariance_type",
    "noise_covariance",
    "one_for_each_row",
]
