"""
A table with gaps: fit what is there, or fill the gaps first?
=============================================================

What do you do with a table in which three cells of ten are empty? Few rows are complete, so leaving
out the others wastes most of the data. The usual advice is to fill the gaps and then fit.
``GaussianMixture`` needs no filling: NaN is a gap, and the mixture is fitted to the values that are
there.

Here we take a complete table and empty some of its cells at random. So we can compare every way
with the fit of the complete table. The table has six measurements of 569 breast tumours and comes
with scikit-learn. Two thirds of the rows are fitted. The others keep all their values, and tell how
good the fit is.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, SimpleImputer
from sklearn.preprocessing import StandardScaler

from momentmix import CollapseWarning, GaussianMixture
from momentmix.plotting import plot_ellipses

columns = ["radius", "texture", "smoothness", "compactness", "concavity", "symmetry"]
table = load_breast_cancer(as_frame=True).data[[f"mean {name}" for name in columns]]
Z = StandardScaler().fit_transform(table)
new = np.arange(len(Z)) % 3 == 0
complete, unseen = Z[~new], Z[new]


def with_gaps(share, seed):
    emptied = np.random.default_rng(seed).uniform(size=complete.shape) < share
    return np.where(emptied, np.nan, complete)


# %%
# There are four ways to compare. The first leaves the gaps as they are. The second fills in the
# mean of the column, and the third what a regression on the other columns predicts. The fourth
# adds to each prediction a random error, as large as those of the regression.

ways = {
    "gaps left open": lambda X: X,
    "means": lambda X: SimpleImputer().fit_transform(X),
    "regressions": lambda X: IterativeImputer(random_state=0).fit_transform(X),
    "regressions, drawn": lambda X: IterativeImputer(
        random_state=0, sample_posterior=True
    ).fit_transform(X),
}
shares, seeds = [0.1, 0.3, 0.5], [1, 2]
tables = {(share, seed): with_gaps(share, seed) for share in shares for seed in seeds}
with warnings.catch_warnings():
    warnings.simplefilter("ignore", ConvergenceWarning)  # of the regressions
    warnings.simplefilter("ignore", CollapseWarning)  # of fits to their predictions, see below
    filled = {(name, *key): fill(X) for name, fill in ways.items() for key, X in tables.items()}
    fits = {key: GaussianMixture(2, random_state=0).fit(X) for key, X in filled.items()}
whole = GaussianMixture(2, random_state=0).fit(complete)

# %%
# The score is the mean log-likelihood of the unseen rows; higher is better. A difference of 1
# means that a typical unseen row is 2.7 times as probable under one model as under the other.
# These are the scores with three cells of ten empty, averaged over two tables with different
# cells empty:

gaps = np.isnan(tables[0.3, 1])
print(f"{gaps.any(axis=1).sum()} of {len(gaps)} rows have a gap")
print(f"{'complete table':20}{whole.score(unseen):6.2f}")
for name in ways:
    scores = [fits[name, 0.3, seed].score(unseen) for seed in seeds]
    print(f"{name:20}{np.mean(scores):6.2f}")

# %%
# Why are they so different? The picture shows the two components in two of the six columns, with
# half of the cells empty. Dots are the rows that were fitted; with gaps left open, only rows that
# have both values can be drawn. The dashed ellipses are those of the complete table. A mean that
# is filled in lies in the middle of its column, whatever the other columns say. So correlations
# are lost. A predicted value lies exactly where the other columns put it, without any scatter,
# and one component specialises in such rows. It is too narrow for real ones. (Where it has no
# width left, momentmix warns of it.) Values that are drawn have the scatter, and the fit is nearly
# as good.

figure, axes = plt.subplots(1, 4, figsize=(13, 3.6), sharex=True, sharey=True, layout="constrained")
pair = columns.index("compactness"), columns.index("concavity")
for ax, name in zip(axes, ways, strict=True):
    plot_ellipses(whole, features=pair, mass=(0.9,), ax=ax)
    for mark in [*ax.lines, *ax.texts]:
        mark.remove()
    for ellipse in ax.patches:
        ellipse.set(color="0.3", linestyle="--")
    plot_ellipses(fits[name, 0.5, 1], filled[name, 0.5, 1], features=pair, mass=(0.9,), ax=ax)
    ax.set(title=name, xlabel="compactness", ylabel="")
axes[0].set_ylabel("concavity")
plt.show()

# %%
# How does it depend on the share of empty cells? Each dot is one table, and it shows how much
# score is lost against the complete table. The lines are means. With one cell of ten empty, only
# filling in means does harm. With half of the cells empty, filling in predictions is the worst of
# all.

figure, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
colours = "#0072B2", "#E69F00", "#D55E00", "#009E73"
for name, colour in zip(ways, colours, strict=True):
    scores = [[fits[name, share, seed].score(unseen) for seed in seeds] for share in shares]
    lost = whole.score(unseen) - np.array(scores)
    ax.plot(shares, lost, ".", color=colour)
    ax.plot(shares, lost.mean(axis=1), color=colour, label=name)
ax.set_yscale("symlog", linthresh=0.5)
ax.set(xlabel="share of cells that are empty", ylabel="score lost on unseen rows", xticks=shares)
ax.legend(frameon=False)
plt.show()

# %%
# The fitted mixture can fill the gaps too. Which values come closest to those that we removed?
# These are the errors (root mean squares, in standard deviations of the columns), with three
# cells of ten empty. A mixture predicts better than linear regressions where its components have
# different correlations. Values that are drawn are further off. They are not meant to be close;
# they are meant to vary as real values do.

for seed in seeds:
    fit, X = fits["gaps left open", 0.3, seed], tables[0.3, seed]
    filled["mixture", 0.3, seed] = fit.impute(X)
    filled["mixture, drawn", 0.3, seed] = fit.impute(X, draws=1)[0]
for name in ("mixture", "mixture, drawn", "means", "regressions", "regressions, drawn"):
    errors = [(filled[name, 0.3, s] - complete)[np.isnan(tables[0.3, s])] for s in seeds]
    print(f"{name:20}{np.sqrt(np.mean(np.concatenate(errors) ** 2)):6.2f}")
