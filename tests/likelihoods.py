"""Likelihoods of rows in memory, as a search has them, for tests of parts of a fit."""

from __future__ import annotations

import numpy as np

from momentmix.covariance import Anchor, Bound, Kind, LogNormalPrior
from momentmix.fitting.em import Likelihood, LikelihoodHere, Target
from momentmix.rows.incomplete import CompletedRows, IncompleteRows
from momentmix.rows.memory import MemoryRows


def row_likelihood(
    X: np.ndarray,
    weights: np.ndarray | None,
    kind: Kind,
    floor: Bound,
    variance: float | None = None,
    prior: LogNormalPrior | None = None,
    count: float | None = None,
    to_features: np.ndarray | None = None,
) -> LikelihoodHere:
    """Complete rows, and what is fitted to them."""
    rows = MemoryRows(X, weights, kind, count, to_features)
    return Likelihood(rows, Target(kind, floor, variance, prior).beside(rows.count))


def observed_likelihood(
    completed: CompletedRows,
    weights: np.ndarray | None,
    kind: Kind,
    floor: Bound,
    variance: float | None = None,
    prior: LogNormalPrior | None = None,
    count: float | None = None,
    to_features: np.ndarray | None = None,
    anchor: Anchor | None = None,
) -> LikelihoodHere:
    """Rows with gaps or errors, and what is fitted to them."""
    rows = IncompleteRows(completed, weights, kind, count, to_features)
    return Likelihood(rows, Target(kind, floor, variance, prior, anchor).beside(rows.count))
