import numpy as np
import pytest

import oracles
from momentmix import packed
from momentmix.dense import packed_multiplicities
from zoo import NAMES, cases


def entries(atoms, d):
    return np.concatenate([oracles.moment_entries(atoms, k) for k in range(d + 1)])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("d", [1, 2, 5])
def test_moments_of_every_distribution(name, d):
    P = cases()[name].build(np.asarray)
    want = entries(cases()[name].atoms(), d)
    np.testing.assert_allclose(packed.atom_moments(P.atoms, d), want, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(("n", "d"), [(1, 7), (3, 4)])
def test_gaussian_moments_and_their_derivatives(n, d, rng):
    means, L = rng.normal(size=(2, n)), rng.normal(size=(2, n, n))
    matrices = L @ L.swapaxes(1, 2)
    M = packed.gaussian_moments(means, matrices, d)
    in_means, in_matrices = packed.moment_jacobian(M, n, d)
    step, square = rng.normal(size=n), rng.normal(size=(n, n))
    square = square + square.T
    for j in range(2):
        want = entries([(1.0, means[j], matrices[j])], d)
        np.testing.assert_allclose(M[j], want, rtol=1e-11, atol=1e-12)
        slope = oracles.complex_step(
            lambda x, j=j: entries([(1.0, x, matrices[j])], d), means[j], step
        )
        np.testing.assert_allclose(in_means[j] @ step, slope, rtol=1e-10, atol=1e-11)
        slope = oracles.complex_step(
            lambda x, j=j: entries([(1.0, means[j], x)], d), matrices[j], square
        )
        got = np.tensordot(in_matrices[j], square, axes=2)
        np.testing.assert_allclose(got, slope, rtol=1e-10, atol=1e-11)


def test_blocks_of_rows_add_up(rng):
    X, w = rng.normal(size=(30_000, 6)), rng.dirichlet(np.ones(30_000))
    t = packed.tables(6, 4)
    whole = packed.sample_moments(X, w, 4)
    parts = sum(
        w[i : i + 1000].sum()
        * packed.sample_moments(X[i : i + 1000], w[i : i + 1000] / w[i : i + 1000].sum(), 4)
        for i in range(0, 30_000, 1000)
    )
    assert 8 * 30_000 * len(t.orders) > 8 << 20  # more than one block
    np.testing.assert_allclose(whole, parts, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(("n", "d"), [(1, 6), (2, 4), (3, 3)])
def test_hermite_moments_are_uncorrelated_under_the_normal(n, d):
    """F S Fᵀ = I, S the covariance of the moments of N(0, I), from the oracle's moments."""
    normal = [(1.0, np.zeros(n), np.eye(n))]
    indices = [i for k in range(d + 1) for i in oracles.multi_indices(n, k)]
    moment = {
        i: m
        for k in range(2 * d + 1)
        for i, m in zip(oracles.multi_indices(n, k), oracles.moment_entries(normal, k), strict=True)
    }
    S = np.array(
        [[moment[tuple(sorted(a + b))] - moment[a] * moment[b] for b in indices] for a in indices]
    )
    F = packed.hermite_factor(n, d).toarray()
    np.testing.assert_allclose((F @ S @ F.T)[1:, 1:], np.eye(len(S) - 1), atol=1e-9)
    assert F[0, 0] == 1


def test_tables_count_like_the_dense_tensors():
    t = packed.tables(4, 3)
    for k in range(4):
        rows = slice(t.starts[k], t.starts[k + 1])
        np.testing.assert_array_equal(t.multiplicities[rows], packed_multiplicities(4, k))
        assert np.all(t.counts[rows].sum(axis=1) == k)
