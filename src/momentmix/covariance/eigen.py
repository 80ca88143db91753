"""Eigenvalues and eigenvectors of symmetric matrices, even if the eigenvalues are far apart."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh


def eigen(matrices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues (m, n) and eigenvectors (m, n, n).

    LAPACK's fastest routine fails on some matrices whose eigenvalues are far apart; its plain one
    does not.
    """
    try:
        values, vectors = np.linalg.eigh(matrices)
    except np.linalg.LinAlgError:
        pairs = [eigh(matrix, driver="ev") for matrix in matrices]
        values, vectors = (np.array(part) for part in zip(*pairs, strict=True))
    return values, vectors
