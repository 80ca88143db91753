"""
One pass over a stream
======================

What if rows arrive in batches and cannot be kept? ``partial_fit`` keeps only their moments, which
are averages of products of columns. The parameters are solved for when you ask for them. Their
errors fall with the square root of the number of rows seen.
"""

import matplotlib.pyplot as plt
import numpy as np

from momentmix import Mixture, MomentMixture
from momentmix.plotting import plot_recovery

rng = np.random.default_rng(0)
truth = Mixture([0.5, 0.3, 0.2], 2 * rng.normal(size=(3, 4)), rng.uniform(0.5, 1.5, (3, 4)), "diag")
stream = MomentMixture(3, covariance_type="diag", random_state=0)
counts, errors = [], []
for i in range(10):
    batch, _ = truth.sample(500 * 2**i, random_state=i)
    stream.partial_fit(batch)
    counts.append(stream.moments_.count)
    order = [np.argmin(np.linalg.norm(stream.means_ - mean, axis=1)) for mean in truth.means]
    errors.append(np.linalg.norm(stream.means_[order] - truth.means))

figure, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
ax.loglog(counts, errors, "o-", color="#0072B2", label="error of the means")
ax.loglog(counts, errors[0] * np.sqrt(counts[0] / np.array(counts)), "--", color="0.6",
          label="one over the root of the rows")  # fmt: skip
ax.set(xlabel="rows seen, none kept")
ax.legend(frameon=False)
plt.show()

# %%
# This compares all parameters with the true ones, after the last batch:

plot_recovery(stream, truth)
plt.show()
