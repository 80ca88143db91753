"""
A stream that changes
=====================

A machine is measured all day, and half way through the day something in it shifts. A fit of all
rows so far mixes the two states. Which fits follow the change, and how would you notice it?

Rows come in 40 batches of 250. Three fits see them: one of all rows, one that forgets with a
half-life of 1,000 rows, and one of the last eight batches. None of them keeps any rows.
"""

from collections import deque

import matplotlib.pyplot as plt
import numpy as np

from momentmix import Mixture, MomentMixture, MomentTensors, drift

morning = Mixture([0.6, 0.4], [[0.0, 0.0], [4.0, 1.0]], [[1.0, 1.0], [1.0, 0.5]], "diag")
evening = Mixture([0.6, 0.4], [[0.0, 0.0], [4.0, 2.0]], [[1.0, 1.0], [1.0, 0.5]], "diag")
options = {"covariance_type": "diag", "random_state": 0}

# %%
# Both fits of ``partial_fit`` hold nothing but sums. The window is the sum of its batches, and a
# deque of eight forgets the oldest by itself. One more mixture is fitted to the first twelve
# batches and then left as it is. ``drift`` compares the last four batches with it.

everything, fading = MomentMixture(2, **options), MomentMixture(2, **options)
recent, nothing = deque(maxlen=8), MomentTensors(2, order=4)
followed = {"all rows": [], "half-life of 1,000 rows": [], "last eight batches": []}
tests = []
for i in range(1, 41):
    X, _ = (morning if i <= 20 else evening).sample(250, random_state=i)
    everything.partial_fit(X)
    fading.partial_fit(X, half_life=1000)
    recent.append(MomentTensors.from_samples(X, order=4))
    if i == 12:
        known = everything.mixture_
    if i >= 16:
        last = sum(list(recent)[-4:], nothing)
        tests.append(drift(known, last, fitted_rows=3000))
    if i % 2 == 0:  # parameters are solved for when they are asked for
        window = MomentMixture(2, **options).fit_moments(sum(recent, nothing))
        for found, fit in zip(followed.values(), (everything, fading, window), strict=True):
            found.append(fit.means_[np.argmax(fit.means_[:, 0]), 1])  # of the component at 4

# %%
# The left picture shows the height of the right component. The fit of all rows would need many
# more days to get there. The window is there after eight batches, once the last old batch has left
# it. The half-life halves what is missing about every four batches. Both pay with more noise, for
# they rest on 2,000 and on about 2,900 rows.
#
# The right picture shows the drift: the squared distance of the moments from those of the mixture,
# over what it is on average if nothing has changed. Before the change it stays near 1. Dots are
# filled where p is below 0.001.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for (name, found), colour in zip(followed.items(), ("0.55", "#0072B2", "#D55E00"), strict=True):
    left.plot(np.arange(2, 41, 2), found, "o-", markersize=3, color=colour, label=name)
left.plot([1, 20.5, 20.5, 40], [1, 1, 2, 2], "--", color="black", linewidth=1, label="truth")
left.set(xlabel="batch", title="height of the right component")
left.legend(frameon=False)
batches, ratios = np.arange(16, 41), [test.ratio for test in tests]
moved = np.array([test.p_value for test in tests]) < 0.001
right.semilogy(batches, ratios, color="0.7", zorder=1)
right.scatter(batches, ratios, 22, np.where(moved, "#D55E00", "white"), edgecolors="#D55E00")
right.axhline(1, color="black", linestyle="--", linewidth=1)
right.axvline(20.5, color="0.8", linewidth=1)
right.set(xlabel="batch", title="drift of the last four batches, 1 if there is none")
plt.show()

# %%
# When was it noticed, and what has moved?

first = batches[moved][0]
print(f"The change came with batch 21, and was noticed after batch {first}.")
print(tests[first - 16].sentence)
print(tests[-1])
