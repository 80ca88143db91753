"""Covariances of a set of atoms: spherical, diag, full, each also tied, low-rank, zero of points.

A type is a class in ``matrices.py``, ``variances.py``, ``tied.py`` or ``low_rank.py``; ``base.py``
says what it must provide. Code outside this folder never asks for the type. The names of types are
for users and model files; ``covariance_type`` turns a name into the class that fits pass around.
"""

from momentmix.covariance.base import Bound, Covariance, Kind
from momentmix.covariance.coordinates import Coordinates, Tangent
from momentmix.covariance.low_rank import Factors, LowRank, join
from momentmix.covariance.matrices import Full
from momentmix.covariance.prior import Anchor, LogNormalPrior, Pull, Strengths, anchor_rows
from momentmix.covariance.tied import Tied, TiedDiagonal, TiedSpherical
from momentmix.covariance.validation import (
    COVARIANCE_TYPES,
    MIXTURE_TYPES,
    SHAPE_NAMES,
    CovarianceName,
    ShapeName,
    common_noise,
    component_covariance,
    covariance_type,
    fitted_type,
    noise_covariance,
    one_for_each_row,
)
from momentmix.covariance.variances import Diagonal, Spherical
from momentmix.covariance.zero import Zero

__all__ = [
    "COVARIANCE_TYPES",
    "MIXTURE_TYPES",
    "SHAPE_NAMES",
    "Anchor",
    "Bound",
    "Coordinates",
    "Covariance",
    "CovarianceName",
    "Diagonal",
    "Factors",
    "Full",
    "Kind",
    "LogNormalPrior",
    "LowRank",
    "Pull",
    "ShapeName",
    "Spherical",
    "Strengths",
    "Tangent",
    "Tied",
    "TiedDiagonal",
    "TiedSpherical",
    "Zero",
    "anchor_rows",
    "common_noise",
    "component_covariance",
    "covariance_type",
    "fitted_type",
    "join",
    "noise_covariance",
    "one_for_each_row",
]
