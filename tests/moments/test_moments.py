"""Tiles, threads and the sizes that the contract test is too small for."""

import ast
import multiprocessing
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

import momentmix as mm
from momentmix.moments import bilinear, cumulants, functions
from momentmix.support import parallel as _parallel
from momentmix.support.protocols import Array, ArrayFunctions, FloatInfo, LinearAlgebra
from zoo import NAMES, cases

WEIGHTS = [1.0, 0.5, -0.2, 0.1, 0.05]
run = bilinear.bilinear


def naive_diag(mixture, X, weights):
    """The data term with plain formulas on whole arrays (Algorithm 2 with its errata mended)."""
    kappa_1, kappa_2 = X @ mixture.means.T, (X * X) @ mixture.covariances.T
    bell = [np.ones_like(kappa_1), kappa_1]
    for k in range(2, len(weights)):
        bell.append(kappa_1 * bell[-1] + (k - 1) * kappa_2 * bell[-2])
    value = sum(w * b for w, b in zip(weights, bell, strict=True))
    R1 = sum(k * weights[k] * bell[k - 1] for k in range(1, len(weights)))
    R2 = sum(k * (k - 1) / 2 * weights[k] * bell[k - 2] for k in range(2, len(weights)))
    scale = mixture.weights[:, None] / len(X)
    return value.mean(axis=0), scale * (R1.T @ X), scale * (R2.T @ (X * X))


@pytest.mark.parametrize("p", [1, 63, 257, 5000, 30_011])
def test_many_rows(p, rng):
    n, m = 7, 20
    mixture = mm.Mixture(np.full(m, 1 / m), rng.normal(size=(m, n)), rng.random((m, n)), "diag")
    X = rng.normal(size=(p, n))
    want = naive_diag(mixture, X, WEIGHTS)
    value, gradient = mm.inner_grad(mixture, mm.Samples(X), WEIGHTS)
    np.testing.assert_allclose(value, want[0] @ mixture.weights, rtol=1e-11)
    for got, expected in zip(gradient, want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        mm.contract(mm.Samples(X), mixture.means, 3),
        np.mean((X @ mixture.means.T) ** 3, axis=0),
        rtol=1e-9,
        atol=1e-12,
    )


@pytest.mark.parametrize("q", ["full", "diag", "weighted", "noise-matrix", "noise-each-matrix"])
@pytest.mark.parametrize("p", NAMES)
def test_tiles_add_up(p, q, monkeypatch):
    P, Q = cases()[p].build(np.asarray), cases()[q].build(np.asarray)
    whole = mm.inner_grad(P, Q, WEIGHTS)
    monkeypatch.setattr(bilinear, "TILE_BYTES", 1)
    assert bilinear._tile_shape(P.atoms, Q.atoms, 4, 1) == (1, 1)
    split = mm.inner_grad(P, Q, WEIGHTS)
    np.testing.assert_allclose(split[0], whole[0], rtol=1e-12)
    for a, b in zip(whole[1], split[1], strict=True):
        if a is None:
            assert b is None
            continue
        for of_whole, of_split in zip(
            *(x if isinstance(x, tuple) else (x,) for x in (a, b)), strict=True
        ):
            np.testing.assert_allclose(of_split, of_whole, rtol=1e-11, atol=1e-13)


def test_slabs_are_used_and_agree(rng):
    X, A = rng.normal(size=(2048, 9)), rng.normal(size=(4, 9))
    assert cumulants._slab_height(2048, 36) == 256
    assert cumulants._slab_height(2000, 36) == 250
    assert cumulants._slab_height(2003, 36) is None
    assert cumulants._slab_height(2048, 100_000) is None
    np.testing.assert_allclose(cumulants._rows_times(X, A, np), A @ X.T, rtol=1e-12, atol=1e-13)
    G = rng.normal(size=(2048, 4)).T
    np.testing.assert_allclose(cumulants._sum_over_rows(G, X, np), G @ X, rtol=1e-11, atol=1e-12)


def test_blocks_of_features_add_up(rng, monkeypatch):
    n = 23
    P, Q = (
        mm.Mixture([0.4, 0.6], rng.normal(size=(2, n)), rng.random((2, n)), "diag")
        for _ in range(2)
    )
    whole = mm.inner_grad(P, Q, WEIGHTS)
    monkeypatch.setattr(cumulants, "FEATURE_BLOCK", 5)
    split = mm.inner_grad(P, Q, WEIGHTS)
    np.testing.assert_allclose(split[0], whole[0], rtol=1e-12)
    for a, b in zip(whole[1], split[1], strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-11, atol=1e-13)


def test_samples_against_samples(rng):
    X, Y = rng.normal(size=(700, 3)), rng.normal(size=(900, 3))
    want = np.mean((X @ Y.T) ** 4)
    np.testing.assert_allclose(mm.inner(mm.Samples(X), mm.Samples(Y), 4), want, rtol=1e-11)
    gradient = mm.inner_grad(mm.Samples(X), mm.Samples(Y), 4)[1]
    np.testing.assert_allclose(gradient.means, 4 * ((X @ Y.T) ** 3) @ Y / 900 / 700, rtol=1e-9)


def test_distance_to_itself_is_zero_to_rounding():
    for name in NAMES:
        P = cases()[name].build(np.asarray)
        assert 0 <= mm.squared_distance(P, P, 4) <= 1e-14 * mm.inner(P, P, 4)


def test_memory_does_not_grow_with_the_rows(rng):
    import tracemalloc

    mixture = mm.Mixture(np.full(20, 0.05), rng.normal(size=(20, 50)), rng.random((20, 50)), "diag")
    peaks = []
    for p in (20_000, 80_000):
        samples = mm.Samples(rng.normal(size=(p, 50)))
        tracemalloc.start()
        mm.inner_grad(mixture, samples, WEIGHTS)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert max(peaks) < 64 * 2**20
    # How many threads are at their peak at once is chance, so the bound is half the growth of X.
    assert peaks[1] - peaks[0] < 12 * 2**20


def blas_threads():
    return [i["num_threads"] for i in threadpool_info() if i["user_api"] == "blas"]


def test_calls_from_many_threads_agree_and_restore_the_blas(rng):
    mixture = cases()["diag"].build(np.asarray)
    samples = [mm.Samples(rng.normal(size=(40_000, 2))) for _ in range(6)]
    want = [mm.inner(mixture, s, 4) for s in samples]
    before = blas_threads()
    results = [None] * len(samples)

    def work(i):
        for _ in range(5):
            results[i] = mm.inner(mixture, samples[i], 4)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(samples))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == want
    assert blas_threads() == before


def test_the_users_thread_limit_holds(rng, monkeypatch):
    with threadpool_limits(1):
        assert _parallel.worker_count(np) == 1
    with _parallel.single_threaded_blas():
        assert set(blas_threads()) == {1}


@pytest.mark.parametrize("workers", [1, 3])
def test_parallel_map(workers):
    assert _parallel.parallel_map(lambda i: i * i, range(50), workers) == [i * i for i in range(50)]
    seen = []

    def fails(i):
        seen.append(i)
        if i == 3:
            raise KeyError("three")
        return i

    with pytest.raises(KeyError, match="three"):
        _parallel.parallel_map(fails, range(100_000), workers)
    assert len(seen) < 100_000


def _child(queue):
    rng = np.random.default_rng(0)
    samples = mm.Samples(rng.normal(size=(50_000, 2)))
    queue.put(float(mm.inner(cases()["diag"].build(np.asarray), samples, 4)))


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_its_own_threads():
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    _child(queue)  # the pool of this process exists now
    process = context.Process(target=_child, args=(queue,))
    process.start()
    assert queue.get(timeout=60) == queue.get(timeout=60)
    process.join(60)


def test_augmented_weights():
    np.testing.assert_allclose(mm.augmented_weights(3, 2.0), [64, 48, 12, 1])
    np.testing.assert_allclose(mm.augmented_weights(2, 0.0), [0, 0, 1])
    assert mm.augmented_weights(0, 0.5).tolist() == [1.0]
    with pytest.raises(ValueError, match="omega must be finite"):
        mm.augmented_weights(2, np.inf)


def test_import_is_light():
    heavy = "{'torch', 'matplotlib', 'dask'}"
    code = f"import sys, momentmix; print(sorted({heavy} & set(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def imported(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


def test_oracles_share_no_code_with_the_package():
    assert not any(
        "momentmix" in name for name in imported(Path(__file__).parents[1] / "oracles.py")
    )


def test_libraries_have_all_that_the_types_name(backend):
    xp, always = backend.xp, vars(FloatInfo).keys() - {"eps", "max"}
    pairs = (ArrayFunctions, xp), (LinearAlgebra, xp.linalg), (Array, backend.array([[0.0]]))
    for protocol, there in pairs:
        names = vars(protocol).keys() - always
        assert len(names) > 5
        assert [name for name in names if not hasattr(there, name)] == []


@pytest.mark.parametrize("p", NAMES)
def test_no_vectors(p, backend):
    P, none = cases()[p].build(backend.array), backend.array(np.empty((0, 2)))
    assert mm.contract(P, none, 3).shape == (0,)
    values, in_points, in_P = mm.contract_grad(P, none, [1.0, 1.0, 1.0, 1.0])
    assert (values.shape, in_points.shape) == ((0,), (0, 2))
    assert not np.any(backend.numpy(in_P.means))


def points_of_type(kind, rng, m=3, n=4):
    shapes = {"full": (m, n, n), "tied": (n, n), "diag": (m, n), "spherical": (m,)}
    return rng.normal(size=(m, n)), np.zeros(shapes[kind])


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
@pytest.mark.parametrize("order", [1, 2, 3, 4, 6, [0.5, 1.0, 0.5, 0.2, 0.1, 0.3]])
def test_covariances_that_are_zero_are_recognised(kind, order, rng, monkeypatch):
    """The kernel for any pair, which covariances just above 0 take, gives the same numbers."""
    means, zeros = points_of_type(kind, rng)
    L = rng.normal(size=(4, 4))
    Q = mm.Samples(rng.normal(size=(9, 4)), noise_covariance=L @ L.T / 4)
    near = zeros + 1e-9 * (np.eye(4) if kind in ("full", "tied") else 1.0)
    want = mm.inner_grad(mm.Mixture([0.5, 0.3, 0.2], means, near, kind), Q, order)
    P = mm.Mixture([0.5, 0.3, 0.2], means, zeros, kind)
    monkeypatch.setattr(cumulants, "_matrix_pairs", None)
    monkeypatch.setattr(cumulants, "_diagonal_pairs", None)
    value, gradient = mm.inner_grad(P, Q, order)
    np.testing.assert_allclose(mm.inner(P, Q, order), value, rtol=1e-12)
    for got, expected in zip((value, *gradient), (want[0], *want[1]), strict=True):
        size = np.abs(expected).max()
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-7 * size)


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad=True to a scalar")
def test_derivatives_in_covariances_that_are_zero_still_flow():
    covariances = torch.zeros(2, requires_grad=True, dtype=torch.float64)
    means = torch.tensor([[1.0, 2.0], [0.5, -1.0]], dtype=torch.float64)
    P = mm.Mixture(torch.tensor([0.4, 0.6], dtype=torch.float64), means, covariances, "spherical")
    Q = mm.Mixture([0.4, 0.6], means.numpy(), [0.0, 0.0], "spherical")
    noise = mm.Samples(torch.tensor([[1.0, 1.0], [0.0, 2.0]]).double(), noise_covariance=0.3)
    mm.inner(P, noise, 4).backward()
    like = mm.Samples(np.array([[1.0, 1.0], [0.0, 2.0]]), noise_covariance=0.3)
    want = mm.inner_grad(Q, like, 4)[1].covariances
    np.testing.assert_allclose(covariances.grad.numpy(), want, rtol=1e-10)


def test_the_constant_of_samples_is_computed_once(rng, monkeypatch):
    P, Q = cases()["diag"].build(np.asarray), mm.Samples(rng.normal(size=(50, 2)))
    first = mm.squared_distance(P, Q, 3)
    pairs = []
    monkeypatch.setattr(functions, "bilinear", lambda *args: pairs.append(args) or run(*args))
    assert mm.squared_distance(P, Q, 3) == first
    assert all(len(a) < 50 or len(b) < 50 for a, b, *_ in pairs)
    assert mm.squared_distance(P, Q, 4) != first


def test_contractions_need_no_gradient_in_the_samples(rng, monkeypatch):
    Q, A = mm.Samples(rng.normal(size=(50, 2))), rng.normal(size=(3, 2))
    value, in_A, in_Q = mm.contract_grad(Q, A, 3)
    assert in_Q.means.shape == (50, 2)
    sizes = []
    monkeypatch.setattr(
        functions, "bilinear", lambda P, *args: sizes.append(len(P)) or run(P, *args)
    )
    again = mm.contract_grad(Q, A, 3, parameters=False)
    np.testing.assert_array_equal(again[0], value)
    np.testing.assert_array_equal(again[1], in_A)
    assert again[2] is None
    assert sizes == [3]


def test_orders_whose_factorials_overflow(rng):
    P, Q = cases()["diag"].build(np.asarray), mm.Samples([[0.5, 0.8]])
    with pytest.raises(ValueError, match=r"order 171 is too high .* at most 170"):
        mm.inner(P, P, 171)
    with pytest.raises(ValueError, match="order 200 is too high"):
        mm.inner_grad(cases()["full"].build(np.asarray), P, 200)
    np.testing.assert_allclose(float(mm.inner(Q, Q, 171)), 0.89**171, rtol=1e-12)


def test_derivatives_of_jax_reach_through(rng):
    """Where JAX is installed; the gradient itself is compared with complex steps elsewhere."""
    jax = pytest.importorskip("jax")
    weights, means, variances = rng.dirichlet(np.ones(3)), rng.normal(size=(3, 2)), np.ones(3)
    rows = mm.Samples(jax.numpy.asarray(rng.normal(size=(9, 2))))

    def mixture(means):
        return mm.Mixture(*map(jax.numpy.asarray, (weights, means, variances)), "spherical")

    found = jax.grad(lambda mu: mm.inner(mixture(mu), rows, 3))(jax.numpy.asarray(means))
    want = mm.inner_grad(mixture(means), rows, 3)[1].means
    np.testing.assert_allclose(found, want, rtol=1e-10)
