"""Tensors applied to vectors, free indices, cumulants: against tensors that are written out."""

import itertools

import numpy as np
import pytest

import momentmix as mm
import oracles
from zoo import N_FEATURES, NAMES, cases

A = np.random.default_rng(3).normal(size=(3, N_FEATURES))


def applied(T, vectors):
    """T(a_1, …, a_k, ·, …), the first indices contracted."""
    for a in vectors:
        T = np.tensordot(a, T, axes=1)
    return T


@pytest.mark.parametrize("order", [0, 1, 2, 3, 4, [0.5, 0.3, 0.2, 1.0]], ids=str)
@pytest.mark.parametrize("p", NAMES)
def test_free_indices(p, order, backend):
    P = cases()[p].build(backend.array)
    weights = [0.0] * order + [1.0] if isinstance(order, int) else order
    tensors = [oracles.moment_tensor(cases()[p].atoms(), k) for k in range(len(weights))]
    for free in (0, 1, 2):
        want = [
            sum(
                w * applied(tensors[k], [a] * (k - free))
                for k, w in enumerate(weights)
                if k >= free
            )
            * np.ones((N_FEATURES,) * free)
            for a in A
        ]
        found = mm.contract(P, backend.array(A), order, free=free)
        assert backend.owns(found)
        assert found.shape == (3,) + (N_FEATURES,) * free
        np.testing.assert_allclose(backend.numpy(found), want, rtol=1e-10, atol=1e-11)
        one = mm.contract(P, backend.array(A[1]), order, free=free)
        np.testing.assert_allclose(backend.numpy(one), want[1], rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("d", [1, 2, 3, 5])
@pytest.mark.parametrize("p", NAMES)
def test_different_vectors(p, d, backend):
    vectors = np.random.default_rng(d).normal(size=(4, d, N_FEATURES)) * np.array([1.0, 30.0])
    vectors[3, 0] = 0
    P, T = cases()[p].build(backend.array), oracles.moment_tensor(cases()[p].atoms(), d)
    want = [applied(T, each) for each in vectors]
    found = mm.multilinear(P, backend.array(vectors))
    assert backend.owns(found)
    scale = np.abs(want).max()
    np.testing.assert_allclose(backend.numpy(found), want, rtol=1e-9, atol=1e-11 * scale)
    one = mm.multilinear(P, backend.array(vectors[0]))
    np.testing.assert_allclose(float(one), want[0], rtol=1e-9, atol=1e-11 * scale)


def test_cross_moments_of_two_blocks(rng):
    X = rng.normal(size=(50, 5))
    a, b = rng.normal(size=2), rng.normal(size=3)
    left, right = np.r_[a, np.zeros(3)], np.r_[np.zeros(2), b]
    found = mm.multilinear(mm.Samples(X), [left, right, right])
    np.testing.assert_allclose(found, np.mean((X[:, :2] @ a) * (X[:, 2:] @ b) ** 2), rtol=1e-11)


def partitions(items):
    """All partitions of a list into blocks."""
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for sub in partitions(rest):
        yield [[first], *sub]
        for i in range(len(sub)):
            yield [*sub[:i], [first, *sub[i]], *sub[i + 1 :]]


def cumulant_tensor(atoms, d):
    """Σ over partitions π of (-1)^(|π|-1) (|π|-1)! Π over blocks of moments, entry by entry."""
    n = len(atoms[0][1])
    moments = [oracles.moment_tensor(atoms, k) for k in range(d + 1)]
    K = np.zeros((n,) * d)
    for index in itertools.product(range(n), repeat=d):
        for blocks in partitions(list(range(d))):
            b = len(blocks)
            sign = (-1) ** (b - 1) * np.prod(np.arange(1, b))
            K[index] += sign * np.prod(
                [moments[len(x)][tuple(index[i] for i in x)] for x in blocks]
            )
    return K


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("p", [name for name in NAMES if not name.startswith("signed")])
def test_cumulants(p, d, backend):
    P, K = cases()[p].build(backend.array), cumulant_tensor(cases()[p].atoms(), d)
    dense = mm.dense_cumulant(P, d)
    assert backend.owns(dense)
    np.testing.assert_allclose(backend.numpy(dense), K, rtol=1e-9, atol=1e-10)
    found = mm.contract_cumulant(P, backend.array(A), d)
    want = [applied(K, [a] * d) for a in A]
    np.testing.assert_allclose(backend.numpy(found), want, rtol=1e-8, atol=1e-8)


def test_cumulants_of_moments_alone(rng):
    X = rng.normal(size=(40, 3)) ** 2
    rows, stored = mm.Samples(X), mm.MomentTensors.from_samples(X, 4)
    np.testing.assert_allclose(mm.dense_cumulant(stored, 4), mm.dense_cumulant(rows, 4), atol=1e-9)
    np.testing.assert_allclose(mm.dense_cumulant(rows, 2), np.cov(X.T, bias=True), atol=1e-12)
    a = rng.normal(size=3)
    for free in (1, 2):
        want = mm.contract(rows, a, 4, free=free)
        np.testing.assert_allclose(mm.contract(stored, a, 4, free=free), want, rtol=1e-9)
    with pytest.raises(ValueError, match="order 1 at least"):
        mm.contract_cumulant(rows, a, 0)
    with pytest.raises(ValueError, match="free must be 0, 1 or 2"):
        mm.contract(rows, a, 3, free=3)
    with pytest.raises(ValueError, match="1 to 16 vectors"):
        mm.multilinear(rows, np.zeros((17, 3)))


def test_hermite_moments_are_moments_without_unit_noise(rng):
    """E He_k(X) = k! times the tensor of coefficients of density over N(0, I)."""
    x = rng.normal(size=(200, 1)) + 0.3
    for k in range(1, 6):
        want = np.mean(np.polynomial.hermite_e.hermeval(x[:, 0], [0] * k + [1]))
        found = mm.contract(mm.Samples(x, noise_covariance=1.0), [1.0], k)
        np.testing.assert_allclose(found, want, rtol=1e-10)
    P = mm.Mixture([0.4, 0.6], [[0.2, 0.1], [-0.3, 0.5]], [[0.5, 1.5], [1.2, 0.9]], "diag")
    without = mm.Atoms(P.weights, P.means, P.covariances - 1, "diag")
    a = np.array([0.6, 0.8])
    z, w = np.polynomial.hermite_e.hermegauss(20)
    w = w / w.sum()
    mean, sd = P.means @ a, np.sqrt(P.covariances @ a**2)
    for k in range(1, 6):
        values = np.polynomial.hermite_e.hermeval(mean[:, None] + sd[:, None] * z, [0] * k + [1])
        np.testing.assert_allclose(mm.contract(without, a, k), P.weights @ values @ w, rtol=1e-10)
