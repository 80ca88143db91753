"""Data to try things on: a bundled table, and the random mixtures of the paper's experiments."""

from __future__ import annotations

import csv
from importlib.resources import files

import numpy as np

from momentmix.distributions.mixture import Mixture


def load_quakes() -> tuple[np.ndarray, list[str]]:
    """The locations of 1,000 earthquakes near Fiji, a table to try things on.

    The columns are latitude, longitude, depth in km, magnitude, and the number of stations that
    reported the earthquake. The table is from R's ``datasets`` package; it is one of the data sets
    of the Harvard PRIM-H project.

    Returns
    -------
    X : ndarray of shape (1000, 5)
        One row for each earthquake.
    names : list of str
        The names of the columns.

    Examples
    --------
    >>> from momentmix.datasets import load_quakes
    >>> X, names = load_quakes()
    >>> names
    ['lat', 'long', 'depth', 'mag', 'stations']
    """
    text = files("momentmix.datasets").joinpath("quakes.csv").read_text(encoding="utf-8")
    names, *rows = csv.reader(text.splitlines())
    return np.array(rows, dtype=float), names


def paper_mixture(
    noise: float, random_state: int, *, n_features: int = 100, n_components: int = 20
) -> Mixture:
    """A random mixture like those of the paper's comparison with EM.

    The means have length 1 and inner products of 1/2 with each other. The covariances are diagonal,
    with variances drawn uniformly from 0 to twice the noise. Every weight is at least 0.01.

    Parameters
    ----------
    noise : float
        The mean variance, σ². The paper uses 0.05, 0.1 and 0.2.
    random_state : int
        The seed.
    n_features : int, default=100
        The number of features; at least ``n_components``.
    n_components : int, default=20
        The number of components.

    Returns
    -------
    Mixture

    Notes
    -----
    This is the problem of §7.3 of Pereira, Kileel and Kolda (arXiv:2202.06930).

    Examples
    --------
    >>> from momentmix.datasets import paper_mixture
    >>> mixture = paper_mixture(0.1, 0, n_features=5, n_components=3)
    >>> mixture.means.shape
    (3, 5)
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
