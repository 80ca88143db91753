"""One distribution of every kind: its parameters, how to build it, its atoms for the oracles."""

import functools

import numpy as np

import momentmix as mm
from momentmix.covariance import join

N_FEATURES = 2


class Case:
    """``parameters`` are NumPy arrays: weights, means (or X), covariances (or noise, or None)."""

    def __init__(self, kind, parameters, noise_kind=None, signed=False):
        self.kind, self.parameters, self.noise_kind = kind, parameters, noise_kind
        self.signed = signed

    def build(self, convert):
        weights, means, covariances = (None if a is None else convert(a) for a in self.parameters)
        if self.kind == "samples":
            return mm.Samples(means, weights, covariances)
        if self.signed:
            return mm.Atoms(weights, means, covariances, self.kind or "full")
        return mm.Mixture(weights, means, covariances, self.kind)

    def atoms(self, weights=None, means=None, covariances=None):
        """Atoms for oracles.py, with some parameters replaced."""
        given = (weights, means, covariances)
        w, mu, c = (a if b is None else b for a, b in zip(self.parameters, given, strict=True))
        m, n = mu.shape
        w = np.full(m, 1 / m) if w is None else w
        kind = self.noise_kind if self.kind == "samples" else self.kind
        sign = -1 if self.kind == "samples" else 1
        return [(w[j], mu[j], sign * _matrix(kind, join(c), j, n)) for j in range(m)]

    @property
    def covariance_is_matrix(self):
        return (self.noise_kind if self.kind == "samples" else self.kind) in ("full", "tied")


def _matrix(kind, c, j, n):
    if kind is None:
        return np.zeros((n, n))
    if kind == "low-rank":
        W, s = c[j, :, :-1], c[j, :, -1]
        return W @ W.T + np.diag(s)
    own = {"spherical": 0, "diag": 1, "tied-diag": 1, "tied-spherical": 0}.get(kind, 2)
    if c.ndim > own:  # one for each atom, or one for all
        c = c[0 if len(c) == 1 else j]
    return c * np.eye(n) if own == 0 else np.diag(c) if own == 1 else c


@functools.cache
def cases():
    rng = np.random.default_rng(20220214)
    n, m, p = N_FEATURES, 3, 4
    L = rng.normal(size=(p, n, n))
    psd = L @ np.swapaxes(L, 1, 2) / 2
    weights = np.array([0.5, 0.3, 0.2])
    w4 = np.array([0.1, 0.2, 0.3, 0.4])
    signs = np.array([1.5, -0.8, 0.4])

    def means(k):
        return rng.normal(size=(k, n))

    low_rank = psd[:m].copy()
    low_rank[1] = np.outer([1.0, -0.5], [1.0, -0.5])
    low_rank[2] = 0
    return {
        "full": Case("full", (weights, means(m), psd[:m])),
        "tied": Case("tied", (weights, means(m), psd[3])),
        "diag": Case("diag", (weights, means(m), rng.random((m, n)))),
        "spherical": Case("spherical", (weights, means(m), rng.random(m))),
        "tied-diag": Case("tied-diag", (weights, means(m), rng.random(n))),
        "tied-spherical": Case("tied-spherical", (weights, means(m), np.array(0.7))),
        "semidefinite": Case("full", (weights, means(m), low_rank)),
        "zero": Case("diag", (weights, means(m), np.zeros((m, n)))),
        "samples": Case("samples", (None, means(p), None)),
        "weighted": Case("samples", (w4, means(p), None)),
        "noise-scalar": Case("samples", (None, means(p), np.array([0.3])), "spherical"),
        "noise-diag": Case("samples", (None, means(p), rng.random((1, n))), "diag"),
        "noise-matrix": Case("samples", (w4, means(p), psd[0]), "tied"),
        "noise-each-scalar": Case("samples", (None, means(p), rng.random(p)), "spherical"),
        "noise-each-diag": Case("samples", (None, means(p), rng.random((p, n))), "diag"),
        "noise-each-matrix": Case("samples", (None, means(p), psd), "full"),
        "signed-full": Case("full", (signs, means(m), psd[:m] - psd[1:]), signed=True),
        "signed-diag": Case("diag", (signs, means(m), rng.normal(size=(m, n))), signed=True),
        "signed-points": Case(None, (signs, means(m), None), signed=True),
        "low-rank": Case("low-rank", (weights, means(m), rng.random((m, n, 3)))),
    }


NAMES = tuple(cases())
