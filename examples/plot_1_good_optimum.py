"""
The good optimum, where restarts of EM do not end
=================================================

What goes wrong when EM is restarted ten times? Here are 25 clusters of unequal size. With ten
restarts from k-means, EM leaves some components covering two clusters while others share one. This
is a local optimum: no EM step can leave it. ``momentmix.GaussianMixture`` looks for such defects.
It merges the components that share a cluster, and splits one that covers two.
"""

import matplotlib.pyplot as plt
import numpy as np
import sklearn.mixture

from momentmix import GaussianMixture, Mixture
from momentmix.plotting import plot_ellipses

rng = np.random.default_rng(3)
means = np.stack(np.meshgrid(np.arange(5.0), np.arange(5.0)), axis=-1).reshape(-1, 2)
means += 0.12 * rng.normal(size=means.shape)
weights = rng.dirichlet(np.full(25, 4.0))
truth = Mixture(weights, means, rng.uniform(0.008, 0.03, (25, 2)), "diag")
X, labels = truth.sample(4000, random_state=0)

em = sklearn.mixture.GaussianMixture(25, covariance_type="diag", n_init=10, random_state=0).fit(X)
ours = GaussianMixture(25, covariance_type="diag", random_state=0).fit(X)

# %%
# The mean log-likelihood says how probable a model makes a row; higher is better. The true mixture
# is shown for comparison:

print(f"EM, ten restarts   {em.score(X):.4f}")
print(f"momentmix          {ours.score(X):.4f}")
print(f"true mixture       {np.mean(truth.log_prob(X)):.4f}")

# %%
# Each ellipse holds nine tenths of the rows of its component.

figure, axes = plt.subplots(1, 2, figsize=(11, 5.2), sharey=True, layout="constrained")
found = Mixture(em.weights_, em.means_, em.covariances_, "diag")
for ax, model, name in ((axes[0], found, "EM, ten restarts"), (axes[1], ours, "momentmix")):
    plot_ellipses(model, X, mass=(0.9,), ax=ax)
    ax.set(title=f"{name}: {model.score(X) if model is ours else em.score(X):.3f} nats a sample")
plt.show()
