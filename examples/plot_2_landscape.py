"""
Two landscapes: likelihood and moments
======================================

Between a poor optimum of the likelihood, where EM from a bad start ends, and the good one, the
likelihood has a valley to cross. The moment cost goes down all the way.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.mixture import GaussianMixture

from momentmix import Mixture, MomentTensors, squared_distance

truth = Mixture(
    [0.4, 0.3, 0.3], [[-4.0, 0.0], [3.0, 1.5], [3.0, -1.5]], np.full((3, 2), 0.5), "diag"
)
X, _ = truth.sample(5000, random_state=0)

# A start with two components on the left and one on the right.
bad = GaussianMixture(
    3, covariance_type="diag", means_init=[[-4, 0.7], [-4, -0.7], [3, 0]], max_iter=2000
).fit(X)
good = GaussianMixture(3, covariance_type="diag", means_init=truth.means).fit(X)
print(f"poor optimum {bad.score(X):.4f}, good optimum {good.score(X):.4f}")

# %%
# Components are paired so that the way is as short as it can be, and the parameters go straight
# from one to the other.

order = linear_sum_assignment(np.linalg.norm(bad.means_[:, None] - good.means_[None], axis=2))[1]
moments = MomentTensors.from_samples(X, 4)
ways = np.linspace(0, 1, 41)
likelihood, cost = [], []
for t in ways:
    mixture = Mixture(
        (1 - t) * bad.weights_ + t * good.weights_[order],
        (1 - t) * bad.means_ + t * good.means_[order],
        (1 - t) * bad.covariances_ + t * good.covariances_[order],
        "diag",
    )
    likelihood.append(np.mean(mixture.log_prob(X)))
    cost.append(squared_distance(mixture, moments, [0, 1, 1 / 2, 1 / 6, 1 / 24]))

figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
axes[0].plot(ways, -np.array(likelihood), color="#D55E00")
axes[0].set(title="likelihood: a wall between", ylabel="− log-likelihood a sample")
axes[1].plot(ways, cost, color="#0072B2")
axes[1].set(title="moments of orders 1 to 4: downhill", ylabel="moment cost")
for ax in axes:
    ax.set_xticks([0, 1], ["poor optimum", "good optimum"])
plt.show()
