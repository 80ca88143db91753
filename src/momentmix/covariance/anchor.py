"""What holds covariances where gaps leave them open: a few rows with the covariance of all rows.

A direction in which many features take part is seen only by rows that show all of these features.
Where gaps leave few such rows, a mixture can make them as likely as it wants, with covariances that
are all flat in that direction. A prior on how covariances differ from each other does not prevent
it. This is what Schafer calls a ridge prior for data with gaps (Analysis of Incomplete Multivariate
Data, 1997, section 5.2.3), here with the covariance Ψ that one Gaussian has for all rows:

    penalty = ε/2 Σ_k (log det Σ_k + tr Ψ Σ_k⁻¹ - log det Ψ - n),

that of ε rows of covariance Ψ in each component, above its least, which is at Σ_k = Ψ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: See ``anchor_rows``. Chosen on the tables TUNED of benchmarks/real.py, by the likelihood of rows
#: held out.
STRENGTH = 0.25


def anchor_rows(n: int, share: float, whole: float) -> float:
    """ε for n features of which a share of the cells are gaps, and ``whole`` rows without gaps.

    A matrix has n² numbers, of which each lacks a share of the rows. n rows that show all features
    for each component begin to tell the matrix, so with more of them ε falls.
    """
    return STRENGTH * n**2 * share * n / (n + whole)


@dataclass(frozen=True)
class Anchor:
    """ε ``rows`` in coordinates where Ψ = I, for each matrix or for the one that all share."""

    rows: float

    def penalties(self, matrices: np.ndarray, groups: int = 1) -> np.ndarray:
        """Of each of some mixtures, whose matrices stand one after the other; (S,)."""
        values = np.maximum(np.linalg.eigvalsh(matrices).reshape(groups, -1), 1e-300)
        return np.asarray(self.rows / 2 * np.sum(np.log(values) + 1 / values - 1, axis=1))

    def gradients(self, matrices: np.ndarray) -> np.ndarray:
        """Of the penalties, in the matrices."""
        inverse = np.linalg.inv(matrices)
        return np.asarray(self.rows / 2 * (inverse - inverse @ inverse))

    def pooled(self, counts: np.ndarray, scatter: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How many rows covariances rest on, with these, and the covariance of all of them.

        For counts (m,) and scatter (m, n, n), or (n, n) of all components together.
        """
        own = counts.sum() if scatter.ndim == 2 else counts[:, None, None]
        together = (own * scatter + self.rows * np.eye(scatter.shape[-1])) / (own + self.rows)
        return counts + self.rows, np.asarray(together)
