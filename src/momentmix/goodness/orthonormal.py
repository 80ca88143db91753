"""Polynomials orthonormal under a mixture: means over p rows vary by 1 / √p."""

from __future__ import annotations

import numpy as np

from momentmix.covariance import Full
from momentmix.data.sources import AtomData, TensorData, data_of
from momentmix.distributions.mixture import Mixture
from momentmix.distributions.moment_tensors import MomentTensors
from momentmix.goodness.features import blocks_of_rows
from momentmix.goodness.given import UntestableError
from momentmix.support.array import to_numpy
from momentmix.tensors.isserlis import gaussian_moments, moment_covariance
from momentmix.tensors.packed import order_slice

#: Combinations of monomials whose remaining variance, after the lower orders, is below this share
#: count as constant: it is rounding. It lies far above 1e-16 and far below any real variance, and
#: was not tuned.
_LEFT = 1e-10


class Orthonormal:
    """φ(x) = T (z^I - E z^I) for the monomials z^I of orders 1..d, with E φ = 0 and E φφᵀ = 1.

    z is x in coordinates in which the mixture has mean 0 and covariance I. Polynomials of order k
    are orthogonal to all of lower order, so for one Gaussian they are Hermite polynomials.
    """

    def __init__(self, mixture: Mixture, d: int) -> None:
        data = data_of(mixture)
        assert isinstance(data, AtomData)
        self.d, self.frame = d, data.frame(Full)
        atoms, n = data.within(self.frame).atoms, data.n
        weights, means = to_numpy(atoms.weights), to_numpy(atoms.means)
        matrices = np.broadcast_to(to_numpy(atoms.covariance.matrices()), (len(means), n, n))
        self.expected = weights @ gaussian_moments(means, matrices, d)  # (N,)
        C = moment_covariance(weights, means, matrices, d)
        if np.linalg.eigvalsh(C[1 : n + 1, 1 : n + 1])[0] < 0.5:  # it should be the identity
            raise UntestableError(
                "the mixture does not vary in some direction, so that no row can be compared with "
                "it there; drop features that are constant or depend on others"
            )
        self.T, self.orders = orthonormal_rows(C, n, d)

    def means(self, window: MomentTensors) -> np.ndarray:
        """φ̄ over the rows of the window; (D,)."""
        moments = TensorData(window).within(self.frame).moments(self.d)
        return self.T @ (moments - self.expected)

    def fourth_moments(self, X: np.ndarray) -> np.ndarray:
        """The mean of ‖φ‖⁴ over rows (p, n), and that of each order alone; (d + 1,). O(p N D)."""
        total = np.zeros(self.d + 1)
        for block in blocks_of_rows(len(X), len(self.expected)):
            monomials = gaussian_moments(self.frame.apply(X[block]), None, self.d)
            squares = ((monomials - self.expected) @ self.T.T) ** 2
            total[0] += np.sum(squares.sum(axis=1) ** 2)
            for k in range(1, self.d + 1):
                total[k] += np.sum(squares[:, self.orders == k].sum(axis=1) ** 2)
        return total / len(X)


def orthonormal_rows(C: np.ndarray, n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """T (D, N) with T C Tᵀ = 1, and the order of each row (D,), from C (N, N) of the monomials.

    The monomials of each order are projected off all lower ones; the scaled eigenvectors of the
    rest are rows of T. Combinations that the lower orders determine up to rounding are dropped.
    O(N³).
    """
    deviations = np.sqrt(np.diag(C))
    deviations[0] = 1.0  # order 0 does not vary
    deviations = np.where(deviations > 0, deviations, 1.0)
    R = C / np.outer(deviations, deviations)
    T, orders = np.zeros((0, len(C))), np.zeros(0, dtype=np.intp)
    for k in range(1, d + 1):
        here = order_slice(n, k)
        rest = np.eye(len(C))[here]
        for _ in range(2):  # the second time removes what rounding has left
            rest = rest - (rest @ R @ T.T) @ T
        values, vectors = np.linalg.eigh(rest @ R @ rest.T)
        kept = values > _LEFT
        T = np.concatenate([T, (vectors[:, kept] / np.sqrt(values[kept])).T @ rest])
        orders = np.concatenate([orders, np.full(int(kept.sum()), k)])
    return T / deviations, orders
