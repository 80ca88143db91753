"""
How sure is a fit?
==================

Every parameter of a mixture is an estimate. With other rows it would have come out a little
different. How different? ``standard_errors`` and ``confidence_intervals`` tell from one pass over
the rows. The bootstrap tells it by fitting rows that are drawn anew.

Here are the eruptions of a geyser that we make up: short ones after short waits, and long ones.
Two hundred rows are not many.
"""

import matplotlib.pyplot as plt
import numpy as np

from momentmix import GaussianMixture, Mixture

truth = Mixture(
    weights=[0.36, 0.64],
    means=[[2.0, 54.0], [4.3, 80.0]],
    covariances=[[[0.07, 0.4], [0.4, 34.0]], [[0.17, 0.9], [0.9, 36.0]]],
)
X, _ = truth.sample(200, random_state=3)
gm = GaussianMixture(2, random_state=0).fit(X)

errors = gm.standard_errors(X)
low, high = gm.confidence_intervals(X)
for j in range(2):
    print(
        f"component {j}: {gm.weights_[j]:.0%} of the rows, ± {errors.weights[j]:.0%}; "
        f"95 % interval {low.weights[j]:.0%} to {high.weights[j]:.0%}"
    )

# %%
# The picture shows the means with their 95 % intervals, and the means of 200 refits of rows that
# were drawn anew. Both say the same here, because the groups stand apart.

refits = gm.bootstrap(X, 200)
figure, axes = plt.subplots(figsize=(6, 4.2), layout="constrained")
axes.plot(*X.T, ".", color="0.75")
for j, colour in enumerate(("#0072B2", "#D55E00")):
    axes.plot(*refits.means[:, j].T, ".", color=colour, markersize=3, alpha=0.5)
    axes.errorbar(
        *gm.means_[j][:, None],
        xerr=[[gm.means_[j, 0] - low.means[j, 0]], [high.means[j, 0] - gm.means_[j, 0]]],
        yerr=[[gm.means_[j, 1] - low.means[j, 1]], [high.means[j, 1] - gm.means_[j, 1]]],
        color="black",
        capsize=4,
    )
axes.set(xlabel="eruption (minutes)", ylabel="wait (minutes)", title="means and their intervals")
plt.show()

# %%
# With fewer rows, and groups that overlap, a standard error can be as wide as a component. Then
# the method warns, and the bootstrap shows why: the distribution is not normal at all.

near = Mixture([0.5, 0.5], [[0.0], [1.8]], [[1.0], [1.0]], "diag")
rows, _ = near.sample(300, random_state=1)
vague = GaussianMixture(2, covariance_type="diag", random_state=0).fit(rows)
found = vague.bootstrap(rows, 100)
figure, axes = plt.subplots(figsize=(6, 4.2), layout="constrained")
axes.hist(found.weights[:, 0], 20, color="#0072B2", alpha=0.6, label="refits")
axes.axvline(vague.weights_[0], color="black", label="the fit")
axes.set(xlabel="weight of the larger component", title="overlapping components")
axes.legend()
plt.show()

# %%
import warnings

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    said = vague.standard_errors(rows)
print(f"standard error of the weight: {said.weights[0]:.2f}; the bootstrap says", end=" ")
print(f"{np.std(found.weights[:, 0]):.2f}")
print(caught[0].message)
