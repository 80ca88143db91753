"""Data to try things on: a bundled table, and the random mixtures of the paper's experiments."""

from __future__ import annotations

import csv
from importlib.resources import files

import numpy as np

from momentmix.distributions.mixture import Mixture


def load_quakes() -> tuple[np.ndarray, list[str]]:
    """1,000 earthquakes near Fiji: latitude, longitude, depth (km), magnitude, stations.

    From R's ``datasets`` package; one of the Harvard PRIM-H project data sets. Returns the rows and
    the names of the columns.
    """
    text = files("momentmix.datasets").joinpath("quakes.csv").read_text(encoding="utf-8")
    names, *rows = csv.reader(text.splitlines())
    return np.array(rows, dtype=float), names


def paper_mixture(
    noise: float, random_state: int, *, n_features: int = 100, n_components: int = 20
) -> Mixture:
    """A random mixture of §7.3 of Pereira–Kileel–Kolda.

    Means of length 1 with inner products 1/2, diagonal covariances uniform in [0, 2 noise], weights
    of at least 0.01.
    """
    rng = np.random.default_rng(random_state)
    m, n = n_components, n_features
    if m > n:
        raise ValueError(f"n_components={m} means with these angles need as many features, got {n}")
    gram = 0.5 * (np.ones((m, m)) + np.eye(m))
    basis = np.linalg.qr(rng.normal(size=(n, m)))[0]
    means = np.linalg.cholesky(gram) @ basis.T
    raw = rng.random(m)
    weights = 0.01 + (1 - 0.01 * m) * raw / raw.sum()
    return Mixture(weights / weights.sum(), means, rng.uniform(0, 2 * noise, (m, n)), "diag")
