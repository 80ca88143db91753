"""How surely rows belong to the components that take them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import xlogy

from momentmix.distributions.mixture import Mixture
from momentmix.estimators.predictions import posterior
from momentmix.observed import noise_of_errors
from momentmix.selection.choice import relative_entropy

#: A row is sure if its largest probability is at least the first number, and doubtful if it is
#: below the second. Round numbers; they affect only the counts in summaries and reports.
SURE, DOUBTFUL = 0.9, 0.8
#: Numbers in a block of rows and probabilities, 32 MiB. It affects memory and speed only.
_BLOCK_NUMBERS = 4_000_000


class ConfusedPair(NamedTuple):
    """Two components, and how many rows that one of them takes belong to the other."""

    first: int
    second: int
    rows: float  # expected, given the mixture


@dataclass(frozen=True)
class Assignment:
    """A summary of the probabilities with which rows belong to components.

    A component *takes* the rows that belong to it more probably than to any other.
    """

    taken: np.ndarray  # (m,) rows that each component takes
    doubtful: np.ndarray  # (m,) of these, rows with a probability below DOUBTFUL
    sure: int  # rows with a probability of SURE or more
    shared: np.ndarray  # (m, m) probabilities of component j, summed over the rows that i takes
    entropy: float = 0.0  # -Σ p log p of the probabilities p, over all rows and components

    def __add__(self, other: Assignment) -> Assignment:
        """The summary of both sets of rows together."""
        return Assignment(
            self.taken + other.taken,
            self.doubtful + other.doubtful,
            self.sure + other.sure,
            self.shared + other.shared,
            self.entropy + other.entropy,
        )

    @property
    def relative_entropy(self) -> float:
        """1 if every row surely belongs to one component, 0 if all are equally likely."""
        return relative_entropy(self.entropy, self.rows, len(self.taken))

    @property
    def uncertainty(self) -> float:
        """The probability that a row belongs to another component than the one that takes it."""
        return 1 - float(np.trace(self.shared)) / max(self.rows, 1)

    @property
    def rows(self) -> int:
        return int(self.taken.sum())

    @property
    def mean_probability(self) -> np.ndarray:
        """The mean probability of the rows that each component takes, NaN if it has none; (m,)."""
        taken = np.where(self.taken > 0, self.taken, np.nan)
        return np.diagonal(self.shared) / taken

    def confused_pairs(self, least: float = 0.5) -> list[ConfusedPair]:
        """Pairs that share at least this many rows, the most confused first."""
        both = self.shared + self.shared.T
        rows, columns = np.triu_indices(len(both), 1)
        found = [
            ConfusedPair(int(i), int(j), float(both[i, j]))
            for i, j in zip(rows, columns, strict=True)
            if both[i, j] >= least
        ]
        return sorted(found, key=lambda pair: -pair.rows)


def assignment_of(mixture: Mixture, X: np.ndarray, errors: np.ndarray | None = None) -> Assignment:
    """How surely each row of X (p, n) belongs to its component.

    The rows are read in blocks, and beside a block only O(m²) numbers are held. NaN is a gap, and
    rows without any value do not count. ``errors`` (p, n) are the error bars of the values, as
    standard deviations.
    """
    told = ~np.isnan(X).all(axis=1)
    if not told.all():
        X, errors = X[told], None if errors is None else errors[told]
    m = mixture.n_components
    taken, doubtful, sure = np.zeros(m, dtype=int), np.zeros(m, dtype=int), 0
    shared, entropy = np.zeros((m, m)), 0.0
    step = max(1, _BLOCK_NUMBERS // (m + mixture.n_features))
    for start in range(0, len(X), step):
        part = slice(start, start + step)
        noise = None if errors is None else noise_of_errors(errors[part])
        probabilities = posterior(mixture, X[part], noise)
        labels = np.argmax(probabilities, axis=1)
        largest = np.max(probabilities, axis=1)
        taken += np.bincount(labels, minlength=m)
        doubtful += np.bincount(labels[largest < DOUBTFUL], minlength=m)
        sure += int(np.sum(largest >= SURE))
        shared += np.eye(m)[labels].T @ probabilities
        entropy -= float(np.sum(xlogy(probabilities, probabilities)))
    return Assignment(taken, doubtful, sure, shared, entropy)
