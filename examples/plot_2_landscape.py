"""
Two landscapes: where starts end
================================

Does it matter where a fit starts? This example runs EM from twelve random starts, and a fit of
moments (averages of products of columns) from twelve random starts, on the same rows. There are ten
components in 40 features, whose means point into similar directions, as in the paper.

Single starts of EM often end at a local optimum. A fit of moments, followed by a few EM steps, does
not. With few features, moments are about as difficult as EM; there it is the repairs of
``MomentMixture`` that help.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.mixture import GaussianMixture

from momentmix import MomentMixture
from momentmix.datasets import paper_mixture

truth = paper_mixture(0.1, 0, n_features=40, n_components=10)
X, _ = truth.sample(8000, random_state=1)

em, moments, polished = [], [], []
for seed in range(12):
    options = {"covariance_type": "diag", "random_state": seed, "max_iter": 1000}
    fit = GaussianMixture(10, init_params="random_from_data", tol=1e-5, **options).fit(X)
    em.append(fit.score(X))
    single = {"n_init": 1, "init": "random", "order": 4} | options
    moments.append(MomentMixture(10, polish=None, **single).fit(X).objective_)
    polished.append(MomentMixture(10, **single).fit(X).score(X))

# %%
# Each point is one start. Starts are sorted, the best first.

figure, axes = plt.subplots(1, 3, figsize=(12, 3.4), layout="constrained")
best = max(max(em), max(polished))
for ax, values, name, colour in (
    (axes[0], best - np.array(em), "EM", "#D55E00"),
    (axes[1], np.array(moments) - min(moments), "moments", "#0072B2"),
    (axes[2], best - np.array(polished), "moments, then EM", "#009E73"),
):
    ax.plot(np.sort(values), "o", color=colour)
    ax.set(title=name, xlabel="starts, sorted", ylim=(-0.05, 0.8))
    ax.set_ylabel("cost above the least" if ax is axes[1] else "log-likelihood below the best")
plt.show()

# %%

for name, values in (("EM", em), ("moments, then EM", polished)):
    share = np.mean(best - np.array(values) < 1e-2)
    print(f"{name:18} {share:4.0%} of starts end at the best likelihood")
