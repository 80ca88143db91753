"""
Densities and samples
=====================

How do you draw a mixture? This is the first mixture that the paper shows, and drawn as there:
contours of the density over 1,000 samples. ``MixtureDisplay`` draws any fitted estimator in this
way, with the methods that scikit-learn's displays have.
"""

import matplotlib.pyplot as plt
import numpy as np

from momentmix import GaussianMixture, Mixture
from momentmix.plotting import MixtureDisplay, plot_pairs

truth = Mixture(
    [0.4, 0.3, 0.3], [[1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]], [0.4, 0.4, 0.4], "spherical"
)
X, _ = truth.sample(1000, random_state=0)
fit = GaussianMixture(3, covariance_type="spherical", random_state=0).fit(X)

figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), sharey=True, layout="constrained")
MixtureDisplay.from_mixture(truth, X, ax=axes[0])
axes[0].set_title("the true mixture")
MixtureDisplay.from_estimator(fit, X, kind="ellipses", ax=axes[1])
axes[1].set_title("fitted: half and nine tenths of each component")
plt.show()

# %%
# With more than two features, ``plot_pairs`` shows each feature alone on the diagonal, and pairs of
# features below it.

rng = np.random.default_rng(0)
space = Mixture([0.6, 0.4], [[0.0, 0, 0], [2.5, -2, 0.5]], rng.uniform(0.5, 1.5, (2, 3)), "diag")
Z, _ = space.sample(1500, random_state=1)
plot_pairs(GaussianMixture(2, random_state=0).fit(Z), Z)
plt.show()
