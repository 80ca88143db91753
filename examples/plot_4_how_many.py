"""
How many components
===================

How many groups are there, and which shape? ``select`` fits 1, 2, 3 and more components of each
covariance type, and compares them by the BIC, a score that rewards a good fit and charges for every
parameter. The lowest one wins.

A second look helps: are the moments (averages of products of columns) of the fitted mixture those
of the data? With too few components, the third and fourth moments are further off than chance
explains.
"""

import matplotlib.pyplot as plt

from momentmix import Samples, select
from momentmix.datasets import load_quakes
from momentmix.plotting import plot_moment_residuals

X, names = load_quakes()
X = X[:, :3]
selection = select(X, range(1, 9), random_state=0)
print(selection)

# %%

figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
selection.plot(ax=axes[0])
best = selection.chosen
axes[0].set_title(f"{best.n_components} components, {best.covariance_type}")
for ax, choice in ((axes[1], selection.table[0]), (axes[2], best)):
    plot_moment_residuals(choice.fit, Samples(X), ax=ax)
    ax.set_title(f"{choice.n_components} component{'s' * (choice.n_components > 1)}")
plt.show()
