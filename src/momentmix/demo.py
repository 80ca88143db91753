"""``python -m momentmix.demo [FOLDER]``: what momentmix does, in numbers and pictures.

1,000 earthquakes are fitted, compared with EM, and drawn.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import sklearn.mixture

from momentmix import GaussianMixture, Mixture
from momentmix.datasets import load_quakes
from momentmix.summary.components import components, names_of
from momentmix.summary.fit_summary import FitSummary

#: The number of components of the demo. A choice of convenience that affects the demo alone.
COMPONENTS = 5


def table(mixture: Mixture) -> None:
    """Print a line for each component: its weight, and mean ± deviation of each feature."""
    print("  " + f"{'weight':>7}" + "".join(f"{name:>20}" for name in names_of(mixture)))
    for part in components(mixture):
        pairs = zip(part.mean, part.deviation, strict=True)
        print(
            "  " + f"{part.weight:7.3f}" + "".join(f"{f'{m:.2f} ± {s:.2f}':>20}" for m, s in pairs)
        )


def draw_quakes(mixture: Mixture, X: np.ndarray, path: Path) -> None:
    """Draw contours of the density over the points, on a map and in a vertical section."""
    from matplotlib.figure import Figure

    from momentmix.plotting import plot_density

    figure = Figure(figsize=(12, 5.2), layout="constrained")
    axes = figure.subplots(1, 2)
    plot_density(mixture, X, features=(1, 0), ax=axes[0])
    plot_density(mixture, X, features=(1, 2), ax=axes[1])
    axes[1].invert_yaxis()
    figure.suptitle(f"{mixture.n_components} components fitted by momentmix")
    figure.savefig(path, dpi=110)


def main(folder: str = "demo") -> None:
    from momentmix.report import write_report

    X, names = load_quakes()
    print(f"1,000 earthquakes near Fiji (bundled): columns {', '.join(names)}\n")
    start = time.perf_counter()
    fit = GaussianMixture(COMPONENTS, random_state=0, verbose=1).fit(X)
    seconds = time.perf_counter() - start
    mixture = fit.mixture_.named(names)
    print(f"GaussianMixture({COMPONENTS}) in {seconds:.2f} s:\n")
    table(mixture)
    summary = FitSummary(mixture, "quakes", X=X, seconds=seconds)
    start = time.perf_counter()
    em = sklearn.mixture.GaussianMixture(COMPONENTS, n_init=10, random_state=0).fit(X)
    theirs = time.perf_counter() - start
    print(f"\n  {'':44}{'log-likelihood':>14}{'seconds':>10}")
    for name, value, took in (
        ("momentmix: GaussianMixture(5)", summary.log_likelihood, seconds),
        ("scikit-learn: GaussianMixture(5, n_init=10)", em.score(X) * len(X), theirs),
    ):
        print(f"  {name:44}{value:14.1f}{took:10.2f}")
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    draw_quakes(mixture, X, out / "fit.png")
    write_report(out / "report.html", summary)
    print(f"\nPicture: {out / 'fit.png'}, report: {out / 'report.html'}\n")


if __name__ == "__main__":
    main(*sys.argv[1:2])
