"""A penalty for data with gaps: each component gets a few artificial rows with a common covariance.

The variance in a direction that involves many features is known only from rows that show all these
features. If gaps leave few such rows, covariances that are all flat in that direction make the rows
arbitrarily likely. A prior on how covariances differ from each other does not prevent that. So this
uses a ridge prior in the sense of Schafer (Analysis of Incomplete Multivariate Data, 1997, section
5.2.3) with the covariance Ψ of one Gaussian fitted to all rows:

    penalty = ε/2 Σ_k (log det Σ_k + tr Ψ Σ_k⁻¹ - log det Ψ - n).

It is that of ε rows of covariance Ψ in each component, less its minimum, which is at Σ_k = Ψ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: The factor in ``anchor_rows``; it matters only for data with gaps. Chosen on the tables TUNED of
#: benchmarks/real.py by the likelihood of held-out rows.
STRENGTH = 0.25


def anchor_rows(n: int, share: float, whole: float) -> float:
    """ε for n features, a share of cells that are gaps, and ``whole`` rows without gaps.

    A matrix has n² entries, and gaps hide the given share of the rows from each. Once there are n
    complete rows for each component, they begin to determine the matrix, so ε decreases.
    """
    return STRENGTH * n**2 * share * n / (n + whole)


@dataclass(frozen=True)
class Anchor:
    """The prior of ε ``rows`` in coordinates where Ψ = I, for each matrix or a shared one."""

    rows: float

    def penalties(self, matrices: np.ndarray, groups: int = 1) -> np.ndarray:
        """The penalties of S mixtures, whose matrices are stored one after the other; (S,)."""
        values = np.maximum(np.linalg.eigvalsh(matrices).reshape(groups, -1), 1e-300)
        return np.asarray(self.rows / 2 * np.sum(np.log(values) + 1 / values - 1, axis=1))

    def gradients(self, matrices: np.ndarray) -> np.ndarray:
        """The gradients of the penalties in the matrices."""
        inverse = np.linalg.inv(matrices)
        return np.asarray(self.rows / 2 * (inverse - inverse @ inverse))

    def pool(self, counts: np.ndarray, scatter: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Add the artificial rows to counts (m,) and scatter: new counts and covariances.

        Scatter is (m, n, n), or (n, n) for all components together.
        """
        own = counts.sum() if scatter.ndim == 2 else counts[:, None, None]
        together = (own * scatter + self.rows * np.eye(scatter.shape[-1])) / (own + self.rows)
        return counts + self.rows, np.asarray(together)
