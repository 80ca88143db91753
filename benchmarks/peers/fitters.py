"""One function a peer: fit a mixture to X as its users would, from one seed.

Each takes (X, m, kind, tol, seed) and returns weights, means, covariances and the number of passes
over the data that it reports; ``tol`` is the gain in mean log-likelihood a sample at which to stop.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np

MAX_ITER = 500


def momentmix(X: np.ndarray, m: int, kind: str, tol: float, seed: int) -> tuple:
    from momentmix import GaussianMixture

    fit = GaussianMixture(m, covariance_type=kind, tol=tol, max_iter=MAX_ITER, random_state=seed)
    fit.fit(X)
    return fit.weights_, fit.means_, fit.covariances_, fit.n_passes_


def newton(X: np.ndarray, m: int, kind: str, tol: float, seed: int) -> tuple:
    from momentmix import GaussianMixture

    start = {"init_params": "moments", "method": "newton"}
    fit = GaussianMixture(m, covariance_type=kind, tol=tol, random_state=seed, **start).fit(X)
    return fit.weights_, fit.means_, fit.covariances_, fit.n_passes_


def sklearn(X: np.ndarray, m: int, kind: str, tol: float, seed: int) -> tuple:
    from sklearn.mixture import GaussianMixture

    fit = GaussianMixture(m, covariance_type=kind, tol=tol, max_iter=MAX_ITER, random_state=seed)
    fit.fit(X)
    return fit.weights_, fit.means_, fit.covariances_, fit.n_iter_


def bayesian(X: np.ndarray, m: int, kind: str, tol: float, seed: int) -> tuple:
    from sklearn.mixture import BayesianGaussianMixture

    fit = BayesianGaussianMixture(
        n_components=m, covariance_type=kind, tol=tol, max_iter=MAX_ITER, random_state=seed
    ).fit(X)
    return fit.weights_, fit.means_, fit.covariances_, fit.n_iter_


def pomegranate(X: np.ndarray, m: int, kind: str, tol: float, seed: int) -> tuple:
    import torch
    from pomegranate.distributions import Normal
    from pomegranate.gmm import GeneralMixtureModel

    # Its tol is on the total log-likelihood. It counts no iterations, so they are counted here.
    class Counted(GeneralMixtureModel):
        passes = 0

        def summarize(self, *arguments: Any, **keywords: Any) -> Any:
            Counted.passes += 1
            return super().summarize(*arguments, **keywords)

    parts = [Normal(covariance_type=kind) for _ in range(m)]
    model = Counted(parts, tol=tol * len(X), max_iter=MAX_ITER, random_state=seed)
    model.fit(torch.tensor(X, dtype=torch.float32))
    means = np.array([part.means.detach().numpy() for part in parts])
    covariances = np.array([part.covs.detach().numpy() for part in parts])
    return model.priors.detach().numpy(), means, covariances, Counted.passes


def gmmx(X: np.ndarray, m: int, kind: str, tol: float, seed: int) -> tuple:
    import jax
    from gmmx import EMFitter, GaussianMixtureModelJax

    X = X.astype(np.float32)  # it refuses float64
    start = GaussianMixtureModelJax.from_k_means(
        X, n_components=m, covariance_type=kind, random_state=seed
    )
    result = EMFitter(tol=tol, max_iter=MAX_ITER).fit(x=jax.numpy.asarray(X), gmm=start)
    fitted = result.gmm
    return (
        fitted.weights_numpy,
        fitted.means_numpy,
        fitted.covariances.values_numpy,
        int(result.n_iter),
    )


def spark(X: np.ndarray, m: int, kind: str, tol: float, seed: int) -> tuple:
    import pandas as pd
    from pyspark.ml.clustering import GaussianMixture
    from pyspark.ml.feature import VectorAssembler
    from pyspark.sql import SparkSession

    if kind != "full":
        raise NotImplementedError("Spark has full covariances only")
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "6g")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    names = [f"x{i}" for i in range(X.shape[1])]
    rows = session.createDataFrame(pd.DataFrame(X, columns=names))
    rows = VectorAssembler(inputCols=names, outputCol="features").transform(rows)
    rows = rows.select("features").repartition(2).cache()
    rows.count()
    # Its tol is on the total log-likelihood too.
    model = GaussianMixture(k=m, tol=tol * len(X), maxIter=MAX_ITER, seed=seed).fit(rows)
    gaussians = model.gaussiansDF.collect()
    means = np.array([row["mean"].toArray() for row in gaussians])
    covariances = np.array([row["cov"].toArray() for row in gaussians])
    return np.array(model.weights), means, covariances, model.summary.numIter


PEERS = {
    "momentmix": momentmix,
    "momentmix, moments, then newton": newton,
    "scikit-learn": sklearn,
    "Bayesian (scikit-learn)": bayesian,
    "pomegranate": pomegranate,
    "gmmx": gmmx,
    "Spark MLlib": spark,
}


def _family(pid: int) -> list[int]:
    """The process and its children, such as a Java machine."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid] + [one for child in children for one in _family(int(child))]


def _peak(pid: int) -> float:
    """Peak memory in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return 0.0


def main(peer: str, data: str, m: str, kind: str, tol: str, seed: str, out: str) -> None:
    """Fit in this process and write the result: parameters, seconds, passes, peak memory."""
    import time

    warnings.simplefilter("ignore")
    X = np.load(data)
    fit = PEERS[peer]
    fit(X[:: max(1, len(X) // 500)][:500], 2, kind, 1e-2, 0)  # imports, sessions, compilers
    start = time.perf_counter()
    weights, means, covariances, passes = fit(X, int(m), kind, float(tol), int(seed))
    seconds = time.perf_counter() - start
    weights, means, covariances = (np.asarray(a, float) for a in (weights, means, covariances))
    if kind == "full":  # single precision is symmetric to its own digits only
        covariances = (covariances + covariances.swapaxes(1, 2)) / 2
    peak = sum(_peak(pid) for pid in _family(os.getpid()))
    np.savez(
        out,
        weights=weights,
        means=means,
        covariances=covariances,
        seconds=seconds,
        passes=passes,
        peak=peak,
    )


if __name__ == "__main__":
    import sys

    main(*sys.argv[1:])
