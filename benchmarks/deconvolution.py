"""Known errors in each row: does a fit find what lies behind them? A part of ``observed.py``.

Rows of a mixture are seen with errors as large as its components, of another covariance in each
row. The ceiling is where EM ends that starts at the truth.
"""

from __future__ import annotations

import multiprocessing.pool
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import numpy as np
import sklearn.mixture
from threadpoolctl import threadpool_limits

from fit import NEAR
from momentmix import GaussianMixture, Mixture

#: Rows × columns, components and separation of the settings.
SETTINGS = ((1000, 2, 3, 4.0), (1000, 5, 4, 4.0))
#: Peers have so many times as long as momentmix, or one run of their own, up to so many seconds.
LONGER, LIMIT = 10.0, 60.0


def simulated(n: int, m: int, separation: float, seed: int) -> Mixture:
    """Full covariances of about 1; means at about ``separation`` deviations from each other."""
    rng = np.random.default_rng(seed)
    L = rng.normal(size=(m, n, n)) / np.sqrt(n)
    covariances = 0.7 * L @ L.swapaxes(1, 2) + 0.3 * np.eye(n)
    means = rng.normal(size=(m, n)) * separation / np.sqrt(2 * n)
    return Mixture(rng.dirichlet(np.full(m, 10.0)), means, covariances)


def noisy_rows(truth: Mixture, p: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows (p, n) with errors, and the covariance of the errors of each row (p, n, n)."""
    rng = np.random.default_rng(seed)
    X, _ = truth.sample(p, seed)
    n = X.shape[1]
    L = rng.normal(size=(p, n, n)) / np.sqrt(n)
    noise = rng.uniform(0.2, 1.8, (p, 1, 1)) * (0.7 * L @ L.swapaxes(1, 2) + 0.3 * np.eye(n))
    errors = np.linalg.cholesky(noise) @ rng.normal(size=(p, n, 1))
    return X + errors[:, :, 0], noise


class Job(NamedTuple):
    X: np.ndarray
    noise: np.ndarray
    m: int
    seed: int

    def value(self, mixture: Mixture) -> float:
        """The mean log-likelihood of the rows with their errors: one measure for all."""
        return float(np.mean(mixture.log_prob(self.X, self.noise)))


Found = tuple[float, float]  # the mean log-likelihood, and seconds
Peer = Callable[[Job, float], Found]


def ours(job: Job, prior: str | None) -> Found:
    begin = time.perf_counter()
    fit = GaussianMixture(job.m, random_state=job.seed, prior=prior)
    fit.fit(job.X, noise_covariance=job.noise)
    seconds = time.perf_counter() - begin
    return job.value(fit.mixture_), seconds


def ceiling(job: Job, truth: Mixture, prior: str | None) -> float:
    """Where EM ends that starts at the truth, with the same prior."""
    fit = GaussianMixture(
        job.m,
        weights_init=truth.weights,
        means_init=truth.means,
        covariances_init=truth.covariances,
        prior=prior,
        tol=1e-8,
        max_iter=5000,
    ).fit(job.X, noise_covariance=job.noise)
    return job.value(fit.mixture_)


def restarted(run: Callable[[int], Mixture], job: Job, allowed: float) -> Found:
    """The best of as many runs with other seeds as begin in the time allowed; one at least."""
    best, begin, number = -np.inf, time.perf_counter(), 0
    while number == 0 or time.perf_counter() < begin + allowed:
        with suppress(ValueError, np.linalg.LinAlgError):  # a singular covariance
            best = max(best, job.value(run(100 * job.seed + number)))
        number += 1
    return best, time.perf_counter() - begin


def astroml(job: Job, allowed: float) -> Found:
    from astroML.density_estimation import XDGMM

    class Timed(XDGMM):
        """Steps end with the time limit of a run."""

        def _EMstep(self, X: np.ndarray, Xerr: np.ndarray) -> None:
            if time.perf_counter() < self.until:
                super()._EMstep(X, Xerr)

    def run(seed: int) -> Mixture:
        model = Timed(job.m, random_state=seed)
        model.until = time.perf_counter() + LIMIT
        model.fit(job.X, job.noise)
        return Mixture(model.alpha / model.alpha.sum(), model.mu, model.V)

    return restarted(run, job, allowed)


def pygmmis_fits(job: Job, allowed: float, tol: float = 1e-3) -> Found:
    """With its own tolerance, unless one is given."""
    import pygmmis

    # Its pool of processes, one for each core, is one thread here, as for all others.
    pygmmis.multiprocessing.Pool = lambda: multiprocessing.pool.ThreadPool(1)

    def run(seed: int) -> Mixture:
        model = pygmmis.GMM(K=job.m, D=job.X.shape[1])
        rng = np.random.RandomState(seed)
        pygmmis.fit(model, job.X, covar=job.noise, rng=rng, tol=tol)
        covariances = (model.covar + model.covar.swapaxes(1, 2)) / 2
        return Mixture(model.amp / model.amp.sum(), model.mean, covariances)

    return restarted(run, job, allowed)


def without_errors(job: Job, allowed: float) -> Found:
    """What the errors cost a fit that does not know of them."""

    def run(seed: int) -> Mixture:
        fit = sklearn.mixture.GaussianMixture(job.m, n_init=10, random_state=seed).fit(job.X)
        return Mixture(fit.weights_, fit.means_, fit.covariances_)

    return restarted(run, job, 0.0)


def peers() -> dict[str, Peer]:
    """Those that are installed; a line says which are not."""
    found: dict[str, Peer] = {}
    for name, module, peer in (
        ("astroML", "astroML.density_estimation", astroml),
        ("pygmmis", "pygmmis", pygmmis_fits),
        ("pygmmis, tol=1e-6", "pygmmis", partial(pygmmis_fits, tol=1e-6)),
    ):
        try:
            __import__(module)
            found[name] = peer
        except ImportError:
            print(f"{name} is not installed, and its rows are left out.\n")
    return found


def deconvolution(quick: bool) -> None:
    with threadpool_limits(1):
        _deconvolution(quick)


def _deconvolution(quick: bool) -> None:
    sets = 1 if quick else 10
    print("\n## Known errors, another covariance in each row\n")
    print(
        f"Data sets a setting: {sets}, with errors about as large as the components. 'At the\n"
        f"ceiling': a mean log-likelihood within {NEAR} of where EM ends that starts at the\n"
        "truth. The default is measured against that end with the default prior, all others\n"
        "without. 'Below': nats a row below the ceiling, mean and largest. Peers have their\n"
        f"default settings, and restarts for {LONGER:.0f} times as long as momentmix took, but\n"
        f"one run at least; a run of astroML ends after {LIMIT:.0f} seconds. All are on one\n"
        "thread. Times are totals over those of the default.\n"
    )
    others = peers()
    print("| rows × n, m | fit | at the ceiling | below: mean | largest | time |")
    print("| --- | --- | ---: | ---: | ---: | ---: |", flush=True)
    for p, n, m, separation in SETTINGS[:1] if quick else SETTINGS:
        below: dict[str, list[float]] = {}
        taken: dict[str, float] = {}
        for seed in range(sets):
            truth = simulated(n, m, separation, seed)
            job = Job(*noisy_rows(truth, p // 2 if quick else p, seed + 100), m, seed)
            tops = {prior: ceiling(job, truth, prior) for prior in ("auto", None)}
            results = {"momentmix": (tops["auto"], *ours(job, "auto"))}
            results["momentmix, prior=None"] = (tops[None], *ours(job, None))
            allowed = min(LONGER * results["momentmix"][2], LIMIT)
            for name, peer in others.items():
                results[name] = (tops[None], *peer(job, allowed))
            results["scikit-learn, errors ignored"] = (
                tops[None],
                *without_errors(job, 0.0),
            )
            for name, (top, value, seconds) in results.items():
                below.setdefault(name, []).append(top - value)
                taken[name] = taken.get(name, 0.0) + seconds
        for name, values in below.items():
            there = int(np.sum(np.array(values) < NEAR))
            print(
                f"| {p:,} × {n}, {m} | {name} | {there} of {sets} | {np.mean(values):+.4f} | "
                f"{max(values):+.4f} | {taken[name] / taken['momentmix']:.1f} |",
                flush=True,
            )
