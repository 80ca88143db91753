"""The number of components: how often it is right, how long it takes, whether it stays the same.

Ten simulated settings, three of them with clusters that are not Gaussian, and 1 to 10 components to
choose from: ``momentmix.select``, scikit-learn's GaussianMixture with n_init=1 and R's mclust, with
the type that made the data (or came nearest) and once with all four types. Five real tables with
five seeds. The bootstrap likelihood ratio test: level, power and cost.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import sklearn.mixture

import real
import table
from momentmix import GaussianMixture, Mixture, select
from momentmix.selection import blrt

TYPES = ("full", "tied", "diag", "spherical")
#: mclust's names of scikit-learn's types.
MCLUST = {"full": "VVV", "tied": "EEE", "diag": "VVI", "spherical": "VII"}
#: name: (clusters, n, m, rows, type, separation, imbalance)
SETTINGS = {
    "one cluster": ("gauss", 4, 1, 500, "full", 0.0, 1.0),
    "apart, plane": ("gauss", 2, 3, 500, "full", 6.0, 1.0),
    "overlap, plane": ("gauss", 2, 4, 1000, "full", 4.0, 2.0),
    "five features": ("gauss", 5, 4, 1000, "full", 4.5, 2.0),
    "ten features": ("gauss", 10, 5, 1500, "diag", 3.0, 2.0),
    "tied": ("gauss", 3, 4, 800, "tied", 4.0, 2.0),
    "spherical": ("gauss", 6, 6, 1000, "spherical", 3.5, 4.0),
    "uniform": ("uniform", 2, 3, 900, "diag", 6.0, 1.0),
    "skewed": ("skewed", 3, 3, 900, "full", 8.0, 1.5),
    "Student t": ("student", 3, 4, 1000, "full", 8.0, 1.0),
}
NOT_GAUSSIAN = ("uniform", "skewed", "Student t")
#: Of the data sets that are reported; others were looked at while the search was built.
FIRST_SEED = 5000
REAL = ("iris", "penguins", "faithful", "xclara", "breast cancer")


def rows_of(name: str, seed: int) -> np.ndarray:
    """One data set of a setting."""
    clusters, n, m, p, kind, separation, imbalance = SETTINGS[name]
    rng = np.random.default_rng((seed, list(SETTINGS).index(name)))
    weights = np.geomspace(1, imbalance, m)
    weights /= weights.sum()
    labels = rng.choice(m, size=p, p=weights)
    means = means_apart(m, n, separation, rng)
    Z = _shapes(clusters, p, n, rng)
    X = np.empty((p, n))
    common = covariance_root(kind, n, rng)
    for j in range(m):
        root = common if kind == "tied" else covariance_root(kind, n, rng)
        X[labels == j] = means[j] + Z[labels == j] @ root.T
    return X


def means_apart(m: int, n: int, separation: float, rng: np.random.Generator) -> np.ndarray:
    """Random, with the nearest two ``separation`` standard deviations apart."""
    if m == 1:
        return np.zeros((1, n))
    while True:
        means = rng.normal(size=(m, n))
        gaps = np.linalg.norm(means[:, None] - means, axis=2)[np.triu_indices(m, 1)]
        if gaps.max() < 3.5 * gaps.min():
            return means * separation / gaps.min()


def _shapes(clusters: str, p: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """Rows of mean 0 and unit variance."""
    if clusters == "uniform":
        return rng.uniform(-np.sqrt(3), np.sqrt(3), size=(p, n))
    if clusters == "skewed":
        return (rng.gamma(2.0, size=(p, n)) - 2) / np.sqrt(2)
    Z = rng.normal(size=(p, n))
    if clusters == "student":
        Z *= np.sqrt(4 / rng.chisquare(6, size=(p, 1)))
    return Z


def covariance_root(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    if kind == "spherical":
        return np.sqrt(rng.uniform(0.5, 1.5)) * np.eye(n)
    scales = np.sqrt(rng.uniform(0.4, 1.6, size=n))
    if kind == "diag":
        return np.diag(scales)
    return np.linalg.qr(rng.normal(size=(n, n)))[0] * scales


# What chooses


def ours(X: np.ndarray, types: tuple[str, ...], most: int, criterion: str, seed: int) -> tuple:
    found = select(X, range(1, most + 1), types, criterion, random_state=seed)
    return found.chosen.n_components, found.chosen.covariance_type


def scikit_learn(X: np.ndarray, types: tuple[str, ...], most: int, seed: int) -> tuple:
    """By BIC, of one start for each number."""
    fits = [
        sklearn.mixture.GaussianMixture(m, covariance_type=kind, random_state=seed).fit(X)
        for kind in types
        for m in range(1, most + 1)
    ]
    best = min(fits, key=lambda fit: fit.bic(X))
    return best.n_components, best.covariance_type


SCRIPT = """
suppressMessages(library(mclust))
job <- commandArgs(TRUE)
X <- as.matrix(read.csv(job[1], header=FALSE))
models <- strsplit(job[2], ",")[[1]]
most <- as.integer(job[3])
name <- function(table) {
  best <- which(table == max(table, na.rm=TRUE), arr.ind=TRUE)[1, ]
  paste(rownames(table)[best[1]], colnames(table)[best[2]], sep=",")
}
if (ncol(X) == 1) models <- "V"
begin <- proc.time()[["elapsed"]]
bic <- mclustBIC(X, G=1:most, modelNames=models, verbose=FALSE)
seconds <- proc.time()[["elapsed"]] - begin
icl <- mclustICL(X, G=1:most, modelNames=models, verbose=FALSE)
cat(name(unclass(bic)), name(unclass(icl)), seconds)
"""


def mclust(X: np.ndarray, types: tuple[str, ...], most: int) -> dict[str, object]:
    """By BIC and by ICL, with the seconds of the first; nothing where there is no R."""
    if shutil.which("Rscript") is None:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        data, script = Path(folder) / "rows.csv", Path(folder) / "job.R"
        np.savetxt(data, X, delimiter=",")
        script.write_text(SCRIPT, encoding="utf-8")
        models = ",".join(MCLUST[kind] for kind in types)
        done = subprocess.run(
            ["Rscript", str(script), str(data), models, str(most)],
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        return {}
    bic, icl, seconds = done.stdout.split()
    names = {model: kind for kind, model in MCLUST.items()}
    m, model = bic.split(",")
    return {
        "mclust bic": int(m),
        "mclust type": names.get(model, model),
        "mclust icl": int(icl.split(",")[0]),
        "mclust seconds": float(seconds),
    }


def timed(function: object, *arguments: object) -> tuple[object, float]:
    begin = time.perf_counter()
    return function(*arguments), time.perf_counter() - begin


# Jobs


def simulated(job: table.Row) -> table.Row:
    X, m, most = rows_of(job["setting"], job["seed"]), SETTINGS[job["setting"]][2], job["most"]
    own = SETTINGS[job["setting"]][4]
    types = TYPES if job["types"] == "all" else (own,)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (bic, kind), seconds = timed(ours, X, types, most, "bic", 0)
        icl = bic
        if job["types"] == "own" and job["setting"] in NOT_GAUSSIAN:
            icl, _ = ours(X, types, most, "icl", 0)
        (theirs, their_kind), their_seconds = timed(scikit_learn, X, types, most, 0)
    return {
        "m": m,
        "type": own,
        "ours bic": bic,
        "ours type": kind,
        "ours icl": icl,
        "ours seconds": seconds,
        "scikit-learn bic": theirs,
        "scikit-learn type": their_kind,
        "scikit-learn seconds": their_seconds,
        "mclust bic": "",
        "mclust type": "",
        "mclust icl": "",
        "mclust seconds": "",
    } | mclust(X, types, most)


def on_real_tables(job: table.Row) -> table.Row:
    X = (real.TUNED | real.FRESH)[job["table"]]().X
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (m, _), seconds = timed(ours, X, ("full",), job["most"], "bic", job["seed"])
        theirs, _ = scikit_learn(X, ("full",), job["most"], job["seed"])
    return {"ours": m, "theirs": theirs, "seconds": seconds}


#: What is tested: components that there are, and that the null hypothesis has; n, rows, type.
TESTS = {
    "level, 1": (1, 1, 2, 200, "full"),
    "level, 2": (2, 2, 2, 300, "full"),
    "power, 2 against 1": (2, 1, 2, 200, "full"),
    "power, 3 against 2": (3, 2, 2, 300, "full"),
}
#: Standard deviations between the means of neighbours where power is measured, and level.
APART = 3.0


def tested(job: table.Row) -> table.Row:
    true, null, n, p, kind = TESTS[job["test"]]
    rng = np.random.default_rng((FIRST_SEED + job["seed"], list(TESTS).index(job["test"])))
    means = np.zeros((true, n))
    means[:, 0] = APART * np.arange(true)
    X, _ = Mixture(np.full(true, 1 / true), means, np.ones(true), "spherical").sample(
        p, int(rng.integers(2**31))
    )
    found, seconds = timed(
        lambda: blrt(X, null, covariance_type=kind, random_state=job["seed"], n_boot=199)
    )
    return {"p": found.p_value, "rejected": int(found.rejected), "n_boot": found.n_boot,
            "seconds": seconds}  # fmt: skip


def cost(job: table.Row) -> table.Row:
    """Three against four on 1,000 × 4, in default fits of three."""
    rng = np.random.default_rng((FIRST_SEED + job["seed"], 77))
    means = 4 * np.eye(4)[: job["true"]]
    truth = Mixture(np.full(job["true"], 1 / job["true"]), means, np.ones(job["true"]), "spherical")
    X, _ = truth.sample(1000, int(rng.integers(2**31)))
    found, seconds = timed(lambda: blrt(X, 3, random_state=job["seed"]))
    fits = [timed(lambda s=s: GaussianMixture(3, random_state=s).fit(X))[1] for s in range(3)]
    return {"p": found.p_value, "rejected": int(found.rejected), "n_boot": found.n_boot,
            "fits": seconds / float(np.mean(fits))}  # fmt: skip


# The page


def main(folder: Path, quick: bool) -> str:
    repeats, most, tests = (1, 3, 1) if quick else (10, 10, 600)
    names = list(SETTINGS)[1:3] if quick else list(SETTINGS)
    jobs = [
        {"setting": name, "seed": FIRST_SEED + i, "types": types, "most": most}
        for types in ("own", "all")
        for i in range(repeats if types == "own" else max(1, repeats // 3))
        for name in names
    ]
    rows = table.run(folder / "number.csv", jobs, simulated)
    jobs = [
        {"table": name, "seed": seed, "most": most}
        for name in (REAL[:1] if quick else REAL)
        for seed in range(2 if quick else 5)
    ]
    tables = table.run(folder / "number-tables.csv", jobs, on_real_tables)
    jobs = [
        {"true": true, "seed": seed}
        for true in ((3,) if quick else (3, 4))
        for seed in range(1 if quick else 5)
    ]
    costs = table.run(folder / "number-cost.csv", jobs, cost)
    jobs = [
        {"test": name, "seed": seed}
        for seed in range(tests)
        for name in (list(TESTS)[:1] if quick else TESTS)
        if seed < (tests if name.startswith("level") else max(1, tests // 12))
    ]
    decisions = table.run(folder / "number-tests.csv", jobs, tested)
    return (
        "\n\n".join([_right(rows), _seconds(rows), _same(tables), _tests(decisions, costs)]) + "\n"
    )


def _number(text: str) -> float:
    return float(text) if text else np.nan


def _share(rows: list[dict[str, str]], column: str) -> str:
    known = [row for row in rows if row[column]]
    if not known:
        return "–"
    return f"{sum(int(row[column]) == int(row['m']) for row in known)} of {len(known)}"


def _right(rows: list[dict[str, str]]) -> str:
    """How often the number was right."""
    heads = ("ours", "scikit-learn", "mclust")
    lines = [
        "## How often the number is right",
        "By BIC, of 1 to 10 components with the type of the setting; the last rows are sums. "
        + ("" if any(row["mclust bic"] for row in rows) else "There was no R with mclust here."),
        "| setting | clusters | features | rows | type | " + " | ".join(heads) + " |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    own = [row for row in rows if row["types"] == "own"]
    for name, (_, n, m, p, kind, *_) in SETTINGS.items():
        some = [row for row in own if row["setting"] == name]
        if some:
            shares = [_share(some, f"{head} bic") for head in heads]
            lines.append(f"| {name} | {m} | {n} | {p} | {kind} | " + " | ".join(shares) + " |")
    gaussian = [row for row in own if row["setting"] not in NOT_GAUSSIAN]
    every = [row for row in rows if row["types"] == "all" and row["setting"] not in NOT_GAUSSIAN]
    for label, some in (("Gaussian clusters", gaussian), ("the same, all types", every)):
        shares = [_share(some, f"{head} bic") for head in heads]
        lines.append(f"| **{label}** | | | | | " + " | ".join(shares) + " |")
    other = [row for row in own if row["setting"] in NOT_GAUSSIAN]
    if other:
        lines += [
            "",
            "By ICL, where clusters are not Gaussian (scikit-learn has none, and stands with BIC):",
            "",
            "| setting | ours | mclust | scikit-learn, BIC |",
            "| --- | --- | --- | --- |",
        ]
        for name in (*NOT_GAUSSIAN, "**all**"):
            some = other if name == "**all**" else [r for r in other if r["setting"] == name]
            shares = [_share(some, c) for c in ("ours icl", "mclust icl", "scikit-learn bic")]
            lines.append(f"| {name} | " + " | ".join(shares) + " |")
    return _joined(lines)


def _seconds(rows: list[dict[str, str]]) -> str:
    lines = [
        "## Time",
        "Medians of a comparison of 1 to 10 components of one type, on one thread.",
        "| setting | ours, s | scikit-learn, s | mclust, s | ours / scikit-learn |",
        "| --- | --- | --- | --- | --- |",
    ]
    own = [row for row in rows if row["types"] == "own"]
    ratios = []
    for name in SETTINGS:
        some = [row for row in own if row["setting"] == name]
        if not some:
            continue
        us, them, r = (
            np.array([_number(row[f"{who} seconds"]) for row in some])
            for who in ("ours", "scikit-learn", "mclust")
        )
        ratios.append(np.median(us / them))
        lines.append(
            f"| {name} | {np.median(us):.2f} | {np.median(them):.2f} | {np.median(r):.2f} | "
            f"{ratios[-1]:.2f} |"
        )
    lines.append(f"| **median** | | | | {np.median(ratios):.2f} |")
    return _joined(lines)


def _same(rows: list[dict[str, str]]) -> str:
    lines = [
        "## Real tables",
        "The number by BIC, full covariances, for each seed.",
        "| table | ours | scikit-learn |",
        "| --- | --- | --- |",
    ]
    for name in dict.fromkeys(row["table"] for row in rows):
        some = [row for row in rows if row["table"] == name]
        numbers = [", ".join(row[column] for row in some) for column in ("ours", "theirs")]
        lines.append(f"| {name} | {numbers[0]} | {numbers[1]} |")
    return _joined(lines)


def _tests(decisions: list[dict[str, str]], costs: list[dict[str, str]]) -> str:
    lines = [
        "## The bootstrap likelihood ratio test",
        "At 5 %, at most 199 replicates; means are 3 standard deviations apart.",
        "| test | data sets | rejected | replicates, mean | seconds, mean |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name in dict.fromkeys(row["test"] for row in decisions):
        some = [row for row in decisions if row["test"] == name]
        rejected, made, seconds = (
            np.array([float(row[c]) for row in some]) for c in ("rejected", "n_boot", "seconds")
        )
        lines.append(
            f"| {name} | {len(some)} | {100 * rejected.mean():.1f} % | {made.mean():.0f} | "
            f"{seconds.mean():.2f} |"
        )
    lines += ["", "Cost of 3 against 4 components on 1,000 × 4, at most 199 replicates, in default "
              "fits of 3:", "", "| true number | default fits | replicates | rejected |",
              "| --- | --- | --- | --- |"]  # fmt: skip
    for true in dict.fromkeys(row["true"] for row in costs):
        some = [row for row in costs if row["true"] == true]
        fits = ", ".join(f"{float(row['fits']):.0f}" for row in some)
        made = ", ".join(row["n_boot"] for row in some)
        rejected = sum(int(row["rejected"]) for row in some)
        lines.append(f"| {true} | {fits} | {made} | {rejected} of {len(some)} |")
    return _joined(lines)


def _joined(lines: list[str]) -> str:
    """Lines of Markdown, with paragraphs apart from tables."""
    text = ""
    for before, line in zip(["", *lines], lines, strict=False):
        apart = not (before.startswith("|") and line.startswith("|"))
        text += ("\n\n" if apart and text else "\n" if text else "") + line
    return text.replace("\n\n\n\n", "\n\n").replace("\n\n\n", "\n\n")
