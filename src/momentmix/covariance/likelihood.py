"""Covariances in likelihood fits: densities, M-steps, splits and merges, changes of coordinates."""

from __future__ import annotations

from typing import Any

import numpy as np

from momentmix.covariance.classes import make_covariance, packing


def log_density_coefficients(
    kind: str, means: np.ndarray, array: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """log N(x; μ_j, Σ_j) = constant_j + linear_j · x + quadratic_j · features(x).

    The features are those of ``quadratic``; (m,), (m, n) and (m or 1, D). Cancellation costs a
    relative 1e-16 of ‖x‖²/σ², nothing in centred and scaled coordinates.
    """
    n = means.shape[1]
    if kind in ("spherical", "diag"):
        precision = 1 / array
        per_feature = precision[:, None] if kind == "spherical" else precision
        linear = means * per_feature
        logs = np.broadcast_to(np.log(per_feature), means.shape).sum(axis=1)
    else:
        precision = np.linalg.inv(array)
        linear = (means[:, None, :] @ precision)[:, 0, :]
        logs = -np.linalg.slogdet(array)[1]
    constant = 0.5 * (logs - np.sum(means * linear, axis=1) - n * np.log(2 * np.pi))
    if kind == "spherical":
        return constant, linear, -0.5 * precision[:, None]
    if kind == "diag":
        return constant, linear, -0.5 * precision
    upper, _, times = packing(n)
    return constant, linear, precision.reshape(-1, n * n)[:, upper] * (-0.5 * times)


def fitted_covariance(
    kind: str, shares: np.ndarray, means: np.ndarray, seconds: np.ndarray
) -> np.ndarray:
    """Covariances of components with given shares, means and mean features."""
    n = means.shape[1]
    if kind == "spherical":
        return np.maximum(seconds[:, 0] - np.sum(means * means, axis=1), 0) / n
    if kind == "diag":
        return np.maximum(seconds - means * means, 0)
    matrices = seconds[:, packing(n)[1]].reshape(-1, n, n)
    matrices = matrices - means[:, :, None] * means[:, None, :]
    return np.tensordot(shares, matrices, axes=1) if kind == "tied" else matrices


def common_covariance(kind: str, m: int, matrix: np.ndarray) -> np.ndarray:
    """One covariance matrix for all of m components, in the shape of the type."""
    n = len(matrix)
    if kind == "zero":
        return np.empty((m, 0))
    if kind == "spherical":
        return np.full(m, np.trace(matrix) / n)
    if kind == "diag":
        return np.tile(np.diag(matrix), (m, 1))
    return matrix.copy() if kind == "tied" else np.tile(matrix, (m, 1, 1))


def mapped_covariance(kind: str, array: np.ndarray, A: np.ndarray) -> np.ndarray:
    """A Σ Aᵀ, where A is a number for spherical, a vector for diag and a matrix otherwise."""
    if kind == "zero":
        return array
    if kind in ("spherical", "diag"):
        return array * A**2
    mapped = A @ array @ A.T
    return (mapped + mapped.swapaxes(-1, -2)) / 2


def projected_covariance(covariance: Any, basis: np.ndarray) -> Any:
    """BᵀΣB of covariances of atoms, along an orthonormal basis B (n, r)."""
    r = basis.shape[1]
    if covariance.zero or covariance.kind == "spherical":
        return make_covariance(covariance.kind, covariance.array, r)
    matrices = np.asarray(covariance.matrices())
    if covariance.shared:
        return make_covariance("tied", basis.T @ matrices[0] @ basis, r)
    return make_covariance("full", basis.T @ matrices @ basis, r)


def without_noise(covariance: Any, noise: Any) -> Any:
    """Σ_i - N for covariances of atoms and a noise that all share."""
    if covariance.zero:
        return noise.negative()
    if covariance.diagonal and noise.diagonal:
        variances = np.asarray(covariance.variances()) - noise.variances()
        return make_covariance("diag", variances, covariance.n_features)
    matrices = np.asarray(covariance.matrices()) - noise.matrices()
    return make_covariance("full", matrices, covariance.n_features)


def merged_covariance(kind: str, difference: np.ndarray) -> np.ndarray:
    """The outer square of a difference of means, as far as a covariance of the type can see it."""
    if kind == "spherical":
        return np.asarray(np.mean(difference**2))
    return difference**2 if kind == "diag" else np.outer(difference, difference)


def chosen(kind: str, array: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The covariances of some of the components; a tied one is everybody's."""
    return array if kind == "tied" else array[rows]


def replaced(kind: str, array: np.ndarray, rows: list[int], new: np.ndarray) -> np.ndarray:
    """The covariances with those of some components exchanged; a tied one stays."""
    if kind == "tied":
        return array
    array = array.copy()
    array[rows] = new
    return array


def free_parameters(kind: str, m: int, n: int) -> int:
    """Degrees of freedom of the covariances."""
    square = n * (n + 1) // 2
    return {"zero": 0, "spherical": m, "diag": m * n, "tied": square, "full": m * square}[kind]


def optimism(kind: str, counts: np.ndarray, n: int) -> np.ndarray:
    """How much more likely samples are under a Gaussian fitted to them than new ones would be.

    In nats for the means and covariances of components with ``counts`` (m,) samples each: for a
    full covariance E[log-likelihood of the N samples - that of N new ones] = n(n+3)N / 2(N-n-2)
    (the corrected AIC), which is Akaike's number of parameters for large N and has no bound
    towards N = n+2. Below N = n+3 it stays what it is there. A tied covariance knows all samples.
    """
    if kind in ("tied", "zero"):
        return np.full(len(counts), float(n))
    numbers, own, parameters = {  # numbers a variance is fitted to; how many of them are not free
        "spherical": (n * counts, n + 2, n + 1),
        "diag": (counts, 3, 2 * n),
        "full": (counts, n + 2, n * (n + 3) / 2),
    }[kind]
    share = own / np.maximum(numbers, 1e-300)
    return parameters / np.maximum(1 - share, 1 / (own + 1))


def too_few(kind: str, counts: np.ndarray, n: int) -> np.ndarray:
    """Whether so many samples overfit a component more than twice as much as many would."""
    return optimism(kind, counts, n) > 2 * optimism(kind, np.array([np.inf]), n)


def precision_cholesky(kind: str, array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Precisions, and their factors U with Σ⁻¹ = U Uᵀ, in the shapes of the covariances."""
    if kind in ("spherical", "diag"):
        if np.min(array) <= 0:
            raise np.linalg.LinAlgError("a variance is zero")
        return 1 / array, 1 / np.sqrt(array)
    factors = np.linalg.inv(np.linalg.cholesky(array)).swapaxes(-1, -2)
    return factors @ factors.swapaxes(-1, -2), factors


def whitened_squares(kind: str, array: np.ndarray, D: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """dᵀΣ_j⁻¹d for differences D (m, p, n) from each mean, and log det Σ_j / 2; (m, p) and (m,).

    To the last digits however narrow Σ_j is, at the cost of a product of its own for each.
    """
    _, factors = precision_cholesky(kind, array)
    if kind in ("spherical", "diag"):
        roots = factors.reshape(len(D), -1)
        Y = D * roots[:, None, :]
    else:
        roots = np.diagonal(factors, axis1=-2, axis2=-1)
        Y = D @ factors
    logs = np.broadcast_to(np.log(roots), (len(D), D.shape[2])).sum(axis=1)
    return np.einsum("jpi,jpi->jp", Y, Y), -logs
