"""
Three bananas
=============

No Gaussian is bent. So the BIC, which counts Gaussians, finds more components than there are
clusters. ``merge_components`` puts those together that overlap, and looks for the number of
clusters where the overlap falls: parts of one banana overlap a lot, and two bananas hardly do.
"""

import matplotlib.pyplot as plt
import numpy as np

from momentmix import GaussianMixture, merge_components
from momentmix.plotting import plot_ellipses

rng = np.random.default_rng(0)
angles, which = rng.uniform(0, np.pi, 900), np.repeat([0, 1, 2], 300)
up = np.where(which == 1, -1, 1)  # the one in the middle hangs down
X = np.stack([np.cos(angles) + 1.2 * which, up * np.sin(angles) + 0.4 * (which == 1)], axis=1)
X += rng.normal(scale=0.06, size=X.shape)

gm = GaussianMixture("auto", random_state=0).fit(X)
merged = merge_components(gm, X)
print(f"{gm.n_components_} components, {merged.n_clusters_} clusters")
print(merged)

# %%

figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
plot_ellipses(gm, X, ax=axes[0])
axes[0].set_title(f"{gm.n_components_} components")
merged.plot(ax=axes[1])
axes[1].set_title("the tree of merges")
axes[2].scatter(*X.T, c=merged.labels_, s=4, cmap="viridis")
axes[2].set_title(f"{merged.n_clusters_} clusters")
plt.show()
