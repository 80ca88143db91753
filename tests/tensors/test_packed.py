import numpy as np
import pytest

import oracles
from momentmix.decomposition import subspace as spectral
from momentmix.tensors import isserlis, packed
from momentmix.tensors.dense import packed_indices, packed_multiplicities
from zoo import NAMES, cases


def entries(atoms, d):
    atoms = list(atoms)
    return np.concatenate([oracles.moment_entries(atoms, k) for k in range(d + 1)])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("d", [1, 2, 5])
def test_moments_of_every_distribution(name, d):
    P = cases()[name].build(np.asarray)
    want = entries(cases()[name].atoms(), d)
    np.testing.assert_allclose(
        isserlis.atom_sums(P.atoms, np.zeros(2), d), want, rtol=1e-12, atol=1e-13
    )


@pytest.mark.parametrize(("n", "d"), [(1, 7), (3, 4)])
def test_gaussian_moments_and_their_derivatives(n, d, rng):
    means, L = rng.normal(size=(2, n)), rng.normal(size=(2, n, n))
    matrices = L @ L.swapaxes(1, 2)
    M = isserlis.gaussian_moments(means, matrices, d)
    in_means = isserlis.mean_jacobian(M, n, d)
    in_matrices = isserlis.covariance_jacobian(M, n, d)
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
    F = isserlis.hermite_factor(n, d).toarray()
    np.testing.assert_allclose((F @ S @ F.T)[1:, 1:], np.eye(len(S) - 1), atol=1e-9)
    assert F[0, 0] == 1


@pytest.mark.parametrize(("n", "d"), [(1, 3), (2, 3), (3, 2)])
def test_covariance_of_the_moments_of_a_mixture(n, d, rng):
    """M_{I+J} - M_I M_J, from the oracle's moments of the mixture."""
    weights, means, L = np.array([0.3, 0.7]), rng.normal(size=(2, n)), rng.normal(size=(2, n, n))
    matrices = L @ L.swapaxes(1, 2)
    atoms = list(zip(weights, means, matrices, strict=True))
    indices = [i for k in range(d + 1) for i in oracles.multi_indices(n, k)]
    moment = {
        i: m
        for k in range(2 * d + 1)
        for i, m in zip(oracles.multi_indices(n, k), oracles.moment_entries(atoms, k), strict=True)
    }
    want = [
        [moment[tuple(sorted(a + b))] - moment[a] * moment[b] for b in indices] for a in indices
    ]
    got = isserlis.moment_covariance(weights, means, matrices, d)
    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-11)


def test_tables_count_like_the_dense_tensors():
    t = isserlis.derivative_tables(4, 3)
    starts = packed.order_starts(4, 3)
    for k in range(4):
        rows = slice(starts[k], starts[k + 1])
        assert rows == packed.order_slice(4, k)
        np.testing.assert_array_equal(
            packed.multiplicities(4, 3)[rows], packed_multiplicities(4, k)
        )
        assert np.all(t.counts[rows].sum(axis=1) == k)


@pytest.mark.parametrize(("n", "k"), [(1, 4), (3, 1), (4, 3), (5, 2)])
def test_places_are_the_order_of_the_indices(n, k):
    indices = packed_indices(n, k)
    np.testing.assert_array_equal(packed.places(indices, n), np.arange(len(indices)))
    for row, index in enumerate(indices.tolist()):
        for s in range(k):
            shorter = index[:s] + index[s + 1 :]
            assert packed_indices(n, k - 1)[packed.removal_table(n, k)[row, s]].tolist() == shorter
        for a in range(n):
            longer = sorted([*index, a])
            assert packed_indices(n, k + 1)[packed.extension_table(n, k)[row, a]].tolist() == longer


@pytest.mark.parametrize(("n", "d"), [(1, 5), (2, 4), (3, 4)])
def test_maps_of_moments_are_moments_of_mapped_atoms(n, d, rng):
    """Adding a Gaussian, and a linear map, against the oracle's moments."""
    w, means, L = np.array([0.4, 0.6]), rng.normal(size=(2, n)), rng.normal(size=(2, n, n))
    C = L @ L.swapaxes(1, 2)
    S = entries(zip(w, means, C, strict=True), d)
    shift, M = rng.normal(size=n), rng.normal(size=(n, n))
    M = M + M.T  # indefinite: debiasing takes a covariance off
    want = entries(zip(w, means + shift, C + M, strict=True), d)
    np.testing.assert_allclose(packed.plus_gaussian(S, n, shift, M), want, rtol=1e-9, atol=1e-10)
    A = rng.normal(size=(2, n))
    want = entries(zip(w, means @ A.T, A @ C @ A.T, strict=True), d)
    np.testing.assert_allclose(packed.linear_map(S, A), want, rtol=1e-9, atol=1e-10)


TABLES = {
    "indices": lambda: packed_indices(3, 4),
    "multiplicities": lambda: packed_multiplicities(3, 4),
    "order_starts": lambda: packed.order_starts(3, 4),
    "entry_orders": lambda: packed.entry_orders(3, 4),
    "all_multiplicities": lambda: packed.multiplicities(3, 4),
    "removed": lambda: packed.removal_table(3, 4),
    "extended": lambda: packed.extension_table(3, 4),
    "square_places": lambda: packed.square_places(3),
    "counts": lambda: isserlis.derivative_tables(3, 4).counts,
    "lower": lambda: isserlis.derivative_tables(3, 4).lower,
    "pairs": lambda: isserlis.pair_tables(3, 4)[1],
    "hermite": lambda: isserlis.hermite_factor(3, 4).data,
    "roots": lambda: spectral._roots(3, 4),
    "places": lambda: spectral._places(3, 4),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_that_are_kept_refuse_writes(name):
    """Whoever wrote into one would change every later result."""
    table = TABLES[name]()
    with pytest.raises(ValueError, match="read-only"):
        table[...] = 0
