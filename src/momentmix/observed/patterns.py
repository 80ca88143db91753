"""Submatrices of symmetric matrices for a subset of the features, which differs between rows.

Rows that choose the same features share a pattern, and each pattern is computed once. The indices
are found once and kept, because the matrices change from step to step but the rows do not.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from momentmix.observed.part import inverse, inverse_factors


class Patterns:
    """The k features that each of B rows chooses, ``chosen`` (k, B), out of ``size`` features.

    Rows with the same features must be next to each other.
    """

    def __init__(self, chosen: np.ndarray, size: int) -> None:
        self.chosen, self.size = chosen, size
        self.k, self.B = chosen.shape
        change = np.any(np.diff(chosen, axis=1), axis=0)
        self.first = np.concatenate([[0], 1 + np.flatnonzero(change)])  # first row of each pattern
        self.patterns = chosen[:, self.first]
        self._places = (chosen * self.B + np.arange(self.B)).reshape(-1)
        #: The pattern of each row; a plain slice if every row has its own.
        self._of_row: np.ndarray | slice = slice(None)
        if len(self.first) < self.B:
            counts = np.diff(self.first, append=self.B)
            self._of_row = np.repeat(np.arange(len(self.first)), counts)
        self._entries = [
            self.patterns[a] * size + self.patterns[: a + 1] for a in range(self.k)
        ]  # indices of the lower triangles, (a + 1, P) for row a

    def inverses(self, A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The lower triangle of A_CC⁻¹ for each pattern C, and log det A_CC / 2.

        (k, k, m, P) and (m, P), for A (m, size, size).
        """
        m = len(A)
        flat = A.reshape(m, -1)
        T = np.empty((self.k, self.k, m, len(self.first)))
        for a, places in enumerate(self._entries):
            T[a, : a + 1] = flat.take(places, axis=1).swapaxes(0, 1)
        half_logs = inverse_factors(T)
        return inverse(T), half_logs

    def by_row(self, of_patterns: np.ndarray) -> np.ndarray:
        """Values of the patterns (…, P), repeated for each row; (…, B)."""
        return np.asarray(of_patterns[..., self._of_row])

    def get(self, V: np.ndarray) -> np.ndarray:
        """The chosen entries of vectors V (m, size, B), a contiguous array; (k, m, B)."""
        m = len(V)
        chosen = V.reshape(m, -1).take(self._places, axis=1)
        return chosen.reshape(m, self.k, self.B).swapaxes(0, 1)

    def put(self, V: np.ndarray, values: np.ndarray | float) -> None:
        """Set the chosen entries of vectors V (m, size, B) to values (k, m, B), or to a number."""
        rows = V.reshape(len(V), -1)
        for j, row in enumerate(rows):
            one = values[:, j].reshape(-1) if isinstance(values, np.ndarray) else values
            row[self._places] = one

    def times(self, inverses: np.ndarray, v: np.ndarray) -> np.ndarray:
        """A_CC⁻¹ v for each row, from ``inverses``, for v (k, m, B)."""
        result = np.empty((self.k, *v.shape[1:]))
        for a in range(self.k):
            row = self.by_row(inverses[a, : a + 1])
            np.einsum("b...,b...->...", row, v[: a + 1], out=result[a])
            if a:
                result[:a] += row[:a] * v[a]
        return result

    @cached_property
    def _sum(self) -> csr_array:
        """A sparse matrix that adds up entries with the same indices; (size², entries)."""
        places = np.concatenate([one.reshape(-1) for one in self._entries])
        columns = np.arange(len(places))
        shape = self.size**2, len(places)
        return csr_array((np.ones(len(places)), (places, columns)), shape=shape)

    def total(self, inverses: np.ndarray, R: np.ndarray) -> np.ndarray:
        """Σ_i r_i A_CC⁻¹, each embedded in a full matrix, for R (m, B); (m, size, size)."""
        m, size = len(R), self.size
        shares = np.add.reduceat(R, self.first, axis=1)
        entries = np.concatenate([inverses[a, : a + 1] for a in range(self.k)])
        entries = (entries * shares).transpose(0, 2, 1).reshape(-1, m)
        lower = (self._sum @ entries).T.reshape(m, size, size)
        return np.asarray(lower + lower.swapaxes(1, 2) - lower * np.eye(size))

    def spread(self, inverses: np.ndarray) -> np.ndarray:
        """A_CC⁻¹ of each row with zeros around; (m, B, size, size)."""
        m, every = inverses.shape[2], np.arange(self.B)
        result = np.zeros((m, self.B, self.size, self.size))
        for a in range(self.k):
            for b in range(a + 1):
                entry = self.by_row(inverses[a, b])
                result[:, every, self.chosen[a], self.chosen[b]] = entry
                result[:, every, self.chosen[b], self.chosen[a]] = entry
        return result
