"""
Signals below the noise
=======================

Can you find signals that are much weaker than the noise? Here are six signals of 30 points each,
and a million observations. Each observation shows one of the signals, and nobody knows which,
under white noise of about five times its height. No single observation shows anything. The
clusters overlap so much that k-means finds clusters that are not there. EM has to learn the
covariances too, and loses its way.

The moments of the observations (averages of products of points) still contain the signals. The
noise is Gaussian and its variance is known, so its part can be subtracted from the moments
exactly, without knowing any label. What is left are the moments of six points.
``KnownCovarianceMixture`` takes them apart into the points.

Run ``python examples/plot_signals_in_noise.py`` for the pictures. With ``--quick`` there are
fewer observations and less noise.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import sklearn.mixture
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans

from momentmix import KnownCovarianceMixture

SHARES = np.array([0.3, 0.2, 0.15, 0.15, 0.1, 0.1])


def true_signals(points: int = 30) -> np.ndarray:
    """A wave packet, a square wave, two pulses, a sawtooth, a bump, and part of a cosine."""
    t = np.linspace(0, 1, points)
    return np.array(
        [
            np.sin(6 * np.pi * t) * np.exp(-(((t - 0.5) / 0.2) ** 2)),
            0.6 * np.sign(np.sin(4 * np.pi * t)),
            1.5 * np.exp(-(((t - 0.3) / 0.05) ** 2)) - np.exp(-(((t - 0.7) / 0.08) ** 2)),
            2 * np.abs(2 * (2 * t % 1) - 1) - 1,
            1.2 * np.exp(-(((t - 0.8) / 0.1) ** 2)) - 0.3,
            0.8 * np.cos(2 * np.pi * t) * (t < 0.6),
        ]
    )


def observe(
    signals: np.ndarray, count: int, sigma: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    labels = rng.choice(len(signals), count, p=SHARES)
    return signals[labels] + sigma * rng.normal(size=(count, signals.shape[1])), labels


def matched(found: np.ndarray, signals: np.ndarray) -> np.ndarray:
    """What was found, in the order of the true signals."""
    distance = np.linalg.norm(signals[:, None] - found[None], axis=2)
    return found[linear_sum_assignment(distance)[1]]


def errors(found: np.ndarray, signals: np.ndarray) -> np.ndarray:
    return np.linalg.norm(found - signals, axis=1) / np.linalg.norm(signals, axis=1)


def ways(sigma: float) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    """Ways to find the signals, from the observations and the level of the noise."""
    K = len(SHARES)

    def ours(X: np.ndarray) -> np.ndarray:
        return KnownCovarianceMixture(K, covariance=sigma**2, random_state=0).fit(X).means_

    def k_means(X: np.ndarray) -> np.ndarray:
        return KMeans(K, n_init=10, random_state=0).fit(X).cluster_centers_

    def em(X: np.ndarray) -> np.ndarray:
        model = sklearn.mixture.GaussianMixture(
            K, covariance_type="spherical", n_init=3, random_state=0
        )
        return model.set_params(max_iter=300).fit(X).means_

    return {"KnownCovarianceMixture": ours, "k-means": k_means, "EM (scikit-learn)": em}


def draw(
    signals: np.ndarray, X: np.ndarray, found: dict[str, np.ndarray], sigma: float, path: Path
) -> None:
    K = len(signals)
    figure, axes = plt.subplots(
        len(found) + 1, K, figsize=(13, 8.5), sharex=True, layout="constrained"
    )
    shown = np.random.default_rng(1).choice(len(X), K)
    for ax, x in zip(axes[0], X[shown], strict=True):
        ax.plot(x, ".", color="0.4", markersize=3)
        ax.set_ylim(-4 * sigma, 4 * sigma)
    axes[0, 0].set_ylabel("observations")
    for row, (name, means) in zip(axes[1:], found.items(), strict=True):
        for j, ax in enumerate(row):
            ax.plot(signals[j], color="0.75", linewidth=4, label="truth")
            ax.plot(means[j], color="C0" if "Known" in name else "C3", linewidth=1.3, label="found")
            ax.set_title(f"error {errors(means, signals)[j]:.0%}", fontsize=9)
            ax.set_ylim(-2.2, 2.2)
            ax.set_xticks([])
        row[0].set_ylabel(name)
    axes[1, 0].legend(fontsize=8, loc="lower left")
    power = np.mean(signals**2) / sigma**2
    figure.suptitle(
        f"{len(X):,} observations of {K} unknown signals, power of signal over noise {power:.1%}"
    )
    figure.savefig(path, dpi=100)


def main(folder: str = "demo", quick: bool = False) -> dict[str, np.ndarray]:
    count, sigma = (100_000, 2.5) if quick else (1_000_000, 5.0)
    signals = true_signals()
    X, labels = observe(signals, count, sigma, np.random.default_rng(0))
    found = {}
    print(f"{count:,} observations, noise {sigma:g}, signals of height about 1\n")
    print(f"  {'':26}{'error of each signal':44}{'seconds':>8}")
    for name, way in ways(sigma).items():
        start = time.perf_counter()
        found[name] = matched(way(X), signals)
        seconds = time.perf_counter() - start
        shown = "".join(f"{e:7.0%}" for e in errors(found[name], signals))
        print(f"  {name:26}{shown:44}{seconds:8.1f}")
    known = np.array([X[labels == j].mean(axis=0) for j in range(len(signals))])
    shown = "".join(f"{e:7.0%}" for e in errors(known, signals))
    print(f"  {'(labels known)':26}{shown}")
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    draw(signals, X, found, sigma, path / "signals_in_noise.png")
    print(f"\nPicture: {path / 'signals_in_noise.png'}")
    return {name: errors(means, signals) for name, means in found.items()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", default="demo")
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    main(arguments.folder, arguments.quick)
