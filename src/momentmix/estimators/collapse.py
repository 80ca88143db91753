"""Warnings about fits that did not converge, and components that are not to be trusted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from momentmix.distributions.mixture import Mixture
from momentmix.fitting.problem import Collapse
from momentmix.matching.fit import Fit
from momentmix.support.warnings import CollapseWarning, warn_user


def warn_of_end(fit: Fit, max_iter: int) -> None:
    """Warn if a fit was interrupted or did not converge."""
    if fit.interrupted:
        warn_user("the fit was interrupted; the attributes hold the best parameters so far")
    elif not fit.converged:
        warn_user(
            f"the fit did not converge in max_iter={max_iter} iterations; raise max_iter, or ask "
            "for fewer components"
        )


def warn_of_constant_columns(places: Sequence[int], mixture: Mixture) -> None:
    """Warn by name of columns with one value, which tell nothing about groups."""
    if not places:
        return
    names = [
        str(place) if mixture.feature_names is None else mixture.feature_names[place]
        for place in places
    ]
    shown = names if len(names) <= 8 else [*names[:7], f"{len(names) - 7} more"]
    one = len(names) == 1
    warn_user(
        f"column{'s' * (not one)} {', '.join(shown)} {'is' if one else 'are'} constant in these "
        f"rows and {'tells' if one else 'tell'} nothing about groups; a new value there counts as "
        f"odd, by a width that follows from the value alone. Leave {'it' if one else 'them'} out, "
        "unless new rows should be judged by that",
        CollapseWarning,
    )


def warn_of_collapse(collapse: Collapse, mixture: Mixture, of_rows: bool) -> None:
    """Warn of components that rest on too few rows or have no extent.

    For fits of moments alone, the cause may be the rows or too few moments.
    """
    flat, thin, counts = collapse
    said = []
    if np.any(thin):
        rows = ", ".join(f"{count:.0f}" for count in counts[thin])
        said.append(
            f"{_which(thin, 'rest')} on about {rows} rows, few for a "
            f"{mixture.covariance_type} covariance of {mixture.n_features} "
            f"feature{'s' * (mixture.n_features != 1)}"
        )
    if np.any(flat):
        what = (
            "no extent in some direction, where rows share a value or columns depend on each other"
        )
        if not of_rows:
            what = (
                "a width in some direction that these moments do not determine; moments of a "
                "higher order or of more rows may, unless columns depend on each other"
            )
        said.append(f"{_which(flat, 'have')} {what}")
    if said:
        warn_user(
            f"{'; '.join(said)}. Their shape may be noise, and BIC and AIC mean little: ask for "
            "fewer components or a simpler covariance_type, or look at the columns",
            CollapseWarning,
        )


def _which(components: np.ndarray, verb: str) -> str:
    """Some components and what they do, in words."""
    numbers = [str(j) for j in np.flatnonzero(components)]
    if len(numbers) == 1:
        return f"component {numbers[0]} {'has' if verb == 'have' else verb + 's'}"
    if len(numbers) > 8:
        numbers = [*numbers[:7], f"{len(numbers) - 7} more"]
    return f"components {', '.join(numbers)} {verb}"
