"""``python -m momentmix.demo [FOLDER] [CSV]``: fit a table, compare with EM, draw the fit.

Without a table, the 1,000 earthquakes that come with the package.
"""

from __future__ import annotations

import csv
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.mixture import GaussianMixture

from momentmix import MomentMixture, _moments_demo
from momentmix.datasets import load_quakes

COMPONENTS = 5


def read_csv(path: str) -> tuple[np.ndarray, list[str]]:
    """The numbers of a CSV file with a line of names; a bad cell is named."""
    with open(path, newline="", encoding="utf-8") as file:
        names, *rows = csv.reader(file)
    values = np.empty((len(rows), len(names)))
    for i, row in enumerate(rows):
        if len(row) != len(names):
            raise SystemExit(f"{path}, line {i + 2}: {len(row)} cells, but {len(names)} columns")
        for j, cell in enumerate(row):
            try:
                values[i, j] = float(cell)
            except ValueError:
                raise SystemExit(
                    f"{path}, line {i + 2}, column {names[j]}: {cell!r} is not a number"
                ) from None
    return values, names


def table(fit: MomentMixture, names: list[str]) -> None:
    """One line a component: its share, and mean ± standard deviation of each feature."""
    print("  " + f"{'weight':>7}" + "".join(f"{name:>20}" for name in names))
    for j in np.argsort(-fit.weights_):
        deviations = np.sqrt(np.diag(fit.covariances_[j]))
        cells = [f"{m:.2f} ± {s:.2f}" for m, s in zip(fit.means_[j], deviations, strict=True)]
        print("  " + f"{fit.weights_[j]:7.3f}" + "".join(f"{cell:>20}" for cell in cells))


def draw(fit: MomentMixture, X: np.ndarray, names: list[str], path: Path) -> None:
    """Density contours over the points, for two pairs of features."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    pairs = [(1, 0), (1, 2)] if X.shape[1] > 2 else [(0, 1)]
    figure, axes = plt.subplots(
        1, len(pairs), figsize=(6 * len(pairs), 5.2), squeeze=False, layout="constrained"
    )
    labels = fit.predict(X)
    for ax, (a, b) in zip(axes[0], pairs, strict=True):
        low, high = X[:, [a, b]].min(axis=0), X[:, [a, b]].max(axis=0)
        margin = 0.05 * (high - low)
        grids = [
            np.linspace(lo, hi, 150) for lo, hi in zip(low - margin, high + margin, strict=True)
        ]
        xx, yy = np.meshgrid(*grids)
        points = np.column_stack([xx.ravel(), yy.ravel()])
        log_density = fit.mixture_.marginal([a, b]).log_prob(points).reshape(xx.shape)
        levels = log_density.max() - np.array([7, 5.5, 4.5, 3.5, 2.5, 1.75, 1, 0.4])
        ax.scatter(X[:, a], X[:, b], c=labels, s=9, alpha=0.6, cmap="Dark2", vmin=0, vmax=7)
        ax.contour(
            xx, yy, log_density, levels=levels, colors="k", linewidths=0.7, linestyles="solid"
        )
        ax.plot(fit.means_[:, a], fit.means_[:, b], "k+", markersize=11, markeredgewidth=2)
        ax.set(xlabel=names[a], ylabel=names[b])
        if names[b] == "depth":
            ax.invert_yaxis()
    figure.suptitle(f"{len(fit.weights_)} components fitted by MomentMixture: density and samples")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(folder: str = "demo", path: str | None = None) -> None:
    X, names = load_quakes() if path is None else read_csv(path)
    what = "1,000 earthquakes near Fiji (bundled)" if path is None else path
    print(f"{what}: {len(X)} rows, columns {', '.join(names)}\n")
    start = time.perf_counter()
    fit = MomentMixture(COMPONENTS, random_state=0, verbose=1).fit(X)
    seconds = time.perf_counter() - start
    print(f"MomentMixture({COMPONENTS}) in {seconds:.2f} s:\n")
    table(fit, names)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        em = GaussianMixture(COMPONENTS, n_init=10, random_state=0).fit(X)
    em_seconds = time.perf_counter() - start
    print(f"\n  {'':34}{'log-likelihood':>16}{'seconds':>10}")
    print(f"  {'MomentMixture(5)':34}{fit.score(X) * len(X):16.1f}{seconds:10.2f}")
    print(f"  {'GaussianMixture(5, n_init=10)':34}{em.score(X) * len(X):16.1f}{em_seconds:10.2f}")
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    draw(fit, X, names, out / "fit.png")
    print(f"\nPicture: {out / 'fit.png'}\n")
    _moments_demo.main(folder)


if __name__ == "__main__":
    main(*sys.argv[1:3])
