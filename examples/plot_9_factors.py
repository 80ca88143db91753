"""
Many columns: what is a factor?
===============================

Sixty-four pixels of a handwritten digit do not vary one by one. A stroke is slanted, or round, or
thick, and then many pixels change together. A full covariance of 64 columns has 2,080 numbers for
such things, more than a few hundred images can tell. ``covariance_type="low-rank"`` says the same
with a few *factors*: Σ = W Wᵀ + diag(s), where each column of W says how much one factor moves each
pixel, and s is what is left to each pixel alone.

Here are zeros, ones, threes and sixes, without their labels.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score

from momentmix import GaussianMixture

X, y = load_digits(return_X_y=True)
some = np.isin(y, [0, 1, 3, 6])
X, y = X[some], y[some]
X = X[:, np.std(X, axis=0) > 0.5]  # pixels at the edge are nearly always empty
pixels = np.std(load_digits().data[some], axis=0) > 0.5

low_rank = GaussianMixture(4, covariance_type="low-rank", rank=2, random_state=0).fit(X)
for name, fit in {
    "two factors in each component": low_rank,
    "no factors": GaussianMixture(4, covariance_type="diag", random_state=0).fit(X),
}.items():
    print(f"{name}: ARI {adjusted_rand_score(y, fit.predict(X)):.2f}, BIC {fit.bic(X):,.0f}")

# %%
# The factors of a component can be turned among themselves, which changes nothing in Σ. We turn
# them so that the first explains as much as it can. Each row of the picture is a component: in the
# middle its mean, to the left and right the mean less and plus two deviations of a factor.


def image(values):
    """Columns of X as an image."""
    whole = np.zeros(64)
    whole[pixels] = values
    return whole.reshape(8, 8)


figure, axes = plt.subplots(4, 6, figsize=(8, 5.6), layout="constrained")
for row, mean, W in zip(axes, low_rank.means_, low_rank.covariances_.loadings, strict=True):
    U, sizes, _ = np.linalg.svd(W, full_matrices=False)
    for ax, k, side in zip(row, [0, 0, 0, 1, 1, 1], [-2, 0, 2] * 2, strict=True):
        ax.imshow(image(mean + side * sizes[k] * U[:, k]), cmap="gray_r", vmin=0, vmax=16)
        ax.set(xticks=[], yticks=[])
for start, name in ((1, "first factor"), (4, "second factor")):
    axes[0, start].set_title(name)
plt.show()

# %%
# How many factors? ``rank="auto"``, the default, adds one after the other as long as the BIC falls.
# Nothing here needs a 64 × 64 matrix, so thousands of columns work in the same way. If you want the
# dense matrices, ``covariances_.matrices()`` makes them.
