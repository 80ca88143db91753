"""When standard errors are not to be trusted."""

from __future__ import annotations

import numpy as np

from momentmix.fitting.problem import Collapse
from momentmix.support.warnings import UncertaintyWarning, warn_user
from momentmix.uncertainty.asymptotic import Errors

#: An error that moves components by more than this share of their own width is too large for the
#: likelihood to be quadratic that far: below, 95 % intervals hold what they say, and above they do
#: not (experiments/coverage.py).
FAR = 0.3
#: Share in such an error from which a component takes part in it.
TAKES_PART = 0.1


def far_errors(errors: Errors) -> tuple[float, list[int]]:
    """The largest standard error in any direction, and the components that take part in it.

    Directions are in units of the components themselves: their widths, and logarithms of their
    weights and variances. So the size of an error tells how far it is from small.
    """
    directions, covariance = errors.directions, errors.covariance.copy()
    # How many rows are outliers is often hardly known, and moves no component: all weights alike.
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


def warn_of_doubts(errors: Errors, collapse: Collapse | None) -> None:
    """Warn where standard errors do not say how sure the parameters are."""
    said = []
    largest, components = far_errors(errors)
    if errors.open.shape[1]:
        said.append(
            "the rows do not determine all parameters, or the fit is not at a maximum; what they "
            "leave open has NaN"
        )
    elif largest > FAR:
        who = f"component {components[0]} overlaps others too much, or rests"
        if len(components) > 1:
            before = ", ".join(map(str, components[:-1]))
            who = f"components {before} and {components[-1]} overlap too much, or rest"
        said.append(
            f"{who} on too few rows: one standard error is {largest:.2g} of a component's own "
            "width, and intervals that wide hold less than they say"
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
