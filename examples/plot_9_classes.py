"""
Classes of several groups, and curves with bands
================================================

Do you know the classes of your rows, or a number for each, and want to tell those of new rows?
``MixtureClassifier`` fits a Gaussian mixture to each class, and ``MixtureRegressor`` one to rows
and numbers together.

First come classes. One of them lies in an arc around the other, so it is no single Gaussian.
Linear discriminant analysis draws a straight line between two classes, and quadratic discriminant
analysis a conic. A mixture for each class finds a border of any shape, and it finds by itself how
many components each class needs.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis

from momentmix import MixtureClassifier, MixtureRegressor

rng = np.random.default_rng(0)
angles = rng.uniform(-0.35 * np.pi, 1.35 * np.pi, 600)
arc = 4 * np.column_stack([np.cos(angles), np.sin(angles)]) + rng.normal(0, 0.5, (600, 2))
core = rng.normal([0.0, -1.8], [0.7, 1.3], (400, 2))
X, y = np.vstack([arc, core]), np.repeat(["arc", "core"], [600, 400])
old = np.arange(len(X)) % 2 == 0

models = {
    "linear (LDA)": LinearDiscriminantAnalysis(),
    "quadratic (QDA)": QuadraticDiscriminantAnalysis(),
    "MixtureClassifier": MixtureClassifier("auto", random_state=0),
}
for name, model in models.items():
    model.fit(X[old], y[old])
    print(f"{name:20} right for {model.score(X[~old], y[~old]):.3f} of the new rows")

# %%
# Colours show how probable each class is, and the line is where both are equally so. Ellipses are
# the components.

figure, axes = plt.subplots(1, 3, figsize=(12, 4.2), sharex=True, sharey=True, layout="constrained")
across, up = np.meshgrid(np.linspace(-6.5, 6.5, 200), np.linspace(-6.5, 6.5, 200))
grid = np.column_stack([across.ravel(), up.ravel()])
colours = np.where(y == "arc", "#0072B2", "#D55E00")
circle = np.column_stack([np.cos(np.linspace(0, 2 * np.pi)), np.sin(np.linspace(0, 2 * np.pi))])
for ax, (name, model) in zip(axes, models.items(), strict=True):
    core_probability = model.predict_proba(grid)[:, 1].reshape(across.shape)
    ax.contourf(across, up, core_probability, np.linspace(0, 1, 11), cmap="RdBu_r", alpha=0.35)
    ax.contour(across, up, core_probability, [0.5], colors="black", linewidths=1.5)
    ax.scatter(*X[old].T, s=5, c=colours[old], linewidths=0)
    ax.set(title=name, aspect="equal", xticks=[], yticks=[])
classifier = models["MixtureClassifier"]
for mixture, colour in zip(classifier.mixtures_, ("#0072B2", "#D55E00"), strict=True):
    for mean, covariance in zip(mixture.means, mixture.covariances, strict=True):
        ellipse = mean + 1.5 * circle @ np.linalg.cholesky(covariance).T
        axes[-1].plot(*ellipse.T, color=colour, linewidth=1)
plt.show()

# %%
# And numbers: the waves below are steeper and noisier on the right. The line is what
# ``MixtureRegressor`` predicts, and the band holds nine new values of ten. It is wide where the
# values scatter.

x = rng.uniform(0, 10, 800)
values = np.sin(x) * (0.5 + x / 5) + rng.normal(0, 0.05 + x / 20)
regressor = MixtureRegressor(max_components=8, random_state=0).fit(x[:, None], values)
places = np.linspace(0, 10, 300)[:, None]
low, high = regressor.predict_interval(places, level=0.9)

figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
ax.plot(x, values, ".", color="0.6", markersize=4)
ax.fill_between(places[:, 0], low, high, color="#0072B2", alpha=0.25, label="nine of ten")
ax.plot(places, regressor.predict(places), color="#0072B2", label="expected")
ax.set(xlabel="x", ylabel="y", title=f"{regressor.estimator_.n_components} components")
ax.legend(frameon=False, loc="upper left")
plt.show()

# %%
# How many of 5,000 new values does the band hold?

new = rng.uniform(0, 10, 5000)
drawn = np.sin(new) * (0.5 + new / 5) + rng.normal(0, 0.05 + new / 20)
low, high = regressor.predict_interval(new[:, None], level=0.9)
print(f"{np.mean((low < drawn) & (drawn < high)):.3f} of the new values lie in the band")
