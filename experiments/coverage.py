"""Do intervals hold what they say? Coverage of 95 % intervals of every kind of parameter.

Three components at equal distances from each other, ``separation`` standard deviations, of 50, 30
and 20 % of the rows. EM starts at the truth, so that labels are known and the search is left out.
A cell has its coverage for weights, means, variances and covariances, by observed information and,
where that fails, by the bootstrap; how often ``standard_errors`` warns there; and what it costs.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

import table
from figures import plt, save
from momentmix import GaussianMixture, Mixture
from momentmix.support.messages import UncertaintyWarning

KINDS = ("full", "tied", "diag", "spherical")
SEPARATIONS = (4.0, 2.5, 2.0)
GROUPS = ("weights", "means", "variances", "covariances")
#: Replications of a cell, and of one whose intervals come from the bootstrap, with so many refits.
REPLICATIONS, BOOTSTRAPPED, REFITS = 500, 40, 100
#: Replications of cells with the most rows, which are dear, and of those in which warnings count.
FEWER, WARNED = 200, 40
#: What counts as 95 %.
HELD = (0.93, 0.97)


def jobs(quick: bool) -> list[table.Row]:
    cells = [
        (kind, n, separation, p)
        for kind in KINDS
        for n in (2, 5)
        for separation in SEPARATIONS
        for p in (500, 2000, 10_000)
    ]
    if quick:
        cells = [("diag", 2, 4.0, 500), ("full", 2, 2.0, 500)]
    names = ("covariance", "n", "separation", "p")
    counts = {500: REPLICATIONS, 2000: REPLICATIONS, 10_000: FEWER}
    return [
        dict(zip(names, cell, strict=True))
        | {"replications": 6 if quick else counts[int(cell[-1])]}
        for cell in cells
    ]


def problem(job: table.Row) -> Mixture:
    """Means at the corners of a triangle, covariances of determinant 1 that are not alike."""
    n, kind = job["n"], job["covariance"]
    rng = np.random.default_rng(7)
    angles = 2 * np.pi * np.arange(3) / 3
    corners = np.column_stack([np.cos(angles), np.sin(angles)]) * job["separation"] / np.sqrt(3)
    means = corners @ _turned(n, rng)[:2]
    spread = np.exp(rng.uniform(-0.5, 0.5, (3, n)))
    spread /= np.exp(np.log(spread).mean(axis=1, keepdims=True))
    turns = np.array([_turned(n, rng) for _ in range(3)])
    matrices = (turns * spread[:, None, :]) @ turns.swapaxes(1, 2)
    covariances = {
        "full": matrices,
        "tied": matrices[0],
        "diag": spread,
        "spherical": np.exp(rng.uniform(-0.3, 0.3, 3)),
    }[kind]
    return Mixture([0.5, 0.3, 0.2], means, covariances, kind)


def _turned(n: int, rng: np.random.Generator) -> np.ndarray:
    return np.linalg.qr(rng.normal(size=(n, n)))[0]


def replicate(job: table.Row, truth: Mixture, number: int) -> tuple[GaussianMixture, np.ndarray]:
    """A fit from the truth to new rows, and the rows."""
    X, _ = truth.sample(job["p"], np.random.default_rng([job["n"], job["p"], number]))
    gm = GaussianMixture(
        3,
        covariance_type=job["covariance"],
        weights_init=truth.weights,
        means_init=truth.means,
        covariances_init=truth.covariances,
        max_iter=1000,
        random_state=number,
        n_jobs=1,
    )
    return gm.fit(X), X


def held(truth: Mixture, low: object, high: object) -> dict[str, float]:
    """The share of parameters of each group that lie in their intervals."""
    inside = {
        name: (getattr(low, name) <= getattr(truth, name))
        & (getattr(truth, name) <= getattr(high, name))
        for name in ("weights", "means", "covariances")
    }
    both = inside.pop("covariances")
    variance = np.ones(both.shape, dtype=bool)
    if both.shape[-2:] == (truth.n_features, truth.n_features) and truth.covariance_type != "diag":
        variance = np.broadcast_to(np.eye(truth.n_features, dtype=bool), both.shape)
    shares = {name: float(np.mean(part)) for name, part in inside.items()}
    shares["variances"] = float(np.mean(both[variance]))
    shares["covariances"] = float(np.mean(both[~variance])) if np.any(~variance) else np.nan
    return shares


def by_information(job: table.Row) -> table.Row:
    """The coverage of intervals by observed information."""
    truth, found = problem(job), []
    for number in range(job["replications"]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gm, X = replicate(job, truth, number)
            found.append(held(truth, *gm.confidence_intervals(X)))
    return {name: _mean(found, name) for name in GROUPS}


def by_warning(job: table.Row) -> table.Row:
    """How often ``standard_errors`` warns."""
    truth, warned = problem(job), 0
    for number in range(job["replications"]):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            gm, X = replicate(job, truth, number)
            gm.standard_errors(X)
        warned += any(issubclass(one.category, UncertaintyWarning) for one in caught)
    return {"warned": warned / job["replications"]}


def by_bootstrap(job: table.Row) -> table.Row:
    """The same of intervals by the bootstrap of rows."""
    truth, found = problem(job), []
    refits = min(REFITS, 5 * job["replications"])  # fewer in a smoke test
    for number in range(job["replications"]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gm, X = replicate(job, truth, number)
            found.append(held(truth, *gm.bootstrap(X, refits).confidence_intervals()))
    return {name: _mean(found, name) for name in GROUPS}


def _mean(found: list[dict[str, float]], name: str) -> float:
    return float(np.mean([shares[name] for shares in found]))


def _holds(row: dict[str, str], prefix: str = "") -> bool:
    """Whether all groups have their coverage, give or take what replications leave open."""
    shares = np.array([float(row[prefix + name]) for name in GROUPS])
    shares = shares[np.isfinite(shares)]
    return bool(np.all((shares >= HELD[0] - 0.0005) & (shares <= HELD[1] + 0.0005)))


def draw(rows: list[dict[str, str]], warned: list[float], folder: Path) -> None:
    """A panel for each type and number of features; cells have the lowest coverage of a group."""
    panels = list(dict.fromkeys((row["covariance"], row["n"]) for row in rows))
    across = min(4, len(panels))
    down = -(-len(panels) // across)
    figure, axes = plt.subplots(
        down, across, figsize=(3.2 * across, 2.6 * down), squeeze=False, layout="constrained"
    )
    for ax, (kind, n) in zip(axes.T.flat if down > 1 else axes.flat, panels, strict=False):
        own = [
            (row, share)
            for row, share in zip(rows, warned, strict=True)
            if (row["covariance"], row["n"]) == (kind, n)
        ]
        separations = list(dict.fromkeys(row["separation"] for row, _ in own))
        sizes = list(dict.fromkeys(row["p"] for row, _ in own))
        lowest = np.full((len(sizes), len(separations)), np.nan)
        for row, share in own:
            at = sizes.index(row["p"]), separations.index(row["separation"])
            lowest[at] = np.nanmin([float(row[name]) for name in GROUPS])
            mark = "" if share < 0.5 else "\nwarns"
            ax.text(at[1], at[0], f"{lowest[at]:.3f}{mark}", ha="center", va="center", fontsize=9)
        ax.imshow(lowest, cmap="RdYlBu", vmin=0.75, vmax=1.0, aspect="auto", alpha=0.8)
        ax.set_xticks(range(len(separations)), separations)
        ax.set_yticks(range(len(sizes)), [f"p={p}" for p in sizes])
        ax.set(xlabel="separation", title=f"{kind}, n={n}")
    figure.suptitle("Coverage of 95 % intervals, of the group of parameters that has the least")
    save(figure, folder / "coverage")


def cost(quick: bool) -> str:
    """The time of standard errors over that of the default fit, 10,000 × 5, five components."""
    rows = []
    for separation in SEPARATIONS[:1] if quick else SEPARATIONS:
        rng = np.random.default_rng(1)
        means = rng.normal(size=(5, 5))
        gaps = np.linalg.norm(means[:, None] - means, axis=2)[np.triu_indices(5, 1)]
        means *= separation / np.median(gaps)
        truth = Mixture(np.full(5, 0.2), means, np.tile(np.eye(5), (5, 1, 1)), "full")
        X, _ = truth.sample(500 if quick else 10_000, random_state=2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gm = GaussianMixture(5, random_state=0, n_jobs=1)
            fit = min(_seconds(lambda gm=gm, X=X: gm.fit(X)) for _ in range(3))
            errors = min(_seconds(lambda gm=gm, X=X: gm.standard_errors(X)) for _ in range(5))
        rows.append([separation, f"{fit:.3f}", f"{errors:.3f}", f"{errors / fit:.2f}"])
    heads = ["median distance of means", "fit, s", "standard errors, s", "ratio"]
    return "\n\nWhat it costs, 10,000 × 5, five full components, one thread:\n\n" + table.markdown(
        heads, rows
    )


def _seconds(function: Callable[[], object]) -> float:
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def main(folder: Path, quick: bool) -> str:
    names = ("covariance", "n", "separation", "p")
    rows = table.run(folder / "coverage.csv", jobs(quick), by_information)
    fewer = [job | {"replications": 2 if quick else WARNED} for job in jobs(quick)]
    warned = table.run(folder / "coverage-warnings.csv", fewer, by_warning)
    shares = [float(row["warned"]) for row in warned]
    draw(rows, shares, folder)
    holds = [_holds(row) for row in rows]
    failed = [job for job, good in zip(jobs(quick), holds, strict=True) if not good]
    often = [share >= 0.5 for share in shares]
    text = (
        f"{sum(holds)} of {len(rows)} cells have between {HELD[0]:.0%} and {HELD[1]:.0%} in all "
        "groups, from 500 replications each (200 for p=10,000). "
        f"Of the {len(failed)} others, `standard_errors` warns in most data sets of "
        f"{sum(o and not h for o, h in zip(often, holds, strict=True))}; it does so in "
        f"{sum(o and h for o, h in zip(often, holds, strict=True))} of the cells that hold.\n\n"
    )
    shown = [
        [
            *(row[name] for name in names),
            *(f"{float(row[group]):.3f}" for group in GROUPS),
            f"{share:.2f}",
        ]
        for row, share in zip(rows, shares, strict=True)
    ]
    text += table.markdown([*names, *GROUPS, "warned"], shown)
    again = [
        job | {"replications": 2 if quick else BOOTSTRAPPED}
        for job in failed
        if job["p"] < 10_000  # where refits are affordable
    ]
    if again:
        rows = table.run(folder / "coverage-bootstrap.csv", again, by_bootstrap)
        text += (
            f"\n\nThe bootstrap of rows ({REFITS} refits, percentiles, {BOOTSTRAPPED} "
            "replications) where observed information does not hold, up to p=2,000:\n\n"
        )
        shown = [
            [*(row[name] for name in names), *(f"{float(row[group]):.3f}" for group in GROUPS)]
            for row in rows
        ]
        text += table.markdown([*names, *GROUPS], shown)
    return text + cost(quick)
