"""§7.3: the method of moments and EM on 20 overlapping components in 100 features.

n=100, m=20, p=8000, three noise levels, ten starts a method, eight metrics. Methods: scikit-learn's
EM from k-means and from random points; pure moment fits of orders 3 and 4 (ω=0.5, one random start
each) by Gauss–Newton, of order 4 in both forms of the augmented system, and by L-BFGS in standard
deviations, which is how Algorithms 1 and 2 are written; momentmix's GaussianMixture with
prior=None, the likelihood alone as the others have it; and as a ceiling EM from the true
parameters. ``page`` writes the tables of docs/experiments.md from the results.
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
    "MoM3 Gauss–Newton": "#377eb8",
    "MoM3 L-BFGS": "#80b1d3",
    "MoM4 Gauss–Newton": "#4daf4a",
    "MoM4 post-processing": "#b2df8a",
    "MoM4 L-BFGS": "#1b9e77",
    "GaussianMixture": "#984ea3",
    "ceiling": "#555555",
}
PANELS = {
    "log_likelihood": "mean log-likelihood\n(higher is better)",
    "mom3": "‖M⁽³⁾ − M̂⁽³⁾‖²",
    "mom4": "‖M⁽⁴⁾ − M̂⁽⁴⁾‖²",
    "seconds": "CPU seconds",
    "weights": "weights, L1 error",
    "means": "means, relative error",
    "covariances": "covariances, relative error",
    "cosine": "cosine to true means\n(higher is better)",
}
NOISES = (0.05, 0.1, 0.2)
STARTS = 10
#: The most iterations. L-BFGS is far from its end after 500; Gauss–Newton ends within that at order
#: 4. More would change the rows that the column ``converged`` marks.
ITERATIONS = {"L-BFGS": 2000, "Gauss–Newton": 500, "post-processing": 500}


def sizes(quick: bool) -> dict[str, int]:
    return {"n": 15, "m": 4, "p": 800} if quick else {"n": 100, "m": 20, "p": 8000}


def jobs(quick: bool) -> list[table.Row]:
    result = []
    for start in range(2 if quick else STARTS):
        for noise in NOISES[:1] if quick else NOISES:
            for method in METHODS:
                if start == 0 or method != "ceiling":
                    settings = {"noise": noise, "data_seed": 0, "method": method, "start": start}
                    result.append(sizes(quick) | settings)
    # A run that is cut short has starts of all methods; L-BFGS takes longest, and comes last.
    return sorted(result, key=lambda job: "L-BFGS" in str(job["method"]))


@lru_cache(maxsize=3)
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
    if method == "GaussianMixture":
        model = GaussianMixture(m, covariance_type="diag", prior=None, random_state=start)
    else:
        order, way = method[3], method.split()[1]
        model = MomentMixture(
            m,
            covariance_type="diag",
            order=int(order),
            omega=0.5,
            augmentation="post-processing" if way == "post-processing" else "implicit",
            solver="lbfgs" if way == "L-BFGS" else "auto",
            n_init=1,
            init="random",
            max_iter=ITERATIONS[way],
            random_state=start,
        )
    return model.fit(X).mixture_


def work(job: table.Row) -> table.Row:
    truth, metrics = problem(job["noise"], job["data_seed"], job["n"], job["m"], job["p"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        begin = time.process_time()  # of all threads; other work on the machine does not count
        fit = fitted(job["method"], truth, metrics.X, job["start"])
        seconds = time.process_time() - begin
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
    table.run(folder / "comparison.csv", jobs(quick), work)
    return report(folder)


def report(folder: Path) -> str:
    """The figures and the summary of the rows that are there."""
    rows = table.read(folder / "comparison.csv")
    for noise in dict.fromkeys(row["noise"] for row in rows):
        draw([row for row in rows if row["noise"] == noise], noise, folder / f"comparison-{noise}")
    return summary(rows)


def values(rows: list[dict[str, str]], noise: str, method: str, name: str) -> np.ndarray:
    own = [row for row in rows if row["noise"] == noise and row["method"] == method]
    return np.array([float(row[name]) for row in own])


def summary(rows: list[dict[str, str]]) -> str:
    """A line for each method and noise: medians over the starts."""
    lines = []
    for noise in dict.fromkeys(row["noise"] for row in rows):
        top = values(rows, noise, "ceiling", "log_likelihood")[0]
        for method in METHODS:
            own = {name: values(rows, noise, method, name) for name in PANELS}
            ended = [r for r in rows if (r["noise"], r["method"]) == (noise, method)]
            near = int(np.sum(own["log_likelihood"] > top - 0.005))
            middle = {name: np.median(own[name]) for name in PANELS}
            lines.append(
                (
                    noise,
                    method,
                    f"{near} of {len(ended)}",
                    f"{sum(row['converged'] == 'True' for row in ended)} of {len(ended)}",
                    f"{middle['log_likelihood'] - top:+.3f}",
                    *(f"{middle[name]:.3f}" for name in ("weights", "means", "covariances")),
                    f"{middle['cosine']:.3f}",
                    *(f"{middle[name]:.2e}" for name in ("mom3", "mom4")),
                    f"{middle['seconds']:.1f}",
                )
            )
    header = ["σ²", "method", "starts at the ceiling", "converged", "log-likelihood − ceiling"]
    header += [
        "weights",
        "means",
        "covariances",
        "cosine",
        "‖M3 − M̂3‖²",
        "‖M4 − M̂4‖²",
        "CPU seconds",
    ]
    return table.markdown(header, lines)


#: What §7.3 says of the metrics, and the comparison of medians that tests it: a metric, whether
#: more is better, and two methods of which the first is said to be ahead.
CLAIMS = (
    ("MoM3 has a higher log-likelihood than EM", "log_likelihood", True, "3", "EM", (0.05, 0.1)),
    ("MoM4 has a higher log-likelihood than EM", "log_likelihood", True, "4", "EM", (0.05, 0.1)),
    ("MoM3 has a lower ‖M⁽³⁾ − M̂⁽³⁾‖² than EM", "mom3", False, "3", "EM", NOISES),
    ("MoM4 has a lower ‖M⁽⁴⁾ − M̂⁽⁴⁾‖² than EM", "mom4", False, "4", "EM", NOISES),
    ("MoM4 is faster than EM at the highest noise", "seconds", False, "4", "EM", (0.2,)),
    ("MoM3 has better weights than EM", "weights", False, "3", "EM", NOISES),
    ("MoM4 has better weights than EM", "weights", False, "4", "EM", NOISES),
    ("MoM4 has better weights than MoM3", "weights", False, "4", "3", NOISES),
    ("MoM3 has better means than EM", "means", False, "3", "EM", NOISES),
    ("MoM4 has better means than EM", "means", False, "4", "EM", NOISES),
    ("MoM4 has better means than MoM3", "means", False, "4", "3", NOISES),
    ("MoM4 has a better cosine than EM", "cosine", True, "4", "EM", NOISES),
)
OF_CLAIMS = {"3": "MoM3 Gauss–Newton", "4": "MoM4 Gauss–Newton"}


def claims(rows: list[dict[str, str]], em: str) -> str:
    """What the paper says, and what the medians over the starts say, against one start of EM."""
    lines = []
    for text, name, more, first, second, where in CLAIMS:
        cells = []
        for noise in NOISES:
            if noise not in where:
                cells.append("not said")
                continue
            ahead, behind = (
                float(np.median(values(rows, str(noise), OF_CLAIMS.get(way, em), name)))
                for way in (first, second)
            )
            holds = "yes" if (ahead > behind) == more else "**no**"
            cells.append(f"{holds}: {ahead:.3g} against {behind:.3g}")
        lines.append((text, *cells))
    for k, method in OF_CLAIMS.items():
        said = f"most runs of MoM{k} end at the same ‖M − M̂‖², to 0.01 %"
        lines.append((said, *(_agreement(rows, str(noise), method, f"mom{k}") for noise in NOISES)))
    header = ["the paper says", *(f"σ² = {noise}" for noise in NOISES)]
    return table.markdown(header, lines)


def _agreement(rows: list[dict[str, str]], noise: str, method: str, name: str) -> str:
    """How many starts have the most frequent cost."""
    found = values(rows, noise, method, name)
    alike = int(np.max(np.sum(np.abs(found[:, None] / found - 1) < 1e-4, axis=1)))
    return f"{'yes' if 2 * alike > len(found) else '**no**'}: {alike} of {len(found)}"


def page(folder: Path) -> str:
    """The tables of docs/experiments.md."""
    rows = table.read(folder / "comparison.csv")
    counts = {
        method: min(len(values(rows, str(noise), method, "means")) for noise in NOISES)
        for method in METHODS
        if method != "ceiling"
    }
    most = max(counts.values())
    fewer = [f"{method} {count}" for method, count in counts.items() if count < most]
    but = f" ({', '.join(fewer)}: this run was cut short)" if fewer else ""
    intro = f"Medians over the starts, of which {most} of {STARTS} were run for each noise{but}:"
    parts = [intro, summary(rows)]
    for em, where in (("EM, k-means", "from k-means"), ("EM, random", "from random points")):
        parts += [f"The claims of §7.3, against EM {where}:", claims(rows, em)]
    return "\n\n".join(part.strip() for part in parts)
