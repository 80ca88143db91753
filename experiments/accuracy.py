"""§7.1 and §7.2: empirical and debiased third moments converge at the rate 1/√p (n=2, m=3)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import table
from figures import plt, save
from momentmix import Mixture, Samples, dense_moment
from third_moment import COVARIANCES, MEANS, NOISE, WEIGHTS

KINDS = {"empirical": "§7.1", "debiased": "§7.2"}


def problem(kind: str) -> tuple[Mixture, np.ndarray, object]:
    """Where samples come from, the moment to estimate, and the noise to take out."""
    if kind == "empirical":
        mixture = Mixture(WEIGHTS, MEANS, COVARIANCES)
        return mixture, dense_moment(mixture, 3), None
    clean = Mixture(WEIGHTS, MEANS, [0.0] * 3, "spherical")
    return Mixture(WEIGHTS, MEANS, NOISE, "tied"), dense_moment(clean, 3), NOISE


def jobs(kind: str, quick: bool) -> list[table.Row]:
    sizes = np.geomspace(100, 10_000 if quick else 1_000_000, 5 if quick else 9).astype(int)
    return [{"p": int(p), "seed": seed} for seed in range(3 if quick else 20) for p in sizes]


def work(kind: str, job: table.Row) -> table.Row:
    mixture, target, noise = problem(kind)
    X, _ = mixture.sample(job["p"], np.random.default_rng([job["seed"], job["p"]]))
    estimate = dense_moment(Samples(X, noise_covariance=noise), 3)
    return {"error": float(np.linalg.norm(estimate - target))}


def slope(rows: list[dict[str, str]]) -> float:
    logs = np.log([[float(row["p"]), float(row["error"])] for row in rows])
    return float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])


def draw(results: dict[str, list], folder: Path) -> None:
    figure, axes = plt.subplots(2, 2, figsize=(9, 7.5), layout="constrained")
    grid = np.linspace(-3.5, 3.5, 141)
    xx, yy = np.meshgrid(grid, grid)
    for (kind, rows), (top, bottom) in zip(results.items(), axes.T, strict=True):
        mixture = problem(kind)[0]
        X, labels = mixture.sample(1000, 0)
        top.scatter(*X.T, c=labels, s=5, alpha=0.5, cmap="Dark2", vmin=0, vmax=7)
        density = np.exp(mixture.log_prob(np.column_stack([xx.ravel(), yy.ravel()])))
        top.contour(xx, yy, density.reshape(xx.shape), levels=10, colors="k", linewidths=0.6)
        top.set(title=f"{KINDS[kind]}, 1,000 samples", aspect="equal")
        p, error = np.array([[float(row["p"]), float(row["error"])] for row in rows]).T
        bottom.loglog(p, error, "o", alpha=0.25, markersize=6, markeredgewidth=0)
        sizes = np.unique(p)
        middle = np.array([np.exp(np.mean(np.log(error[p == size]))) for size in sizes])
        bottom.loglog(sizes, middle, color="C0", label=f"mean, slope {slope(rows):.3f}")
        rate = middle[0] * np.sqrt(sizes[0] / sizes)
        bottom.loglog(sizes, rate, "k--", linewidth=1, label="1/√p")
        bottom.set(xlabel="number of samples p", ylabel=f"error of the {kind} third moment")
        bottom.legend()
    save(figure, folder / "accuracy")


def main(folder: Path, quick: bool) -> str:
    results = {
        kind: table.run(
            folder / f"accuracy-{kind}.csv",
            jobs(kind, quick),
            lambda job, kind=kind: work(kind, job),
        )
        for kind in KINDS
    }
    draw(results, folder)
    rows = [(KINDS[kind], kind, f"{slope(rows):.3f}", "-0.5") for kind, rows in results.items()]
    return table.markdown(["section", "third moment", "slope of log error", "theory"], rows)
