"""symmetric_cp: exact terms, the cost and its minimum, ranks, noise, errors."""

import math
import subprocess
import sys
import time
import tracemalloc

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from sklearn.exceptions import ConvergenceWarning

import momentmix as mm
import oracles
from momentmix import Mixture, MomentTensors, Samples, symmetric_cp
from momentmix.decomposition.subspace import estimate_rank, leading_subspace
from momentmix.matching.orders import is_identifiable
from momentmix.rows.data import data_of


def points(n, r, seed):
    rng = np.random.default_rng(seed)
    return Mixture(rng.dirichlet(5 * np.ones(r)), rng.normal(size=(r, n)), np.zeros(r), "spherical")


def paired(found, want):
    cost = np.linalg.norm(want[:, None] - found[None], axis=2)
    return linear_sum_assignment(cost)[1]


def term_errors(cp, P, d):
    """The largest difference of λ a^{⊗d} from the true terms, over the size of each."""
    true = [w * oracles.outer_power(a, d) for w, a in zip(P.weights, P.means, strict=True)]
    found = [w * oracles.outer_power(a, d) for w, a in zip(cp.weights, cp.vectors, strict=True)]
    cost = np.array([[np.linalg.norm(t - f) / np.linalg.norm(t) for f in found] for t in true])
    return cost[linear_sum_assignment(cost)].max()


def signals(n, r, p, collinearity, noise, seed):
    """Unit vectors of one cosine with each other, seen p times in all with noise."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.normal(size=(n, r)))[0]
    gram = np.full((r, r), collinearity) + (1 - collinearity) * np.eye(r)
    A = (Q @ np.linalg.cholesky(gram).T).T
    return A, A[np.arange(p) % r] + noise * rng.normal(size=(p, n))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("init", ["random", "auto"])
@pytest.mark.parametrize(
    ("n", "r", "d"),
    [(10, 5, 3), (10, 5, 4), (6, 8, 4), (6, 12, 4), (4, 5, 3), (2, 2, 3), (1, 1, 3)],
)
def test_exact_moments_are_decomposed(n, r, d, init, seed):
    """Also more terms than features, and at the generic rank where Sylvester's theorem holds."""
    P = points(n, r, seed)
    cp = symmetric_cp(P, r, d, init=init, random_state=seed)
    assert cp.converged
    assert term_errors(cp, P, d) < 1e-8
    np.testing.assert_allclose(np.linalg.norm(cp.vectors, axis=1), 1)
    assert np.all(np.diff(cp.weights) <= 0)


@pytest.mark.parametrize("seed", range(3))
def test_more_terms_than_features_of_order_three(seed):
    P = points(6, 8, seed + 10)
    assert term_errors(symmetric_cp(P, 8, 3, random_state=0), P, 3) < 1e-8


@pytest.mark.parametrize("nonnegative", [True, False])
@pytest.mark.parametrize(("n", "r", "d"), [(1, 2, 3), (2, 3, 3), (6, 8, 4), (10, 5, 3), (30, 8, 3)])
def test_several_orders_fix_the_scale(n, r, d, nonnegative):
    P = points(n, r, 0)
    weights = mm.augmented_weights(d, 1.0)
    cp = symmetric_cp(P, r, d, weights=weights, nonnegative=nonnegative, random_state=0)
    order = paired(cp.vectors, P.means)
    np.testing.assert_allclose(cp.vectors[order], P.means, atol=1e-8)
    np.testing.assert_allclose(cp.weights[order], P.weights, atol=1e-8)
    again = symmetric_cp(P, r, weights, nonnegative=nonnegative, random_state=0)
    np.testing.assert_array_equal(again.vectors, cp.vectors)


@pytest.mark.parametrize("n", [6, 40])
def test_both_solvers_and_both_starts_agree(n):
    P = points(n, 4, 3)
    for keywords in ({"solver": "gauss-newton"}, {"init": "spectral"}, {"init": "random"}):
        cp = symmetric_cp(P, 4, 3, random_state=0, **keywords)
        assert term_errors(cp, P, 3) < 1e-8
    # A first-order method ends where the cost, not its root, is zero to rounding.
    cp = symmetric_cp(P, 4, 3, random_state=0, solver="lbfgs", tol=1e-15)
    assert term_errors(cp, P, 3) < 1e-5


def test_terms_of_either_sign():
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(4, 6))
    weights = np.array([2.0, -1.0, 1.5, -0.7])
    T = mm.SymmetricCP(weights, vectors, 0.0, True, 0, 0, True)
    cp = symmetric_cp(T, 4, 4, nonnegative=False, random_state=0)
    want = sum(w * oracles.outer_power(a, 4) for w, a in zip(weights, vectors, strict=True))
    np.testing.assert_allclose(mm.dense_moment(cp, 4), want, atol=1e-8)
    assert sorted(np.sign(cp.weights)) == [-1, -1, 1, 1]
    # The best that is not negative is far off, and slow to be found.
    with pytest.warns(ConvergenceWarning, match="did not converge in max_iter=100"):
        only = symmetric_cp(T, 4, 4, max_iter=100, n_init=2, random_state=0)
    assert np.all(only.weights >= 0)
    assert only.objective > 0.1


@pytest.mark.parametrize(("n", "p"), [(5, 300), (40, 300)])
def test_the_cost_is_the_distance_and_least_there(n, p):
    """Against the public distance, which knows nothing of solvers: no nearby point is better."""
    rng = np.random.default_rng(1)
    P = Samples(signals(n, 3, p, 0.3, 0.3, 0)[1], noise_covariance=0.09)
    cp = symmetric_cp(P, 3, 3, random_state=0)
    constant = 0.0 if cp.objective_is_whole else float(mm.inner(P, P, 3))
    here = float(mm.squared_distance(P, cp, 3))
    np.testing.assert_allclose(cp.objective + constant, here, rtol=1e-8)

    def at(weights, vectors):
        return float(
            mm.squared_distance(P, mm.SymmetricCP(weights, vectors, 0, True, 0, 0, True), 3)
        )

    for _ in range(20):
        weights = cp.weights * (1 + 1e-3 * rng.normal(size=3))
        vectors = cp.vectors + 1e-3 * rng.normal(size=cp.vectors.shape)
        assert at(weights, vectors) > here
    slope = oracles.central_difference(
        lambda v: at(cp.weights, v), cp.vectors, rng.normal(size=cp.vectors.shape), 1e-4
    )
    assert abs(slope) < 1e-4 * here


def test_moments_and_samples_give_the_same():
    X = signals(8, 3, 4000, 0.3, 0.5, 0)[1]
    tensors = MomentTensors(8, 4).update(X, noise_covariance=0.25)
    samples = Samples(X, noise_covariance=0.25)
    for d in (3, 4):
        one, two = (symmetric_cp(P, 3, d, random_state=0) for P in (tensors, samples))
        np.testing.assert_allclose(one.vectors, two.vectors, atol=1e-9)
        np.testing.assert_allclose(one.weights, two.weights, rtol=1e-9)
        assert one.n_passes == 0 < two.n_passes


def test_any_array_library(backend):
    X = signals(6, 2, 500, 0.3, 0.1, 0)[1]
    want = symmetric_cp(Samples(X, noise_covariance=0.01), 2, 3, random_state=0)
    noise = backend.array(0.01 * np.eye(6))
    got = symmetric_cp(Samples(backend.array(X), noise_covariance=noise), 2, 3, random_state=0)
    np.testing.assert_allclose(got.vectors, want.vectors, atol=1e-8)


@pytest.mark.parametrize("d", [3, 4])
def test_every_start_finds_all_signals_in_noise(d):
    """n=100, r=5, collinearity 0.5, p=1250, noise 0.1."""
    A, X = signals(100, 5, 1250, 0.5, 0.1, 0)
    P = Samples(X, noise_covariance=0.01)
    for init in ("random", "spectral"):
        good = 0
        for seed in range(10):
            cp = symmetric_cp(P, 5, d, init=init, n_init=1, random_state=seed)
            cosines = A @ cp.vectors.T
            good += cosines[linear_sum_assignment(-cosines)].min() >= 0.99
        assert good >= 9


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_debiasing_matters():
    """Under strong noise of unequal variance the raw fourth moment is off, the debiased is not."""
    rng = np.random.default_rng(0)
    A = np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]])
    variances = np.array([0.1, 0.1, 4.0, 0.1])
    X = A[rng.integers(2, size=200_000)] + rng.normal(size=(200_000, 4)) * np.sqrt(variances)
    cosines = []
    for noise in (None, variances):
        cp = symmetric_cp(Samples(X, noise_covariance=noise), 2, 4, random_state=0)
        cosines.append(np.abs(A @ cp.vectors.T).max(axis=1).min())
    assert cosines[0] < 0.9
    assert cosines[1] > 0.98


@pytest.mark.parametrize("d", [3, 4])
def test_rank_is_estimated(d):
    P = points(10, 5, 0)
    assert symmetric_cp(P, "auto", d, random_state=0).rank == 5
    assert symmetric_cp(Samples(P.means), "auto", d, random_state=0).rank == 5
    right = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        P = points(10, 4, seed)
        X = P.sample(20_000, seed)[0] + 0.5 * rng.normal(size=(20_000, 10))
        noisy = Samples(X, noise_covariance=0.25)
        right += symmetric_cp(noisy, "auto", d, n_init=1, random_state=0).rank == 4
    assert right >= 7
    noise = Samples(np.random.default_rng(0).normal(size=(5000, 10)), noise_covariance=1.0)
    with pytest.raises(ValueError, match="stands out from the sampling noise"):
        symmetric_cp(noise, "auto", d, random_state=0)


def test_rank_in_many_features():
    X = signals(120, 7, 4000, 0.3, 0.1, 0)[1]
    cp = symmetric_cp(Samples(X, noise_covariance=0.01), "auto", 3, random_state=0)
    assert cp.rank == 7


def test_an_estimated_rank_costs_little_more_than_a_given_one():
    X = signals(100, 5, 5000, 0.5, 0.1, 0)[1]
    P, times = Samples(X, noise_covariance=0.01), {}
    for rank in (5, "auto"):
        start = time.process_time()
        assert symmetric_cp(P, rank, 4, random_state=0).rank == 5
        times[rank] = time.process_time() - start
    assert times["auto"] < 10 * times[5]  # 2 by measurement; 200 with all singular values


@pytest.mark.parametrize(("n", "d"), [(100, 3), (100, 4), (40, 4)])
def test_noise_alone_has_no_rank(n, d, rng):
    noise = data_of(Samples(rng.normal(size=(3000, n)), noise_covariance=1.0))
    assert estimate_rank(noise, [0.0] * d + [1.0], rng) == 0


def test_leading_subspace_holds_the_terms(rng):
    P = points(60, 6, 0)
    data = data_of(P)
    basis = leading_subspace(data, [0.0, 0.0, 0.0, 1.0], 6, rng)
    np.testing.assert_allclose(basis.T @ basis, np.eye(6), atol=1e-12)
    np.testing.assert_allclose(P.means @ basis @ basis.T, P.means, atol=1e-6)
    assert estimate_rank(data, [0.0, 0.0, 0.0, 1.0], rng) == 6


def test_memory_is_that_of_a_few_blocks():
    A, X = signals(300, 10, 30_000, 0.3, 0.1, 0)  # 72 MB
    P = Samples(X, noise_covariance=0.01)
    tracemalloc.start()
    cp = symmetric_cp(P, 10, 3, n_init=1, random_state=0)
    extra = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert extra < 40e6
    assert (A @ cp.vectors.T).max(axis=0).min() > 0.99


def test_identifiable_ranks():
    """Subgeneric ranks but for the known exceptions, and the known ones at the generic rank."""
    for n, d in [(3, 3), (5, 3), (6, 3), (3, 4), (4, 4), (6, 4), (3, 6), (10, 3)]:
        generic = math.comb(n + d - 1, d) / n
        known = {(5, 3): {7}, (6, 3): {9}, (3, 4): {5}, (4, 4): {9}, (3, 6): {9}}
        for rank in range(1, math.ceil(generic) + 2):
            want = rank < generic and rank not in known.get((n, d), ())
            assert is_identifiable(rank, n, d) == want, (n, d, rank)
    assert is_identifiable(5, 4, 3)
    assert is_identifiable(7, 3, 5)
    assert is_identifiable(2, 2, 3)
    assert not is_identifiable(2, 1, 3)


@pytest.mark.parametrize(
    ("rank", "order", "keywords", "match"),
    [
        (0, 3, {}, "rank must be a whole number of at least 1, got 0"),
        (2.5, 3, {}, "rank must be a whole number"),
        (True, 3, {}, "rank must be a whole number"),
        ("many", 3, {}, "whole number or 'auto'"),
        (
            7,
            3,
            {},
            r"rank=7 is more than order 3 of 5 feature\(s\) can tell apart, which is 6; use",
        ),
        (2, 2, {}, "order must be at least 3, got 2"),
        (2, 1, {}, "order must be at least 3"),
        (2, 3, {"weights": [1, 1, 1]}, r"weights must be 3 \+ 1 numbers"),
        (2, 3, {"weights": [1, 1, 1, -1]}, "must not be negative"),
        (2, 3, {"weights": [1, 1, 1, 0]}, "nor 0 for the highest order"),
        (2, 3, {"init": "magic"}, "init must be one of"),
        (6, 3, {"init": "spectral"}, "serves up to 5 terms of order 3 in 5 dimensions, not 6"),
        (2, 3, {"solver": "newton"}, "solver must be"),
        (2, 3, {"n_init": 0}, "n_init must be"),
        (2, 3, {"n_init": True}, "n_init must be"),
        (2, 3, {"max_iter": 0}, "max_iter must be"),
        (2, 3, {"tol": -1}, "tol must be"),
    ],
)
def test_errors_say_what_to_do(rank, order, keywords, match, rng):
    with pytest.raises(ValueError, match=match):
        symmetric_cp(Samples(rng.normal(size=(30, 5))), rank, order, **keywords)


def test_wrong_distributions_are_refused(rng):
    X = rng.normal(size=(30, 5))
    with pytest.raises(TypeError, match=r"got ndarray; wrap an array of rows as Samples\(X\)"):
        symmetric_cp(X, 2, 3)
    with pytest.raises(ValueError, match="kept up to order 3, not 4; accumulate with order=4"):
        symmetric_cp(MomentTensors.from_samples(X, 3), 2, 4)


def test_degenerate_data(rng):
    with pytest.raises(ValueError, match=r"2 sample\(s\) have at most 2 term\(s\), not rank=4"):
        symmetric_cp(Samples(rng.normal(size=(2, 5))), 4, 3)
    zeros = Samples(np.zeros((60, 3)))
    with pytest.raises(ValueError, match="there is nothing to find"):
        symmetric_cp(zeros, 2, 3)
    with pytest.raises(ValueError, match="no term stands out"):
        symmetric_cp(zeros, "auto", 3)
    with pytest.raises(TypeError, match="whole number"):
        symmetric_cp(zeros, 2, 3.5, weights=[1, 1, 1, 1])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_units_do_not_matter_even_with_too_much_noise():
    X = signals(4, 2, 500, 0.3, 0.5, 0)[1]
    one = symmetric_cp(Samples(X, noise_covariance=9.0), 2, 3, random_state=0)
    small = symmetric_cp(Samples(1e-8 * X, noise_covariance=9e-16), 2, 3, random_state=0)
    np.testing.assert_allclose(small.weights * 1e24, one.weights, rtol=1e-3)


def test_terms_that_cancel_are_told():
    """Noise left in makes a third moment without a best decomposition of rank 3."""
    rng = np.random.default_rng(0)
    S = np.array([[2.0, 0, 1], [0, 1.5, -1], [-1, -1, 1]])
    X = S[rng.choice(3, 5000, p=[0.5, 0.3, 0.2])] + 0.5 * rng.normal(size=(5000, 3))
    with pytest.warns(ConvergenceWarning) as caught:
        symmetric_cp(Samples(X), 3, 3, random_state=0)
    assert caught[0].filename == __file__


def test_convergence_is_seen_at_rounding():
    X = signals(4, 3, 5000, 0.3, 0.5, 0)[1]
    P = Samples(X, noise_covariance=0.25)
    weights = mm.augmented_weights(4, 1.0)
    for seed in range(10):
        cp = symmetric_cp(P, 3, 4, weights=weights, random_state=seed)
        assert cp.converged
    assert cp != symmetric_cp(P, 3, 3, random_state=0)
    assert hash(cp)


def test_debiased_moment_is_unbiased_and_explicit():
    """Against the sum over pairings of the text, and in expectation against the clean moment."""
    rng = np.random.default_rng(0)
    N = np.array([[0.4, 0.2], [0.2, 0.3]])
    X = rng.normal(size=(50, 2))
    want = np.mean([oracles.outer_power(x, 3) for x in X], axis=0)
    for i in range(2):
        for j in range(2):
            for k in range(2):
                mean = X.mean(axis=0)
                want[i, j, k] -= mean[i] * N[j, k] + mean[j] * N[i, k] + mean[k] * N[i, j]
    np.testing.assert_allclose(mm.debiased_moment(X, N, 3), want, atol=1e-14)
    np.testing.assert_allclose(
        mm.debiased_moment(X, 0.3, 4), mm.dense_moment(Samples(X, noise_covariance=0.3), 4)
    )
    with pytest.raises(ValueError, match="positive semidefinite"):
        mm.debiased_moment(X, [[1.0, 2.0], [2.0, 1.0]], 3)


INTERRUPTED = """
import sys, threading, os, signal, warnings
import numpy as np
import momentmix as mm
rng = np.random.default_rng(0)
P = mm.Samples(rng.normal(size=(20_000, 60)))
print("ready", flush=True)
threading.Timer(float(sys.argv[1]), lambda: os.kill(os.getpid(), signal.SIGINT)).start()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    cp = mm.symmetric_cp(P, 30, 3, n_init=200, max_iter=10_000, tol=0, random_state=0)
told = "interrupted" in str(caught[-1].message)
print(cp.interrupted, bool(np.all(np.isfinite(cp.vectors))), told)
"""


def test_ctrl_c_gives_the_best_so_far():
    command = [sys.executable, "-c", INTERRUPTED, "8"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines()[-1] == "True True True", done.stderr


@pytest.mark.parametrize(("n", "rank", "d"), [(4, 3, 3), (12, 4, 3), (8, 5, 4), (6, 9, 4)])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e4])
def test_a_given_tensor(n, rank, d, scale):
    rng = np.random.default_rng(n)
    A, w = rng.normal(size=(rank, n)), scale * rng.uniform(0.5, 2, rank)
    T = sum(x * oracles.outer_power(a, d) for x, a in zip(w, A, strict=True))
    cp = symmetric_cp(T, rank, d, random_state=0)
    found = mm.dense_moment(cp, d)
    np.testing.assert_allclose(found, T, atol=1e-6 * np.abs(T).max())
    assert cp.objective <= 1e-10 * np.sum(T * T)
    assert symmetric_cp(T, "auto", d, random_state=0).rank == rank


def test_a_given_tensor_is_checked():
    T = np.random.default_rng(0).normal(size=(3, 3, 3))
    with pytest.raises(ValueError, match="must be symmetric"):
        symmetric_cp(T, 2, 3)
    with pytest.raises(ValueError, match="give order=3 without weights"):
        symmetric_cp(T, 2, 4)
    with pytest.raises(ValueError, match="is zero"):
        symmetric_cp(np.zeros((3, 3, 3)), 2, 3)


def test_kruskal_tensors_go_to_tensorly_and_back():
    import tensorly

    P = points(5, 3, 0)
    cp = symmetric_cp(P, 3, 3, random_state=0)
    theirs = tensorly.cp_to_tensor(cp.kruskal(3))
    np.testing.assert_allclose(theirs, mm.dense_moment(P, 3), atol=1e-7)
    weights, factors = tensorly.cp_tensor.CPTensor(cp.kruskal(3))
    back = mm.Atoms(weights, factors[0].T)
    np.testing.assert_allclose(mm.dense_moment(back, 3), theirs, atol=1e-12)
