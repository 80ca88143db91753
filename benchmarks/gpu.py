"""Rows on a GPU: passes against the roof of the device, whole fits against peers, a stream.

``make bench-gpu`` runs it on the first CUDA device. The roofs are measured in the same run: how
long the device takes to copy X, and how fast it multiplies large matrices. A pass reads X once and
does so many multiplications, so the slower of the two is the least time it can take. The part
``counts`` needs no GPU (``--device cpu``): it says what a pass asks of any device.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

os.environ.setdefault("SCIPY_ARRAY_API", "1")

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from core import ORDER_4, random_mixture
from machine import machine
from momentmix import GaussianMixture, Mixture
from momentmix.blocks.device_rows import through_device
from momentmix.blocks.sources import block_rows
from momentmix.covariance import Zero, covariance_type
from momentmix.datasets import paper_mixture
from momentmix.fit import Parameters
from momentmix.moments.atoms import Atoms
from momentmix.moments.bilinear import bilinear
from momentmix.rows.device import device_sums
from momentmix.rows.memory import Density
from momentmix.support import array
from momentmix.tensors.packed import total_size
from momentmix.tensors.rowsums import row_sums

#: Nats a row below the best within which a fit has found it, and starts that a peer may take.
FOUND, STARTS = 1e-3, 10


class Machine:
    """A device, and how fast it is."""

    def __init__(self, name: str, quick: bool) -> None:
        self.device, self.quick = torch.device(name), quick
        cuda = self.device.type == "cuda"
        self.title = torch.cuda.get_device_name(self.device) if cuda else "the CPU as a device"
        self.cuda = cuda

    def wait(self) -> None:
        if self.cuda:
            torch.cuda.synchronize(self.device)

    def seconds(self, job: Callable[[], object], rounds: int = 7) -> float:
        """The median time of a job, after one to warm up."""
        job()
        self.wait()
        times = []
        for _ in range(2 if self.quick else rounds):
            start = time.perf_counter()
            job()
            self.wait()
            times.append(time.perf_counter() - start)
        return float(np.median(times))

    def rows(self, p: int, n: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
        draw = torch.Generator(self.device).manual_seed(0)
        return torch.randn((p, n), dtype=dtype, device=self.device, generator=draw)

    def rate(self, dtype: torch.dtype) -> float:
        """Multiplications and additions a second in products of large matrices."""
        size = 512 if self.quick else 8192
        A = self.rows(size, size, dtype)
        return 2 * size**3 / self.seconds(lambda: A @ A)


class Job(NamedTuple):
    """A pass: what it is, how to run it, and the multiplications and additions it cannot avoid."""

    what: str
    run: Callable[[], object]
    X: torch.Tensor
    operations: float


def jobs(on: Machine) -> Iterator[Job]:
    """The passes over rows that a fit is made of, one after the other to save memory."""
    share = 2000 if on.quick else 1
    for kind, p, n, m in (("diag", 10**7, 100, 20), ("full", 2 * 10**6, 50, 10)):
        p //= share
        own, mixture = covariance_type(kind), random_mixture(m, n, kind)
        width = n if kind == "diag" else n * (n + 1) // 2
        products = 8.0 * p * m * (n + width) / 2  # there and back, 2 each
        for dtype in (torch.float64, torch.float32):
            X, bits = on.rows(p, n, dtype), str(dtype).rpartition("float")[2]
            where = f"{kind}, n={n}, m={m}, p={p:.0e}, float{bits}"
            P, Q = mixture.atoms.on(X), Atoms(1 / p, X, Zero(n))

            def data_term(P: Atoms = P, Q: Atoms = Q) -> object:
                return bilinear(P, Q, ORDER_4, True)

            yield Job(f"data term, d=4, {where}", data_term, X, products)
            at = Parameters.of(mixture)
            density = Density.of(own, at)

            def step(X: torch.Tensor = X, own: Any = own, density: Density = density) -> object:
                return device_sums(X, None, own, density)

            yield Job(f"EM step, {where}", step, X, products)
            del X, P, Q, data_term, step
    for n, p in ((10, 10**7), (50, 10**6)):
        p //= share
        X = on.rows(p, n)

        def moments(X: torch.Tensor = X, n: int = n) -> object:
            return row_sums(X, np.zeros(n), None, 4)

        yield Job(f"moments, d=4, n={n}, p={p:.0e}", moments, X, 2.0 * p * total_size(n, 4))
        del X, moments


def passes(on: Machine) -> None:
    """Each pass beside the roof."""
    rates = {dtype: on.rate(dtype) for dtype in (torch.float64, torch.float32)}
    X = on.rows(2000 if on.quick else 10**7, 50)
    copied = 2 * X.numel() * 8 / on.seconds(X.clone)
    del X
    print(
        f"Copies: {copied / 1e12:.3g} TB/s, read and written. Products: "
        f"{rates[torch.float64] / 1e12:.3g} TFLOP/s in float64, "
        f"{rates[torch.float32] / 1e12:.3g} in float32.\n"
    )
    print("| pass | ms | copy of X, ms | products, ms | share of the roof |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for job in jobs(on):
        took = on.seconds(job.run)
        copy = 2 * job.X.numel() * job.X.element_size() / copied
        products = job.operations / rates[job.X.dtype]
        roof = max(copy, products)
        print(
            f"| {job.what} | {1e3 * took:.3g} | {1e3 * copy:.3g} | {1e3 * products:.3g} "
            f"| {100 * roof / took:.0f} % |",
            flush=True,
        )
        torch.cuda.empty_cache()
    print(f"\nThe largest difference of float32 from float64: {single_error(on):.1e} (relative).")


def single_error(on: Machine) -> float:
    """Of the gradient of the data term in float32 from that in float64, relative to its size."""
    n, p = 100, 2000 if on.quick else 10**6
    mixture, X = random_mixture(20, n, "diag"), on.rows(p, n, torch.float32)
    found = []
    for rows in (X, X.double()):
        form = bilinear(mixture.atoms.on(rows), Atoms(1 / p, rows, Zero(n)), ORDER_4, True)
        assert form.means is not None
        found.append(array.to_numpy(form.means).astype(float))
    return float(np.abs(found[0] - found[1]).max() / np.abs(found[1]).max())


# What a pass asks of a device, whatever the device


class Traffic(TorchDispatchMode):
    """Counts kernels, and the numbers that they read and write; views cost nothing."""

    VIEWS = (
        *("view", "_unsafe_view", "reshape", "transpose", "t", "permute", "expand", "slice"),
        *("select", "squeeze", "unsqueeze", "alias", "detach", "empty", "lift_fresh"),
    )

    def __init__(self) -> None:
        super().__init__()
        self.kernels = self.numbers = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        out = function(*args, **(kwargs or {}))
        if str(function).split(".")[1] not in self.VIEWS:
            touched = tree_flatten((args, out))[0]
            arrays = {id(x): x for x in touched if isinstance(x, torch.Tensor)}
            self.kernels += 1
            self.numbers += sum(_stored(x) for x in arrays.values())
        return out


def _stored(x: torch.Tensor) -> int:
    """Numbers that an array holds; what is broadcast is read once."""
    sizes = [size for size, stride in zip(x.shape, x.stride(), strict=True) if stride]
    return int(np.prod(sizes)) if x.numel() else 0


def counts(on: Machine) -> None:
    """Kernels of a block, and numbers read and written for each number of X."""
    print("| pass | kernels a block | numbers moved for each of X |")
    print("| --- | ---: | ---: |")
    small = Machine("cpu", quick=True)
    for job in jobs(small):
        job.run()
        with Traffic() as traffic:
            job.run()
        name = job.what.partition(", p=")[0] + (", float32" if "float32" in job.what else "")
        print(f"| {name} | {traffic.kernels} | {traffic.numbers / job.X.numel():.0f} |")


# Whole fits


def truth_of(m: int, n: int, kind: str, seed: int = 0) -> Mixture:
    rng = np.random.default_rng(seed)
    means = 1.4 * rng.normal(size=(m, n)) * np.sqrt(10 / n)
    L = rng.normal(size=(m, n, n)) / (2 * np.sqrt(n)) + np.eye(n)
    spread = rng.uniform(0.5, 1.5, (m, n)) if kind == "diag" else L @ L.swapaxes(1, 2)
    return Mixture(rng.dirichlet(np.full(m, 8.0)), means, spread, kind)


def drawn(on: Machine, truth: Mixture, p: int) -> torch.Tensor:
    """Rows of a mixture, made on the device."""
    draw = torch.Generator(on.device).manual_seed(1)
    there = truth.on(torch.empty(0, dtype=torch.float64, device=on.device))
    labels = torch.multinomial(there.weights, p, replacement=True, generator=draw)
    Z, root = on.rows(p, truth.n_features), there.atoms.covariance.root()
    for j in range(truth.n_components):
        own = torch.nonzero(labels == j)[:, 0]
        Z[own] = there.means[j] + there.atoms.covariance.apply(root, j, Z[own])
    return Z


def ours(X: Any, m: int, kind: str, seed: int) -> tuple:
    fit = GaussianMixture(m, covariance_type=kind, random_state=seed).fit(X)
    return fit.weights_, fit.means_, fit.covariances_


def sklearn(X: Any, m: int, kind: str, seed: int) -> tuple:
    from sklearn import config_context
    from sklearn import mixture as peer

    settings = {"tol": 1e-6, "max_iter": 500, "init_params": "random_from_data"}
    with config_context(array_api_dispatch=True):
        fit = peer.GaussianMixture(m, covariance_type=kind, random_state=seed, **settings).fit(X)
    return fit.weights_, fit.means_, fit.covariances_


def pomegranate(X: Any, m: int, kind: str, seed: int) -> tuple:
    from pomegranate.distributions import Normal
    from pomegranate.gmm import GeneralMixtureModel

    parts = [Normal(covariance_type=kind) for _ in range(m)]
    fit = GeneralMixtureModel(parts, tol=1e-6 * len(X), max_iter=500, random_state=seed)
    fit.to(X.device).fit(X.float())
    means = torch.stack([part.means.detach() for part in parts])
    return fit.priors.detach(), means, torch.stack([part.covs.detach() for part in parts])


def gmmx(X: Any, m: int, kind: str, seed: int) -> tuple:
    import jax
    from gmmx import EMFitter, GaussianMixtureModelJax

    single = X.float()  # it refuses float64
    start = GaussianMixtureModelJax.from_k_means(
        single.cpu().numpy(), n_components=m, covariance_type=kind, random_state=seed
    )
    rows = jax.dlpack.from_dlpack(single)
    fit = EMFitter(tol=1e-6, max_iter=500).fit(x=rows, gmm=start).gmm
    return fit.weights_numpy, fit.means_numpy, fit.covariances.values_numpy


def judged(X: torch.Tensor, found: tuple, kind: str) -> float:
    """The mean log-likelihood of what was found, told by one judge for all."""
    weights, means, covariances = (array.to_numpy(part).astype(float) for part in found)
    if kind == "full":
        covariances = (covariances + covariances.swapaxes(1, 2)) / 2
    mixture = Mixture(weights / weights.sum(), means, covariances, kind)
    return float(torch.mean(mixture.on(X).log_prob(X)))


class Run(NamedTuple):
    """How long a fit took, in how many starts, and what it reached."""

    seconds: float
    starts: int
    reached: float


def run(
    on: Machine, fit: Callable[..., tuple], X: Any, truth: Mixture, rows: torch.Tensor, best: float
) -> Run:
    """Starts of a fit to X until one is as good as the best; ``rows`` are X on the device."""
    kind, m, took, reached, starts = truth.covariance_type, truth.n_components, 0.0, -np.inf, 0
    while starts < (2 if on.quick else STARTS) and not reached > best - FOUND:
        on.wait()
        start = time.perf_counter()
        found = fit(X, m, kind, starts)
        on.wait()
        took, starts = took + time.perf_counter() - start, starts + 1
        reached = max(reached, judged(rows, found, kind))
    return Run(took, starts, reached)


def fits(on: Machine) -> None:
    """Time to the best likelihood: starts until one is within so little of it."""
    share = 1000 if on.quick else 1
    problems = (
        ("the paper's, 1e6 × 100", paper_mixture(0.1, 0), 10**6),
        ("1e7 × 50, m=10", truth_of(10, 50, "diag"), 10**7),
        ("1e7 × 10, m=5", truth_of(5, 10, "full"), 10**7),
    )
    for name, truth, p in problems:
        X = drawn(on, truth, max(p // share, 2000))
        score = float(torch.mean(truth.on(X).log_prob(X)))
        print(f"\n{name}, {truth.covariance_type}. The truth has {score:.5f} nats a row.\n")
        print("| fit | seconds to the best | starts | nats a row below it | times ours |")
        print("| --- | ---: | ---: | ---: | ---: |")
        run(on, ours, X, truth, X, -np.inf)  # whatever is made once
        first = run(on, ours, X, truth, X, -np.inf)
        here = X.cpu().numpy()
        for what, fit, rows in (
            ("momentmix on the device", None, X),
            ("momentmix on the CPU", ours, here),
            ("scikit-learn", sklearn, X),
            ("pomegranate", pomegranate, X),
            ("gmmx", gmmx, X),
        ):
            try:
                took = first if fit is None else run(on, fit, rows, truth, X, first.reached)
                print(line_of(what, took, first), flush=True)
            except Exception as error:  # it is not here, or cannot do it on this device
                reason = (str(error).strip().splitlines() or [""])[0]
                print(f"| {what} | none: {type(error).__name__} {reason[:90]} | | | |")
        del X, here


def line_of(what: str, found: Run, first: Run) -> str:
    gap = first.reached - found.reached
    missed = "" if gap < FOUND else ", not found"
    times = found.seconds / first.seconds
    return f"| {what} | {found.seconds:.2f}{missed} | {found.starts} | {gap:.1e} | {times:.1f} |"


# More rows than fit


def stream(on: Machine) -> None:
    """Rows in the main memory, batch by batch through the device."""
    p, n, m = (20_000 if on.quick else 10**8), 10, 5
    truth = truth_of(m, n, "full")
    rng = np.random.default_rng(0)
    X, _ = truth.sample(min(p, 10**6), rng)
    X = np.resize(np.asarray(X), (p, n))
    like = torch.empty((0, n), dtype=torch.float64, device=on.device)

    def nothing(rows: torch.Tensor, weights: None) -> int:
        return len(rows)

    rows = through_device(block_rows(X), like)
    rows.total(nothing)
    start = time.perf_counter()
    rows.total(nothing)
    on.wait()
    transfer = time.perf_counter() - start
    start = time.perf_counter()
    fit = GaussianMixture(m, random_state=0).fit_batches(X, device=str(on.device))
    took = time.perf_counter() - start
    moved_for = fit.n_passes_ * transfer
    print(
        f"{p:.0e} × {n} from the main memory: {X.nbytes / transfer / 1e9:.3g} GB/s; the fit took "
        f"{took:.2f} s and {fit.n_passes_} passes, of which the transfer is {moved_for:.2f} s, "
        f"{100 * moved_for / took:.0f} %."
    )


PARTS = {"passes": passes, "counts": counts, "fits": fits, "stream": stream}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes; the figures mean little")
    parser.add_argument("--device", default="cuda", help="a device of PyTorch")
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=f"some of {list(PARTS)}")
    arguments = parser.parse_args()
    if arguments.device.startswith("cuda") and not torch.cuda.is_available():
        raise SystemExit("there is no CUDA device here; --device cpu --quick tries the script out")
    if arguments.device == "cpu" or "counts" in arguments.parts:
        array.MAIN_MEMORY = frozenset()  # PyTorch's arrays count as being on a device
    on = Machine(arguments.device, arguments.quick)
    print(f"{on.title}; PyTorch {torch.__version__}; {machine()}.\n")
    for name in arguments.parts:
        print(f"## {name}\n")
        PARTS[name](on)
        print()


if __name__ == "__main__":
    main()
