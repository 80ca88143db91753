"""Do fits come out the same after a change that should not touch them?

    python tools/same_fits.py record before.npz     # in the tree as it was
    python tools/same_fits.py compare before.npz    # in the tree as it is

Some sixty fits, by the public names alone: covariance types, rows, weights, streams, moments, a
Dask cluster, known noise, decompositions, selection. ``compare`` tells how far each is from
the recorded one, relative to the size of its numbers, and ends with status 1 where one is further
than 1e-10.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import momentmix as mm

TOLERANCE = 1e-10
TYPES = ("full", "tied", "diag", "spherical")
FITTED = [
    "weights_",
    "means_",
    "covariances_",
    "precisions_cholesky_",
    "n_iter_",
    "n_passes_",
    "converged_",
    "objective_",
    "lower_bound_",
    "lower_bounds_",
    "log_posterior_",
    "prior_strength_",
    "collapsed_",
    "history_",
]
Results = dict[str, np.ndarray]
CASES: dict[str, Callable[[], Any]] = {}


def case(name: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    def add(function: Callable[[], Any]) -> Callable[[], Any]:
        CASES[name] = function
        return function

    return add


def truth(kind: str, m: int = 3, n: int = 3, seed: int = 0) -> mm.Mixture:
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(m, n, n)) / 2
    matrices = A @ A.swapaxes(1, 2) + 0.4 * np.eye(n)
    covariances = {
        "full": matrices,
        "tied": matrices[0],
        "diag": matrices[:, range(n), range(n)],
        "spherical": matrices[:, 0, 0],
    }[kind]
    return mm.Mixture(
        rng.dirichlet(np.full(m, 8.0)), 2 * rng.normal(size=(m, n)), covariances, kind
    )


def rows(kind: str, p: int = 600, seed: int = 0, **more: int) -> np.ndarray:
    return truth(kind, seed=seed, **more).sample(p, random_state=seed)[0]


def mixture(kind: str = "full", m: int = 3, **settings: Any) -> mm.GaussianMixture:
    return mm.GaussianMixture(m, covariance_type=kind, **{"random_state": 0, **settings})


def moments(kind: str = "full", m: int = 3, **settings: Any) -> mm.MomentMixture:
    return mm.MomentMixture(m, covariance_type=kind, **{"random_state": 0, **settings})


def by_type() -> None:
    for kind in TYPES:
        for seed in (0, 1):
            case(f"rows, {kind}, seed {seed}")(
                lambda kind=kind, seed=seed: mixture(kind, random_state=seed).fit(
                    rows(kind, seed=seed)
                )
            )
        case(f"no prior, {kind}")(lambda kind=kind: mixture(kind, prior=None).fit(rows(kind, 200)))
        case(f"weights, {kind}")(lambda kind=kind: weighted(mixture(kind), kind))
        case(f"moment starts, {kind}")(
            lambda kind=kind: mixture(kind, n_init=3, init_params="moments").fit(rows(kind))
        )
        case(f"pure, {kind}")(lambda kind=kind: moments(kind).fit(rows(kind, 5000)))
        case(f"stream, {kind}")(lambda kind=kind: stream(moments(kind), kind))
        case(f"moments, {kind}")(lambda kind=kind: moments(kind).fit_moments(truth(kind)))
        case(f"Dask, {kind}")(lambda kind=kind: mixture(kind).fit(cluster(rows(kind, 3000))))


def weighted(estimator: Any, kind: str) -> Any:
    X = rows(kind)
    return estimator.fit(X, sample_weight=np.random.default_rng(5).exponential(size=len(X)))


def stream(estimator: Any, kind: str) -> Any:
    for batch in np.array_split(rows(kind, 5000), 3):
        estimator.partial_fit(batch)
    return estimator


def cluster(X: np.ndarray) -> Any:
    import dask.array as da

    return da.from_array(X, chunks=(len(X) // 3, X.shape[1]))


by_type()
HIDDEN = np.array([[1.5, 0.0, 0.5, 0.0], [0.0, 1.5, -0.5, 1.0], [-1.0, -1.0, 0.0, 0.0]])


def noisy(p: int = 4000) -> np.ndarray:
    rng = np.random.default_rng(7)
    return HIDDEN[rng.choice(3, p, p=[0.5, 0.3, 0.2])] + rng.normal(size=(p, 4))


def known(**settings: Any) -> mm.KnownCovarianceMixture:
    return mm.KnownCovarianceMixture(3, **{"covariance": 1.0, "random_state": 0, **settings})


@case("prior by cross-validation")
def _() -> Any:
    return mixture(prior="cv").fit(rows("full", 200))


@case("large data")
def _() -> Any:
    return mixture("diag", m=4).fit(rows("diag", 260_000, m=4, n=8))


@case("many features, implicit moments")
def _() -> Any:
    return moments("diag", moments="samples", max_iter=40).fit(rows("diag", 500, n=25))


@case("omega, post-processing")
def _() -> Any:
    return moments("diag", omega=0.8, augmentation="post-processing").fit(rows("diag"))


@case("L-BFGS, orders")
def _() -> Any:
    return moments("spherical", solver="lbfgs", weighting="orders").fit(rows("spherical"))


@case("given means")
def _() -> Any:
    return mixture(means_init=truth("full").means).fit(rows("full"))


@case("warm start")
def _() -> Any:
    estimator = mixture(warm_start=True, max_iter=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.fit(rows("full")).fit(rows("full"))


@case("one component")
def _() -> Any:
    return mixture(m=1).fit(rows("full"))


@case("one component, pure")
def _() -> Any:
    return moments("tied", m=1).fit(rows("full"))


@case("repeated and rounded rows")
def _() -> Any:
    return mixture("full", m=2).fit(np.round(rows("full", 300)))


@case("Dask, pure, from samples")
def _() -> Any:
    return moments("diag", moments="samples").fit(cluster(rows("diag", 1500)))


@case("Dask, weights")
def _() -> Any:
    X = rows("diag", 3000)
    weights = np.random.default_rng(5).exponential(size=len(X))
    return mixture("diag").fit(cluster(X), sample_weight=weights)


@case("Dask, one component")
def _() -> Any:
    return mixture("diag", m=1).fit(cluster(rows("diag", 1500)))


@case("Dask, given means")
def _() -> Any:
    return mixture("diag", means_init=truth("diag").means).fit(cluster(rows("diag", 1500)))


@case("debiased samples")
def _() -> Any:
    return moments("diag").fit_moments(mm.Samples(noisy(), noise_covariance=0.3))


@case("known noise")
def _() -> Any:
    return known().fit(noisy())


@case("known noise, weights")
def _() -> Any:
    return known().fit(noisy(), sample_weight=np.random.default_rng(5).exponential(size=4000))


@case("known noise, estimated")
def _() -> Any:
    return known(covariance="estimate").fit(noisy())


@case("known noise, matrix, pure")
def _() -> Any:
    return known(covariance=np.diag([1.0, 1.1, 0.9, 1.0]) + 0.05, polish=None).fit(noisy())


@case("known noise, omega, given")
def _() -> Any:
    return known(omega=1.0, means_init=HIDDEN).fit(noisy())


@case("known noise, stream")
def _() -> Any:
    estimator = known()
    for batch in np.array_split(noisy(), 3):
        estimator.partial_fit(batch)
    return estimator


@case("known noise, Dask")
def _() -> Any:
    return known().fit(cluster(noisy()))


@case("known noise, one component")
def _() -> Any:
    return mm.KnownCovarianceMixture(1, covariance=1.0).fit(noisy())


@case("decomposition of order 3")
def _() -> Any:
    return mm.symmetric_cp(mm.Samples(noisy(), noise_covariance=1.0), 3, 3, random_state=0)


@case("decomposition of all orders, rank auto")
def _() -> Any:
    tensors = mm.MomentTensors.from_samples(noisy(), 4)
    weights = [1.0, 1.0, 0.5, 0.2, 0.1]
    return mm.symmetric_cp(tensors, 4, 4, weights=weights, random_state=0)


@case("decomposition of free signs")
def _() -> Any:
    return mm.symmetric_cp(mm.Samples(noisy(500)), "auto", 4, nonnegative=False, random_state=0)


@case("decomposition in many dimensions")
def _() -> Any:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(4, 60))[rng.integers(4, size=800)] + 0.1 * rng.normal(size=(800, 60))
    return mm.symmetric_cp(mm.Samples(X, noise_covariance=0.01), 4, 3, random_state=0)


@case("selection")
def _() -> Any:
    found = mm.select(rows("diag", 400), range(1, 6), "diag", random_state=0)
    return {"best": found.best.n_components, "bic": [choice.bic for choice in found.table]}


def numbers(found: Any) -> Results:
    """What a fit has found, as arrays by name."""
    if isinstance(found, mm.SymmetricCP):
        names = ["weights", "vectors", "objective", "n_iter", "n_passes", "converged", "history"]
        found = {name: getattr(found, name) for name in names}
    elif not isinstance(found, dict):
        found = {name: getattr(found, name, None) for name in FITTED}
    return {
        name: np.asarray(value, dtype=float) for name, value in found.items() if value is not None
    }


def run() -> Results:
    results: Results = {}
    for name, function in CASES.items():
        print(name, file=sys.stderr)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", mm.CollapseWarning)
            found = function()
        results |= {f"{name}: {part}": value for part, value in numbers(found).items()}
    return results


def distance(a: np.ndarray, b: np.ndarray) -> float:
    if a.shape != b.shape:
        return np.inf
    size = np.max(np.abs(a[np.isfinite(a)]), initial=0.0)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        apart = np.where(same, 0.0, np.abs(a - b))
    return float(np.nan_to_num(np.max(apart, initial=0.0), nan=np.inf)) / max(size, 1e-300)


def main() -> int:
    if len(sys.argv) != 3 or sys.argv[1] not in ("record", "compare"):
        print(__doc__)
        return 2
    found = run()
    if sys.argv[1] == "record":
        np.savez(sys.argv[2], **found)
        print(f"{len(CASES)} fits recorded in {sys.argv[2]}")
        return 0
    with np.load(sys.argv[2], allow_pickle=False) as file:
        before = {name: file[name] for name in file.files}
    apart = {
        name: distance(before[name], found[name]) if name in before and name in found else np.inf
        for name in [*before, *(name for name in found if name not in before)]
    }
    far = {name: size for name, size in apart.items() if size > TOLERANCE}
    for name, size in far.items():
        print(f"{size:.1e}  {name}")
    near = max((size for size in apart.values() if size <= TOLERANCE), default=0.0)
    print(
        f"{len(CASES)} fits, {len(far)} of {len(apart)} results differ; "
        f"the others by {near:.1e} at most"
    )
    return int(bool(far))


if __name__ == "__main__":
    sys.exit(main())
