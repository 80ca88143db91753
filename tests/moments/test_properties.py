"""Identities of the paper, on random distributions of every kind."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import momentmix as mm
from momentmix.tensors import dense

settings.register_profile("momentmix", deadline=None, max_examples=40)
settings.load_profile("momentmix")

numbers = st.floats(-2, 2, allow_subnormal=False).map(lambda x: round(x, 3))
orders = st.integers(0, 6)


@st.composite
def distributions(draw, n=None, kinds=("full", "tied", "diag", "spherical", "samples", "debiased")):
    n = draw(st.integers(1, 3)) if n is None else n
    m = draw(st.integers(1, 3))
    kind = draw(st.sampled_from(kinds))
    means = draw(arrays(float, (m, n), elements=numbers))
    raw = draw(arrays(float, m, elements=st.floats(0.1, 1)))
    L = draw(arrays(float, (m, n, n), elements=numbers))
    psd = L @ np.swapaxes(L, 1, 2)
    weights = raw / raw.sum()
    if kind == "samples":
        return mm.Samples(means, weights)
    if kind == "debiased":
        return mm.Samples(means, weights, noise_covariance=psd[0])
    covariances = {
        "full": psd,
        "tied": psd[0],
        "diag": np.abs(L[:, 0, :]),
        "spherical": np.abs(L[:, 0, 0]),
        "tied-diag": np.abs(L[0, 0, :]),
        "tied-spherical": np.abs(L[0, 0, 0]),
    }[kind]
    return mm.Mixture(weights, means, covariances, kind)


@st.composite
def pairs(draw, **options):
    n = draw(st.integers(1, 3))
    return draw(distributions(n=n, **options)), draw(distributions(n=n, **options))


def transformed(P, A=None, order=None):
    """The distribution of A X, or the same with its atoms in another order."""
    n = P.n_features
    A = np.eye(n) if A is None else A
    if isinstance(P, mm.Samples):
        order = np.arange(P.n_samples) if order is None else order
        noise = P.noise_covariance
        noise = None if noise is None else A @ noise @ A.T
        noise = None if noise is None else (noise + noise.T) / 2
        return mm.Samples(P.X[order] @ A.T, P.weights[order], noise)
    order = np.arange(P.n_components) if order is None else order
    C = P.atoms.covariance.matrices()
    C = np.broadcast_to(C, (P.n_components, n, n))[order]
    C = A @ C @ A.T
    return mm.Mixture(P.weights[order], P.means[order] @ A.T, (C + np.swapaxes(C, 1, 2)) / 2)


def scale_of(P, Q, order):
    """The size of what is summed: the same form with all signs positive is no smaller."""
    return 1 + math.sqrt(abs(mm.inner(P, P, order)) * abs(mm.inner(Q, Q, order)))


@given(pairs(), orders, st.sampled_from([-2.0, 0.5, 3.0]))
def test_scaling_has_degree_d(pair, d, c):
    P, Q = pair
    scaled = transformed(P, c * np.eye(P.n_features))
    tolerance = 1e-11 * abs(c) ** d * scale_of(P, Q, d)
    assert abs(mm.inner(scaled, Q, d) - c**d * mm.inner(P, Q, d)) < tolerance


@given(pairs(), orders, st.randoms(use_true_random=False))
def test_order_of_atoms_does_not_matter(pair, d, random):
    P, Q = pair
    order = list(range(len(P.atoms)))
    random.shuffle(order)
    shuffled = transformed(P, order=np.array(order))
    assert abs(mm.inner(shuffled, Q, d) - mm.inner(P, Q, d)) < 1e-11 * scale_of(P, Q, d)


@given(pairs(), orders, st.integers(0, 2**32 - 1))
def test_rotation_leaves_inner_products(pair, d, seed):
    P, Q = pair
    U = np.linalg.qr(np.random.default_rng(seed).normal(size=(P.n_features,) * 2))[0]
    rotated = mm.inner(transformed(P, U), transformed(Q, U), d)
    assert abs(rotated - mm.inner(P, Q, d)) < 1e-10 * scale_of(P, Q, d)


@given(pairs(), orders)
def test_symmetry(pair, d):
    P, Q = pair
    assert abs(mm.inner(P, Q, d) - mm.inner(Q, P, d)) < 1e-11 * scale_of(P, Q, d)


@given(pairs(), orders)
def test_implicit_is_dense(pair, d):
    """For samples debiased too: Ψ of indefinite covariances (Lemma A.4)."""
    P, Q = pair
    want = np.sum(mm.dense_moment(P, d) * mm.dense_moment(Q, d))
    assert abs(mm.inner(P, Q, d) - want) < 1e-11 * scale_of(P, Q, d)


@given(pairs(kinds=("samples", "diag", "full")), orders)
def test_cauchy_schwarz(pair, d):
    P, Q = pair
    bound = mm.inner(P, P, d) * mm.inner(Q, Q, d)
    assert mm.inner(P, Q, d) ** 2 <= bound * (1 + 1e-10) + 1e-12


@given(arrays(float, 3, elements=numbers), arrays(float, 3, elements=numbers), st.integers(0, 5))
def test_binomial_theorem_for_tensors(v, u, d):
    """Cor. 2.9."""
    total = sum(
        math.comb(d, k)
        * dense.sym(np.multiply.outer(dense.outer_power(v, k), dense.outer_power(u, d - k)))
        for k in range(d + 1)
    )
    np.testing.assert_allclose(total, dense.outer_power(v + u, d), rtol=1e-10, atol=1e-10)


def augment(P, omega):
    """The distribution of (X, ω), built in one more dimension."""
    n = P.n_features
    if isinstance(P, mm.Samples):
        X = np.column_stack([P.X, np.full(P.n_samples, omega)])
        noise = None
        if P.noise_covariance is not None:
            noise = np.zeros((n + 1, n + 1))
            noise[:n, :n] = P.noise_covariance
        return mm.Samples(X, P.weights, noise)
    C = np.zeros((P.n_components, n + 1, n + 1))
    C[:, :n, :n] = P.atoms.covariance.matrices()
    means = np.column_stack([P.means, np.full(P.n_components, omega)])
    return mm.Mixture(P.weights, means, C)


@given(pairs(), orders, st.sampled_from([0.3, 1.0, 2.0]))
def test_augmentation_is_weights_over_orders(pair, d, omega):
    """§4.3: one more coordinate ω, or weights C(d,k) ω^(2(d-k))."""
    P, Q = pair
    longer = augment(P, omega), augment(Q, omega)
    weights = mm.augmented_weights(d, omega)
    tolerance = 1e-11 * (scale_of(*longer, d) + scale_of(P, Q, weights))
    assert abs(mm.inner(*longer, d) - mm.inner(P, Q, weights)) < tolerance


@given(
    distributions(kinds=("full", "tied", "diag", "spherical", "tied-diag", "tied-spherical")),
    orders,
    st.integers(0, 99),
)
def test_debiased_moment_is_unbiased(Y, d, seed):
    """Thm. 5.1, exactly: X = Y + noise is a mixture of covariances Σ_j + N; its atoms taken with
    covariance Σ_j + N - N give the moment of Y, by way of samples whose expectation is known."""
    n = Y.n_features
    L = np.random.default_rng(seed).normal(size=(n, n))
    N = L @ L.T
    C = np.broadcast_to(Y.atoms.covariance.matrices(), (Y.n_components, n, n))
    X = mm.Mixture(Y.weights, Y.means, C + N)
    # The expectation over X of the estimator T̂ of one sample: Σ_k C_{d,k} (-1)^k sym(M_X ⊗ N^k).
    expectation = sum(
        (-1) ** k
        * math.comb(d, 2 * k)
        * math.factorial(2 * k)
        / (math.factorial(k) * 2**k)
        * dense.sym(_outer(mm.dense_moment(X, d - 2 * k), *[N] * k))
        for k in range(d // 2 + 1)
    )
    size = 1 + np.abs(mm.dense_moment(X, d)).max()
    np.testing.assert_allclose(expectation, mm.dense_moment(Y, d), atol=1e-10 * size)


def _outer(T, *factors):
    for factor in factors:
        T = np.multiply.outer(T, factor)
    return T


@given(st.integers(0, 5), st.integers(0, 99))
@settings(max_examples=15)
def test_debiased_samples_have_the_estimator_of_the_paper(d, seed):
    """Eq. (5.2) written out for each sample."""
    rng = np.random.default_rng(seed)
    X, L = rng.normal(size=(3, 2)), rng.normal(size=(2, 2))
    N = L @ L.T
    want = 0.0
    for x in X:
        for k in range(d // 2 + 1):
            count = math.comb(d, 2 * k) * math.factorial(2 * k) / (math.factorial(k) * 2**k)
            term = dense.sym(_outer(dense.outer_power(x, d - 2 * k), *[N] * k))
            want = want + count * (-1) ** k * term / 3
    got = mm.dense_moment(mm.Samples(X, noise_covariance=N), d)
    np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("d", range(1, 7))
def test_inner_of_weights_is_linear(d, rng):
    P = mm.Mixture([0.4, 0.6], rng.normal(size=(2, 3)), rng.random((2, 3)), "diag")
    w = rng.normal(size=d + 1)
    total = sum(w_k * mm.inner(P, P, k) for k, w_k in enumerate(w))
    np.testing.assert_allclose(mm.inner(P, P, w), total, rtol=1e-11)
