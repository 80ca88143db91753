"""§7.3: the method of moments and EM on 20 overlapping components in 100 features.

n=100, m=20, p=8000, three noise levels, ten starts a method, eight metrics. Methods: scikit-learn's
EM from k-means and from random points; pure moment fits of orders 3 and 4 in both forms of the
augmented system (ω=0.5, one random start each); momentmix's GaussianMixture with prior=None, the
likelihood alone as the others have it; and as a ceiling EM from the true parameters.
"""

from __future__ import annotations

import time
import warnings
from functools import lru_cache
from pathlib import Path

import numpy as np
import sklearn.mixture

import table
from figures import dots, plt, save
from metrics import Metrics
from momentmix import GaussianMixture, Mixture, MomentMixture
from momentmix.datasets import paper_mixture

METHODS = {
    "EM, k-means": "#e41a1c",
    "EM, random": "#ff7f00",
    "MoM3 implicit": "#377eb8",
    "MoM3 post-processing": "#80b1d3",
    "MoM4 implicit": "#4daf4a",
    "MoM4 post-processing": "#b2df8a",
    "momentmix": "#984ea3",
    "ceiling": "#555555",
}
PANELS = {
    "log_likelihood": "mean log-likelihood\n(higher is better)",
    "mom3": "‖M⁽³⁾ − M̂⁽³⁾‖²",
    "mom4": "‖M⁽⁴⁾ − M̂⁽⁴⁾‖²",
    "seconds": "seconds",
    "weights": "weights, L1 error",
    "means": "means, relative error",
    "covariances": "covariances, relative error",
    "cosine": "cosine to true means\n(higher is better)",
}
NOISES = (0.05, 0.1, 0.2)


def sizes(quick: bool) -> dict[str, int]:
    return {"n": 15, "m": 4, "p": 800} if quick else {"n": 100, "m": 20, "p": 8000}


def jobs(quick: bool) -> list[table.Row]:
    result = []
    for noise in NOISES[:1] if quick else NOISES:
        for method in METHODS:
            for start in range(1 if method == "ceiling" else 2 if quick else 10):
                settings = {"noise": noise, "data_seed": 0, "method": method, "start": start}
                result.append(sizes(quick) | settings)
    return result


@lru_cache(maxsize=1)
def problem(noise: float, seed: int, n: int, m: int, p: int) -> tuple[Mixture, Metrics]:
    truth = paper_mixture(noise, seed, n_features=n, n_components=m)
    return truth, Metrics(truth, truth.sample(p, seed + 1000)[0])


def fitted(method: str, truth: Mixture, X: np.ndarray, start: int) -> Mixture:
    m = truth.n_components
    if method.startswith("EM") or method == "ceiling":
        model = sklearn.mixture.GaussianMixture(
            m, covariance_type="diag", tol=1e-6, max_iter=1000, random_state=start
        )
        if method == "EM, random":
            model.set_params(init_params="random_from_data")
        if method == "ceiling":
            model.set_params(
                weights_init=truth.weights,
                means_init=truth.means,
                precisions_init=1 / truth.covariances,
            )
        model.fit(X)
        return Mixture(model.weights_, model.means_, model.covariances_, "diag")
    if method == "momentmix":
        model = GaussianMixture(m, covariance_type="diag", prior=None, random_state=start)
    else:
        order, form = method[3], method.split()[1]
        model = MomentMixture(
            m,
            covariance_type="diag",
            order=int(order),
            omega=0.5,
            augmentation=form,
            n_init=1,
            init="random",
            max_iter=500,
            random_state=start,
        )
    return model.fit(X).mixture_


def work(job: table.Row) -> table.Row:
    truth, metrics = problem(job["noise"], job["data_seed"], job["n"], job["m"], job["p"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        begin = time.perf_counter()
        fit = fitted(job["method"], truth, metrics.X, job["start"])
        seconds = time.perf_counter() - begin
    told = any("converge" in str(w.message) for w in caught)
    return metrics.of(fit) | {"seconds": seconds, "converged": not told}


def draw(rows: list[dict[str, str]], noise: str, path: Path) -> None:
    figure, axes = plt.subplots(2, 4, figsize=(13, 7), layout="constrained")
    for ax, (name, title) in zip(axes.flat, PANELS.items(), strict=True):
        groups = [
            np.array([float(row[name]) for row in rows if row["method"] == method])
            for method in METHODS
        ]
        dots(ax, groups, list(METHODS.values()))
        ax.set_title(title, fontsize=10)
        if name in ("mom3", "mom4", "seconds"):
            ax.set_yscale("log")
        elif name in ("weights", "means", "covariances"):
            ax.set_ylim(bottom=0)
    for method, colour in METHODS.items():
        figure.axes[0].plot([], [], "o", color=colour, alpha=0.6, label=method)
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    figure.suptitle(f"§7.3, noise σ² = {noise}: one dot a start")
    save(figure, path)


def main(folder: Path, quick: bool) -> str:
    rows = table.run(folder / "comparison.csv", jobs(quick), work)
    lines = []
    for noise in dict.fromkeys(row["noise"] for row in rows):
        part = [row for row in rows if row["noise"] == noise]
        draw(part, noise, folder / f"comparison-{noise}")
        top = next(float(r["log_likelihood"]) for r in part if r["method"] == "ceiling")
        for method in METHODS:
            own = [row for row in part if row["method"] == method]
            middle = {name: np.median([float(row[name]) for row in own]) for name in PANELS}
            near = sum(float(row["log_likelihood"]) > top - 0.005 for row in own)
            lines.append(
                (
                    noise,
                    method,
                    f"{near} of {len(own)}",
                    f"{middle['log_likelihood'] - top:+.3f}",
                    *(f"{middle[name]:.3f}" for name in ("weights", "means", "covariances")),
                    f"{middle['cosine']:.3f}",
                    *(f"{middle[name]:.2e}" for name in ("mom3", "mom4")),
                    f"{middle['seconds']:.1f}",
                )
            )
    header = ["σ²", "method", "starts at the ceiling", "log-likelihood − ceiling", "weights"]
    header += ["means", "covariances", "cosine", "‖M3 − M̂3‖²", "‖M4 − M̂4‖²", "seconds"]
    return table.markdown(header, lines)
