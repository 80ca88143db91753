"""When standard errors are not to be trusted."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from scipy.stats import chi2

from momentmix.fitting.problem import Collapse
from momentmix.matching.parametrisation import Parametrisation
from momentmix.support.warnings import UncertaintyWarning, warn_user
from momentmix.uncertainty.asymptotic import Errors

#: How improbable a difference of two components must be, if they are one, for them to be two.
IMPROBABLE = 1e-6


def alike(errors: Errors) -> list[tuple[int, int]]:
    """Pairs of components that might be one, for all that their standard errors tell.

    Wald's test of equal means and covariances. Where it does not reject clearly, the likelihood is
    far from quadratic, and the components might change places in another sample.
    """
    directions = errors.directions
    m, n = directions.m, directions.n
    free = Parametrisation(directions.kind, m, n, augmentation="free")
    numbers, V = free.encode(*directions.parameters), errors.natural(1.0)
    own = [places[1:] for places in directions.own]  # the natural numbers stand in the same places
    if directions.common:
        own = [places[:n] for places in own]
    found = []
    for j, k in combinations(range(m), 2):
        ours, theirs = own[j], own[k]
        mixed = V[np.ix_(ours, theirs)]
        spread = V[np.ix_(ours, ours)] + V[np.ix_(theirs, theirs)] - mixed - mixed.T
        if not np.all(np.isfinite(spread)):
            found.append((j, k))
            continue
        difference = numbers[ours] - numbers[theirs]
        square = float(difference @ np.linalg.pinv(spread, hermitian=True) @ difference)
        if square < chi2.isf(IMPROBABLE, len(difference)):
            found.append((j, k))
    return found


def warn_of_doubts(errors: Errors, collapse: Collapse | None) -> None:
    """Warn where standard errors do not say how sure the parameters are."""
    said = []
    if errors.open.shape[1]:
        said.append(
            "the rows do not determine all parameters, or the fit is not at a maximum; what they "
            "leave open has NaN"
        )
    elif pairs := alike(errors):
        shown = ", ".join(f"{j} and {k}" for j, k in pairs[:5]) + ", …" * (len(pairs) > 5)
        said.append(
            f"components {shown} overlap so much that they might be one, and errors are larger "
            "and less symmetric than standard errors can say"
        )
    if collapse is not None and np.any(collapse.flat | collapse.thin):
        which = ", ".join(str(j) for j in np.flatnonzero(collapse.flat | collapse.thin))
        said.append(
            f"component(s) {which} rest on too few rows or have no width in some direction, where "
            "a lower bound and not the rows decides"
        )
    if said:
        warn_user(
            f"{'; '.join(said)}. Look at bootstrap, or ask for fewer components or a simpler "
            "covariance_type",
            UncertaintyWarning,
        )
