"""Helpers of all pictures: their mixture, their axes, labels and the colour of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from momentmix.distributions.mixture import Mixture
from momentmix.summary import names_of
from momentmix.support.array import foreign

if TYPE_CHECKING:
    from types import ModuleType

    from matplotlib.axes import Axes

    from momentmix.estimators.base import MixtureEstimator

    #: A mixture or a fitted estimator.
    Model: TypeAlias = Mixture | MixtureEstimator


def mixture_of(model: object) -> Mixture:
    if isinstance(model, Mixture):
        return model.on(np.empty(0)) if foreign(model.means) else model
    found = getattr(model, "mixture_", None)
    if not isinstance(found, Mixture):
        raise TypeError(
            f"a Mixture or a fitted estimator is needed, got {type(model).__name__}; call fit first"
        )
    return found


def axes_or_new(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    new: Axes = pyplot_or_error().subplots(layout="constrained")[1]
    return new


def pyplot_or_error() -> ModuleType:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install 'momentmix[plot]'") from error
    module: ModuleType = pyplot
    return module


def text_colour() -> str:
    """The colour of text, for lines that are visible on light and on dark."""
    import matplotlib

    return str(matplotlib.rcParams["text.color"])


def axis_label(mixture: Mixture, feature: int) -> str:
    """The name of a feature, with dollar signs escaped so that they begin no formula."""
    return names_of(mixture)[feature].replace("$", r"\$")
