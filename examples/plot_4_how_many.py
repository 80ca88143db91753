"""
How many components
===================

How many groups are there? ``choose_components`` fits 1, 2, 3 and more components and compares
them by the BIC, a score that rewards a good fit and charges for every parameter. The lowest one
wins.

A second look helps: are the moments (averages of products of columns) of the fitted mixture those
of the data? With too few components, the third and fourth moments are further off than chance
explains.
"""

import matplotlib.pyplot as plt

from momentmix import Samples
from momentmix.datasets import load_quakes
from momentmix.plotting import plot_moment_residuals
from momentmix.selection import choose_components

X, names = load_quakes()
X = X[:, :3]
best, looked_at = choose_components(X, random_state=0, most=8)
for choice in looked_at:
    print(f"{choice.n_components} components: BIC {choice.bic:9.1f}")

# %%

figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
numbers = [choice.n_components for choice in looked_at]
axes[0].plot(numbers, [choice.bic for choice in looked_at], "o-", color="#0072B2")
axes[0].set(xlabel="components", ylabel="BIC", title=f"lowest at {best.n_components}")
for ax, choice in ((axes[1], looked_at[0]), (axes[2], best)):
    plot_moment_residuals(choice.fit, Samples(X), ax=ax)
    ax.set_title(f"{choice.n_components} component{'s' * (choice.n_components > 1)}")
plt.show()
