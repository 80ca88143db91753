"""Many rows to the maximum of the likelihood: part of ``make bench-tensors``.

How many passes, how near to the maximum, and in what time: in memory, on a cluster, and from a file
that does not fit into memory. Ratios and memory, measured in this run.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import sklearn.mixture

from machine import machine
from momentmix import GaussianMixture, Mixture, MomentMixture
from tensors import mean_error, mixture, timed

#: Seeds of mixtures that nothing was tuned on.
FIRST_SEED = 20


def overlapping(i: int, separation: float, quick: bool) -> Mixture:
    """Five components in ten features; few for a smoke test."""
    n, m = (4, 2) if quick else (10, 5)
    return mixture(FIRST_SEED + i, n, m, separation)


#: The ways to the maximum that are compared, by the names that tables give them.
WAYS = {
    "moments, then newton": {"init_params": "moments", "method": "newton"},
    "default": {},
}


def at_the_top(X: np.ndarray, truth: Mixture) -> GaussianMixture:
    """The maximum of the likelihood next to the truth, which nobody knows but a benchmark."""
    start = {"weights_init": truth.weights, "means_init": truth.means,
             "covariances_init": truth.covariances}  # fmt: skip
    return GaussianMixture(truth.n_components, prior=None, tol=1e-10, max_iter=1000, **start).fit(X)


def em_from_moments(X: np.ndarray, pure: MomentMixture) -> GaussianMixture:
    """EM steps from the estimate at which scoring begins."""
    start = {"weights_init": pure.weights_, "means_init": pure.means_,
             "covariances_init": pure.covariances_}  # fmt: skip
    return GaussianMixture(len(pure.weights_), max_iter=1000, **start).fit(X)


def passes(quick: bool) -> None:
    p = 30_000 if quick else 1_000_000
    print(f"\n## {p:,} × 10, five full components: passes to the maximum\n")
    print("`optimum`: the maximum that EM reaches from the truth (tol=1e-10). Errors of the means")
    print("are over that of the optimum, log-likelihoods less that of the optimum, in nats a row.")
    print("EM of momentmix begins at the moment estimate, as scoring does. scikit-learn's EM")
    print("begins at k-means, with tol=1e-6. Medians of three fits; scikit-learn's, one run.\n")
    print("| separation | fit | passes | error | log-likelihood | seconds | scikit-learn over it |")
    print("| ---: | --- | ---: | ---: | ---: | ---: | ---: |", flush=True)
    for i, separation in enumerate((1.0,) if quick else (0.7, 1.0, 1.4, 2.0)):
        truth = overlapping(i, separation, quick)
        X, _ = truth.sample(p, FIRST_SEED + i)
        top, rows = at_the_top(X, truth), fits(X, truth.n_components, quick)
        *_, t_theirs = rows[-1]
        for name, fit, steps, t in rows:
            error = mean_error(fit.means_, truth) / mean_error(top.means_, truth)
            gap = fit.score(X) - top.score(X)
            cells = f"{steps} | {error:.3f} | {gap:+.1e} | {t:.2f} | {t_theirs / t:.1f}"
            print(f"| {separation} | {name} | {cells} |", flush=True)


def fits(X: np.ndarray, m: int, quick: bool) -> list[tuple]:
    """(name, fit, passes, seconds) of ours and of scikit-learn's, which is the last."""

    def median(job: Callable) -> tuple:
        runs = [timed(job) for _ in range(1 if quick else 3)]
        return runs[0][0], float(np.median([t for _, t in runs]))

    fast, t_fast = median(
        lambda: GaussianMixture(m, init_params="moments", method="newton", random_state=0).fit(X)
    )
    usual, t_usual = median(lambda: GaussianMixture(m, random_state=0).fit(X))
    pure, t_pure = median(lambda: MomentMixture(m, random_state=0).fit(X))
    order_4, t_4 = timed(lambda: MomentMixture(m, order=4, random_state=0).fit(X))
    em, t_em = timed(lambda: em_from_moments(X, order_4))
    theirs = sklearn.mixture.GaussianMixture(
        m, tol=1e-6, max_iter=20 if quick else 1000, random_state=0
    )
    _, t_theirs = timed(lambda: theirs.fit(X))
    return [
        ("moments, then newton", fast, fast.n_passes_, t_fast),
        ("default", usual, f"{usual.n_iter_} after a search", t_usual),
        ("MomentMixture", pure, pure.n_passes_, t_pure),
        ("moments, then EM", em, em.n_iter_ + 1, t_4 + t_em),
        ("scikit-learn", theirs, theirs.n_iter_, t_theirs),
    ]


def cluster(quick: bool) -> None:
    import dask
    import dask.array as da
    from dask.distributed import Client, LocalCluster

    p, blocks = (30_000, 6) if quick else (1_000_000, 20)
    print(f"\n## The same on Dask: {p:,} × 10, {blocks} blocks on two workers of one thread each\n")
    print("Times are over that of the fit in memory with two threads; rows are on the workers.\n")
    print("| separation | fit | passes | error over the optimum's | log-likelihood | time |")
    print("| ---: | --- | ---: | ---: | ---: | ---: |", flush=True)
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**options) as c, Client(c):
        for i, separation in enumerate((1.0,) if quick else (0.7, 1.0, 2.0)):
            truth = overlapping(i, separation, quick)
            X, _ = truth.sample(p, FIRST_SEED + i)
            top = at_the_top(X, truth)
            parts = [da.from_delayed(dask.delayed(part), part.shape, dtype=float)
                     for part in np.array_split(X, blocks)]  # fmt: skip
            D = da.concatenate(parts).persist()
            D.sum().compute()
            for name, settings in WAYS.items():
                model = GaussianMixture(truth.n_components, random_state=0, **settings)
                here, _, there = (
                    min(timed(lambda f=model, rows=rows: f.fit(rows))[1] for _ in range(2))
                    for rows in (X, D, D)
                )
                error = mean_error(model.means_, truth) / mean_error(top.means_, truth)
                gap = model.mixture_.log_prob(X).mean() - top.score(X)
                print(f"| {separation} | {name} | {model.n_passes_} | {error:.3f} | "
                      f"{gap:+.1e} | {there / here:.2f} |", flush=True)  # fmt: skip


FROM_FILE = """
import sys, time
import pyarrow.dataset as ds
from momentmix import GaussianMixture
data = ds.dataset(sys.argv[1])
start = time.perf_counter()
settings = {"init_params": "moments", "method": "newton"} if sys.argv[2] != "default" else {}
fit = GaussianMixture(int(sys.argv[4]), random_state=0, **settings).fit_batches(data)
seconds = time.perf_counter() - start
fit.mixture_.save(sys.argv[3])
status = open("/proc/self/status").read()
print(fit.n_passes_, seconds, int(status[status.index("VmHWM:"):].split()[1]) / 1024)
"""
READ = """
import sys, time
import pyarrow as pa, pyarrow.dataset as ds
pa.set_cpu_count(int(sys.argv[2]))
start = time.perf_counter()
options = ds.ParquetFragmentScanOptions(pre_buffer=False)
rows = sum(len(b) for b in ds.dataset(sys.argv[1]).to_batches(
    fragment_scan_options=options, batch_readahead=2, fragment_readahead=1))
print(rows, time.perf_counter() - start)
"""


def written(path: Path, truth: Mixture, rows: int) -> None:
    """A Parquet file of rows of a mixture, made in pieces."""
    import pyarrow as pa
    from pyarrow import parquet

    names = [f"x{i}" for i in range(truth.n_features)]
    schema = pa.schema([(name, pa.float64()) for name in names])
    with parquet.ParquetWriter(path, schema, compression="snappy") as out:
        for i in range(-(-rows // 1_000_000)):
            X, _ = truth.sample(min(rows, 1_000_000), 1000 + i)
            out.write_table(pa.table(list(X.T), names=names), row_group_size=250_000)
    os.sync()  # nothing is to be written any more when times are taken


def parquet(quick: bool) -> None:
    p = 100_000 if quick else 100_000_000
    print(f"\n## From a Parquet file: {p:,} × 10, which is {p * 80 / 2**30:.1f} GiB in memory\n")
    truth = overlapping(0, 1.0, quick)

    def run(code: str, *arguments: str) -> list[float]:
        done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True,
                              text=True, check=True)  # fmt: skip
        return [float(x) for x in done.stdout.split()]

    with tempfile.TemporaryDirectory() as folder:
        path, model = Path(folder) / "x.parquet", Path(folder) / "model.json"
        _, t = timed(lambda: written(path, truth, p))
        print(f"The file has {path.stat().st_size / 1e9:.1f} GB and was made in {t:.0f} s.\n")
        reads = {threads: min(run(READ, str(path), str(threads))[1] for _ in range(2))
                 for threads in (1, 2)}  # fmt: skip
        print("| what | passes | seconds | µs a row | over reading | peak MiB | error × √p |")
        print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |", flush=True)
        for threads, t in reads.items():
            print(f"| reading alone, {threads} thread(s) | 1 | {t:.1f} | {1e6 * t / p:.3f} | "
                  f"{t / reads[2]:.2f} | | |", flush=True)  # fmt: skip
        for name in WAYS:
            n, t, peak = run(FROM_FILE, str(path), name, str(model), str(truth.n_components))
            error = mean_error(Mixture.load(model).means, truth) * np.sqrt(p)
            print(f"| fit_batches, {name} | {n:.0f} | {t:.1f} | {1e6 * t / p / n:.3f} | "
                  f"{t / n / reads[2]:.2f} | {peak:.0f} | {error:.2f} |", flush=True)  # fmt: skip


PARTS = {"passes": passes, "cluster": cluster, "parquet": parquet}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes; the figures mean little")
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=f"some of {list(PARTS)}")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print(machine())
    MomentMixture(2).fit(np.random.default_rng(0).normal(size=(1000, 2)))
    for part in arguments.parts:
        time.sleep(0.5)
        PARTS[part](arguments.quick)


if __name__ == "__main__":
    main()
