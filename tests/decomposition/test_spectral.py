"""Flattening, subspace power iteration and deflation, against dense tensors and known terms."""

import numpy as np
import pytest

import oracles
from momentmix.decomposition.subspace import decompose, flattening, halves, highest_rank, power
from momentmix.tensors.dense import pack, packed_indices


def terms(n, d, r, seed):
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(r, n))
    vectors /= np.linalg.norm(vectors, axis=1)[:, None]
    weights = rng.uniform(0.5, 1, r)
    dense = sum(w * oracles.outer_power(a, d) for w, a in zip(weights, vectors, strict=True))
    return vectors, dense


@pytest.mark.parametrize(("n", "d"), [(3, 3), (4, 4), (3, 5), (2, 6)])
def test_flattening_has_the_singular_values_of_the_full_one(n, d):
    _, dense = terms(n, d, 3, 0)
    left, right = halves(d)
    want = np.linalg.svd(dense.reshape(n**left, n**right), compute_uv=False)
    got = np.linalg.svd(flattening(pack(dense), n, d), compute_uv=False)
    np.testing.assert_allclose(got, want[: len(got)], rtol=1e-12, atol=1e-12)


def test_power_keeps_lengths_and_angles(rng):
    X = rng.normal(size=(4, 3))
    P = power(X, 3)
    np.testing.assert_allclose(P @ P.T, (X @ X.T) ** 3, rtol=1e-12, atol=1e-14)
    assert P.shape == (4, len(packed_indices(3, 3)))


@pytest.mark.parametrize(
    ("n", "d", "r"),
    [(10, 3, 5), (10, 4, 5), (6, 3, 6), (6, 4, 8), (8, 4, 20), (5, 5, 9), (3, 6, 6), (2, 3, 2)],
)
def test_decompose_finds_the_terms(n, d, r):
    vectors, dense = terms(n, d, r, 1)
    assert r <= highest_rank(n, d)
    found = decompose(pack(dense), n, d, r, np.random.default_rng(0))
    cosines = np.abs(found @ vectors.T)
    assert cosines.max(axis=0).min() > 1 - 1e-5  # each of them,
    assert len(set(cosines.argmax(axis=1))) == r  # and no one twice


def test_highest_rank():
    # n(n-1)/2 for order 4, and n for order 3 (Kileel and Pereira).
    assert [highest_rank(n, 4) for n in (3, 6, 10)] == [3, 15, 45]
    assert [highest_rank(n, 3) for n in (4, 6, 10)] == [4, 6, 10]
    assert highest_rank(2, 3) == 2
    assert highest_rank(1, 3) == 1
