"""Outliers and heavy tails: what they do to the means, and which of them are found.

Mixtures of full covariances whose nearest two means are 4 standard deviations apart. Of 1,000 rows
1, 5 or 20 % are replaced by outliers of four kinds, or components are Student's t. An error is the
root mean square over components of the distance of a fitted mean from the true one. It is divided
by that of the default fit to the rows that are no outliers (normal ones, for Student's t).
"""

from __future__ import annotations

import time
import warnings
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import sklearn.mixture
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score

import outliers_mclust
import outliers_tables
import table
from figures import plt, save
from momentmix import GaussianMixture, MomentMixture
from momentmix.plotting import plot_ellipses
from number import covariance_root, means_apart

ROWS, SEPARATION = 1000, 4.0
CELLS = [(n, m) for n in (2, 5, 10) for m in (3, 5)]
KINDS, SHARES = ("uniform", "clumps", "far", "one clump"), (0.01, 0.05, 0.2)
#: Degrees of freedom of Student's t.
DEGREES = {"t, 5 degrees": 5, "t, 3 degrees": 3}
#: Of the data sets that are reported; no setting was ever chosen on one of them.
FIRST_SEED, DATA_SETS = 7000, 10

#: Settings of this package's fits, by the name that the tables give them.
OURS = {
    "none": {"outliers": None},
    "auto": {"outliers": "auto"},
    "uniform": {"outliers": "uniform"},
    "at most 0.1": {"outliers": 0.1},
    "moments": {},
}
METHODS = (*OURS, "scikit-learn", "mclust")
#: Pure moments take longest, so they are fitted to the first few data sets of these cells.
PURE, PURE_CELLS = {"moments": 1}, [(2, 3), (2, 5), (5, 3), (10, 3)]
#: What counts as near to the fit without outliers, and for pure moments as near to their own.
NEAR, PURE_NEAR = 1.2, 2.5
#: What of these shares is aimed at together.
TOGETHER = {"up to 5 %": (0.01, 0.05), "20 %": (0.2,)}


# Data


class Data(NamedTuple):
    X: np.ndarray  # (p, n)
    labels: np.ndarray  # (p,)
    odd: np.ndarray  # (p,), which rows are outliers
    normal: np.ndarray  # (p, n), the rows before they were replaced
    means: np.ndarray  # (m, n)


@lru_cache(maxsize=4)
def data_set(n: int, m: int, kind: str, share: float, seed: int) -> Data:
    rng = np.random.default_rng((seed, n, m))
    weights = np.geomspace(1, 2, m)
    labels = rng.choice(m, size=ROWS, p=weights / weights.sum())
    means = means_apart(m, n, SEPARATION, rng)
    roots = np.array([covariance_root("full", n, rng) for _ in range(m)])
    normal = means[labels] + np.einsum("pab,pb->pa", roots[labels], rng.normal(size=(ROWS, n)))
    X, odd = normal.copy(), np.zeros(ROWS, dtype=bool)
    if kind in DEGREES:
        scales = np.sqrt(DEGREES[kind] / rng.chisquare(DEGREES[kind], size=(ROWS, 1)))
        X = means[labels] + scales * (normal - means[labels])
    elif share:
        rng = np.random.default_rng((seed, n, m, KINDS.index(kind), round(100 * share)))
        odd[rng.permutation(ROWS)[: round(share * ROWS)]] = True
        X[odd] = outliers(kind, int(odd.sum()), means, rng)
    return Data(X, labels, odd, normal, means)


def outliers(kind: str, count: int, means: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Rows (count, n); components have variances about 1."""
    n = means.shape[1]
    low, high = means.min(axis=0) - 10, means.max(axis=0) + 10
    if kind == "uniform":
        return rng.uniform(low, high, size=(count, n))
    if kind == "clumps":
        places = rng.uniform(low, high, size=(-(-count // 5), n))
        return np.repeat(places, 5, axis=0)[:count] + rng.normal(size=(count, n))
    if kind == "far":
        directions = rng.normal(size=(count, n))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        return means.mean(axis=0) + rng.uniform(20, 100, size=(count, 1)) * directions
    place = rng.uniform(means.min(axis=0), means.max(axis=0))
    side = rng.integers(n)
    place[side] = rng.choice([low[side], high[side]])
    return place + rng.normal(size=(count, n))


# Fits


def error(found: np.ndarray, means: np.ndarray) -> float:
    """Of the assignment of fitted to true means that makes it least."""
    squares = np.sum((found[:, None] - means) ** 2, axis=2)
    return float(np.sqrt(squares[linear_sum_assignment(squares)].mean()))


def fitted(method: str, X: np.ndarray, m: int, spoilt: bool) -> tuple:
    """Means, labels with -1 for outliers, and seconds; None where there is no fit."""
    if method == "mclust":
        return outliers_mclust.fit(X, m) or (None, None, np.nan)
    if method == "scikit-learn":
        model = sklearn.mixture.GaussianMixture(m, n_init=10, random_state=0)
    else:
        # Of starts that outliers spoil no two agree, and by default many would be tried.
        starts = {"n_init": 1} if method == "moments" and spoilt else {}
        cls, settings = GaussianMixture, OURS[method]
        if method == "moments":
            cls, settings = MomentMixture, starts
        model = cls(m, random_state=0, **settings)
    begin = time.perf_counter()
    model.fit(X)
    seconds = time.perf_counter() - begin
    return model.means_, model.predict(X), seconds


@lru_cache(maxsize=4)
def reference(*setting: object) -> float:
    """The error of the default fit to the rows that are no outliers."""
    data = data_set(*setting)
    fit = GaussianMixture(len(data.means), random_state=0).fit(data.normal[~data.odd])
    return error(fit.means_, data.means)


@cache
def pure_reference(n: int, m: int, seed: int) -> float:
    """The error of pure moments without outliers."""
    data = data_set(n, m, "clean", 0.0, seed)
    found, _, _ = fitted("moments", data.X, m, spoilt=False)
    return error(found, data.means)


def work(job: table.Row) -> table.Row:
    method, setting = job["method"], [job[name] for name in ("n", "m", "kind", "share", "seed")]
    data, (n, m, kind, _, seed) = data_set(*setting), setting
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        means, said, seconds = fitted(method, data.X, m, spoilt=kind != "clean")
        if means is None:
            return {"ratio": np.inf, "pure ratio": "", "seconds": seconds, "outliers": "",
                    "found": "", "false": "", "ari": ""}  # fmt: skip
        off = error(means, data.means)
        pure = off / pure_reference(n, m, seed) if method in PURE else ""
        off /= reference(*setting)
    return {
        "ratio": round(off, 4),
        "pure ratio": pure if pure == "" else round(pure, 4),
        "seconds": round(seconds, 4),
        "outliers": int(data.odd.sum()),
        "found": int(np.sum(said[data.odd] == -1)),
        "false": int(np.sum(said[~data.odd] == -1)),
        "ari": round(adjusted_rand_score(data.labels[~data.odd], said[~data.odd]), 4),
    }


def jobs(quick: bool) -> list[table.Row]:
    settings = [("clean", 0.0), *((kind, share) for kind in KINDS for share in SHARES)]
    settings += [(kind, 0.0) for kind in DEGREES]
    cells, repeats = CELLS, DATA_SETS
    if quick:
        cells, repeats = CELLS[:1], 1
        settings = [("clean", 0.0), ("uniform", 0.05)]
    methods = [name for name in METHODS if name != "mclust" or outliers_mclust.available()]
    return [
        {"n": n, "m": m, "kind": kind, "share": share, "seed": FIRST_SEED + i, "method": method}
        for n, m in cells
        for i in range(repeats)
        for kind, share in settings
        for method in methods
        if method not in PURE or ((n, m) in PURE_CELLS and i < PURE[method])
    ]


# The page

Rows = list[dict[str, str]]


def main(folder: Path, quick: bool) -> str:
    rows = table.run(folder / "outliers.csv", jobs(quick), work)
    draw(folder)
    there = any(row["method"] == "mclust" for row in rows)
    text = (
        f"{ROWS:,} rows of mixtures of 3 and 5 components in 2, 5 and 10 features, with "
        f"{DATA_SETS} data sets of each setting. `none`, `auto`, `uniform` and `at most 0.1` are "
        "settings of `outliers`; `moments` are fits without a likelihood (`MomentMixture`) to the "
        "first data set of a setting (with 5 components only in 2 features), from one start "
        "wherever data are not clean; scikit-learn is "
        "`GaussianMixture(n_init=10)`; mclust has a noise component, and the 5 % of rows that are "
        "farthest from their tenth neighbour as its first guess. "
        + ("" if there else "There was no R with mclust here, so its column is empty. ")
        + "A ratio is the error of the means over that of the default fit to the rows that are no "
        "outliers."
    )
    parts = [text, _clean(rows), _by_kind(rows), _by_features(rows), _pure(rows), _found(rows)]
    parts.append(outliers_tables.main(folder, quick))
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _some(rows: Rows, method: str, kinds: tuple[str, ...], shares: tuple[float, ...]) -> Rows:
    return [
        row
        for row in rows
        if row["method"] == method and row["kind"] in kinds and float(row["share"]) in shares
    ]


def _numbers(rows: Rows, column: str) -> np.ndarray:
    return np.array([float(row[column]) for row in rows if row[column] != ""])


def _near(rows: Rows, column: str = "ratio", near: float = NEAR) -> str:
    """The share that is near, and the median ratio."""
    ratios = _numbers(rows, column)
    if not len(ratios):
        return "—"
    return f"{100 * np.mean(ratios <= near):.0f} % ({np.median(ratios):.2f})"


def _settings(rows: Rows) -> dict[str, tuple[tuple[str, ...], tuple[float, ...]]]:
    """What the rows of a table are of, by what they are called: kinds and shares that there are."""
    there = list(dict.fromkeys((row["kind"], float(row["share"])) for row in rows))
    return {
        f"{kind}, {100 * share:.0f} %" if share else kind: ((kind,), (share,))
        for kind, share in there
        if kind != "clean"
    }


def _clean(rows: Rows) -> str:
    lines = []
    times = {method: _numbers(_some(rows, method, ("clean",), (0.0,)), "seconds")
             for method in METHODS}  # fmt: skip
    for method in METHODS:
        some = _some(rows, method, ("clean",), (0.0,))
        if not some:
            lines.append([method, *["—"] * 6])
            continue
        ratios = _numbers(some, "ratio")
        same = len(some) == len(times["none"])  # the same data sets, so that times compare
        ratio = f"{np.nanmedian(times[method] / times['none']):.2f}" if same else "—"
        lines.append([
            method, len(some), f"{np.median(ratios):.3f}", f"{ratios.max():.3f}",
            f"{np.nanmedian(times[method]):.2f}", ratio,
            f"{100 * np.mean(_numbers(some, 'false')) / ROWS:.2f} %",
        ])  # fmt: skip
    head = ["method", "data sets", "ratio, median", "largest", "seconds, median",
            "time over `none`, median", "rows set aside"]  # fmt: skip
    return (
        "## Clean data\n\nRatios and times where there are no outliers. The seconds of mclust are "
        "without those of its first guess.\n\n" + table.markdown(head, lines)
    )


def _by_kind(rows: Rows) -> str:
    settings = _settings(rows)
    together = {f"**{name}**": (KINDS[:-1], shares) for name, shares in TOGETHER.items()}
    apart = {name: what for name, what in settings.items() if what[0] == KINDS[-1:]}
    first = {name: what for name, what in settings.items() if name not in apart}
    text = (
        f"## Outliers and heavy tails\n\nThe share of data sets whose ratio is at most {NEAR}, "
        "and in brackets the median ratio. The last rows take uniform outliers, clumps and far "
        "ones together.\n\n" + _near_table(rows, first | together)
    )
    if apart:
        text += (
            "\nAll outliers in one place. With as many components as there are clusters, a "
            "likelihood may take it for one of them.\n\n" + _near_table(rows, apart)
        )
    return text


def _near_table(rows: Rows, settings: dict[str, tuple]) -> str:
    lines = [
        [name, *(_near(_some(rows, method, *what)) for method in METHODS)]
        for name, what in settings.items()
    ]
    return table.markdown(["outliers", *METHODS], lines)


def _by_features(rows: Rows) -> str:
    lines = []
    for n in dict.fromkeys(row["n"] for row in rows):
        own = [row for row in rows if row["n"] == n]
        for name, shares in TOGETHER.items():
            some = [_near(_some(own, method, KINDS[:-1], shares)) for method in METHODS]
            lines.append([n, name, *some])
    return (
        "## By the number of features\n\nThe same of uniform outliers, clumps and far ones "
        "together.\n\n" + table.markdown(["features", "outliers", *METHODS], lines)
    )


def _pure(rows: Rows) -> str:
    settings = {"clean": (("clean",), (0.0,))} | _settings(rows)
    settings |= {f"**{name}**": (KINDS[:-1], shares) for name, shares in TOGETHER.items()}
    lines = [
        [name, *(_near(_some(rows, method, *what), "pure ratio", PURE_NEAR) for method in PURE)]
        for name, what in settings.items()
    ]
    return (
        "## Pure moments\n\nThe share of data sets in which the error is at most "
        f"{PURE_NEAR} times that of pure moments without outliers (`moments` on clean data), and "
        "in brackets the median ratio.\n\n" + table.markdown(["outliers", *PURE], lines)
    )


def _found(rows: Rows) -> str:
    methods = [name for name in METHODS if name not in ("none", "moments", "scikit-learn")]
    lines = []
    for name, what in _settings(rows).items():
        cells = []
        for method in methods:
            some = _some(rows, method, *what)
            odd, found, false = (_numbers(some, c).sum() for c in ("outliers", "found", "false"))
            clean = ROWS * len(_numbers(some, "found")) - odd
            recall = f"{100 * found / odd:.1f} %" if odd else "—"
            cells.append(f"{recall} / {100 * false / clean:.2f} %" if clean else "—")
        lines.append([name, *cells])
    return (
        "## Outliers found\n\nThe share of outliers that are set aside (−1), and the share of "
        "other rows that are. Student's t has no outliers.\n\n"
        + table.markdown(["outliers", *methods], lines)
    )


def draw(folder: Path) -> None:
    """Three components in the plane with 5 % uniform outliers, fitted without and with them."""
    data = data_set(2, 3, "uniform", 0.05, FIRST_SEED)
    figure, axes = plt.subplots(
        1, 2, figsize=(10, 4.6), sharex=True, sharey=True, layout="constrained"
    )
    for ax, method in zip(axes, ("none", "auto"), strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = GaussianMixture(3, random_state=0, **OURS[method]).fit(data.X)
        aside = fit.predict(data.X) == -1
        plot_ellipses(fit.mixture_, data.X[~aside], ax=ax)
        ax.plot(*data.X[aside].T, "x", color="#b2182b", markersize=5, label="set aside")
        ax.plot(*data.means.T, "k+", markersize=11, label="true means")
        ax.set(title=f'outliers="{method}": {aside.sum()} rows set aside')
        ax.margins(0.03)
    axes[1].legend(loc="best")
    save(figure, folder / "outliers")
