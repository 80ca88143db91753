"""Are clusters found? ``make bench-suites``: public collections of clusterings, many methods.

The sets are not part of this repository. They are read from the folder ``clusters`` in the folder
that MOMENTMIX_SUITES names: one folder a battery, one ``.npz`` a set, with rows ``X`` and one or
more reference labellings ``labels0``, ``labels1``, …, in which 0 is noise. They are those of
https://github.com/gagolews/clustering-data-v1. A method that is told the number of clusters runs
with that of each labelling; what counts is the labelling that it comes nearest to.

What is measured is kept in ``results/suites.json``, and what is there is not measured again, so a
run can be interrupted: ``python benchmarks/suites.py --battery fcps --methods default,sk10``. At
the end, the figures of pages are written anew from that file. All run on one thread. Times are
CPU times, in which R's start counts.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import resource
import subprocess
import sys
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import numpy as np
from scipy.special import xlogy
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.datasets import make_blobs, make_moons
from sklearn.metrics import adjusted_rand_score

from default import Mclust, has_mclust, sk10
from kept import Kept
from momentmix import GaussianMixture, merge_components, select
from momentmix.covariance import COVARIANCE_TYPES, SHAPE_NAMES
from ordinary import SUITES
from real import FRESH, TUNED

HERE = Path(__file__).parent
RESULTS, README = HERE / "results" / "suites.json", HERE / "README.md"
BEGIN, END = "<!-- suites -->", "<!-- end of suites -->"
#: The most components that BIC may choose; in many columns, and in the quick form, fewer.
MOST, FEWER, MANY_COLUMNS = 40, 10, 10
#: Worse or better than sk10: by so much of the ARI.
CLEARLY = 0.05


class Set(NamedTuple):
    battery: str
    name: str
    X: np.ndarray
    labellings: list[np.ndarray]  # 0 is noise; there may be none
    m: int = 0  # components to fit, if there are no labels


def number_of(labels: np.ndarray) -> int:
    """The number of clusters, noise apart."""
    return len(set(labels.tolist()) - {0})


def sets(batteries: list[str] | None, names: list[str] | None) -> list[Set]:
    found = []
    for path in sorted((SUITES / "clusters").glob("*/*.npz")):
        battery, name = path.parent.name, path.stem
        if (batteries is None or battery in batteries) and (names is None or name in names):
            with np.load(path) as data:
                labels = [data[key] for key in sorted(data) if key.startswith("labels")]
                found.append(Set(battery, name, data["X"].astype(float), labels))
    if found or batteries is not None:
        for name, load in (TUNED | FRESH).items():
            if (batteries is None or "tables" in batteries) and (names is None or name in names):
                X, m, labels = load()
                found.append(Set("tables", name, X, [] if labels is None else [labels + 1], m))
    return found


def generated() -> list[Set]:
    """Small sets for the quick form."""
    moons, balls = make_moons(300, noise=0.05, random_state=0), make_blobs(300, random_state=0)
    return [
        Set("made", "moons", moons[0], [moons[1] + 1]),
        Set("made", "balls", balls[0], [balls[1] + 1]),
    ]


def chosen(X: np.ndarray) -> GaussianMixture:
    """The fit whose number of components has the lowest BIC, found once for all that ask."""
    return _chosen(X.tobytes(), X.shape)


@lru_cache(maxsize=1)
def _chosen(rows: bytes, shape: tuple[int, int]) -> GaussianMixture:
    most = FEWER if shape[1] >= MANY_COLUMNS or "--quick" in sys.argv else MOST
    X = np.frombuffer(rows).reshape(shape)
    return select(X, range(1, most + 1), "full", random_state=0).best


#: By name: the labels of rows X, for the reference number m of clusters.
Method = Callable[[np.ndarray, int], np.ndarray]


def ours(**settings: object) -> Method:
    return lambda X, m: GaussianMixture(m, random_state=0, **settings).fit(X).predict(X)


#: What ablations change: the second strength of the prior, which is then not learned, and the
#: powers of densities and weights where clusters are sought.
STRENGTHS = "momentmix.covariance.prior.LogNormalPrior.along"
GAMMA = "momentmix.estimators.gaussian_mixture.SHARPNESS"
RHO = "momentmix.rows.memory.RHO"


def changed(parts: dict[str, object], **settings: object) -> Method:
    """A fit with some parts of the package replaced."""

    def labels(X: np.ndarray, m: int) -> np.ndarray:
        with ExitStack() as stack:
            for name, value in parts.items():
                stack.enter_context(mock.patch(name, value))
            return ours(**settings)(X, m)

    return labels


def merged(X: np.ndarray, m: int | str) -> np.ndarray:
    """Clusters of the components that BIC chooses; m where they are fewer."""
    fit = chosen(X)
    return merge_components(fit, X, m if m == "auto" else min(m, fit.n_components_)).labels_


def entropies_saved(R: np.ndarray) -> np.ndarray:
    """By how much each merge lowers the entropy of the rows (Baudry et al. 2010); (m, m)."""
    own = xlogy(R, R)
    pairs = R[:, :, None] + R[:, None, :]
    return np.sum(xlogy(pairs, pairs) - own[:, :, None] - own[:, None, :], axis=0)


def misclassified(R: np.ndarray) -> np.ndarray:
    """The larger share of a cluster that is taken for the other (Hennig 2010); (m, m)."""
    taken = np.eye(R.shape[1])[R.argmax(axis=1)]
    shares = R.T @ taken / np.maximum(R.sum(axis=0), 1e-300)[:, None]
    return np.maximum(shares, shares.T)


def merged_by(score: Callable[[np.ndarray], np.ndarray], told: bool) -> Method:
    """Other trees: merges by another score, to m clusters or to the number of its authors.

    That is the elbow of the entropy against the number of rows merged, or the default of R's fpc,
    below which share of misclassified rows clusters stay apart.
    """

    def labels(X: np.ndarray, m: int) -> np.ndarray:
        steps, values, sizes = [chosen(X).predict_proba(X)], [], [0.0]
        while (R := steps[-1]).shape[1] > 1:
            scores = score(R)
            np.fill_diagonal(scores, -np.inf)
            i, j = sorted(np.unravel_index(scores.argmax(), scores.shape))
            values.append(scores[i, j])
            sizes.append(sizes[-1] + R[:, [i, j]].sum())
            together = R[:, i] + R[:, j]
            steps.append(np.column_stack([np.delete(R, [i, j], axis=1), together]))
        if told:
            made = max(0, len(steps) - m)
        elif score is misclassified:
            made = int(np.sum(np.minimum.accumulate(values) >= 0.025)) if values else 0
        else:
            made = elbow(np.array(sizes), np.array([-xlogy(R, R).sum() for R in steps]))
        return steps[made].argmax(axis=1)

    return labels


def elbow(x: np.ndarray, y: np.ndarray) -> int:
    """Where two lines leave the smallest squares, one on either side; 0 for under 4 points."""

    def squares(part: slice) -> float:
        A = np.column_stack([x[part], np.ones(len(x[part]))])
        return float(np.sum((A @ np.linalg.lstsq(A, y[part], rcond=None)[0] - y[part]) ** 2))

    inner = range(1, len(x) - 1)
    if len(x) < 4:
        return 0
    return min(inner, key=lambda b: squares(slice(b + 1)) + squares(slice(b, None)))


def methods() -> dict[str, Method]:
    found: dict[str, Method] = {
        "default": ours(),
        "goal=clusters": ours(goal="clusters"),
        "type auto": ours(covariance_type="auto"),
        "goal=clusters and type auto": ours(covariance_type="auto", goal="clusters"),
        "sk1": lambda X, m: sk10(m, 0).set_params(n_init=1).fit(X).predict(X),
        "sk10": lambda X, m: sk10(m, 0).fit(X).predict(X),
        "k-means": lambda X, m: KMeans(m, n_init=10, random_state=0).fit(X).labels_,
    }
    if has_mclust():
        found["mclust"] = lambda X, m: Mclust(m, "all").fit(X).predict(X)
    return found | {
        "BIC": lambda X, m: chosen(X).predict(X),
        "BIC merged to m": merged,
        "BIC merged": lambda X, m: merged(X, "auto"),
        "HDBSCAN": lambda X, m: HDBSCAN(copy=True).fit(X).labels_,
        "entropy to m": merged_by(entropies_saved, True),
        "entropy": merged_by(entropies_saved, False),
        "misclassified to m": merged_by(misclassified, True),
        "misclassified": merged_by(misclassified, False),
        "first strength alone": changed({STRENGTHS: lambda prior, axes: prior}),
        "first strength alone and n_init=10": changed(
            {STRENGTHS: lambda prior, axes: prior}, n_init=10
        ),
        "customary strength": lambda X, m: ours(prior=3.0 * X.shape[1] - 1)(X, m),
        "clusters with γ=2 and ρ=0.75": changed({GAMMA: 2.0, RHO: 0.75}, goal="clusters"),
        "clusters with γ=1.25 and ρ=1": changed({RHO: 1.0}, goal="clusters"),
        "clusters with γ=1.25 and ρ=0.75": changed({RHO: 0.75}, goal="clusters"),
    }


#: Methods that are told the number of clusters, in the order of the tables; and those that are not.
TOLD = ("default", "goal=clusters", "type auto", "goal=clusters and type auto", "BIC merged to m",
        "mclust", "sk10", "sk1", "k-means")  # fmt: skip
UNTOLD = ("BIC merged", "BIC", "HDBSCAN")
#: Ways to merge the same components: to m clusters, and to a number of their own.
TREES = ("BIC merged to m", "entropy to m", "misclassified to m", "BIC merged", "entropy",
         "misclassified")  # fmt: skip
#: What each part is for: fits without it, told the number of clusters.
PARTS = ("default", "first strength alone", "first strength alone and n_init=10",
         "customary strength", "goal=clusters", "clusters with γ=2 and ρ=0.75",
         "clusters with γ=1.25 and ρ=1", "clusters with γ=1.25 and ρ=0.75")  # fmt: skip


def is_told(name: str) -> bool:
    return name in TOLD + PARTS or name.endswith(" to m")


def cpu_seconds() -> float:
    """Of this process and of those that it has waited for."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def measure(one: Set, name: str, method: Method) -> dict[str, object]:
    """The best agreement with a labelling, the number of clusters then, and the time of all."""
    begin, best, number = cpu_seconds(), -np.inf, 0
    told = {number_of(labels) for labels in one.labellings} if is_told(name) else {0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for m in sorted(told):
                found = method(one.X, m)
                for labels in one.labellings:
                    known = labels != 0
                    ari = adjusted_rand_score(labels[known], found[known])
                    if m in (0, number_of(labels)) and ari > best:
                        best, number = ari, len(set(found.tolist()) - {-1})
        except (ValueError, subprocess.CalledProcessError) as error:
            return {"ari": None, "clusters": None, "seconds": None, "error": type(error).__name__}
    seconds = cpu_seconds() - begin
    return {"ari": round(float(best), 4), "clusters": number, "seconds": round(seconds, 3)}


#: What is compared on halves of the rows, for m components; mclust only if it is there.
FITTERS: dict[str, Callable[[int], object]] = {
    "type auto": lambda m: GaussianMixture(m, covariance_type="auto", random_state=0),
    "all shapes": lambda m: AllShapes(m),
    "sk10": lambda m: sk10(m, 0),
    "mclust": lambda m: Mclust(m, "all"),
}


class AllShapes:
    """The best by BIC of the types that "auto" compares and mclust's other eight."""

    def __init__(self, m: int) -> None:
        self.m = m

    def fit(self, X: np.ndarray) -> GaussianMixture:
        types = (*COVARIANCE_TYPES, *SHAPE_NAMES)
        return select(X, [self.m], covariance_types=types, random_state=0).best


def measure_half(one: Set, name: str, half: int) -> dict[str, object]:
    """Fit one half of the rows, and score the other: nats a row, ARI, and the time of the fit."""
    order = np.random.default_rng(half).permutation(len(one.X))
    train, test = np.split(order, [len(order) // 2])
    labels = one.labellings[0] if one.labellings else None
    begin = cpu_seconds()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            fit = FITTERS[name](one.m if labels is None else number_of(labels)).fit(one.X[train])
        except (ValueError, subprocess.CalledProcessError) as error:
            return {"score": None, "ari": None, "seconds": None, "error": type(error).__name__}
    seconds, ari = round(cpu_seconds() - begin, 3), None
    if labels is not None:
        known = test[labels[test] != 0]
        ari = round(float(adjusted_rand_score(labels[known], fit.predict(one.X[known]))), 4)
    kind = getattr(fit, "covariance_type_", getattr(fit, "shape", None))
    score = round(float(fit.score(one.X[test])), 4)
    return {"score": score, "ari": ari, "seconds": seconds, "type": kind}


def compare_halves(chosen_sets: list[Set], asked: argparse.Namespace) -> None:
    """Fit halves of the sets by each method that is asked for, and print the table of all rows."""
    path = None if asked.quick else RESULTS.with_name("halves.json")
    kept = Kept(path, asked.seconds, asked.again)
    names = [name for name in FITTERS if asked.methods is None or name in asked.methods]
    if "mclust" in names and not has_mclust():
        print("R or its package mclust is missing, so nothing is compared with it")
        names.remove("mclust")
    try:
        for one in sorted(chosen_sets, key=lambda one: one.X.size):
            for half, name in product(range(asked.halves), names):
                key = {"battery": one.battery, "set": one.name, "half": half, "method": name}
                row = kept.row(key, lambda o=one, n=name, h=half: measure_half(o, n, h))
                print(*key.values(), row["score"], row["ari"], row["seconds"], flush=True)
    finally:
        print(halves_table(kept.rows))


def halves_table(rows: list[dict]) -> str:
    """Each method against mclust on the halves that both fitted, by battery."""
    lines = ["| method | battery | halves | not below | not by 0.05 | ARI | of mclust | time |",
             "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"]  # fmt: skip
    found: dict[tuple, dict[str, dict]] = {}
    for row in rows:
        if row["score"] is not None:
            found.setdefault((row["battery"], row["set"], row["half"]), {})[row["method"]] = row
    for name in ("type auto", "all shapes", "sk10"):
        for battery in [*sorted({key[0] for key in found}), None]:
            both = [(each[name], each["mclust"]) for key, each in found.items()
                    if battery in (None, key[0]) and {name, "mclust"} <= each.keys()]  # fmt: skip
            if not both:
                continue
            gaps = np.array([a["score"] - b["score"] for a, b in both])
            aris = [(a["ari"], b["ari"]) for a, b in both if a["ari"] is not None]
            means = [f"{value:.3f}" for value in np.mean(aris, axis=0)] if aris else ["—", "—"]
            ratio = sum(a["seconds"] for a, _ in both) / sum(b["seconds"] for _, b in both)
            cells = [name, battery or "all", str(len(both)), f"{np.mean(gaps >= -1e-3):.0%}",
                     f"{np.mean(gaps >= -CLEARLY):.0%}", *means, f"{ratio:.2g}"]  # fmt: skip
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def read() -> Kept:
    return Kept(RESULTS)


Rows = dict[tuple[str, str], dict[str, dict]]  # by battery and set, then by method


def by_set(rows: list[dict]) -> Rows:
    found: Rows = {}
    for row in rows:
        found.setdefault((row["battery"], row["set"]), {})[row["method"]] = row
    return found


def table(rows: list[dict], names: tuple[str, ...], timed: bool = True) -> str:
    """By battery: mean ARI, sets clearly worse and better than sk10, and times over sk10's."""
    found, names = by_set(rows), tuple(n for n in names if any(r["method"] == n for r in rows))
    batteries = sorted({battery for battery, _ in found})
    heads = [f"{b} ({sum(k[0] == b for k in found)})" for b in batteries]
    lines = [f"| method | {' | '.join(heads)} | all | worse | better | time |",
             "| --- |" + " ---: |" * (len(heads) + 4)]  # fmt: skip
    for name in names:
        cells = []
        for some in [*([b] for b in batteries), batteries]:
            known = [each[name]["ari"] for key, each in found.items()
                     if key[0] in some and name in each]  # fmt: skip
            values = [value for value in known if value is not None]
            cells.append(f"{np.mean(values):.3f}" if values else "—")
        both = [(each[name], each["sk10"]) for each in found.values()
                if {name, "sk10"} <= each.keys() and each[name]["ari"] is not None]  # fmt: skip
        gaps = np.array([a["ari"] - b["ari"] for a, b in both])
        ratio = sum(a["seconds"] for a, _ in both) / max(sum(b["seconds"] for _, b in both), 1e-9)
        cells += [str(np.sum(gaps < -CLEARLY)), str(np.sum(gaps > CLEARLY)), f"{ratio:.2g}"]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines if timed else [line[: line.rindex("|", 0, -1) + 1] for line in lines])


def text_of(kept: Kept) -> str:
    rows = kept.rows
    made = "; ".join(
        f"{run['date']}, commit {run['commit']} ({', '.join(sorted(names))})"
        for run, names in kept.values_of("method")
    )
    losses = [
        f"{name} ({each['BIC']['ari']:.2f} → {each['BIC merged']['ari']:.2f})"
        for (_, name), each in by_set(rows).items()
        if {"BIC", "BIC merged"} <= each.keys()
        and each["BIC merged"]["ari"] < each["BIC"]["ari"] - 0.02
    ]
    lost = f"Merging loses more than 0.02 on {', '.join(losses) or 'no set'}."
    return (
        f"\n{kept.run['machine'] if kept.path is None else kept.used()[-1]['machine']}; {made}.\n\n"
        f"Told the reference number of clusters:\n\n{table(rows, TOLD)}\n\n"
        f"Not told:\n\n{table(rows, UNTOLD)}\n\n{lost}\n\n"
        "Other ways to merge the components that BIC chooses:\n\n"
        f"{table(rows, TREES, timed=False)}\n\n"
        "Fits without some of their parts, or with other constants, told the number:\n\n"
        f"{table(rows, PARTS)}\n\n"
    )


def draw(kept: Kept) -> None:
    page = README.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    README.write_text(before + BEGIN + "\n" + text_of(kept) + END + rest.split(END)[1])
    subprocess.run([sys.executable, HERE.parent / "tools" / "figures.py"], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    listed = {"type": lambda text: text.split(","), "help": "some alone, with commas"}
    parser.add_argument("--battery", **listed)
    parser.add_argument("--sets", **listed)
    parser.add_argument("--methods", **listed)
    parser.add_argument("--halves", type=int, default=0, help="fit this many halves in place")
    parser.add_argument("--again", action="store_true", help="measure anew what is there")
    parser.add_argument("--seconds", type=float, help="end after so many; run it again to go on")
    parser.add_argument("--quick", action="store_true", help="two small sets; nothing is kept")
    asked = parser.parse_args()
    some = methods()
    if asked.methods is not None:
        some = {name: method for name, method in some.items() if name in asked.methods}
    chosen_sets = generated() if asked.quick else sets(asked.battery, asked.sets)
    if not chosen_sets:
        sys.exit(
            f"there are no such sets in {SUITES}: set MOMENTMIX_SUITES to the folder of clusters/"
        )
    if asked.halves:
        compare_halves(chosen_sets, asked)
        return
    chosen_sets = [one for one in chosen_sets if one.labellings]
    kept = Kept(None if asked.quick else RESULTS, asked.seconds, asked.again)
    try:
        for one in sorted(chosen_sets, key=lambda one: one.X.size):
            for name in some:
                key = {"battery": one.battery, "set": one.name, "method": name}
                row = kept.row(key, lambda n=name, s=one: measured(kept, s, n, some[n]))
                print(*key.values(), row["ari"], row["clusters"], row["seconds"], flush=True)
    finally:
        print(text_of(kept)) if asked.quick else draw(kept)


def measured(kept: Kept, one: Set, name: str, method: Method) -> dict[str, object]:
    """A row; what goes on from the fit that BIC chose takes its time too."""
    row, there = measure(one, name, method), by_set(kept.rows).get((one.battery, one.name), {})
    if name.startswith("BIC ") and "BIC" in there:
        row["seconds"] = round(row["seconds"] + there["BIC"]["seconds"], 3)
    return row


if __name__ == "__main__":
    main()
