"""Is the default fit right? ``make bench-default``: real tables, simulations, times, pure moments.

Each part prints one table: ``python benchmarks/default.py PART…``. Everything that is compared is
fitted to the same rows. What held-out, whole, collapsed and simulations measure is kept in
``results/default.json``, so that a run can be interrupted, or end after ``--seconds``, and goes on
where it was; ``--again`` measures anew. sk10 is scikit-learn's ``GaussianMixture(n_init=10)`` with
its other defaults; sk1 one run from k-means with tol=1e-6; mclust 6 from R, where R is there.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import sklearn.mixture
from sklearn.datasets import make_blobs, make_moons
from sklearn.metrics import adjusted_rand_score

from fit import NEAR, ceiling, timed
from kept import FOLDER, Kept
from machine import machine
from momentmix import GaussianMixture, Mixture, MomentMixture
from momentmix.covariance import Full, covariance_type
from momentmix.datasets import paper_mixture
from momentmix.estimators.moment_mixture import moment_order
from momentmix.fit import Parameters
from momentmix.fitting.em import Likelihood, Target
from momentmix.fitting.plan import Sizes
from momentmix.rows.frame import Frame
from momentmix.rows.memory import MemoryRows
from momentmix.summary.components import paired_components
from real import FRESH, TUNED, WIDE, Table

#: Nats a row, and of the ARI, from which one fit is better than another.
CLEARLY = 0.05
#: The fits that held-out and whole compare; all if none is named.
FITS: list[str] = []


def ours(m: int, seed: int, **settings: object) -> GaussianMixture:
    return GaussianMixture(m, random_state=seed, **settings)


def sk10(m: int, seed: int, kind: str = "full") -> sklearn.mixture.GaussianMixture:
    return sklearn.mixture.GaussianMixture(m, n_init=10, covariance_type=kind, random_state=seed)


def sk1(m: int, seed: int, kind: str = "full") -> sklearn.mixture.GaussianMixture:
    return sklearn.mixture.GaussianMixture(
        m, tol=1e-6, max_iter=500, covariance_type=kind, random_state=seed
    )


MCLUST = """
suppressMessages(library(mclust)); a <- commandArgs(TRUE)
X <- as.matrix(read.csv(a[1], header = FALSE)); n <- ncol(X); m <- as.integer(a[3])
names <- if (a[4] == "all") NULL else if (n == 1) "V" else a[4]
f <- try(Mclust(X, G = m, modelNames = names, verbose = FALSE), silent = TRUE)
if (inherits(f, "try-error") || is.null(f)) quit(status = 3)
p <- f$parameters
S <- if (n == 1) array(p$variance$sigmasq, c(1, 1, m)) else p$variance$sigma
write.table(rbind(p$pro, matrix(p$mean, n), matrix(S, n * n)), a[2], sep = ",", row.names = FALSE,
            col.names = FALSE)
"""


class Mclust:
    """A model of mclust as a fitted mixture, or its best by BIC; it fails on some tables."""

    def __init__(self, m: int, shape: str = "VVV") -> None:
        self.m, self.shape = m, shape

    def fit(self, X: np.ndarray) -> Mclust:
        n = X.shape[1]
        with tempfile.TemporaryDirectory() as folder:
            code, rows, out = (Path(folder) / name for name in ("m.R", "x.csv", "y.csv"))
            code.write_text(MCLUST)
            np.savetxt(rows, X, delimiter=",")
            call = ["Rscript", code, rows, out, str(self.m), self.shape]
            subprocess.run(call, check=True, capture_output=True)
            table = np.loadtxt(out, delimiter=",", ndmin=2)
        covariances = table[1 + n :].T.reshape(self.m, n, n)
        self.mixture = Mixture(table[0] / table[0].sum(), table[1 : 1 + n].T, covariances)
        return self

    def score(self, X: np.ndarray) -> float:
        return float(np.mean(self.mixture.log_prob(X)))

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.mixture.log_joint(X).argmax(axis=1)


def has_mclust() -> bool:
    if shutil.which("Rscript") is None:
        return False
    return subprocess.run(["Rscript", "-e", "library(mclust)"], capture_output=True).returncode == 0


def fitters(mclust: bool) -> dict[str, Callable]:
    result: dict[str, Callable] = {
        "momentmix": ours,
        "customary strength": lambda m, seed: Customary(m, seed),
        "prior=cv": lambda m, seed: ours(m, seed, prior="cv"),
        "prior=None": lambda m, seed: ours(m, seed, prior=None),
        "goal=clusters": lambda m, seed: ours(m, seed, goal="clusters"),
        "sk10": sk10,
    }
    if mclust:
        result["mclust"] = lambda m, seed: Mclust(m)
    return {name: make for name, make in result.items() if not FITS or name in FITS}


class Customary:
    """The default with the customary strength of its prior in place of one that is learned."""

    def __init__(self, m: int, seed: int) -> None:
        self.m, self.seed = m, seed

    def fit(self, X: np.ndarray) -> GaussianMixture:
        return ours(self.m, self.seed, prior=Full.customary_strength(X.shape[1])).fit(X)


def held_out(kept: Kept, splits: int, mclust: bool) -> None:
    print("\n## Half of the rows fitted, the other half scored\n")
    print(
        f"{splits} random halves of each table, full covariances, as many components as groups. A\n"
        f"split counts as worse or better than sk10's if the mean log-likelihood of the held-out\n"
        f"rows, or their ARI with the known groups, differs by more than {CLEARLY}. 'Tuned':\n"
        "settings of the search and the prior were chosen on these tables. On the others none\n"
        "were, but the learned strengths were looked at on all.\n"
    )
    print("| tables | fit | log-likelihood: worse | better | ARI: worse | better |")
    print("| --- | --- | ---: | ---: | ---: | ---: |", flush=True)
    groups = {"tuned": TUNED, "others": FRESH, "30 columns": WIDE}
    loaded = {name: load() for tables in groups.values() for name, load in tables.items()}
    rows = []
    for split in range(splits):
        for group, tables in groups.items():
            for name in tables:
                rows += halves(kept, group, name, loaded[name], split, mclust)
    for group in (*groups, "all"):
        own = [row for row in rows if group in ("all", row["group"])]
        for fitter in fitters(mclust):
            cells = []
            for gap in ("score_gap", "ari_gap"):
                known = [r[gap] for r in own if r["fit"] == fitter and r[gap] is not None]
                for count in (sum(x < -CLEARLY for x in known), sum(x > CLEARLY for x in known)):
                    cells.append(
                        f"{count} of {len(known)} ({100 * count / max(len(known), 1):.0f} %)"
                    )
            if fitter != "sk10":
                print(f"| {group} | {fitter} | {' | '.join(cells)} |", flush=True)
    print("\nMedians over the splits: nats a row (ARI).\n")
    print(f"| table | {' | '.join(fitters(mclust))} |")
    print("| --- |" + " ---: |" * len(fitters(mclust)))
    for name in loaded:
        cells = []
        for fitter in fitters(mclust):
            own = [row for row in rows if (row["table"], row["fit"]) == (name, fitter)]
            score, ari = (
                np.median([row[part] for row in own if row[part] is not None] or [np.nan])
                for part in ("score", "ari")
            )
            cells.append(f"{score:.2f}" + (f" ({ari:.2f})" if np.isfinite(ari) else ""))
        print(f"| {name} | {' | '.join(cells)} |")


def halves(kept: Kept, group: str, name: str, table: Table, split: int, mclust: bool) -> list[dict]:
    """Rows of one split, each with what it is better than sk10's."""
    order = np.random.default_rng(split).permutation(len(table.X))
    train, test = np.split(order, [len(order) // 2])

    def measured(make: Callable) -> dict[str, object]:
        begin = time.process_time()
        try:
            fit = make(table.m, split).fit(table.X[train])
        except (subprocess.CalledProcessError, ValueError):
            return {"score": None, "ari": None, "seconds": None}
        seconds, ari = time.process_time() - begin, None
        if table.labels is not None:
            ari = adjusted_rand_score(table.labels[test], fit.predict(table.X[test]))
            ari = round(float(ari), 4)
        found = {"score": round(float(fit.score(table.X[test])), 4), "ari": ari}
        for strength in ("prior_strength_", "diagonal_strength_"):
            if hasattr(fit, strength):
                found[strength[:-1]] = getattr(fit, strength)
        return found | {"seconds": round(seconds, 3)}

    makers, rows = fitters(mclust), {}
    for fitter in ("sk10", *(name for name in makers if name != "sk10")):
        key = {"part": "held-out", "group": group, "table": name, "split": split, "fit": fitter}

        def against(fitter: str = fitter) -> dict[str, object]:
            own = measured(makers[fitter])
            gaps = {}
            for part in ("score", "ari"):
                base = own[part] if fitter == "sk10" else rows["sk10"][part]
                known = own[part] is not None and base is not None
                gaps[f"{part}_gap"] = round(own[part] - base, 4) if known else None
            return own | gaps

        rows[fitter] = kept.row(key, against)
    return list(rows.values())


def whole_tables(kept: Kept, seeds: int, mclust: bool) -> None:
    print("\n## Whole tables with known groups\n")
    print(f"ARI with the known groups for {seeds} random states (one figure where all agree).\n")
    names = list(fitters(mclust))
    print(f"| table | {' | '.join(names)} |")
    print("| --- |" + " --- |" * len(names), flush=True)
    wide = WIDE if seeds > 1 else ()
    for name in ("wine", "iris", "penguins", "crabs", "olive", *wide):
        table = (TUNED | WIDE)[name]()
        cells = []
        for fitter in names:
            make = fitters(mclust)[fitter]
            found = []
            for seed in range(1 if fitter == "mclust" else seeds):
                key = {"part": "whole", "table": name, "seed": seed, "fit": fitter}

                def ari(make: Callable = make, table: Table = table, seed: int = seed) -> dict:
                    labels = make(table.m, seed).fit(table.X).predict(table.X)
                    return {"ari": round(float(adjusted_rand_score(table.labels, labels)), 4)}

                found.append(f"{kept.row(key, ari)['ari']:.2f}")
            cells.append(found[0] if len(set(found)) == 1 else ", ".join(found))
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def is_collapsed(X: np.ndarray, fit: object) -> bool:
    """Whether a component is on fewer rows than can carry it, or has a whitened variance of 1e-5.

    The same question for every fitter: it is asked of the weights and covariances alone.
    """
    frame = Frame.of_samples(Full, X, None)
    scaled = frame.forward(Parameters(fit.weights_, fit.means_, fit.covariances_))
    thin = Full.too_few(len(X) * scaled.weights, X.shape[1])
    return bool(np.any(thin) or np.any(Full.on_floor(scaled.covariances, 1e-5)))


def collapsed(kept: Kept) -> None:
    print("\n## Collapsed components\n")
    print(
        "Fits of 16 tables with 2, 3 and 4 components in which a component has a variance below\n"
        "1e-5 in some direction (whitened), or rests on fewer than 2(n + 2) rows.\n"
    )
    tables = list({**TUNED, **FRESH}.values())[:16]
    loaded = [load() for load in tables]
    makers = {
        "momentmix": ours,
        "prior=None": lambda m, seed: ours(m, seed, prior=None),
        "sk10": sk10,
    }
    print("| fit | by variance or rows | by variance alone | warned of |")
    print("| --- | ---: | ---: | ---: |", flush=True)
    for name, make in makers.items():
        either = flat = warned = 0
        for i, table in enumerate(loaded):
            for m in (2, 3, 4):

                def found(X: np.ndarray = table.X, m: int = m, make: Callable = make) -> dict:
                    fit = make(m, 0).fit(X)
                    frame = Frame.of_samples(Full, X, None)
                    scaled = frame.forward(Parameters(fit.weights_, fit.means_, fit.covariances_))
                    return {
                        "either": is_collapsed(X, fit),
                        "flat": bool(np.any(Full.on_floor(scaled.covariances, 1e-5))),
                        "warned": len(getattr(fit, "collapsed_", ())) > 0,
                    }

                row = kept.row({"part": "collapsed", "table": i, "m": m, "fit": name}, found)
                either, flat = either + row["either"], flat + row["flat"]
                warned += row["warned"]
        shown = f"{warned}" if name != "sk10" else "—"
        count = 3 * len(loaded)
        print(f"| {name} | {either} of {count} | {flat} of {count} | {shown} |", flush=True)


def simulated(n: int, m: int, separation: float, seed: int) -> Mixture:
    """Full covariances; means at about ``separation`` deviations from each other."""
    rng = np.random.default_rng(seed)
    L = rng.normal(size=(m, n, n)) / np.sqrt(n)
    covariances = 0.7 * L @ L.swapaxes(1, 2) + 0.3 * np.eye(n)
    means = rng.normal(size=(m, n)) * separation / np.sqrt(2 * n)
    return Mixture(rng.dirichlet(np.full(m, 10.0)), means, covariances)


def from_truth(truth: Mixture, X: np.ndarray, kind: str = "full") -> Mixture:
    """Where EM ends that starts at the truth."""
    start = Parameters(truth.weights, truth.means, truth.covariances)
    own = covariance_type(kind)
    likelihood = Likelihood(MemoryRows(X, None, own), Target(own, 1e-9))
    result = likelihood.fit(start, tol=1e-6, max_iter=500)
    return Mixture(*result.parameters, kind)


def mean_error(means: np.ndarray, truth: Mixture) -> float:
    i, j = paired_components(means, truth.means)
    return float(np.sqrt(np.mean(np.sum((truth.means[i] - means[j]) ** 2, axis=1))))


def simulations(kept: Kept, repeats: int) -> None:
    print("\n## Simulations: n=10, m=5, full\n")
    print(
        f"Medians over {repeats} data sets: nats a row that 20,000 new rows lose against the\n"
        "truth; error of the means (root mean square over components).\n"
    )
    print(
        "| rows | separation | loss: momentmix | EM from the truth | sk10 |"
        " error: momentmix | EM from the truth | sk10 | to sk10 |"
    )
    print("| ---: | ---: |" + " ---: |" * 7, flush=True)
    for p in (250, 500, 1000, 4000):
        for separation in (2.0, 3.0, 4.0):
            values = []
            for seed in range(repeats):
                key = {"part": "simulations", "rows": p, "separation": separation, "seed": seed}
                row = kept.row(key, lambda p=p, s=separation, seed=seed: one_simulation(p, s, seed))
                values.append([row[name] for name in SIMULATED])
            middle = np.median(values, axis=0)
            row = " | ".join(f"{v:.3f}" for v in middle)
            print(f"| {p} | {separation:g} | {row} | {middle[3] / middle[5]:.2f} |", flush=True)


SIMULATED = ("loss", "loss_from_truth", "loss_sk10", "error", "error_from_truth", "error_sk10")


def one_simulation(p: int, separation: float, seed: int) -> dict[str, object]:
    truth = simulated(10, 5, separation, seed)
    X, _ = truth.sample(p, seed + 100)
    new, _ = truth.sample(20_000, seed + 200)
    best = np.mean(truth.log_prob(new))
    a, b, c = ours(5, seed).fit(X), sk10(5, seed).fit(X), from_truth(truth, X)
    losses = best - np.array([a.score(new), np.mean(c.log_prob(new)), b.score(new)])
    errors = [mean_error(f, truth) for f in (a.means_, c.means, b.means_)]
    return {name: round(float(x), 4) for name, x in zip(SIMULATED, [*losses, *errors], strict=True)}


def paper(seeds: range) -> None:
    print("\n## The paper's problem: n=100, m=20, p=8000, diag\n")
    print(
        f"Data seeds {seeds.start} to {seeds.stop - 1}. 'At the ceiling': a mean log-likelihood\n"
        f"within {NEAR} of where EM from the true parameters ends. Errors of the means and the\n"
        "log-likelihood of 8,000 new rows of the default fit against that end; times over sk10's.\n"
    )
    print(
        "| noise | prior=None at the ceiling | sk10 | time | error of the default | new rows |"
        " time |"
    )
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |", flush=True)
    for noise in (0.05, 0.1, 0.2):
        there = theirs = 0
        times, errors, new_rows = np.zeros(3), [], []
        for seed in seeds:
            truth = paper_mixture(noise, seed)
            X, _ = truth.sample(8000, seed + 1000)
            new, _ = truth.sample(8000, seed + 2000)
            top, parameters = ceiling(truth, X)
            end = Mixture(*parameters, "diag")
            pure, t0 = timed(
                lambda X=X, s=seed: ours(20, s, covariance_type="diag", prior=None).fit(X)
            )
            fit, t1 = timed(lambda X=X, s=seed: ours(20, s, covariance_type="diag").fit(X))
            em, t2 = timed(lambda X=X, s=seed: sk10(20, s, "diag").fit(X))
            times += t0, t1, t2
            there += pure.score(X) > top - NEAR
            theirs += em.score(X) > top - NEAR
            errors.append(mean_error(fit.means_, truth) / mean_error(end.means, truth))
            new_rows.append(fit.score(new) - float(np.mean(end.log_prob(new))))
        n = len(seeds)
        print(
            f"| {noise} | {there} of {n} | {theirs} of {n} | {times[0] / times[2]:.2f} | "
            f"{max(errors):.3f} at most | {np.mean(new_rows):+.4f} on average, "
            f"{min(new_rows):+.4f} at least | {times[1] / times[2]:.2f} |",
            flush=True,
        )


def hard(seeds: int) -> None:
    print("\n## Many components: at the ceiling\n")
    print("| problem | prior=None | default | sk10 | time over sk10's |")
    print("| --- | ---: | ---: | ---: | ---: |", flush=True)
    for m, n, kind, p in ((40, 50, "diag", 20_000), (15, 15, "full", 10_000)):
        reached, times = np.zeros(3, dtype=int), np.zeros(2)
        for seed in range(seeds):
            truth = crowded(m, n, kind, seed)
            X, _ = truth.sample(p, seed + 50)
            top = float(np.mean(from_truth(truth, X, kind).log_prob(X)))
            pure = ours(m, seed, covariance_type=kind, prior=None).fit(X)
            fit, t1 = timed(lambda X=X, s=seed, m=m, k=kind: ours(m, s, covariance_type=k).fit(X))
            em, t2 = timed(lambda X=X, s=seed, m=m, k=kind: sk10(m, s, k).fit(X))
            # The prior costs some likelihood; a wrong optimum costs ten times as much here.
            reached += [
                pure.score(X) > top - NEAR,
                fit.score(X) > top - 4 * NEAR,
                em.score(X) > top - NEAR,
            ]
            times += t1, t2
        cells = " | ".join(f"{r} of {seeds}" for r in reached)
        print(
            f"| m={m}, n={n}, {kind}, {p:,} rows | {cells} | {times[0] / times[1]:.2f} |",
            flush=True,
        )


def crowded(m: int, n: int, kind: str, seed: int) -> Mixture:
    rng = np.random.default_rng(seed)
    means = 1.6 * rng.normal(size=(m, n)) / n**0.25
    if kind == "diag":
        covariances = rng.uniform(0.3, 1.7, (m, n))
    else:
        L = rng.normal(size=(m, n, n)) / np.sqrt(n)
        covariances = 0.6 * L @ L.swapaxes(1, 2) + 0.3 * np.eye(n)
    return Mixture(rng.dirichlet(np.full(m, 8.0)), means, covariances, kind)


def easy_jobs() -> dict[str, tuple[np.ndarray, int, str]]:
    rng = np.random.default_rng(0)
    wide = Mixture(
        rng.dirichlet(np.full(10, 5.0)),
        0.4 * rng.normal(size=(10, 50)),
        rng.uniform(0.3, 1.7, (10, 50)),
        "diag",
    )
    six = Mixture(np.full(5, 0.2), 3 * rng.normal(size=(5, 6)), np.tile(np.eye(6), (5, 1, 1)))
    spreads = [0.5, 1, 1.5, 2, 2.5]
    jobs = {
        "blobs, 2,000 × 2, m=5": (
            make_blobs(2000, centers=5, cluster_std=spreads, random_state=3)[0], 5, "full",
        ),
        "moons, 2,000 × 2, m=8": (make_moons(2000, noise=0.08, random_state=0)[0], 8, "full"),
        "5,000 × 6, m=5": (six.sample(5000, 1)[0], 5, "full"),
        "100,000 × 50, m=10, diag": (wide.sample(100_000, 1)[0], 10, "diag"),
    }  # fmt: skip
    for name, load in TUNED.items():
        table = load()
        jobs[f"{name}, {len(table.X)} × {table.X.shape[1]}, m={table.m}"] = (
            table.X, table.m, "full",
        )  # fmt: skip
    return jobs


def times(rounds: int) -> None:
    print("\n## Time over one scikit-learn run from k-means at tol=1e-6\n")
    print(
        f"Medians of {rounds} seeds, fits in turn; both on two threads. Bounds: 1 for the first\n"
        "four, 5 for the real tables. 'Prior': the time of EM from one and the same start to\n"
        "tol=1e-6 with the default prior over that without. Last: nats a row above the run.\n"
    )
    print("| data | default | prior=None | prior | gain of default | of prior=None |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |", flush=True)
    for name, (X, m, kind) in easy_jobs().items():
        taken: list[list[float]] = []
        gains: list[list[float]] = []
        for seed in range(rounds if len(X) < 50_000 else 3):
            makers = (
                sk1(m, seed, kind),
                ours(m, seed, covariance_type=kind),
                ours(m, seed, covariance_type=kind, prior=None),
            )
            fits = [timed(lambda f=f, X=X: f.fit(X)) for f in makers]
            means = fits[0][0].means_
            given = {"covariance_type": kind, "means_init": means + 0.3 * X.std(axis=0)}
            alone = [
                timed(lambda p=p, X=X, g=given, s=seed, m=m: ours(m, s, prior=p, **g).fit(X))[1]
                for p in ("auto", None)
            ]
            taken.append([t for _, t in fits] + alone)
            scores = [f.score(X) for f, _ in fits]
            gains.append([scores[1] - scores[0], scores[2] - scores[0]])
        t = np.median(taken, axis=0)
        g = np.median(gains, axis=0)
        print(
            f"| {name} | {t[1] / t[0]:.2f} | {t[2] / t[0]:.2f} | {t[3] / t[4]:.2f} | "
            f"{g[0]:+.4f} | {g[1]:+.4f} |",
            flush=True,
        )


def pure_moments(repeats: int) -> None:
    print("\n## MomentMixture, order='auto', m=3, full\n")
    print(
        f"Error of the means over that of maximum likelihood (EM from the truth), median of\n"
        f"{repeats} data sets; bound 1.5. In brackets order 3, where it can tell the parameters.\n"
    )
    print("| n | order | 10,000 rows | 100,000 rows |")
    print("| ---: | ---: | ---: | ---: |", flush=True)
    for n in (2, 5, 10):
        cells, order = [], 0
        for p in (10_000, 100_000):
            ratios, old = [], []
            for seed in range(repeats):
                truth = simulated(n, 3, 4.0, seed)
                X, _ = truth.sample(p, seed + 9)
                base = mean_error(from_truth(truth, X).means, truth)
                fit = MomentMixture(3, random_state=0).fit(X)
                order = moment_order(fit, Sizes(n))
                ratios.append(mean_error(fit.means_, truth) / base)
                try:
                    third = MomentMixture(3, order=3, random_state=0).fit(X)
                    old.append(mean_error(third.means_, truth) / base)
                except ValueError:
                    old.append(np.nan)
            known = np.all(np.isfinite(old))
            cells.append(f"{np.median(ratios):.2f}" + (f" ({np.median(old):.1f})" if known else ""))
        print(f"| {n} | {order} | {' | '.join(cells)} |", flush=True)


def ablation(seeds: int) -> None:
    """Which part of the search does the work: one part changed at a time."""
    import momentmix.fitting.search as search

    print("\n## Which part of the search does the work\n")
    print(
        "The paper's problem, noise 0.1 and 0.2, prior=None: data sets at the ceiling, and time\n"
        "over the default's.\n"
    )
    jobs = []
    for noise in (0.1, 0.2):
        for seed in range(200, 200 + seeds):
            truth = paper_mixture(noise, seed)
            X, _ = truth.sample(8000, seed + 1000)
            jobs.append((X, ceiling(truth, X)[0]))
    original = search.split_and_merge

    def fits(repair: bool, **settings: object) -> tuple[int, float]:
        search.split_and_merge = original if repair else (lambda likelihood, fit, *a, **k: fit)
        reached, begin = 0, time.perf_counter()
        try:
            for X, top in jobs:
                fit = ours(20, 0, covariance_type="diag", prior=None, **settings).fit(X)
                reached += fit.score(X) > top - NEAR
        finally:
            search.split_and_merge = original
        return reached, time.perf_counter() - begin

    base = fits(True)
    rows = {
        "default: a k-means start and repairs": base,
        "the same without repairs": fits(False),
        "one moment start, no repairs": fits(False, n_init=1, init="random"),
        "four moment starts, no repairs": fits(False, n_init=4, init="random"),
    }
    begin, reached = time.perf_counter(), 0
    for X, top in jobs:
        reached += sk10(20, 0, "diag").fit(X).score(X) > top - NEAR
    rows["sk10"] = (reached, time.perf_counter() - begin)
    print("| search | at the ceiling | time |")
    print("| --- | ---: | ---: |")
    for name, (reached, seconds) in rows.items():
        print(f"| {name} | {reached} of {len(jobs)} | {seconds / base[1]:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help="some of the parts; all if none is named")
    parser.add_argument("--again", action="store_true", help="measure anew what is there")
    parser.add_argument("--seconds", type=float, help="end after so many; run it again to go on")
    parser.add_argument("--quick", action="store_true", help="one small part of each")
    parser.add_argument("--fits", default="", help="of held-out and whole: some, with commas; sk10")
    arguments = parser.parse_args()
    FITS.extend(name for name in arguments.fits.split(",") if name)
    warnings.simplefilter("ignore")
    print(machine())
    quick, mclust = arguments.quick, has_mclust()
    path = None if quick else FOLDER / "default.json"
    kept = Kept(path, arguments.seconds, arguments.again)
    parts: dict[str, Callable[[], None]] = {
        "held-out": lambda: held_out(kept, 1 if quick else 10, mclust),
        "whole": lambda: whole_tables(kept, 1 if quick else 5, mclust),
        "collapsed": lambda: collapsed(kept),
        "simulations": lambda: simulations(kept, 1 if quick else 7),
        "paper": lambda: paper(range(1 if quick else 10)),
        "hard": lambda: hard(1 if quick else 5),
        "times": lambda: times(1 if quick else 9),
        "moments": lambda: pure_moments(1 if quick else 5),
        "ablation": lambda: ablation(1 if quick else 5),
    }
    chosen: Iterable[str] = arguments.parts or parts
    for name in chosen:
        parts[name]()


if __name__ == "__main__":
    main()
