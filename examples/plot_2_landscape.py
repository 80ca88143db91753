"""
Two landscapes: where starts end
================================

Does it matter where a fit starts? This example runs EM from twelve random starts, and a fit of
moments (``MomentMixture``) from twelve random starts, on the same rows. Moments are averages of
products of columns. There are ten components in 40 features, whose means point into similar
directions, as in the paper.

Single starts of EM often end at a local optimum. Fits of moments do so less often here. With few
features, moments are about as difficult as EM; there it is the repairs of ``GaussianMixture`` that
help.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import sklearn.mixture

from momentmix import GaussianMixture, MomentMixture
from momentmix.datasets import paper_mixture

truth = paper_mixture(0.1, 0, n_features=40, n_components=10)
X, _ = truth.sample(8000, random_state=1)

em, moments, climbed = [], [], []
warnings.simplefilter("ignore")  # of starts that end at a local optimum
for seed in range(12):
    options = {"covariance_type": "diag", "random_state": seed, "max_iter": 1000}
    fit = sklearn.mixture.GaussianMixture(
        10, init_params="random_from_data", tol=1e-5, **options
    ).fit(X)
    em.append(fit.score(X))
    single = {"n_init": 1, "init": "random", "order": 4, "weighting": "orders"}
    found = MomentMixture(10, **single, **options).fit(X)
    moments.append(found.objective_)
    start = {"weights_init": found.weights_, "means_init": found.means_}
    climbed.append(GaussianMixture(10, **start, **options).fit(X).score(X))

# %%
# Each point is one start. Starts are sorted, the best first. The right picture goes on by EM from
# the weights and means that were found by moments.

figure, axes = plt.subplots(1, 3, figsize=(12, 3.4), layout="constrained")
best = max(max(em), max(climbed))
for ax, values, name, colour in (
    (axes[0], best - np.array(em), "EM", "#D55E00"),
    (axes[1], np.array(moments) - min(moments), "moments", "#0072B2"),
    (axes[2], best - np.array(climbed), "moments, then EM", "#009E73"),
):
    ax.plot(np.sort(values), "o", color=colour)
    ax.set(title=name, xlabel="starts, sorted", ylim=(-0.05, 0.8))
    ax.set_ylabel("cost above the least" if ax is axes[1] else "log-likelihood below the best")
plt.show()

# %%

for name, values in (("EM", em), ("moments, then EM", climbed)):
    share = np.mean(best - np.array(values) < 1e-2)
    print(f"{name:18} {share:4.0%} of starts end at the best likelihood")
