"""Covariances of a set of atoms: spherical, diag, tied, full, and the zero of points.

The only folder that branches on the covariance type. Each class holds the covariances of all atoms
of a distribution in one array of scikit-learn's shape. The leading dimension g of that array is
the number of atoms, or 1 where all atoms share one covariance (tied; a common noise). Whatever the
type, a covariance offers the rest of the package four things:

* ``quadratic(X)`` and ``flat()``: xᵀΣx as an inner product of the features of x that Σ can see
  (x∗x for a diagonal, the products x_a x_b for a full matrix) with the entries of Σ;
* ``variances()`` where Σ is diagonal, and ``matrices()`` always: canonical shapes for formulas;
* ``collect_*``: the way back, a gradient in a canonical shape to one in the covariance's own;
* square roots and whiteners for sampling and densities, marginals and conditionals.

Negative covariances are legal (Lemma A.4 of Pereira–Kileel–Kolda): debiasing uses them.
"""

from momentmix.covariance.classes import (
    COVARIANCE_TYPES,
    Covariance,
    Diagonal,
    Full,
    Spherical,
    Tied,
    Zero,
    make_covariance,
)
from momentmix.covariance.coordinates import (
    Coordinates,
    on_floor,
    pooled_coupling,
    raised_to_floor,
    restricted,
    smallest_variance,
    stacked,
)
from momentmix.covariance.likelihood import (
    chosen,
    common_covariance,
    fitted_covariance,
    free_parameters,
    log_density_coefficients,
    mapped_covariance,
    merged_covariance,
    optimism,
    precision_cholesky,
    projected_covariance,
    replaced,
    too_few,
    whitened_squares,
    without_noise,
)
from momentmix.covariance.prior import LogNormalPrior, customary_strength, prior_for
from momentmix.covariance.validation import common_noise, component_covariance, noise_covariance

__all__ = [
    "COVARIANCE_TYPES",
    "Coordinates",
    "Covariance",
    "Diagonal",
    "Full",
    "LogNormalPrior",
    "Spherical",
    "Tied",
    "Zero",
    "chosen",
    "common_covariance",
    "common_noise",
    "component_covariance",
    "customary_strength",
    "fitted_covariance",
    "free_parameters",
    "log_density_coefficients",
    "make_covariance",
    "mapped_covariance",
    "merged_covariance",
    "noise_covariance",
    "on_floor",
    "optimism",
    "pooled_coupling",
    "precision_cholesky",
    "prior_for",
    "projected_covariance",
    "raised_to_floor",
    "replaced",
    "restricted",
    "smallest_variance",
    "stacked",
    "too_few",
    "whitened_squares",
    "without_noise",
]
