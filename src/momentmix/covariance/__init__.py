"""Covariances of a set of atoms: spherical, diag, full, each also tied, low-rank, zero of points.

A type is a class in ``matrices.py``, ``variances.py``, ``tied.py`` or ``low_rank.py``; ``base.py``
says what it must provide. Code outside this folder never asks for the type. The names of types are
for users and model files; ``covariance_type`` turns a name into the class that fits pass around.
"""

from momentmix.covariance.base import Bound as Bound
from momentmix.covariance.base import Covariance as Covariance
from momentmix.covariance.base import Kind as Kind
from momentmix.covariance.coordinates import Coordinates as Coordinates
from momentmix.covariance.low_rank import Factors as Factors
from momentmix.covariance.low_rank import LowRank as LowRank
from momentmix.covariance.low_rank import join as join
from momentmix.covariance.matrices import Full as Full
from momentmix.covariance.prior import Anchor as Anchor
from momentmix.covariance.prior import LogNormalPrior as LogNormalPrior
from momentmix.covariance.prior import Pull as Pull
from momentmix.covariance.prior import Strengths as Strengths
from momentmix.covariance.prior import anchor_rows as anchor_rows
from momentmix.covariance.tied import Tied as Tied
from momentmix.covariance.tied import TiedDiagonal as TiedDiagonal
from momentmix.covariance.tied import TiedSpherical as TiedSpherical
from momentmix.covariance.validation import COVARIANCE_TYPES as COVARIANCE_TYPES
from momentmix.covariance.validation import MIXTURE_TYPES as MIXTURE_TYPES
from momentmix.covariance.validation import SHAPE_NAMES as SHAPE_NAMES
from momentmix.covariance.validation import CovarianceName as CovarianceName
from momentmix.covariance.validation import ShapeName as ShapeName
from momentmix.covariance.validation import common_noise as common_noise
from momentmix.covariance.validation import component_covariance as component_covariance
from momentmix.covariance.validation import covariance_type as covariance_type
from momentmix.covariance.validation import fitted_type as fitted_type
from momentmix.covariance.validation import noise_covariance as noise_covariance
from momentmix.covariance.validation import one_for_each_row as one_for_each_row
from momentmix.covariance.variances import Diagonal as Diagonal
from momentmix.covariance.variances import Spherical as Spherical
from momentmix.covariance.zero import Zero as Zero
