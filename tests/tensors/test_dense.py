import itertools
import math

import numpy as np
import pytest
import tensorly.tenalg as tenalg

import momentmix as mm
import oracles
from momentmix.tensors import dense
from zoo import cases


@pytest.mark.parametrize("d", range(5))
def test_outer_power(d, backend, rng):
    v = rng.normal(size=3)
    got = backend.numpy(dense.outer_power(backend.array(v), d))
    want = np.array(1.0)
    for _ in range(d):
        want = np.multiply.outer(want, v)
    np.testing.assert_allclose(got, want, rtol=1e-14)


@pytest.mark.parametrize("d", range(7))
def test_sym_is_the_mean_over_permutations(d, backend, rng):
    T = rng.normal(size=(2,) * d)
    S = backend.numpy(dense.sym(backend.array(T)))
    np.testing.assert_allclose(S, oracles.sym_by_permutations(T), rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(dense.sym(S), S, rtol=1e-13)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_samples_agree_with_tensorly(order, rng):
    X = rng.normal(size=(50, 4))
    # The mean by hand: tensorly 0.10's higher_order_moment calls its batched_outer wrongly.
    want = tenalg.batched_outer([X] * order).mean(axis=0) if order > 1 else X.mean(axis=0)
    np.testing.assert_allclose(mm.dense_moment(mm.Samples(X), order), want, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("d", [2, 3, 4])
def test_gaussian_agrees_with_tensorly_outer_products(d, rng):
    """Thm. 3.1 term by term, with tensorly's outer products and all permutations."""
    mu, L = rng.normal(size=3), rng.normal(size=(3, 3))
    C = L @ L.T
    want = 0.0
    for k in range(d // 2 + 1):
        factors = [mu] * (d - 2 * k) + [C] * k
        term = tenalg.outer(factors) if len(factors) > 1 else factors[0]
        count = math.comb(d, 2 * k) * math.factorial(2 * k) / (math.factorial(k) * 2**k)
        want = want + count * oracles.sym_by_permutations(term)
    got = mm.dense_moment(mm.Mixture([1.0], mu[None], C[None]), d)
    np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.parametrize(
    "name", ["full", "tied", "diag", "spherical", "tied-diag", "tied-spherical"]
)
def test_monte_carlo(name):
    mixture = cases()[name].build(np.asarray)
    X, _ = mixture.sample(400_000, 5)
    for d in (1, 2, 3):
        exact = mm.dense_moment(mixture, d)
        estimate = mm.dense_moment(mm.Samples(X), d)
        # Six standard errors of each entry, from the data themselves.
        powers = mm.dense_moment(mm.Samples(X), 2 * d)
        variance = np.array([powers[i + i] for i in np.ndindex(*exact.shape)]).reshape(exact.shape)
        assert np.all(np.abs(exact - estimate) < 6 * np.sqrt(variance / len(X)))


def test_blocks_of_atoms_add_up(rng, monkeypatch):
    P = mm.Samples(rng.normal(size=(57, 3)), noise_covariance=rng.random((57, 3)))
    whole = mm.dense_moment(P, 4)
    monkeypatch.setattr(dense, "_BLOCK_BYTES", 2000)
    np.testing.assert_allclose(mm.dense_moment(P, 4), whole, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("n", "d"), [(1, 4), (2, 0), (2, 5), (4, 3), (5, 2), (3, 1)])
def test_packed_storage(n, d, backend, rng):
    T = np.zeros((n,) * d)
    values = iter(rng.normal(size=n**d))
    for index in oracles.multi_indices(n, d):
        value = next(values)
        for place in set(itertools.permutations(index)):
            T[place] = value
    indices = dense.packed_indices(n, d)
    assert [tuple(i) for i in indices] == oracles.multi_indices(n, d)
    assert len(indices) == dense.packed_size(n, d) == math.comb(n + d - 1, d)
    times = dense.packed_multiplicities(n, d)
    assert times.tolist() == [oracles.multiplicity(i) for i in oracles.multi_indices(n, d)]
    assert times.sum() == n**d
    packed = dense.pack(backend.array(T))
    if d:
        entries = [T[i] for i in oracles.multi_indices(n, d)]
        np.testing.assert_array_equal(backend.numpy(packed), entries)
        np.testing.assert_array_equal(backend.numpy(dense.unpack(packed, n, d)), T)
    np.testing.assert_allclose(np.sum(times * backend.numpy(packed) ** 2), np.sum(T * T))


def test_phi_and_its_coefficients(backend, rng):
    T, Z = rng.normal(size=(3, 3, 3)), rng.normal(size=(4, 3))
    want = [
        sum(T[i] * math.prod(z[list(i)]) for i in itertools.product(range(3), repeat=3)) for z in Z
    ]
    np.testing.assert_allclose(
        backend.numpy(dense.phi(backend.array(T), backend.array(Z))), want, rtol=1e-12
    )
    np.testing.assert_allclose(float(dense.phi(T, Z[0])), want[0], rtol=1e-12)
    exponents, coefficients = dense.polynomial(backend.array(T))
    values = [np.sum(backend.numpy(coefficients) * np.prod(z**exponents, axis=1)) for z in Z]
    np.testing.assert_allclose(values, want, rtol=1e-12)


def test_phi_of_a_product_is_the_product(rng):
    A, B, z = rng.normal(size=(2, 2)), rng.normal(size=(2, 2, 2)), rng.normal(size=2)
    product = np.multiply.outer(A, B)
    np.testing.assert_allclose(dense.phi(product, z), dense.phi(A, z) * dense.phi(B, z))


def test_phi_of_a_moment_is_a_contraction(rng):
    mixture, z = cases()["full"].build(np.asarray), rng.normal(size=2)
    np.testing.assert_allclose(dense.phi(mixture.moment(5), z), mm.contract(mixture, z, 5))


def test_too_large_raises_before_it_allocates():
    mixture = mm.Mixture([1.0], np.zeros((1, 1000)), [1.0], "spherical")
    with pytest.raises(MemoryError, match=r"order 4.*use inner, contract or squared_distance"):
        mixture.moment(4)
    with pytest.raises(MemoryError, match="raise max_bytes"):
        mm.dense_moment(mixture, 2, max_bytes=1000)
    with pytest.raises(MemoryError, match="contract"):
        dense.outer_power(np.ones(1000), 5)
    with pytest.raises(MemoryError, match="packed"):
        dense.unpack(np.zeros(dense.packed_size(50, 3)), 50, 3, max_bytes=10_000)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: dense.sym(np.zeros((2, 3))), "equal dimensions"),
        (lambda: dense.sym(np.full((2, 2), np.nan)), "T must be finite"),
        (lambda: dense.phi(np.zeros((2, 2)), np.zeros(3)), "z has 3"),
        (lambda: dense.unpack(np.zeros(5), 2, 3), "4 entries"),
        (lambda: dense.outer_power(np.zeros(2), -1), "at least 0"),
    ],
)
def test_bad_input(call, match):
    with pytest.raises(ValueError, match=match):
        call()
