"""The starts of moment fits: some means, with equal weights and equal covariances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np
from sklearn.cluster import kmeans_plusplus

from momentmix.covariance import Kind
from momentmix.data.parameters import Parameters
from momentmix.data.sources import Data, mean_and_covariance
from momentmix.matching.matching import Model
from momentmix.support.array import to_numpy
from momentmix.tensors.dense import unpack
from momentmix.tensors.packed import order_slice

#: Without rows, starts are chosen among this many points drawn from a Gaussian. This is a round
#: number that was not tuned; it affects starts alone.
DRAWS = 2000


def random_points(
    X: np.ndarray, weights: np.ndarray | None, m: int, rng: np.random.Generator
) -> np.ndarray:
    """m distinct rows of X, drawn by weight."""
    p = None if weights is None else weights / weights.sum()
    allowed = len(X) if weights is None else int(np.count_nonzero(weights))
    return X[rng.choice(len(X), m, replace=allowed < m, p=p)]


def spread_points(
    X: np.ndarray, weights: np.ndarray | None, m: int, rng: np.random.Generator
) -> np.ndarray:
    """Rows that k-means++ draws far from each other."""
    seed = int(rng.integers(2**31))
    return kmeans_plusplus(X, m, sample_weight=weights, random_state=seed)[0]


def normal_points(data: Data, rng: np.random.Generator) -> np.ndarray:
    """Gaussian points with the mean and covariance of the data."""
    mean, covariance = mean_and_covariance(data)
    values, vectors = np.linalg.eigh(covariance)
    root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    return mean + rng.normal(size=(DRAWS, data.n)) @ root


def spectral_means(data: Data, m: int, rng: np.random.Generator) -> np.ndarray:
    """Means from a symmetric CP of the third moment, in the subspace where the means differ.

    Centred means span m-1 dimensions, those of the leading eigenvectors of the covariance if the
    means stand out from the noise. The third moment of the projected data is decomposed by power
    iteration with deflation (§5 of Pereira–Kileel–Kolda). It needs no debiasing, because isotropic
    noise around a zero mean does not change it.
    """
    r = min(m - 1, data.n)
    if r == 0:
        return np.zeros((m, data.n))
    second = to_numpy(unpack(data.moments(2)[order_slice(data.n, 2)], data.n, 2))
    basis = np.linalg.eigh(second)[1][:, -r:]
    T = to_numpy(unpack(data.compress(basis, 3).moments(3)[order_slice(r, 3)], r, 3))
    points = []
    for _ in range(m):
        best, vector = -np.inf, np.zeros(r)
        for _ in range(6):
            v = rng.normal(size=data.n) @ basis  # signs of eigenvectors do not matter
            for _ in range(50):
                v = np.einsum("abc,b,c->a", T, v, v)
                v /= max(np.linalg.norm(v), 1e-300)
            value = float(np.einsum("abc,a,b,c->", T, v, v, v))
            if value > best:
                best, vector = value, v
        T = T - best * np.einsum("a,b,c->abc", vector, vector, vector)
        # λ μ³ with λ = 1/m gives the length.
        points.append(np.cbrt(m * best) * vector)
    return np.array(points) @ basis.T


Init: TypeAlias = Literal["auto", "random", "k-means++", "spectral"]
INITS: tuple[Init, ...] = ("random", "k-means++", "spectral", "auto")
Draw: TypeAlias = Callable[[np.ndarray, np.ndarray | None, int, np.random.Generator], np.ndarray]
#: The kinds of start that draw points from the data.
POINTS: dict[str, Draw] = {"random": random_points, "k-means++": spread_points}


def around_points(kind: Kind, means: np.ndarray, share: float = 0.5) -> Parameters:
    """Components of equal weight at some means; variances are a share of the data's, which is 1."""
    m, n = means.shape
    return Parameters(np.full(m, 1 / m), means, kind.repeat(m, share * np.eye(n)))


def moment_starts(
    data: Data,
    model: Model,
    init: Init,
    points: np.ndarray,
    weights: np.ndarray | None,
    count: int,
    rng: np.random.Generator,
) -> list[Parameters]:
    """``count`` starts of one kind; "auto" takes the kinds that draw points in turn."""
    if init == "spectral":
        means = [spectral_means(data, model.m, rng) for _ in range(count)]
    else:
        draws = list(POINTS.values()) if init == "auto" else [POINTS[init]]
        means = [draws[i % len(draws)](points, weights, model.m, rng) for i in range(count)]
    return [around_points(model.kind, m) for m in means]
