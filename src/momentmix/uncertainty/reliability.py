"""Warnings about standard errors that are not to be trusted."""

from __future__ import annotations

import numpy as np

from momentmix.fitting.problem import Collapse
from momentmix.support.warnings import UncertaintyWarning, warn_user
from momentmix.uncertainty.asymptotic import Errors

#: A standard error of more than this share of a component's own width is too large, because the
#: likelihood is not quadratic that far. Below it 95 % intervals have the coverage they claim, and
#: above it they do not (experiments/coverage.py).
FAR = 0.3
#: A component takes part in the largest error if its share is at least this part of the largest
#: share. This is a round number that was not tuned; it affects which components a warning names.
TAKES_PART = 0.1


def far_errors(errors: Errors) -> tuple[float, list[int]]:
    """The largest standard error in any direction, and the components that take part in it.

    Directions are in units of the components themselves: their widths, and logarithms of their
    weights and variances. So an error is small if it is much less than 1.
    """
    directions, covariance = errors.directions, errors.covariance.copy()
    # The share of outliers, which moves all weights alike, is often hardly known, and does not
    # move any component.
    m = directions.m
    covariance[:m] -= covariance[:m].mean(axis=0)
    covariance[:, :m] -= covariance[:, :m].mean(axis=1, keepdims=True)
    values, vectors = np.linalg.eigh(covariance)
    largest = float(np.sqrt(max(values[-1], 0.0)))
    squares = vectors[:, -1] ** 2
    shares = np.array([squares[places[: directions.n + 1]].sum() for places in directions.own])
    if not directions.common:
        shares = np.array([squares[places].sum() for places in directions.own])
    return largest, [int(j) for j in np.flatnonzero(shares >= TAKES_PART * shares.max())]


def warn_if_unreliable(errors: Errors, collapse: Collapse | None) -> None:
    """Warn if standard errors understate the uncertainty of the parameters."""
    said = []
    largest, components = far_errors(errors)
    if errors.open.shape[1]:
        said.append(
            "the rows do not determine all parameters, or the fit is not at a maximum; the "
            "standard errors of undetermined parameters are NaN"
        )
    elif largest > FAR:
        who = f"component {components[0]} overlaps others too much, or rests"
        if len(components) > 1:
            before = ", ".join(map(str, components[:-1]))
            who = f"components {before} and {components[-1]} overlap too much, or rest"
        said.append(
            f"{who} on too few rows: one standard error is {largest:.2g} of a component's own "
            "width, and intervals that wide cover less than they claim"
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
