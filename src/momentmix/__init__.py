"""Gaussian mixtures, fitted by their likelihood or by their moments."""

from typing import TYPE_CHECKING

__all__ = [
    "CollapseWarning",
    "GaussianMixture",
    "Gradient",
    "KnownCovarianceMixture",
    "Mixture",
    "MixtureClassifier",
    "MixtureImputer",
    "MixtureRegressor",
    "MomentMixture",
    "MomentTensors",
    "OutlierWarning",
    "Samples",
    "SymmetricCP",
    "UncertaintyWarning",
    "augmented_weights",
    "compare",
    "contract",
    "contract_grad",
    "debiased_moment",
    "dense_moment",
    "drift",
    "inner",
    "inner_grad",
    "moment_test",
    "select",
    "squared_distance",
    "symmetric_cp",
]

__version__ = "0.1.0"

# A name is imported when it is first used, so that the version, moments and the command load
# without all of scikit-learn. Type checkers see plain imports; a test checks that both lists agree.
if TYPE_CHECKING:
    from momentmix.classification import MixtureClassifier
    from momentmix.decomposition.symmetric_cp import SymmetricCP, symmetric_cp
    from momentmix.distributions.mixture import Mixture
    from momentmix.distributions.moment_tensors import MomentTensors
    from momentmix.distributions.samples import Samples, debiased_moment
    from momentmix.estimators.gaussian_mixture import GaussianMixture
    from momentmix.estimators.known_covariance import KnownCovarianceMixture
    from momentmix.estimators.moment_mixture import MomentMixture
    from momentmix.goodness.drifts import drift
    from momentmix.goodness.fits import moment_test
    from momentmix.goodness.permutations import compare
    from momentmix.imputation import MixtureImputer
    from momentmix.moments.atoms import Gradient
    from momentmix.moments.functions import (
        contract,
        contract_grad,
        inner,
        inner_grad,
        squared_distance,
    )
    from momentmix.moments.orders import augmented_weights
    from momentmix.regression import MixtureRegressor
    from momentmix.selection import select
    from momentmix.support.warnings import CollapseWarning, OutlierWarning, UncertaintyWarning
    from momentmix.tensors.dense import dense_moment
else:
    _HOMES = {
        "classification": ("MixtureClassifier",),
        "decomposition.symmetric_cp": ("SymmetricCP", "symmetric_cp"),
        "distributions.mixture": ("Mixture",),
        "distributions.moment_tensors": ("MomentTensors",),
        "distributions.samples": ("Samples", "debiased_moment"),
        "estimators.known_covariance": ("KnownCovarianceMixture",),
        "estimators.gaussian_mixture": ("GaussianMixture",),
        "estimators.moment_mixture": ("MomentMixture",),
        "goodness.drifts": ("drift",),
        "goodness.fits": ("moment_test",),
        "goodness.permutations": ("compare",),
        "imputation": ("MixtureImputer",),
        "moments.atoms": ("Gradient",),
        "moments.functions": (
            "contract",
            "contract_grad",
            "inner",
            "inner_grad",
            "squared_distance",
        ),
        "moments.orders": ("augmented_weights",),
        "regression": ("MixtureRegressor",),
        "selection": ("select",),
        "support.warnings": ("CollapseWarning", "OutlierWarning", "UncertaintyWarning"),
        "tensors.dense": ("dense_moment",),
    }

    def __getattr__(name):
        """A public name, imported from its module, or a subpackage such as ``datasets``."""
        from importlib import import_module, util

        for home, names in _HOMES.items():
            if name in names:
                value = getattr(import_module(f"{__name__}.{home}"), name)
                globals()[name] = value
                return value
        if not name.startswith("_") and util.find_spec(f"{__name__}.{name}"):
            return import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        modules = ("datasets", "plotting", "report", "selection", "summary")
        return sorted([*__all__, *modules, "__version__"])
