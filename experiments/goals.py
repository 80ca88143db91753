"""The picture of the two goals: ``python experiments/goals.py`` draws docs/images/goals.png.

Eight round clusters of equal size overlap and have heavy tails. Both fits are told their number.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
from sklearn.metrics import adjusted_rand_score

from momentmix import GaussianMixture
from momentmix.plotting import plot_ellipses

matplotlib.use("Agg")
import matplotlib.pyplot as plt

CLUSTERS, ROWS, APART, SEED = 8, 250, 2.4, 0


def clusters() -> tuple[np.ndarray, np.ndarray]:
    """Rows and their clusters: Student's t with 4 degrees about centres in a square."""
    rng, centres = np.random.default_rng(SEED), np.empty((0, 2))
    while len(centres) < CLUSTERS:
        centre = rng.uniform(0, 9, 2)
        if np.all(np.linalg.norm(centres - centre, axis=1) > APART):
            centres = np.vstack([centres, centre])
    labels = np.repeat(np.arange(CLUSTERS), ROWS)
    return centres[labels] + 0.7 * rng.standard_t(4, size=(len(labels), 2)), labels


def main() -> None:
    X, labels = clusters()
    figure, axes = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
    for goal, ax in zip(("density", "clusters"), axes, strict=True):
        fit = GaussianMixture(CLUSTERS, goal=goal, random_state=0).fit(X)
        ari = adjusted_rand_score(labels, fit.predict(X))
        ax.scatter(*X.T, s=3, alpha=0.4, c=fit.predict(X), cmap="tab20")
        plot_ellipses(fit.mixture_, ax=ax)
        ax.set_title(f'goal="{goal}": ARI {ari:.2f}, log-likelihood {fit.score(X):.3f}')
        print(f"{goal}: ARI {ari:.3f}, log-likelihood {fit.score(X):.4f}")
    figure.savefig(Path(__file__).parents[1] / "docs/images/goals.png", dpi=110)


if __name__ == "__main__":
    main()
