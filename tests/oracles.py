"""Independent answers, slow and simple. Nothing here imports momentmix.

An atom is (weight, mean, covariance matrix); numbers may be complex, which makes the derivative
Im f(x + ih) / h of a polynomial exact to rounding.
"""

import itertools
import math

import numpy as np
from scipy.special import logsumexp
from scipy.stats import multivariate_normal


def multi_indices(n, d):
    return list(itertools.combinations_with_replacement(range(n), d))


def multiplicity(index):
    return math.factorial(len(index)) // math.prod(
        math.factorial(index.count(a)) for a in set(index)
    )


def gaussian_entry(mean, covariance, index, memo):
    """E x_{i_1} ··· x_{i_d} by Isserlis' recursion on one index at a time (Stein's lemma)."""
    if not index:
        return 1.0
    if index not in memo:
        first, rest = index[0], index[1:]
        value = mean[first] * gaussian_entry(mean, covariance, rest, memo)
        for a in range(len(rest)):
            without = rest[:a] + rest[a + 1 :]
            value += covariance[first, rest[a]] * gaussian_entry(mean, covariance, without, memo)
        memo[index] = value
    return memo[index]


def moment_entries(atoms, d):
    """Distinct entries of the moment of order d, in the order of multi_indices."""
    n = len(atoms[0][1])
    indices = multi_indices(n, d)
    total = np.zeros(
        len(indices), dtype=np.result_type(*(a for atom in atoms for a in atom[1:]), 1.0)
    )
    for weight, mean, covariance in atoms:
        memo = {}
        total = total + weight * np.array(
            [gaussian_entry(mean, covariance, index, memo) for index in indices]
        )
    return total


def moment_tensor(atoms, d):
    n = len(atoms[0][1])
    entries = dict(zip(multi_indices(n, d), moment_entries(atoms, d), strict=True))
    tensor = np.zeros((n,) * d)
    for index in itertools.product(range(n), repeat=d):
        tensor[index] = entries[tuple(sorted(index))]
    return tensor


def inner(entries_p, entries_q, n, d):
    times = np.array([multiplicity(index) for index in multi_indices(n, d)], dtype=float)
    return np.sum(times * entries_p * entries_q)


def weighted_inner(atoms_p, atoms_q, weights):
    """Σ_k w_k ⟨M_P^(k), M_Q^(k)⟩."""
    n = len(atoms_p[0][1])
    return sum(
        w * inner(moment_entries(atoms_p, k), moment_entries(atoms_q, k), n, k)
        for k, w in enumerate(weights)
        if w
    )


def complex_step(f, x, direction, h=1e-30):
    """Derivative of a real polynomial f along ``direction``, exact to rounding."""
    return np.imag(f(x + 1j * h * direction)) / h


def central_difference(f, x, direction, h=1e-3):
    """Fourth-order central difference."""
    near = f(x + h * direction) - f(x - h * direction)
    far = f(x + 2 * h * direction) - f(x - 2 * h * direction)
    return (8 * near - far) / (12 * h)


def gradient(f, x, derivative=complex_step):
    """All partial derivatives of f at the array x."""
    x = np.asarray(x, dtype=float)
    result = np.empty(x.shape)
    for place in np.ndindex(*x.shape):
        direction = np.zeros(x.shape)
        direction[place] = 1.0
        result[place] = derivative(f, x, direction)
    return result


def symmetric_gradient(f, x, derivative=complex_step):
    """G with df = ⟨G, dΣ⟩ for symmetric dΣ, the last two axes being those of Σ."""
    result = np.empty(x.shape)
    for place in np.ndindex(*x.shape):
        direction = np.zeros(x.shape)
        direction[place] += 0.5
        direction[(*place[:-2], place[-1], place[-2])] += 0.5
        result[place] = derivative(f, x, direction)
    return result


def bell_by_partitions(x):
    """B_k(x_1..x_k) from Definition 2.10: a sum over the partitions of k."""
    k = len(x)
    total = 0.0
    for j in itertools.product(*(range(k // i + 1) for i in range(1, k + 1))):
        if sum(i * j_i for i, j_i in enumerate(j, 1)) == k:
            term = float(math.factorial(k))
            for i, j_i in enumerate(j, 1):
                term *= (x[i - 1] / math.factorial(i)) ** j_i / math.factorial(j_i)
            total += term
    return total


def outer_power(a, d):
    """a^{⊗d} as a dense tensor."""
    result = np.ones(())
    for _ in range(d):
        result = np.multiply.outer(result, a)
    return result


def sym_by_permutations(T):
    return sum(np.transpose(T, s) for s in itertools.permutations(range(T.ndim))) / math.factorial(
        T.ndim
    )


def observed_row(x, mean, covariance, noise):
    """A row with gaps (NaN) and noise under a Gaussian: log density, E[v | x] and Cov[v | x]."""
    seen = ~np.isnan(x)
    if not seen.any():
        return 0.0, mean, covariance
    T = covariance[np.ix_(seen, seen)] + noise[np.ix_(seen, seen)]
    log_density = multivariate_normal(mean[seen], T, allow_singular=False).logpdf(x[seen])
    gain = np.linalg.solve(T, covariance[seen]).T
    away = gain @ (x[seen] - mean[seen])
    return float(log_density), mean + away, covariance - gain @ covariance[seen]


def observed_em_step(X, noises, row_weights, weights, means, covariances):
    """The mean log-likelihood, and weights, means and full covariances after a step, row by row.

    The textbook's: responsibilities, then sums of posterior means and covariances.
    """
    (p, n), m = X.shape, len(weights)
    value, shares = 0.0, np.zeros(m)
    firsts, seconds = np.zeros((m, n)), np.zeros((m, n, n))
    for i in range(p):
        found = [observed_row(X[i], means[j], covariances[j], noises[i]) for j in range(m)]
        logs = np.array([np.log(weights[j]) + found[j][0] for j in range(m)])
        total = logsumexp(logs)
        value += row_weights[i] * total
        for j in range(m):
            r, (_, mean, covariance) = row_weights[i] * np.exp(logs[j] - total), found[j]
            shares[j] += r
            firsts[j] += r * mean
            seconds[j] += r * (np.outer(mean, mean) + covariance)
    means = firsts / shares[:, None]
    outer = means[:, :, None] * means[:, None, :]
    return value, shares / shares.sum(), means, seconds / shares[:, None, None] - outer
