"""
Does the mixture fit? Skewness and tails that it misses
=======================================================

A fit always gives an answer, also where the groups in your table are not Gaussian. How would you
know? ``moment_test`` looks for what the rows have and the mixture has not: skewness (moments of
order 3) and heavy tails (order 4). Each order has a p-value.

Here are three tables of 600 rows and two groups. In the first the groups are Gaussian. In the
second they are skewed, as sizes and waiting times are. In the third they have heavy tails, as
measurements with occasional gross errors have. The same two components are fitted to each.
"""

import matplotlib.pyplot as plt
import numpy as np

from momentmix import GaussianMixture, compare, moment_test
from momentmix.plotting import plot_ellipses, plot_projections, plot_quantiles

rng = np.random.default_rng(0)
centres = np.repeat([[0.0, 0.0], [6.0, 3.0]], 300, axis=0)
tables = {
    "Gaussian": centres + rng.standard_normal((600, 2)),
    "skewed": centres + (rng.gamma(3, size=(600, 2)) - 3) / np.sqrt(3),
    "heavy tails": centres + rng.standard_t(4, size=(600, 2)) / np.sqrt(2),
}
fits = {name: GaussianMixture(2, random_state=0).fit(X) for name, X in tables.items()}

# %%
# What do the tests say? The means and the covariances of the rows are matched by the fit itself,
# so orders 1 and 2 have no test. The third table is symmetric, and the test of order 3 says so,
# although far more rows lie far out than the mixture leads one to expect.

for name, X in tables.items():
    print(name)
    for sentence in moment_test(fits[name], X, random_state=0).sentences[2:]:
        print(f"  {sentence}")

# %%
# The upper pictures show the fits, which look much alike. The lower ones show how far each row lies
# from its component, against how far it should. Dots within the grey band are as they should be.
# Heavy tails bend upwards at the right: some rows lie more than seven standard deviations away.

figure, axes = plt.subplots(2, 3, figsize=(11, 7), layout="constrained")
for (top, bottom), (name, X) in zip(axes.T, tables.items(), strict=True):
    plot_ellipses(fits[name], X, ax=top)
    top.set(title=name, xlabel="", ylabel="")
    plot_quantiles(fits[name], X, ax=bottom)
plt.show()

# %%
# Where is it? ``plot_projections`` shows the rows along the directions in which they differ most
# from the mixture. These are those of the skewed table: there are no rows far to the left.

plot_projections(fits["skewed"], tables["skewed"])
plt.show()

# %%
# What helps? Often other units do: the logarithm of a size is less skewed than the size. More
# components would fit too, but then a component is no longer a group.
#
# Two tables can be compared as well, without any mixture. Do the Gaussian and the skewed table
# differ? In means and covariances they hardly do, in skewness they do:

print(compare(tables["Gaussian"], tables["skewed"], random_state=0))
