"""
Slipped decimal points: six wrong values in a table
===================================================

Somebody typed a table, and in six of its rows a decimal point is in the wrong place. How much harm
can six values do? A mixture has to explain every row. So it spends a component on the wrong rows,
and the flowers have to share those that are left. With ``outliers="auto"`` a row may belong to no
component, and the six rows are set aside.

The table is that of Fisher's irises: four measurements of 150 flowers of three species. The
mixtures are not told the species. We use them only to see how well the groups agree with them.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import sklearn.mixture
from sklearn.datasets import load_iris, load_wine
from sklearn.metrics import adjusted_rand_score

from momentmix import CollapseWarning, GaussianMixture
from momentmix.plotting import plot_ellipses
from momentmix.summary import FitSummary

iris = load_iris()
X, species = iris.data.copy(), iris.target
rng = np.random.default_rng(0)
slipped = rng.choice(len(X), 6, replace=False)
X[slipped, rng.integers(4, size=6)] *= 10
right = np.setdiff1d(np.arange(len(X)), slipped)

# %%
# The adjusted Rand index says how well the groups agree with the species: 1 means that they are the
# same, 0 means no better than chance. We look at the 144 rows that are right. No better optimum
# would help the first two fits: a component for the wrong rows *is* the best answer, as long as
# each row has to belong to one.

fits = {
    "scikit-learn, ten starts": sklearn.mixture.GaussianMixture(3, n_init=10, random_state=0),
    "outliers=None": GaussianMixture(3, random_state=0),
    'outliers="auto"': GaussianMixture(3, outliers="auto", random_state=0),
}
warnings.simplefilter("ignore", CollapseWarning)  # it says that a component has six rows
for name, gm in fits.items():
    agreement = adjusted_rand_score(species[right], gm.fit_predict(X)[right])
    print(f"{name:26}{agreement:.2f}")

# %%
# Which rows were set aside? ``predict`` gives them -1. They are the six, and no other.

gm = fits['outliers="auto"']
print("slipped:", sorted(slipped.tolist()))
print("found:  ", np.flatnonzero(gm.predict(X) == -1).tolist())

# %%
# The picture shows two of the four measurements. Ellipses hold half and nine tenths of each
# component. On the left, one component has gone after the wrong rows, far out of the picture, and
# two species share another. On the right, each species has its own. Crosses are the rows that were
# set aside; those that lie far out are drawn at the edge.

figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
titles = "every row belongs to a component", "some rows may belong to none"
for ax, name, title in zip(axes, ["outliers=None", 'outliers="auto"'], titles, strict=True):
    plot_ellipses(fits[name].mixture_.named(iris.feature_names), X, features=(2, 3), ax=ax)
    ax.set(title=title)
axes[0].set(xlim=axes[1].get_xlim(), ylim=axes[1].get_ylim())
for mark in axes[0].lines:
    mark.set_clip_on(True)
plt.show()

# %%
# Real tables have odd rows too. In scikit-learn's table of 178 wines nothing has slipped, and no
# row is surely an outlier: three groups of sixty rows in 13 columns leave much to chance. Still, a
# few wines are unlike the others of their kind. ``outlier_score`` puts the oddest first, whether or
# not any row was set aside:

wine = load_wine()
gm = GaussianMixture(3, outliers="auto", random_state=0).fit(wine.data)
print(FitSummary.from_estimator(gm, wine.data).outliers.sentence)
odd = np.argsort(-gm.outlier_score(wine.data))[:5]
for row in odd:
    own = gm.predict(wine.data[[row]])[0]
    z = (wine.data[row] - gm.means_[own]) / np.sqrt(np.diag(gm.covariances_[own]))
    farthest = np.argmax(np.abs(z))
    value = f"{wine.feature_names[farthest]} {wine.data[row, farthest]:g}"
    print(f"row {row:3}: {value:24}{z[farthest]:+.1f} deviations")
