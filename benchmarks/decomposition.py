"""Symmetric CP and known noise: ``make bench-cp``. Recovery, ratios of times, and memory."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import warnings

import numpy as np
import sklearn.mixture
import tensorly as tl
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from tensorly.decomposition import symmetric_parafac_power_iteration

from machine import machine
from momentmix import KnownCovarianceMixture, Samples, debiased_moment, symmetric_cp
from momentmix.covariance import Zero
from momentmix.moments.atoms import Atoms

STARTS = 10


def signals(
    n: int, r: int, p: int, collinearity: float, noise: float, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors with one cosine between all of them, and p of them with noise."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.normal(size=(n, r)))[0]
    gram = np.full((r, r), collinearity) + (1 - collinearity) * np.eye(r)
    A = (Q @ np.linalg.cholesky(gram).T).T
    return A, A[np.arange(p) % r] + noise * rng.normal(size=(p, n))


def worst_cosine(vectors: np.ndarray, A: np.ndarray) -> float:
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-300)
    cosines = np.abs(A @ unit.T)
    return float(cosines[linear_sum_assignment(-cosines)].min())


def against_tensorly(quick: bool) -> None:
    print("\n## Against tensorly's symmetric power iteration\n")
    print("r=5 signals, cosine 0.5 between any two, 250 observations each, noise 0.1. How many")
    print("starts find every signal to a cosine of 0.99; medians of their times. tensorly")
    print("gets the explicit debiased tensor; its time is that of the decomposition alone, 10 × 10")
    print("(its default) and 30 × 30 repeats and iterations; momentmix starts from the samples,")
    print("one random start (n_init=1), and with its default settings.\n")
    print("| n | order | momentmix, one start | default | tensorly 10 × 10 | 30 × 30 | ", end="")
    print("time ratio, one start | default | with the tensor made |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    sizes = [(20, 3)] if quick else [(20, 3), (50, 3), (100, 3), (200, 3), (20, 4), (30, 4)]
    for n, d in sizes:
        A, X = signals(n, 5, 1250, 0.5, 0.1)
        P = Samples(X, noise_covariance=0.01)
        start = time.perf_counter()
        T = tl.tensor(debiased_moment(X, 0.01, d))
        made = time.perf_counter() - start

        def ours(seed: int, P=P, d=d, **keywords: object) -> np.ndarray:
            return symmetric_cp(P, 5, d, random_state=seed, **keywords).vectors

        def theirs(seed: int, times: int, T=T) -> np.ndarray:
            np.random.seed(seed)  # noqa: NPY002 - tensorly draws from the global generator
            return np.asarray(symmetric_parafac_power_iteration(T, 5, times, times)[1]).T

        ways = {
            "one": lambda s: ours(s, n_init=1, init="random"),
            "default": ours,
            "ten": lambda s: theirs(s, 10),
        }
        found, times = {}, {}
        for name, way in ways.items():
            # A tensor of millions of entries takes tensorly half a minute.
            count = 2 if quick or (name == "ten" and n**d > 2 * 10**6) else STARTS
            runs = [timed(way, seed) for seed in range(count)]
            good = sum(worst_cosine(v, A) >= 0.99 for v, _ in runs)
            found[name] = f"{good} of {count}"
            times[name] = float(np.median([t for _, t in runs]))
        long = "—"
        if not quick and n**d <= 10**6:
            long = f"{sum(worst_cosine(theirs(s, 30), A) >= 0.99 for s in range(3))} of 3"
        print(
            f"| {n} | {d} | {found['one']} | {found['default']} | {found['ten']} | {long} | "
            f"{times['ten'] / times['one']:.0f} | "
            f"{times['ten'] / times['default']:.0f} | "
            f"{(times['ten'] + made) / times['one']:.0f} |",
            flush=True,
        )


def timed(way, seed: int) -> tuple[np.ndarray, float]:
    start = time.perf_counter()
    vectors = way(seed)
    return vectors, time.perf_counter() - start


SCALE = """
import sys, time
sys.path.insert(0, sys.argv[5])
import numpy as np
from decomposition import signals, worst_cosine, evaluation
from momentmix import Samples, symmetric_cp
n, r, p, d = map(int, sys.argv[1:5])
def peak():
    with open("/proc/self/status") as file:
        lines = dict(line.split(":", 1) for line in file)
    return {k: int(lines[k].split()[0]) / 1024 for k in ("VmHWM", "VmRSS")}
A, X = signals(n, r, p, 0.5, 0.1)
P = Samples(X, noise_covariance=0.01)
symmetric_cp(Samples(X[:500], noise_covariance=0.01), 2, 3, n_init=1, random_state=0)
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the peak starts anew
before = peak()["VmRSS"]
once = evaluation(P, r, d)
start = time.perf_counter()
cp = symmetric_cp(P, r, d, random_state=0)
seconds = time.perf_counter() - start
print(worst_cosine(cp.vectors, A), seconds / once, peak()["VmHWM"] - before, X.nbytes / 2**20)
"""


def evaluation(P: Samples, r: int, d: int) -> float:
    """Time of one evaluation of the data term with its gradient, the best of five."""
    points = Atoms(1.0, np.asarray(P.X[:r]), Zero(P.n_features), np)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        P.inner_with(points, [0.0] * d + [1.0], gradient=True)
        times.append(time.perf_counter() - start)
    return min(times)


def scale(quick: bool) -> None:
    print("\n## Many features\n")
    print("Cosine 0.5, noise 0.1; default settings, a fresh process each. The time is that of so")
    print("many evaluations of the data term with its gradient; extra memory beyond the samples.\n")
    print("| n | rank | samples | order | worst cosine | evaluations | extra MiB | samples MiB |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    n, r, p = (100, 5, 2000) if quick else (500, 20, 50_000)
    for d in (3, 4):
        here = sys.path[0]
        command = [sys.executable, "-c", SCALE, *map(str, (n, r, p, d)), here]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        cosine, evaluations, extra, size = map(float, out)
        print(
            f"| {n} | {r} | {p:,} | {d} | {cosine:.4f} | {evaluations:.0f} | {extra:.0f} | "
            f"{size:.0f} |",
            flush=True,
        )


def below_the_noise(quick: bool) -> None:
    print("\n## Signals below the noise\n")
    print("Five random signals of 20 points with power 1/4, shares 0.3 to 0.1, 200,000")
    print("observations; mean relative error of the signals, three data sets each. EM is")
    print('scikit-learn\'s with covariance_type="spherical", n_init=3, max_iter=300.\n')
    print("| noise | labels known | momentmix | polish=None | EM | k-means | time of EM / ours |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    shares = np.array([0.3, 0.25, 0.2, 0.15, 0.1])
    for sigma in (1.0,) if quick else (1.0, 1.5, 2.0, 3.0):
        errors, ratios = [], []
        for seed in range(1 if quick else 3):
            rng = np.random.default_rng(seed)
            S = 0.5 * rng.normal(size=(5, 20))
            p = 5000 if quick else 200_000
            labels = rng.choice(5, p, p=shares)
            X = S[labels] + sigma * rng.normal(size=(p, 20))
            ways = [
                lambda X=X, k=labels: np.array([X[k == j].mean(axis=0) for j in range(5)]),
                lambda X=X, v=sigma**2: KnownCovarianceMixture(5, v, random_state=0).fit(X).means_,
                lambda X=X, v=sigma**2: (
                    KnownCovarianceMixture(5, v, polish=None, random_state=0).fit(X).means_
                ),
                lambda X=X: (
                    sklearn.mixture.GaussianMixture(
                        5, covariance_type="spherical", n_init=3, max_iter=300, random_state=0
                    )
                    .fit(X)
                    .means_
                ),
                lambda X=X: KMeans(5, n_init=3, random_state=0).fit(X).cluster_centers_,
            ]
            row, times = [], []
            for way in ways:
                start = time.perf_counter()
                means = way()
                times.append(time.perf_counter() - start)
                gaps = np.linalg.norm(S[:, None] - means, axis=2)
                gaps /= np.linalg.norm(S, axis=1)[:, None]
                row.append(gaps[linear_sum_assignment(gaps)].mean())
            errors.append(row)
            ratios.append(times[3] / times[1])
        shown = " | ".join(f"{e:.3f}" for e in np.mean(errors, axis=0))
        print(f"| {sigma:g} | {shown} | {np.median(ratios):.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, for a smoke test")
    parser.add_argument("parts", nargs="*", help="tensorly, scale, noise; all by default")
    arguments = parser.parse_args()
    parts = {"tensorly": against_tensorly, "scale": scale, "noise": below_the_noise}
    unknown = set(arguments.parts) - set(parts)
    if unknown:
        parser.error(f"unknown part {', '.join(sorted(unknown))}; there are {', '.join(parts)}")
    warnings.simplefilter("ignore")
    print(machine())
    for name, part in parts.items():
        if not arguments.parts or name in arguments.parts:
            part(arguments.quick)


if __name__ == "__main__":
    main()
