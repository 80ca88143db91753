"""Densities of observed rows under a mixture, and the distribution of the values behind them."""

from __future__ import annotations

import numpy as np

from momentmix.moments.atoms import Atoms
from momentmix.observed import Evaluated, Gaussians, ObservedRows
from momentmix.observed.draws import noise_draws, normal_draws
from momentmix.support.array import Array, namespace, to_numpy

#: About how many random rows are made at a time. A round number that affects only memory and speed.
DRAWN_ROWS = 100_000


class MixtureGiven:
    """A mixture of v, and rows x = v + ε with gaps and known noise.

    ``atoms`` are the components of the mixture. Their covariances may be singular if the noise is
    not.
    """

    def __init__(self, atoms: Atoms, rows: ObservedRows) -> None:
        self.rows, self.weights = rows, to_numpy(atoms.weights).astype(np.float64)
        means, n = to_numpy(atoms.means).astype(np.float64), rows.n
        self.separate = rows.is_separate(atoms.covariance.diagonal)
        covariance = atoms.covariance
        array = to_numpy(covariance.variances() if self.separate else covariance.matrices())
        shape = (len(means), n) if self.separate else (len(means), n, n)
        self.gaussians = Gaussians(means, np.broadcast_to(array.astype(np.float64), shape))
        if rows.noise is None:
            covariance.whitener()  # raises a readable error if there is no density

    def log_joint(self) -> np.ndarray:
        """log λ_j N(x_i) of the observed values; (p, m)."""
        with np.errstate(divide="ignore"):
            logs = np.log(self.weights)
        result = np.empty((len(self.rows), len(logs)))

        def block(rows: np.ndarray, here: Evaluated) -> None:
            result[rows] = here.log_densities.T + logs

        self.rows.each(self.gaussians, block)
        return result

    def probabilities(self) -> np.ndarray:
        """The probabilities of the components; (p, m)."""
        return to_numpy(probabilities(self.log_joint()))

    def means(self) -> np.ndarray:
        """E[v_i | x_i]; (p, n)."""
        R = self.probabilities()
        result = np.empty((len(self.rows), self.rows.n))

        def block(rows: np.ndarray, here: Evaluated) -> None:
            result[rows] = np.einsum("bj,jbn->bn", R[rows], here.means())

        self.rows.each(self.gaussians, block)
        return result

    def means_beside(self, out: np.ndarray) -> np.ndarray:
        """E[v_i | x_i] if rows belong to no component with probabilities ``out`` (p,); (p, n).

        The observed values of a row that belongs to none tell nothing about its other values.
        """
        usual = self.weights / self.weights.sum() @ self.gaussians.means
        means = self.means()
        return np.asarray(means + out[:, None] * (usual - means))

    def posterior(self) -> tuple[np.ndarray, np.ndarray]:
        """E[v_i | x_i] and Cov[v_i | x_i]; (p, n) and (p, n, n)."""
        R, (p, n) = self.probabilities(), self.rows.X.shape
        means, covariances = np.empty((p, n)), np.empty((p, n, n))

        def block(rows: np.ndarray, here: Evaluated) -> None:
            r, of_each = R[rows], here.means()
            mean = np.einsum("bj,jbn->bn", r, of_each)
            away = of_each - mean
            means[rows] = mean
            covariances[rows] = np.einsum("bj,jbnk->bnk", r, here.covariances())
            covariances[rows] += np.einsum("bj,jbn,jbk->bnk", r, away, away)

        self.rows.each(self.gaussians, block)
        return means, covariances

    def of_each(self, features: slice) -> tuple[np.ndarray, np.ndarray]:
        """E[v_i | x_i] and Var[v_i | x_i] of k features under each component; both (p, m, k)."""
        shape = len(self.rows), len(self.weights), len(range(self.rows.n)[features])
        means, variances = np.empty(shape), np.empty(shape)

        def block(rows: np.ndarray, here: Evaluated) -> None:
            squares = np.diagonal(here.covariances(), axis1=2, axis2=3)
            means[rows] = here.means()[:, :, features].swapaxes(0, 1)
            variances[rows] = squares[:, :, features].swapaxes(0, 1)

        self.rows.each(self.gaussians, block)
        return means, variances

    def draws(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Draw v_i given x_i, ``count`` times; (count, p, n).

        First a component is drawn, then v and ε from it. With v' of the component's covariance and
        mean 0, v + E[v' | x - v - ε] has the distribution of v given x: the correction replaces the
        part of v that x determines.
        """
        R, p = self.probabilities(), len(self.rows)
        up_to = R.cumsum(axis=1)
        result = np.empty((count * p, self.rows.n))
        step = max(1, DRAWN_ROWS // max(p, 1))
        for start in range(0, count, step):
            some = np.tile(np.arange(p), min(step, count - start))
            labels = (up_to[some] < rng.uniform(size=(len(some), 1))).sum(axis=1)
            labels = np.minimum(labels, R.shape[1] - 1)
            for j in np.unique(labels):
                own = np.flatnonzero(labels == j)
                result[start * p + own] = self._draw_from(j, self.rows.take(some[own]), rng)
        return result.reshape(count, p, self.rows.n)

    def _draw_from(self, j: int, rows: ObservedRows, rng: np.random.Generator) -> np.ndarray:
        """Draw v for rows that belong to component j; (rows, n)."""
        covariance = self.gaussians.covariances[j : j + 1]
        v = self.gaussians.means[j] + normal_draws(covariance, len(rows), rng)
        away = ObservedRows(rows.X - v - noise_draws(rows, rng), rows.noise)
        return v + away.expected(Gaussians(np.zeros((1, rows.n)), covariance))


def shares_at(atoms: Atoms, log_joint: Array, x: Array) -> Array:
    """The probabilities of the components at one point x (n,), from log λ_j N(x; μ_j, Σ_j); (m,).

    Where all densities are 0 to float64, only the components that x is nearest to count.
    """
    xp = atoms.xp
    if not bool(xp.any(log_joint > -float("inf"))):
        whitener, log_root = atoms.covariance.whitener()
        assert not isinstance(atoms.weights, float)
        away = x[None, :] - atoms.means
        away = away / xp.max(xp.abs(away))  # the squares of which are numbers
        each = [atoms.covariance.apply(whitener, j, away[j : j + 1, :]) for j in range(len(atoms))]
        squares = xp.stack([xp.sum(w * w) for w in each])
        counts = atoms.weights > 0
        least = xp.min(xp.where(counts, squares, xp.full_like(squares, float("inf"))))
        with np.errstate(divide="ignore"):
            logs = xp.log(atoms.weights) + log_root
        log_joint = xp.where(squares <= least, logs, xp.full_like(logs, -float("inf")))
    return probabilities(log_joint[None, :])[0, :]


def probabilities(log_joint: Array) -> Array:
    """The probabilities of components (p, m); equal if all densities of a row underflow to 0."""
    xp = namespace(log_joint)
    highest = xp.max(log_joint, axis=1, keepdims=True)
    nowhere = highest <= -float("inf")
    R = xp.exp(log_joint - xp.where(nowhere, xp.zeros_like(highest), highest))
    R = xp.where(nowhere, xp.ones_like(R), R)
    return R / xp.sum(R, axis=1, keepdims=True)


def log_sum(x: Array) -> Array:
    """log Σ_j exp x_ij of each row, in any array library; (p,)."""
    xp = namespace(x)
    highest = xp.max(x, axis=1, keepdims=True)
    # If all densities of a row underflow to 0, so does their sum.
    known = xp.where(xp.isfinite(highest), highest, xp.zeros_like(highest))
    with np.errstate(divide="ignore"):
        return known[:, 0] + xp.log(xp.sum(xp.exp(x - known), axis=1))
