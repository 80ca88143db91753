"""The moment matrix E[φφᵀ] of all monomials φ up to a degree, semidefinite for any distribution."""

from __future__ import annotations

import numpy as np

from momentmix.tensors.dense import packed_indices
from momentmix.tensors.packed import order_slice, places


def moment_matrix(packed: np.ndarray, n: int, degree: int) -> np.ndarray:
    """E[φ_α φ_β] = M_{α+β}, from packed moments of orders up to 2 ``degree`` at least; (K, K).

    K = C(n + degree, degree), the monomials in the packed order. O(K² degree).
    """
    rows = []
    for a in range(degree + 1):
        row = []
        for b in range(degree + 1):
            first, second = packed_indices(n, a), packed_indices(n, b)
            shape = len(first), len(second)
            pairs = np.concatenate(
                [
                    np.broadcast_to(first[:, None, :], (*shape, a)),
                    np.broadcast_to(second[None, :, :], (*shape, b)),
                ],
                axis=2,
            )
            row.append(packed[order_slice(n, a + b)][places(np.sort(pairs, axis=2), n)])
        rows.append(row)
    return np.block(rows)


def least_eigenvalue(matrix: np.ndarray) -> float:
    """The least eigenvalue of a moment matrix after its monomials are scaled to mean square 1.

    A monomial whose mean square is not positive must vanish. If it does not, the matrix is not
    semidefinite in any scale.
    """
    squares = np.diag(matrix)
    scale = 1 / np.sqrt(np.where(squares > 0, squares, 1.0))
    return float(np.linalg.eigvalsh(matrix * np.outer(scale, scale))[0])
