"""Gaussian mixtures, fitted by their likelihood or by their moments."""

from typing import TYPE_CHECKING

__version__ = "0.1.0"

# A name is imported when it is first used, so that the version, moments and the command load
# without all of scikit-learn. Type checkers see plain imports; a test checks that both lists agree.
if TYPE_CHECKING:
    from momentmix.classification import MixtureClassifier as MixtureClassifier
    from momentmix.decomposition.symmetric_cp import SymmetricCP as SymmetricCP
    from momentmix.decomposition.symmetric_cp import symmetric_cp as symmetric_cp
    from momentmix.distributions.atoms import Atoms as Atoms
    from momentmix.distributions.mixture import Mixture as Mixture
    from momentmix.distributions.moment_tensors import MomentTensors as MomentTensors
    from momentmix.distributions.samples import Samples as Samples
    from momentmix.distributions.samples import debiased_moment as debiased_moment
    from momentmix.estimators.gaussian_mixture import GaussianMixture as GaussianMixture
    from momentmix.estimators.known_covariance import (
        KnownCovarianceMixture as KnownCovarianceMixture,
    )
    from momentmix.estimators.moment_mixture import MomentMixture as MomentMixture
    from momentmix.goodness.comparison import compare as compare
    from momentmix.goodness.drifts import drift as drift
    from momentmix.goodness.residuals import moment_test as moment_test
    from momentmix.imputation import MixtureImputer as MixtureImputer
    from momentmix.logarithms import LogColumns as LogColumns
    from momentmix.matching.objective import moment_objective as moment_objective
    from momentmix.moments.atoms import Gradient as Gradient
    from momentmix.moments.functions import contract as contract
    from momentmix.moments.functions import contract_cumulant as contract_cumulant
    from momentmix.moments.functions import contract_grad as contract_grad
    from momentmix.moments.functions import inner as inner
    from momentmix.moments.functions import inner_grad as inner_grad
    from momentmix.moments.functions import multilinear as multilinear
    from momentmix.moments.functions import squared_distance as squared_distance
    from momentmix.moments.orders import augmented_weights as augmented_weights
    from momentmix.regression import MixtureRegressor as MixtureRegressor
    from momentmix.selection import merge_components as merge_components
    from momentmix.selection import select as select
    from momentmix.support.messages import CollapseWarning as CollapseWarning
    from momentmix.support.messages import OutlierWarning as OutlierWarning
    from momentmix.support.messages import SharedValueWarning as SharedValueWarning
    from momentmix.support.messages import UncertaintyWarning as UncertaintyWarning
    from momentmix.tensors.dense import dense_cumulant as dense_cumulant
    from momentmix.tensors.dense import dense_moment as dense_moment
else:
    _HOMES = {
        "classification": ("MixtureClassifier",),
        "decomposition.symmetric_cp": ("SymmetricCP", "symmetric_cp"),
        "distributions.atoms": ("Atoms",),
        "distributions.mixture": ("Mixture",),
        "distributions.moment_tensors": ("MomentTensors",),
        "distributions.samples": ("Samples", "debiased_moment"),
        "estimators.known_covariance": ("KnownCovarianceMixture",),
        "estimators.gaussian_mixture": ("GaussianMixture",),
        "estimators.moment_mixture": ("MomentMixture",),
        "goodness.comparison": ("compare",),
        "goodness.drifts": ("drift",),
        "goodness.residuals": ("moment_test",),
        "imputation": ("MixtureImputer",),
        "matching.objective": ("moment_objective",),
        "logarithms": ("LogColumns",),
        "moments.atoms": ("Gradient",),
        "moments.functions": (
            "contract",
            "contract_cumulant",
            "contract_grad",
            "inner",
            "inner_grad",
            "multilinear",
            "squared_distance",
        ),
        "moments.orders": ("augmented_weights",),
        "regression": ("MixtureRegressor",),
        "selection": ("merge_components", "select"),
        "support.messages": (
            "CollapseWarning",
            "OutlierWarning",
            "SharedValueWarning",
            "UncertaintyWarning",
        ),
        "tensors.dense": ("dense_cumulant", "dense_moment"),
    }

    __all__ = sorted(name for names in _HOMES.values() for name in names)

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
