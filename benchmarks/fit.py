"""GaussianMixture and scikit-learn's EM: ``make bench-fit``. Likelihoods and times of one run."""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Callable

import numpy as np
import sklearn.mixture

from machine import machine
from momentmix import GaussianMixture, Mixture, MomentMixture
from momentmix.covariance import Diagonal
from momentmix.datasets import paper_mixture
from momentmix.fit import Parameters
from momentmix.fitting.em import Likelihood, Target
from momentmix.matching.model import around_points
from momentmix.matching.objective import ImplicitObjective, Parametrisation
from momentmix.moments.orders import augmented_weights
from momentmix.rows.data import AtomData
from momentmix.rows.memory import MemoryRows
from momentmix.solvers import gauss_newton, lbfgs
from momentmix.summary.components import paired_components
from real import TUNED

NEAR = 0.005  # nats a sample below the ceiling


def timed(job: Callable) -> tuple[object, float]:
    start = time.perf_counter()
    result = job()
    return result, time.perf_counter() - start


def ceiling(mixture: Mixture, X: np.ndarray) -> tuple[float, Parameters]:
    """Where EM ends that starts at the truth."""
    likelihood = Likelihood(MemoryRows(X, None, Diagonal), Target(Diagonal, 1e-9))
    truth = Parameters(mixture.weights, mixture.means, mixture.covariances)
    result = likelihood.fit(truth, tol=1e-6, max_iter=500)
    return result.log_likelihood, result.parameters


def paper(seeds: range) -> None:
    print("\n## The paper's problem: n=100, m=20, p=8000, diag\n")
    print(
        f"Data seeds {seeds.start} to {seeds.stop - 1}. 'At the ceiling': a mean log-likelihood\n"
        f"within {NEAR} of where EM from the true parameters ends.\n"
    )
    print("| noise | momentmix at the ceiling | scikit-learn at the ceiling | time ratio |")
    print("| ---: | ---: | ---: | ---: |", flush=True)
    for noise in (0.05, 0.1, 0.2):
        ours = theirs = 0
        times = np.zeros(2)
        for seed in seeds:
            mixture = paper_mixture(noise, seed)
            X, _ = mixture.sample(8000, seed + 1000)
            top, _ = ceiling(mixture, X)
            fit, t_ours = timed(
                lambda X=X, s=seed: GaussianMixture(
                    20, covariance_type="diag", prior=None, random_state=s
                ).fit(X)
            )
            em, t_theirs = timed(
                lambda X=X, s=seed: sklearn.mixture.GaussianMixture(
                    20, covariance_type="diag", n_init=10, tol=1e-6, max_iter=500, random_state=s
                ).fit(X)
            )
            times += t_ours, t_theirs
            ours += fit.score(X) > top - NEAR
            theirs += em.score(X) > top - NEAR
        n = len(seeds)
        print(
            f"| {noise} | {ours} of {n} | {theirs} of {n} | {times[0] / times[1]:.2f} |", flush=True
        )


def errors(fit: GaussianMixture | MomentMixture, truth: Mixture) -> str:
    """Weights L1 / mean relative / covariance relative / cosine, components matched by means."""
    i, j = paired_components(fit.means_, truth.means)
    mu, mu_hat = truth.means[i], fit.means_[j]
    S, S_hat = truth.covariances[i], fit.covariances_[j]
    norms = np.linalg.norm(mu, axis=1)
    return "/".join(
        f"{value:.2f}"
        for value in (
            np.abs(truth.weights[i] - fit.weights_[j]).sum(),
            np.mean(np.linalg.norm(mu - mu_hat, axis=1) / norms),
            np.mean(np.linalg.norm(S - S_hat, axis=1) / np.linalg.norm(S, axis=1)),
            np.mean(np.sum(mu * mu_hat, axis=1) / norms / np.linalg.norm(mu_hat, axis=1)),
        )
    )


def pure_moments(noises: tuple) -> None:
    print("\n## Pure moment estimates of the same problem (ω = 0.5, one random start)\n")
    print("Errors: weights L1 / means relative / covariances relative / cosine.\n")
    print("| noise | order | implicit | post-processing | from the true parameters |")
    print("| ---: | ---: | --- | --- | --- |", flush=True)
    for noise in noises:
        mixture = paper_mixture(noise, 0)
        X, _ = mixture.sample(8000, 1000)
        for order in (3, 4):
            row = []
            options = {"order": order, "omega": 0.5, "n_init": 1}
            truth = {
                "weights_init": mixture.weights,
                "means_init": mixture.means,
                "covariances_init": mixture.covariances,
            }
            for extra in (
                {"augmentation": "implicit"},
                {"augmentation": "post-processing"},
                truth,
            ):
                fit = MomentMixture(20, covariance_type="diag", random_state=0, **options, **extra)
                row.append(errors(fit.fit(X), mixture))
            print(f"| {noise} | {order} | {' | '.join(row)} |", flush=True)


def passes(noises: tuple, rows: int = 8000) -> None:
    print("\n## Passes over the data of the solvers (order 4, ω = 0.5, same random start)\n")
    print(
        "L-BFGS as the paper uses it, covariances by factors, until it stops by itself. 'Passes to"
    )
    print("the same': passes until the cost is within 1e-6 of the drop of L-BFGS's final cost.\n")
    print("| noise | L-BFGS passes | L-BFGS to the same | Gauss–Newton to the same |")
    print("| ---: | ---: | ---: | ---: |", flush=True)
    for noise in noises:
        mixture = paper_mixture(noise, 0)
        X, _ = mixture.sample(rows, 1000)
        unit = float(X.std())
        weights = list(augmented_weights(4, 0.5 / unit))
        data = AtomData.of_rows(X / unit, None)
        rng = np.random.default_rng(0)
        start = around_points(Diagonal, X[rng.choice(len(X), 20, replace=False)] / unit)
        traces = []
        for solver, floor in ((lbfgs, 1e-6), (gauss_newton, None)):
            coordinates = Parametrisation(Diagonal, 20, 100, order=4, floor=floor)
            trace: list[float] = []
            problem = Recorded(ImplicitObjective(coordinates, data, weights), trace)
            options = {"max_iter": 5000, "tol": 1e-13} if solver is lbfgs else {"max_iter": 120}
            solver(problem, coordinates.encode(*start), **options)
            traces.append(np.minimum.accumulate(trace))
        goal = traces[0][-1] + 1e-6 * (traces[0][0] - traces[0][-1])
        first = [int(np.argmax(t <= goal)) + 1 if t[-1] <= goal else math.inf for t in traces]
        print(f"| {noise} | {len(traces[0])} | {first[0]} | {first[1]} |", flush=True)


class Recorded:
    """A problem that keeps the value of every evaluation."""

    def __init__(self, problem: ImplicitObjective, trace: list[float]) -> None:
        self.problem, self.trace = problem, trace
        self.normal_equations = problem.normal_equations

    def value_and_gradient(self, x: np.ndarray, most: float = np.inf) -> tuple[float, np.ndarray]:
        value, gradient = self.problem.value_and_gradient(x, most)
        self.trace.append(value)
        return value, gradient


def tables(quick: bool) -> dict[str, tuple[np.ndarray, int]]:
    names = ("crabs", "wine", "olive", "iris", "faithful", "quakes")
    names = names[:1] if quick else names
    return {name: TUNED[name]()[:2] for name in names}


def real(quick: bool) -> None:
    repeats = 1 if quick else 5
    print("\n## Real data, standardised, full covariances\n")
    print("Total log-likelihood above the better of ten k-means and ten random-point starts of")
    print(f"scikit-learn (tol=1e-6, max_iter=500), for {repeats} random states; time over both.\n")
    print("| data | k | gain in nats, each random state | time ratio |")
    print("| --- | ---: | --- | ---: |", flush=True)
    for name, (X, k) in tables(quick).items():
        gains, times = [], np.zeros(2)
        for seed in range(repeats):
            best = -np.inf
            for init in ("kmeans", "random_from_data"):
                em, t = timed(
                    lambda X=X, k=k, init=init, s=seed: sklearn.mixture.GaussianMixture(
                        k, n_init=10, init_params=init, tol=1e-6, max_iter=500, random_state=s
                    ).fit(X)
                )
                best = max(best, em.score(X))
                times[1] += t
            fit, t = timed(
                lambda X=X, k=k, s=seed: GaussianMixture(k, prior=None, random_state=s).fit(X)
            )
            times[0] += t
            gains.append(f"{(fit.score(X) - best) * len(X):+.1f}")
        row = f"| {name} ({len(X)} × {X.shape[1]}) | {k} | {', '.join(gains)} |"
        print(f"{row} {times[0] / times[1]:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10, help="data sets a noise level")
    parser.add_argument("--first", type=int, default=0, help="first data seed")
    parser.add_argument("--quick", action="store_true", help="one small part of each")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print(machine())
    noises = (0.1,) if arguments.quick else (0.05, 0.1, 0.2)
    real(arguments.quick)
    passes(noises, 2000 if arguments.quick else 8000)
    if not arguments.quick:
        pure_moments(noises)
        paper(range(arguments.first, arguments.first + arguments.seeds))


if __name__ == "__main__":
    main()
