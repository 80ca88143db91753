"""
Stars with error bars: the density behind the measurements
==========================================================

How are the velocities of stars distributed, if every star was measured with another error? Many
stars near the sun travel in *moving groups*: small clumps of nearly equal velocity on a wide
background. The errors are wider than the clumps. A mixture that is fitted to the measurements
describes the measurements, clumps and errors together. With ``noise_covariance``, it describes the
stars. Astronomers know this as *extreme deconvolution* (Bovy, Hogg and Roweis, 2011).

We simulate it, so that we know the truth: a background and four groups, in two dimensions. Along
the line of sight, a velocity is measured well. Across it, the error grows with the distance of the
star. Every star has another line of sight. So each has an error ellipse of its own, of known size
and direction.
"""

import matplotlib.pyplot as plt
import numpy as np

from momentmix import GaussianMixture, Mixture

truth = Mixture(
    weights=[0.5, 0.15, 0.13, 0.12, 0.1],
    means=[[0, -15], [-38, -20], [10, 3], [-10, -24], [38, -45]],
    covariances=[
        [[30**2, 60], [60, 18**2]],
        [[6**2, -10], [-10, 3**2]],
        [[6**2, -10], [-10, 3**2]],
        [[4**2, 0], [0, 4**2]],
        [[7**2, -20], [-20, 5**2]],
    ],
)
count = 6000
velocities, groups = truth.sample(count, random_state=0)

rng = np.random.default_rng(1)
angle = rng.uniform(0, np.pi, count)
sight = np.stack([np.cos(angle), np.sin(angle)], axis=1)
across = np.stack([-np.sin(angle), np.cos(angle)], axis=1)
small, large = np.ones(count), rng.lognormal(np.log(8), 0.6, count)  # standard errors in km/s
measured = velocities + (small * rng.normal(size=count))[:, None] * sight
measured += (large * rng.normal(size=count))[:, None] * across

# %%
# The covariance of the errors of a star is a 2 × 2 matrix. The estimator takes one for each row.

errors = (small**2)[:, None, None] * sight[:, :, None] * sight[:, None, :]
errors += (large**2)[:, None, None] * across[:, :, None] * across[:, None, :]

stars = GaussianMixture(5, random_state=0).fit(measured, noise_covariance=errors)
plain = GaussianMixture(5, random_state=0).fit(measured)

# %%
# How probable do the two make the true velocities, which neither has seen? The score is the mean
# of the log density; higher is better.

print(f"errors ignored    {plain.score(velocities):.3f}")
print(f"errors taken out  {stars.score(velocities):.3f}")
print(f"true mixture      {np.mean(truth.log_prob(velocities)):.3f}")

# %%
# The upper pictures show the stars, and the error bars of forty of them (one standard error). The
# lower pictures show the two densities, both on one scale of colours. Dashed ellipses hold nine
# tenths of each of the true groups.

figure, axes = plt.subplots(2, 2, figsize=(10, 7.6), sharex=True, sharey=True, layout="constrained")
axes[0, 0].plot(*velocities.T, ".", markersize=2, alpha=0.5, markeredgewidth=0, color="#0072B2")
axes[0, 0].set_title("the stars (nobody has seen this)")
axes[0, 1].plot(*measured.T, ".", markersize=2, alpha=0.5, markeredgewidth=0, color="#0072B2")
bars = np.stack([measured - large[:, None] * across, measured + large[:, None] * across])[:, :40]
axes[0, 1].plot(*bars.T.swapaxes(1, 2), color="#D55E00", linewidth=1)
axes[0, 1].set_title("what was measured")
xx, yy = np.meshgrid(np.linspace(-90, 90, 181), np.linspace(-75, 45, 121))
points = np.column_stack([xx.ravel(), yy.ravel()])
turn = np.linspace(0, 2 * np.pi, 100)
circle = np.sqrt(-2 * np.log(0.1)) * np.stack([np.cos(turn), np.sin(turn)])
top = np.exp(truth.log_prob(points)).max()
for ax, fit, name in (
    (axes[1, 0], plain, "errors ignored"),
    (axes[1, 1], stars, "errors taken out"),
):
    density = np.exp(fit.score_samples(points)).reshape(xx.shape)
    ax.pcolormesh(xx, yy, np.sqrt(density), cmap="magma_r", vmax=np.sqrt(top), rasterized=True)
    for mean, covariance in zip(truth.means[1:], truth.covariances[1:], strict=True):
        ax.plot(*(mean[:, None] + np.linalg.cholesky(covariance) @ circle), "--", color="0.2", lw=1)
    ax.set(title=f"density of the fit, {name}", xlabel="towards the centre (km/s)")
axes[0, 0].set(xlim=(-90, 90), ylim=(-75, 45), ylabel="with the rotation (km/s)")
axes[1, 0].set_ylabel("with the rotation (km/s)")
plt.show()

# %%
# What can be said about a single star? ``denoise`` combines its measurement with what was learnt
# from all stars. It gives the expected velocity of each star, and a covariance that says how
# uncertain it is. If the uncertainties are right, nine of ten true velocities lie in the ellipses
# of nine tenths.

means, covariances = stars.denoise(measured, errors)


away = velocities - means
inside = np.einsum("pi,pij,pj->p", away, np.linalg.inv(covariances), away) < -2 * np.log(0.1)
typical = {
    "typical error of a measurement": np.sum((measured - velocities) ** 2, axis=1),
    "typical error after denoise": np.sum(away**2, axis=1),
    "the same, as denoise tells it": np.trace(covariances, axis1=1, axis2=2),
}
for name, squares in typical.items():
    print(f"{name:32}{np.sqrt(np.mean(squares)):.1f} km/s")
print(f"{'in their ellipse':32}{np.mean(inside):.0%}")
