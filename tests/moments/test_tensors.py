"""MomentTensors: the same distribution as the rows that they were made of."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import momentmix as mm
import oracles
from momentmix.distributions.moment_tensors import MomentTensors
from test_every_pair import (
    ORDERS,
    POINTS,
    assert_gradient,
    expected_gradient,
    expected_inner,
    moments,
    weights_of,
)
from zoo import N_FEATURES, NAMES, cases

SAMPLES = [name for name in NAMES if cases()[name].kind == "samples"]


def tensors(name, backend, order=5):
    weights, X, noise = (None if a is None else backend.array(a) for a in cases()[name].parameters)
    return MomentTensors.from_samples(X, order, weights, noise_covariance=noise)


def naive(X, k, weights=None):
    """Mean of the outer powers of the rows, entry by entry."""
    w = np.ones(len(X)) if weights is None else weights
    T = np.empty((X.shape[1],) * k)
    for index in itertools.product(range(X.shape[1]), repeat=k):
        T[index] = np.sum(w * np.prod(X[:, list(index)], axis=1)) / w.sum()
    return T


# The contract of a distribution.


@pytest.mark.parametrize("q", SAMPLES)
@pytest.mark.parametrize("label", ORDERS)
def test_inner_and_gradient_with_every_distribution(q, label, backend):
    T = tensors(q, backend)
    for p in NAMES:
        P = cases()[p].build(backend.array)
        want, scale = expected_inner(p, q, label)
        value, gradient = mm.inner_grad(P, T, ORDERS[label])
        assert backend.owns(value)
        np.testing.assert_allclose(float(value), want, rtol=1e-11, atol=1e-12 * scale, err_msg=p)
        assert_gradient(backend, gradient, expected_gradient(p, q, label), scale)
        for pair in ((P, T), (T, P)):
            np.testing.assert_allclose(
                float(mm.inner(*pair, ORDERS[label])), want, rtol=1e-11, atol=1e-12 * scale
            )


@pytest.mark.parametrize("q", SAMPLES)
@pytest.mark.parametrize("label", ["1", "4", "augmented"])
def test_squared_distance_and_two_tensors(q, label, backend):
    T, weights = tensors(q, backend), weights_of(ORDERS[label])
    for p in NAMES:
        gap = [moments(p, k) - moments(q, k) for k in range(len(weights))]
        want = sum(w * oracles.inner(gap[k], gap[k], 2, k) for k, w in enumerate(weights))
        scale = expected_inner(p, p, label)[0] + expected_inner(q, q, label)[0]
        P = cases()[p].build(backend.array)
        distance = mm.squared_distance(P, T, ORDERS[label])
        np.testing.assert_allclose(float(distance), want, rtol=1e-9, atol=1e-12 * scale)
        if p in SAMPLES:
            other = tensors(p, backend)
            np.testing.assert_allclose(
                float(mm.inner(other, T, ORDERS[label])), expected_inner(p, q, label)[0], rtol=1e-11
            )
            np.testing.assert_allclose(
                float(mm.squared_distance(other, T, ORDERS[label])),
                want,
                rtol=1e-10,
                atol=1e-13 * scale,
            )


@pytest.mark.parametrize("q", SAMPLES)
def test_contract_and_dense(q, backend):
    T, weights = tensors(q, backend), weights_of(ORDERS["weights"])
    points = backend.array(POINTS)
    values, in_points, in_T = mm.contract_grad(T, points, ORDERS["weights"])
    assert in_T is None
    assert backend.owns(values)
    zero = np.zeros((N_FEATURES, N_FEATURES))
    for i, a in enumerate(POINTS):
        want = oracles.weighted_inner([(1.0, a, zero)], cases()[q].atoms(), weights)
        np.testing.assert_allclose(float(values[i]), want, rtol=1e-11)
        slope = [
            oracles.complex_step(
                lambda x: oracles.weighted_inner([(1.0, x, zero)], cases()[q].atoms(), weights),
                a,
                e,
            )
            for e in np.eye(N_FEATURES)
        ]
        np.testing.assert_allclose(backend.numpy(in_points)[i], slope, rtol=1e-10)
    for k in range(6):
        want = oracles.moment_tensor(cases()[q].atoms(), k)
        np.testing.assert_allclose(mm.dense_moment(T, k), want, rtol=1e-11, atol=1e-13)


def test_gradient_is_that_of_samples(rng):
    """A larger case, in which blocks of atoms and of rows take part."""
    X = rng.normal(size=(3000, 5)) + 1
    means, L = rng.normal(size=(4, 5)), rng.normal(size=(4, 5, 5))
    mixture = mm.Mixture(np.full(4, 0.25), means, L @ L.swapaxes(1, 2) / 5)
    weights = mm.augmented_weights(6, 0.8)
    value, gradient = mm.inner_grad(mixture, MomentTensors.from_samples(X, 6), weights)
    want, expected = mm.inner_grad(mixture, mm.Samples(X), weights)
    np.testing.assert_allclose(value, want, rtol=1e-11)
    for got, other in zip(gradient, expected, strict=True):
        np.testing.assert_allclose(got, other, rtol=1e-9, atol=1e-11 * np.abs(other).max())


# Accumulating.


@pytest.mark.parametrize(("n", "d"), [(1, 1), (1, 6), (2, 5), (3, 4), (4, 3), (6, 2)])
def test_against_entrywise_sums(n, d, rng, backend):
    X, w = rng.normal(size=(700, n)) + 3, rng.random(700)
    T = MomentTensors(n, d)
    for rows in (slice(0, 1), slice(1, 600), slice(600, 700)):
        T.update(backend.array(X[rows]), backend.array(w[rows]))
    assert T.count == 700
    assert T.weight == pytest.approx(w.sum())
    for k in range(d + 1):
        np.testing.assert_allclose(T.tensor(k), naive(X, k, w), rtol=1e-11)
        mean = np.average(X, axis=0, weights=w)
        want = naive(X - mean, k, w)
        np.testing.assert_allclose(
            T.tensor(k, central=True), want, atol=1e-11 * (1 + abs(want)).max()
        )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_data_far_from_the_origin(dtype, rng):
    """At 1e6 ± 1 the central moments of order 4 are right to 1e-8."""
    Z = np.asarray(rng.normal(size=(200_000, 3)), dtype=dtype)
    X = (Z + np.asarray(1e6, dtype=dtype)).astype(dtype)
    exact = X.astype(np.float64) - 1e6
    exact -= exact.mean(axis=0)
    want = np.einsum("ia,ib,ic,id->abcd", exact, exact, exact, exact, optimize=True) / len(X)
    parts = [MomentTensors.from_samples(part, 4) for part in np.array_split(X, 7)]
    one, merged = MomentTensors.from_samples(X, 4), parts[0]
    for part in parts[1:]:
        merged = merged + part
    for T in (one, merged):
        got = T.tensor(4, central=True)
        assert np.max(np.abs(got - want)) < 1e-8 * np.max(np.abs(want))


@pytest.mark.parametrize("missing", ["error", "pairwise"])
@pytest.mark.parametrize("first", [[0], [4999], [0, 1, 2]])
def test_a_first_batch_far_from_the_rest(first, missing, rng):
    """One row at the origin, and all others at 1e6 ± 1: no digits are lost by coming second."""
    X = rng.normal(size=(5000, 2)) + 1e6
    lonely = np.zeros((1, 2))
    T = MomentTensors(2, 4, missing=missing).update(lonely)
    other = MomentTensors.from_samples(X, 4, missing=missing)
    rows = np.concatenate([lonely, X])
    centred = (rows - rows.mean(axis=0)).astype(np.longdouble)
    want = np.array(
        [[np.mean(centred[:, a] ** 2 * centred[:, b] ** 2) for b in (0, 1)] for a in (0, 1)]
    )
    batches = T.copy().update(X[first]).update(np.delete(X, first, axis=0))
    for both in (T + other, other + T, batches):
        got = both.tensor(4, central=True)
        got = [[got[a, a, b, b] for b in (0, 1)] for a in (0, 1)]
        np.testing.assert_allclose(got, want, rtol=1e-11)


def test_float32_accumulates_in_float64(rng, backend):
    X = rng.normal(size=(100_000, 2)).astype("float32")
    T = MomentTensors.from_samples(backend.array(X, "float32"), 4)
    want = naive(X.astype(np.float64), 4)
    np.testing.assert_allclose(T.tensor(4), want, rtol=1e-11, atol=1e-12)


def test_float32_with_gaps_is_exact_too(rng):
    X = (1e6 + rng.normal(size=(5000, 2))).astype("float32")
    T = MomentTensors.from_samples(X, 2, missing="pairwise")
    np.testing.assert_allclose(T.mean, X.astype(float).mean(axis=0), rtol=1e-13)


def test_rows_of_weight_zero_do_not_matter(rng):
    X, w = rng.normal(size=(1000, 2)), np.ones(1000)
    far = X.copy()
    far[0], w[0] = 1e9, 0
    got = MomentTensors.from_samples(far, 4, w).tensor(4, central=True)
    want = MomentTensors.from_samples(X[1:], 4).tensor(4, central=True)
    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-10)


def test_float32_sees_the_mixture_in_its_own_precision(rng, backend):
    T = MomentTensors.from_samples(rng.normal(size=(50, 2)), 3)
    means = backend.array(rng.normal(size=(2, 2)), "float32")
    half = backend.array([0.5, 0.5], "float32")
    mixture = mm.Mixture(half, means, backend.array([0.1, 0.2], "float32"), "spherical")
    value, gradient = mm.inner_grad(mixture, T, 3)
    assert backend.owns(value, "float32")
    assert all(backend.owns(part, "float32") for part in gradient)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(1, 40), min_size=2, max_size=7),
    st.permutations(range(7)),
    st.integers(0, 5),
    st.floats(0, 1e4),
)
def test_merging_in_any_order_and_grouping(sizes, order, pivot, offset):
    rng = np.random.default_rng(sum(sizes))
    batches = [rng.normal(size=(p, 2)) * (i + 1) + offset * i for i, p in enumerate(sizes)]
    parts = [MomentTensors.from_samples(X, 4) for X in batches]
    shuffled = [parts[i] for i in order if i < len(parts)]
    cut = 1 + pivot % (len(parts) - 1)

    def total(some):
        result = some[0]
        for part in some[1:]:
            result = result + part
        return result

    straight = MomentTensors.from_samples(np.concatenate(batches), 4)
    for T in (total(parts), total(shuffled[:cut]) + total(shuffled[cut:])):
        assert T.count == sum(sizes)
        for k in (1, 2, 3, 4):
            want = straight.tensor(k, central=True)
            scale = np.abs(straight.tensor(2, central=True)).max() ** (k / 2)
            got = T.tensor(k, central=True)
            assert np.max(np.abs(got - want)) <= 1e-10 * scale


def test_noise_of_batches_adds_up(rng):
    X = rng.normal(size=(60, 2))
    each = rng.random((60, 2))
    whole = MomentTensors.from_samples(X, 4, noise_covariance=each)
    parts = MomentTensors(2, 4).update(X[:20], noise_covariance=each[:20])
    parts.update(X[20:], noise_covariance=each[20:])
    np.testing.assert_allclose(parts.tensor(4), whole.tensor(4), rtol=1e-11)
    np.testing.assert_allclose(
        whole.tensor(4), mm.dense_moment(mm.Samples(X, noise_covariance=each), 4), rtol=1e-10
    )


# Missing values.


def present_mean(X, index):
    product = np.prod(X[:, list(index)], axis=1)
    return np.nanmean(product)


@pytest.mark.parametrize("offset", [0.0, 50.0])
def test_pairwise_averages_over_rows_with_all_features_present(offset, rng, backend):
    X = rng.normal(size=(400, 3)) + offset
    X[rng.random(X.shape) < 0.2] = np.nan
    T = MomentTensors(3, 4, missing="pairwise")
    for part in (X[:1], X[1:150], X[150:]):
        T.update(backend.array(part))
    for k in (1, 2, 3, 4):
        got = T.tensor(k)
        for index in itertools.combinations_with_replacement(range(3), k):
            np.testing.assert_allclose(got[index], present_mean(X, index), rtol=1e-10)
    centred = X - np.nanmean(X, axis=0)
    got = T.tensor(3, central=True)
    for index in itertools.combinations_with_replacement(range(3), 3):
        np.testing.assert_allclose(got[index], present_mean(centred, index), rtol=1e-8, atol=1e-9)


def test_pairwise_without_missing_values_is_the_plain_average(rng):
    X, w, noise = rng.normal(size=(90, 2)), rng.random(90), np.array([[0.3, 0.1], [0.1, 0.2]])
    plain = MomentTensors.from_samples(X, 4, w, noise_covariance=noise)
    pairwise = MomentTensors.from_samples(X, 4, w, noise_covariance=noise, missing="pairwise")
    np.testing.assert_allclose(plain.tensor(4), pairwise.tensor(4), rtol=1e-10)
    both = pairwise + MomentTensors.from_samples(X + 9, 4, missing="pairwise")
    assert both.count == 180


def test_pairwise_takes_noise_out_where_there_is_a_value(rng):
    """The covariance of two features loses the noise's covariance, from their common rows."""
    X = rng.normal(size=(50, 2))
    X[:20, 0] = np.nan
    N = np.array([[0.5, 0.2], [0.2, 0.4]])
    T = MomentTensors.from_samples(X, 2, noise_covariance=N, missing="pairwise")
    want = [[np.nanmean(X[:, a] * X[:, b]) - N[a, b] for b in (0, 1)] for a in (0, 1)]
    np.testing.assert_allclose(T.tensor(2), want, rtol=1e-11)


def test_features_never_seen_together_are_named(rng):
    X = rng.normal(size=(10, 2))
    X[:5, 0], X[5:, 1] = np.nan, np.nan
    T = MomentTensors.from_samples(X, 2, missing="pairwise")
    with pytest.raises(ValueError, match=r"no row has values of all the features \[0, 1\]"):
        T.tensor(2)


# Files.


@pytest.mark.parametrize("missing", ["error", "pairwise"])
def test_save_and_load(missing, tmp_path, rng):
    X = rng.normal(size=(40, 3))
    T = MomentTensors.from_samples(X, 3, missing=missing)
    T.save(tmp_path / "moments.npz")
    back = MomentTensors.load(tmp_path / "moments.npz")
    assert (back.count, back.order, back.missing) == (40, 3, missing)
    np.testing.assert_array_equal(back.tensor(3), T.tensor(3))
    assert sorted(f.name for f in tmp_path.iterdir()) == ["moments.npz"]


def test_damaged_and_hostile_files_are_refused(tmp_path, rng):
    path = tmp_path / "moments.npz"
    T = MomentTensors.from_samples(rng.normal(size=(40, 3)), 3)
    T.save(path)
    good = path.read_bytes()
    for bad in (b"", b"PK", good[: len(good) // 2], good[:200] + b"\0" * 40 + good[240:]):
        path.write_bytes(bad)
        with pytest.raises(ValueError, match="does not hold moments"):
            MomentTensors.load(path)
    states = [
        {**T.state(), "version": np.array(99)},
        {**T.state(), "format": np.array("other")},
        {**T.state(), "sums": T.state()["sums"][:-1]},
        {**T.state(), "sums": np.full_like(T.state()["sums"], np.nan)},
        {**T.state(), "count": np.array(-1)},
        {**T.state(), "sums": np.array([{"a": 1}] * 20, dtype=object)},  # pickled
        {k: v for k, v in T.state().items() if k != "centre"},
    ]
    for state in states:
        np.savez(path, **state)
        with pytest.raises(ValueError, match="does not hold moments"):
            MomentTensors.load(path)
    with pytest.raises(FileNotFoundError):
        MomentTensors.load(tmp_path / "nowhere.npz")


# Bad input.


def test_bad_rows_are_named_and_change_nothing(rng):
    X = rng.normal(size=(30, 2))
    T = MomentTensors.from_samples(X, 3)
    before = T.tensor(3)
    bad = X.copy()
    bad[7, 1] = np.nan
    with pytest.raises(ValueError, match="row 7, column 1 of X is nan"):
        T.update(bad)
    bad[7, 1] = np.inf
    with pytest.raises(ValueError, match="row 7, column 1 of X is inf"):
        T.update(bad)
    with pytest.raises(ValueError, match="overflow"):
        T.update(X * 1e150)
    with pytest.raises(ValueError, match="3 column"):
        T.update(np.zeros((4, 3)))
    with pytest.raises(ValueError, match="29 entries for 30 rows"):
        T.update(X, np.ones(29))
    with pytest.raises(ValueError, match="not negative"):
        T.update(X, -np.ones(30))
    assert T.count == 30
    np.testing.assert_array_equal(T.tensor(3), before)


def test_errors_say_what_to_do(rng):
    T = MomentTensors.from_samples(rng.normal(size=(30, 2)), 3)
    with pytest.raises(ValueError, match="kept up to order 3"):
        T.tensor(4)
    with pytest.raises(ValueError, match="kept up to order 3"):
        mm.contract(T, [1.0, 2.0], 4)
    with pytest.raises(ValueError, match="no rows yet"):
        MomentTensors(2, 3).tensor(2)
    with pytest.raises(TypeError, match="exchange the two"):
        mm.inner_grad(T, mm.Samples(np.ones((2, 2))), 2)
    with pytest.raises(ValueError, match="cannot be added"):
        T.merge(MomentTensors(2, 4))
    with pytest.raises(MemoryError, match="lower the order"):
        MomentTensors(1000, 4)
    with pytest.raises(ValueError, match="'error' or 'pairwise'"):
        MomentTensors(2, 3, missing="drop")
    with pytest.raises(ValueError, match="at least 1"):
        MomentTensors(0, 3)
    with pytest.raises(TypeError, match="MomentTensors"):
        T.merge(3)
    assert T.update(np.empty((0, 2))).count == 30


def test_what_is_held_cannot_be_written_into(rng):
    T = MomentTensors.from_samples(rng.normal(size=(30, 2)), 3)
    state = T.state()
    for array in (T.about([0.0, 0.0]), state["centre"], state["sums"]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
