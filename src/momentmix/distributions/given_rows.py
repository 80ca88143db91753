"""Densities of observed rows under a mixture, and the distribution of the values behind them."""

from __future__ import annotations

import numpy as np

from momentmix.moments.atoms import Atoms
from momentmix.observed import Evaluated, Gaussians, ObservedRows
from momentmix.observed.completed import noise_draws, normal_draws
from momentmix.support.array import Array, index_array, namespace, to_numpy, without_graph

#: About how many random rows are made at a time. A round number that affects only memory and speed.
DRAWN_ROWS = 100_000
#: Where all log densities of a row are below minus this, they are compared by their differences. A
#: round number that was not tuned; in float64 such numbers have an error of about 1e-11.
FAR = 1e5
#: Differences of rows are multiplied by this, so that sums of them do not overflow. A power of two
#: costs no digit, and this one leaves differences within the range of float32.
_SMALLER = 2.0**-30


class MixtureGiven:
    """A mixture of v, and rows x = v + ε with gaps and known noise.

    ``atoms`` are the components of the mixture. Their covariances may be singular if the noise is
    not.
    """

    def __init__(self, atoms: Atoms, rows: ObservedRows) -> None:
        self.atoms, self.rows, self.weights = (
            atoms,
            rows,
            to_numpy(atoms.weights).astype(np.float64),
        )
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

    def log_odds(self) -> np.ndarray:
        """``log_joint`` up to a number for each row, exact however far out if there is no noise."""
        result = self.log_joint()
        if self.rows.noise is not None:
            return result
        far = np.flatnonzero(result.max(axis=1, initial=-np.inf) < -FAR)
        # NumPy 2.0 gives the inverse two dimensions.
        patterns, which = np.unique(self.rows.seen[far], axis=0, return_inverse=True)
        for k, seen in enumerate(patterns):
            own, features = far[which.ravel() == k], np.flatnonzero(seen)
            means = to_numpy(self.atoms.means).astype(np.float64)[:, features]
            covariance = self.atoms.on(means).covariance.marginal(features)
            atoms = Atoms(self.weights, means, covariance)
            result[own] = log_odds(atoms, result[own], self.rows.X[own][:, features])
        return result

    def probabilities(self) -> np.ndarray:
        """The probabilities of the components; (p, m)."""
        return to_numpy(probabilities(self.log_odds()))

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


def log_odds(atoms: Atoms, log_joint: Array, X: Array) -> Array:
    """log λ_j N(x; μ_j, Σ_j), up to a number for each row x of X that all components share; (p, m).

    ``log_joint`` are the same logarithms with that number, which takes their digits where x is far
    from all components. There those of the nearest component r are subtracted. If Σ_j⁻¹ = W_jᵀW_j,
        ‖W_j(x - μ_j)‖² - ‖W_r(x - μ_r)‖² = d · (d + 2W_r(x - μ_r)),
        d = (W_j - W_r)(x - μ_r) - W_j(μ_j - μ_r),
    in which whatever the two components have in common is 0 exactly.
    """
    xp, covariance = atoms.xp, atoms.covariance
    far_out = xp.all(log_joint < -FAR, axis=1)
    if not bool(xp.any(far_out)):
        return log_joint
    far = np.flatnonzero(to_numpy(far_out))
    X = xp.take(X, index_array(far, X), axis=0)
    whitener, log_root = covariance.whitener()
    assert not isinstance(atoms.weights, float)
    with np.errstate(divide="ignore"):
        constants = xp.log(atoms.weights) + log_root
    nearest = _nearest(atoms, whitener, X)
    p, parts = int(log_joint.shape[0]), [log_joint]
    place = np.arange(p)  # of each row of the result among those of the parts
    place[far[np.argsort(nearest, kind="stable")]] = p + np.arange(len(far))
    for r in np.unique(nearest).tolist():
        own = index_array(np.flatnonzero(nearest == r), X)
        parts.append(constants - _excess(atoms, whitener, xp.take(X, own, axis=0), r) / 2)
    return xp.take(xp.concat(parts), index_array(place, X), axis=0)


def _excess(atoms: Atoms, whitener: Array, X: Array, r: int) -> Array:
    """‖W_j(x - μ_j)‖² - ‖W_r(x - μ_r)‖² for each row x and component j; (p, m)."""
    xp, covariance, columns = atoms.xp, atoms.covariance, []
    with np.errstate(over="ignore", invalid="ignore"):
        away = _SMALLER * (X - atoms.means[r, :])
        twice = 2 * covariance.apply(whitener, r, away)
        for j in range(len(atoms)):
            shift = _SMALLER * (atoms.means[j : j + 1, :] - atoms.means[r, :])
            shift = covariance.apply(whitener, j, shift)
            d = covariance.apart(whitener, j, r, away) - shift
            # Divided by its size, so that no two terms overflow with different signs.
            size = xp.max(xp.abs(d), axis=1, keepdims=True)
            size = xp.where(size > 0, size, xp.ones_like(size))
            columns.append(xp.sum(d / size * (d + twice), axis=1) * size[:, 0])
        excess = xp.stack(columns, axis=1)
        # Where a row's would overflow, all of them stay smaller, and compare alike.
        limit = float(xp.finfo(excess.dtype).max)
        most = xp.max(xp.abs(excess), axis=1, keepdims=True)
        scale = xp.where(most < limit, most, limit * xp.ones_like(most)) / (limit / 4)
        return excess / xp.where(scale > _SMALLER**2, scale, _SMALLER**2 * xp.ones_like(scale))


def _nearest(atoms: Atoms, whitener: Array, X: Array) -> np.ndarray:
    """The component of positive weight from which each row is the fewest deviations away; (p,)."""
    xp, m, means = atoms.xp, len(atoms), without_graph(atoms.means)
    away = [without_graph(X) - means[j, :] for j in range(m)]
    sizes = [xp.max(xp.abs(each), axis=1, keepdims=True) for each in away]
    size = xp.max(xp.stack(sizes), axis=0)  # the squares of what is divided by it are numbers
    factors = without_graph(whitener)
    with np.errstate(over="ignore"):
        whitened = [atoms.covariance.apply(factors, j, away[j] / size) for j in range(m)]
        squares = to_numpy(xp.stack([xp.sum(w * w, axis=1) for w in whitened], axis=1))
    return np.asarray(np.where(to_numpy(atoms.weights > 0), squares, np.inf).argmin(axis=1))


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
