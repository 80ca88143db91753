"""
How many components
===================

The BIC of one fit for each number, and how well the moments are matched on the way: with too few
components the third and fourth moments stay further from those of the data than sampling explains.
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
