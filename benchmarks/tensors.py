"""One pass over the data: ``make bench-tensors``. Ratios and memory, measured in this run."""

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

from machine import machine
from momentmix import GaussianMixture, Mixture, MomentMixture, MomentTensors
from momentmix.covariance import Diagonal
from momentmix.matching.orders import tensors_pay
from momentmix.summary.components import paired_components
from timing import best_in_turn, best_of


def mixture(seed: int, n: int = 10, m: int = 5, separation: float = 0.8) -> Mixture:
    """Overlapping components: means with deviation 0.57, variances of about 1."""
    rng = np.random.default_rng(seed)
    L = rng.normal(size=(m, n, n)) / np.sqrt(n)
    covariances = 0.7 * L @ L.swapaxes(1, 2) + 0.3 * np.eye(n)
    means = rng.normal(size=(m, n)) * separation / np.sqrt(2)
    return Mixture(rng.dirichlet(np.full(m, 5.0)), means, covariances)


def mean_error(means: np.ndarray, truth: Mixture) -> float:
    i, j = paired_components(means, truth.means)
    return float(np.linalg.norm(truth.means[i] - means[j], axis=1).mean())


def timed(job: Callable) -> tuple:
    start = time.perf_counter()
    result = job()
    return result, time.perf_counter() - start


def updates(quick: bool) -> None:
    print("\n## Updating against the bare product\n")
    print("Order 4: PᵀP of the products x_a x_b, a ≤ b, made beforehand; order 3: XᵀP. Best of")
    print("several turns, with a pause and a warm-up (repeating), and straight in turn.\n")
    print("| n | rows | order | repeating | in turn | bound |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    sizes = ((10, 1_000_000), (20, 200_000), (50, 20_000))
    for n, p in sizes[:1] if quick else sizes:
        X = np.random.default_rng(0).normal(size=(p // (20 if quick else 1), n))
        a, b = np.triu_indices(n)
        P = X[:, a] * X[:, b]
        for order, bare in ((4, lambda P=P: P.T @ P), (3, lambda X=X, P=P: X.T @ P)):
            jobs = bare, lambda X=X, order=order: MomentTensors(X.shape[1], order).update(X)
            ratios = []
            for clock in (best_of, best_in_turn):
                t_bare, t_ours = clock(*jobs, rounds=2 if quick else 7)
                ratios.append(f"{t_ours / t_bare:.2f}")
            print(f"| {n} | {len(X):,} | {order} | {' | '.join(ratios)} | 1.5 |", flush=True)


def independent_of_rows(quick: bool) -> None:
    print("\n## Fit time from moments over the number of rows\n")
    print("10 features, five full components, order 4; best of seven fits, sizes in turn.")
    print("'Repeated': the same 10,000 rows over and over, so that only their number differs.")
    print("'Fresh': new rows; the more, the less noisy their moments, and the fewer the steps.\n")
    print("| rows | repeated: time | fresh: time | fresh: steps | fresh: time a step | moments |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |", flush=True)
    truth = mixture(0, 4, 2) if quick else mixture(0)
    repeated = [MomentTensors.from_samples(truth.sample(10_000, 0)[0], 4)]
    fresh = []
    powers = (4, 5) if quick else (4, 5, 6, 7)
    for power in powers:
        if power > 4:
            repeated.append(sum([repeated[-1]] * 9, start=repeated[-1]))
        fresh.append(MomentTensors(truth.n_features, 4))
        for i in range(max(1, 10 ** (power - 5))):
            fresh[-1].update(truth.sample(min(10**power, 100_000), 100 + i)[0])
        assert repeated[-1].count == fresh[-1].count == 10**power
    models = [MomentMixture(truth.n_components, random_state=0) for _ in range(2 * len(powers))]
    jobs = [lambda T=T, f=f: f.fit_moments(T)
            for T, f in zip(repeated + fresh, models, strict=True)]  # fmt: skip
    times = np.array(best_in_turn(*jobs, rounds=1 if quick else 7)).reshape(2, -1)
    steps = np.array([model.n_iter_ for model in models[len(powers) :]])
    size = 8 * len(fresh[0].state()["sums"]) / 1024
    relative = [x / x[0] for x in (times[0], times[1], times[1] / steps)]
    for i, power in enumerate(powers):
        a, b, c = (x[i] for x in relative)
        print(f"| {10**power:,} | {a:.2f} | {b:.2f} | {steps[i]} | {c:.2f} | {size:.1f} KiB |")


PEAK = """
import sys
from momentmix.cli import app
sys.argv = ["momentmix", *sys.argv[1:]]
app(standalone_mode=False)
status = open("/proc/self/status").read()
print(status[status.index("VmHWM:"):].split()[1], file=sys.stderr)
"""


def files(quick: bool) -> None:
    import pyarrow as pa
    from pyarrow import csv, parquet

    print("\n## Files: `momentmix moments FILE --order 4`, 10 columns\n")
    print("| file | rows | size MB | seconds, start of Python included | peak memory MiB | bound |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |", flush=True)
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        for ending, rows in (
            ("npy", 10_000_000), ("npy", 1_000_000), ("parquet", 10_000_000), ("csv", 1_000_000),
        ):  # fmt: skip
            p = rows // (1000 if quick else 1)
            path = Path(folder) / f"x.{ending}"
            blocks = (rng.normal(size=(min(p, 250_000), 10)) for _ in range(-(-p // 250_000)))
            names = [f"x{i}" for i in range(10)]
            if ending == "npy":
                target = np.lib.format.open_memmap(path, "w+", float, (p, 10))
                for i, block in enumerate(blocks):
                    target[i * 250_000 : i * 250_000 + len(block)] = block
                target.flush()
                del target
            else:
                schema = pa.schema([(name, pa.float64()) for name in names])
                writer = parquet.ParquetWriter if ending == "parquet" else csv.CSVWriter
                with writer(path, schema) as out:
                    for block in blocks:
                        out.write_table(pa.table(list(block.T), names=names))
            command = [sys.executable, "-c", PEAK, "moments", str(path), "-o", f"{folder}/m.npz"]
            done, t = timed(
                lambda c=command: subprocess.run(c, capture_output=True, text=True, check=True)
            )
            peak = int(done.stderr.split()[-1]) / 1024
            size = path.stat().st_size / 1e6
            print(f"| {ending} | {p:,} | {size:.0f} | {t:.1f} | {peak:.0f} | 500 |", flush=True)
            path.unlink()


def crossing(quick: bool) -> None:
    print("\n## Moments or samples: what MomentMixture works on\n")
    print("One start, diag, five components, order 4. The time from samples over the time from")
    print("moments (pass included); above 1 moments are faster. '*': moments='auto' agrees.\n")
    sizes = (300, 1000, 3000, 10_000, 30_000) if not quick else (300,)
    print(f"| n | moments | {' | '.join(f'p={p:,}' for p in sizes)} |")
    print(f"| ---: | ---: |{' ---: |' * len(sizes)}", flush=True)
    for n in (20, 40, 60) if not quick else (10,):
        rng = np.random.default_rng(n)
        truth = Mixture(np.full(5, 0.2), 3 * rng.normal(size=(5, n)), np.ones((5, n)), "diag")
        cells = []
        for p in sizes:
            X, _ = truth.sample(p, 0)
            times = {}
            for form in ("samples", "tensors"):
                model = MomentMixture(
                    5, covariance_type="diag", order=4, n_init=1, random_state=0,
                    moments=form, max_iter=50,
                )  # fmt: skip
                times[form] = min(timed(lambda f=model, X=X: f.fit(X))[1] for _ in range(2))
            ratio = times["samples"] / times["tensors"]
            auto = tensors_pay(p, Diagonal, 5, n, 4)
            cells.append(f"{ratio:.2f}{'*' if auto == (ratio > 1) else ' (auto differs)'}")
        size = len(MomentTensors(n, 4).state()["sums"])
        print(f"| {n} | {size:,} | {' | '.join(cells)} |", flush=True)


def cluster(quick: bool) -> None:
    import dask.array as da
    from dask.distributed import Client, LocalCluster

    def sent(dask_worker: object) -> int:
        return dask_worker.transfer_outgoing_bytes_total  # type: ignore[attr-defined]

    rows = 200_000 if quick else 4_000_000
    print(f"\n## A Dask cluster: {rows:,} rows made on the workers, order 4, one thread a worker\n")
    print(f"This machine has {os.cpu_count()} cores. Time of the pass over that on one worker.")
    print("Traffic: bytes that workers sent to each other, over the bytes of the rows.\n")
    print("| n | workers | time | traffic | scoring: time |")
    print("| ---: | ---: | ---: | ---: | ---: |", flush=True)
    for n in (10,) if quick else (10, 20):
        base: list[float] = []
        for workers in (1, 2) if quick else (1, 2, 4):
            with (
                LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as c,
                Client(c) as client,
            ):
                X = da.random.default_rng(0).normal(size=(rows, n), chunks=(rows // 40, n))
                MomentTensors.from_samples(X[: rows // 40], 4)
                before = sum(client.run(sent).values())
                t = min(timed(lambda X=X: MomentTensors.from_samples(X, 4))[1] for _ in range(3))
                moved = (sum(client.run(sent).values()) - before) / 3
                model = GaussianMixture(3, random_state=0, max_iter=3, tol=0)
                model.fit(X[: rows // 4])
                t_em = timed(lambda X=X, f=model: f.score(X))[1]
            base = base or [t, t_em]
            print(
                f"| {n} | {workers} | {t / base[0]:.2f} | {moved / (8 * rows * n):.5f} "
                f"| {t_em / base[1]:.2f} |",
                flush=True,
            )


PARTS = {
    "updates": updates,
    "rows": independent_of_rows,
    "files": files,
    "crossing": crossing,
    "cluster": cluster,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes; the figures mean little")
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=f"some of {list(PARTS)}")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print(machine())
    for part in arguments.parts:
        PARTS[part](arguments.quick)


if __name__ == "__main__":
    main()
