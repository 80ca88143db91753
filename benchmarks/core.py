"""The moment core against the bare matrix products that it cannot do without."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator

import numpy as np

import by_hand
from momentmix import Mixture, Samples, inner_grad, symmetric_cp
from timing import best_cpu, best_in_turn, best_of, exponent

ORDER_4 = [1.0, 1.0, 1 / 2, 1 / 6, 1 / 24]
Row = tuple[str, str, float, float | None]  # what, unit, figure, bound


def random_mixture(m: int, n: int, kind: str, seed: int = 0) -> Mixture:
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(m, n)) / np.sqrt(n)
    L = rng.normal(size=(m, n, n)) / n if kind == "full" else None
    covariances = rng.uniform(0.1, 1, (m, n)) / n if L is None else L @ np.swapaxes(L, 1, 2)
    return Mixture(np.full(m, 1 / m), means, covariances, kind)


def data_diag(p: int, n: int = 100, m: int = 20, measure: Callable = best_of) -> float:
    """Data term with gradient over X A, X² S, Xᵀ R, (X²)ᵀ R."""
    rng = np.random.default_rng(1)
    X, R = rng.normal(size=(p, n)), rng.normal(size=(p, m))
    mixture, samples = random_mixture(m, n, "diag"), Samples(X)
    squares = X * X
    A, S = (np.ascontiguousarray(a.T) for a in (mixture.means, mixture.covariances))
    tall, wide = np.empty((p, m)), np.empty((n, m))

    def bare() -> None:
        np.matmul(X, A, out=tall)
        np.matmul(squares, S, out=tall)
        np.matmul(X.T, R, out=wide)
        np.matmul(squares.T, R, out=wide)

    bare_time, ours = measure(bare, lambda: inner_grad(mixture, samples, ORDER_4))
    return ours / bare_time


def data_full(p: int = 50_000, n: int = 50, m: int = 10) -> float:
    """Data term with gradient over the 2m products X L_j and Xᵀ (r∗X)."""
    rng = np.random.default_rng(1)
    X, r = rng.normal(size=(p, n)), rng.normal(size=(m, p))
    mixture, samples = random_mixture(m, n, "full"), Samples(X)
    L = np.linalg.cholesky(mixture.covariances)
    weighted = [r_j[:, None] * X for r_j in r]
    tall, square = np.empty((p, n)), np.empty((n, n))

    def bare() -> None:
        for j in range(m):
            np.matmul(X, L[j], out=tall)
            np.matmul(X.T, weighted[j], out=square)

    bare_time, ours = best_of(bare, lambda: inner_grad(mixture, samples, ORDER_4))
    return ours / bare_time


def norm_diag(n: int = 1000, m: int = 50) -> float:
    """‖M‖² with gradient over the 12 products of Algorithm 1: 6 forward, 6 for gradients."""
    mixture = random_mixture(m, n, "diag")
    rng = np.random.default_rng(1)
    left, right, G = rng.normal(size=(m, n)), rng.normal(size=(n, m)), rng.normal(size=(m, m))
    small, large = np.empty((m, m)), np.empty((m, n))

    def bare() -> None:
        for _ in range(6):
            np.matmul(left, right, out=small)
            np.matmul(G, left, out=large)

    bare_time, ours = best_of(bare, lambda: inner_grad(mixture, mixture, 4))
    return ours / bare_time


def norm_full(n: int = 50, m: int = 10) -> float:
    """‖M‖² with gradient over m² products of n×n matrices."""
    mixture = random_mixture(m, n, "full")
    S = np.asarray(mixture.covariances)
    left, right = (np.ascontiguousarray(np.broadcast_to(a, (m, m, n, n))) for a in (S, S[:, None]))
    out = np.empty((m, m, n, n))
    bare_time, ours = best_of(
        lambda: np.matmul(left, right, out=out),
        lambda: inner_grad(mixture, mixture, 4),
    )
    return ours / bare_time


def against_hand(n: int, p: int, m: int = 20, d: int = 4) -> tuple[float, float, float]:
    """Data term over Algorithm 2 by hand and over PyTorch's derivatives, norm over Algorithm 1."""
    mixture, X = random_mixture(m, n, "diag"), np.random.default_rng(1).normal(size=(p, n))
    w, A, S = mixture.weights, mixture.means, mixture.covariances
    samples = Samples(X)
    jobs = [
        lambda: inner_grad(mixture, samples, d),
        lambda: by_hand.data_term(X, w, A, S, d),
        lambda: inner_grad(mixture, mixture, d),
        lambda: by_hand.norm(w, A, S, d),
    ]
    if importlib.util.find_spec("torch"):
        jobs.append(lambda: by_hand.data_term_by_autograd(X, w, A, S, d))
    data, hand, norm, norm_by_hand, *rest = best_cpu(*jobs)
    return data / hand, data / rest[0] if rest else float("nan"), norm / norm_by_hand


def estimated_rank(n: int, p: int, rank: int = 5) -> float:
    """symmetric_cp with rank="auto" over the same with the rank given."""
    rng = np.random.default_rng(0)
    signals = np.linalg.qr(rng.normal(size=(n, rank)))[0].T
    X = signals[np.arange(p) % rank] + 0.1 * rng.normal(size=(p, n))
    P = Samples(X, noise_covariance=0.01)
    given, auto = best_cpu(
        lambda: symmetric_cp(P, rank, 4, random_state=0),
        lambda: symmetric_cp(P, "auto", 4, random_state=0),
        rounds=3,
    )
    return auto / given


def extra_memory(p: int) -> float:
    """Peak memory in MiB beyond X and the mixture, diag, n=100, m=20."""
    X = np.random.default_rng(1).normal(size=(p, 100))
    mixture, samples = random_mixture(20, 100, "diag"), Samples(X)
    tracemalloc.start()
    inner_grad(mixture, samples, ORDER_4)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 2**20


def growth(name: str, quick: bool) -> float:
    """Fitted exponent of ‖M‖² with gradient in one size, the others fixed."""
    sizes = {
        "diag n": [500, 2000, 8000, 32000],
        "full n": [32, 64, 128, 256],
        "diag m": [64, 128, 256],
        "full m": [8, 16, 32, 64],
        "diag d": [4, 8, 12, 16],
        "full d": [4, 8, 12, 16],
    }[name]
    kind, letter = name.split()
    times = []
    for size in sizes[: 2 if quick else None]:
        shape = {"n": 200 if kind == "diag" else 40, "m": 20 if kind == "diag" else 6, "d": 4}
        shape[letter] = size
        mixture = random_mixture(shape["m"], shape["n"], kind)
        d = shape["d"]
        times += best_of(lambda a=mixture, d=d: inner_grad(a, a, d), rounds=1 if quick else 3)
    return exponent(sizes[: len(times)], times)


def import_time(ours: str, theirs: str, rounds: int) -> float:
    """Two imports, each in processes of its own."""

    def fresh(code: str) -> Callable[[], object]:
        return lambda: subprocess.run([sys.executable, "-c", code], check=True)

    bare_time, our_time = best_in_turn(fresh(theirs), fresh(ours), rounds=rounds)
    return our_time / bare_time


def rows(quick: bool = False) -> Iterator[Row]:
    scale = 20 if quick else 1
    four, all_m, square = "× 4 bare products", "× 2m bare products", "× m² bare products"
    what = "data term + gradient, diag, n=100, m=20, d≤4"
    yield f"{what}, p=100,000", four, data_diag(100_000 // scale), 0.8
    yield f"{what}, p=8,000", four, data_diag(8_000 // scale), 1.3
    for p, bound in ((100_000, 0.8), (8_000, 1.3)):
        figure = data_diag(p // scale, measure=best_in_turn)
        yield f"the same, p={p:,}, in turn without pause or warm-up", four, figure, bound
    what = "data term + gradient, full, n=50, m=10, d≤4"
    yield f"{what}, p=50,000", all_m, data_full(50_000 // scale), 1.5
    yield "‖M‖² + gradient, diag, n=1000, m=50, d=4", "× 12 bare products", norm_diag(), 3.0
    yield "‖M‖² + gradient, full, n=50, m=10, d=4", square, norm_full(), 4.0
    for n, bound in ((10, 1.1), (100, 1.05), (500, 0.9)):
        hand, autograd, norm = against_hand(n, 8_000 // scale)
        what = f"data term + gradient, diag, n={n}, m=20, d=4, p=8,000, one thread, CPU time"
        yield what, "× Algorithm 2 by hand", hand, bound
        yield what, "× PyTorch's derivatives", autograd, 0.5
        what = f"‖M‖² + gradient, diag, n={n}, m=20, d=4, one thread, CPU time"
        yield what, "× Algorithm 1 by hand", norm, 1.2 if n == 10 else None
    what = 'symmetric_cp(rank="auto"), order 4, rank 5, p=5,000'
    for n in (100, 500) if not quick else (100,):
        yield f"{what}, n={n}, CPU time", "× the rank given", estimated_rank(n, 5_000), 3.0
    for p in (100_000, 400_000):
        yield f"extra memory of the data term, p={p:,}", "MiB", extra_memory(p // scale), 64.0
    rounds, unit = (1 if quick else 7), "× that of scikit-learn's mixtures"
    both = "import momentmix", "import sklearn.mixture"
    yield "time of `import momentmix`", unit, import_time(*both, rounds), 1.05
    both = "from momentmix import GaussianMixture", "from sklearn.mixture import GaussianMixture"
    yield "time of an import of GaussianMixture", unit, import_time(*both, rounds), 1.05
    # "Linear" and "cubic" within what a fit over four sizes can tell.
    bounds = {
        "diag n": 1.1,
        "full n": 3.1,
        "diag m": 2.1,
        "full m": 2.1,
        "diag d": 2.1,
        "full d": 2.1,
    }
    for name, bound in bounds.items():
        yield f"growth of ‖M‖² + gradient, {name}", "exponent", growth(name, quick), bound
