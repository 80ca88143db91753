"""Clusters of several components: those that overlap most are merged, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from momentmix.distributions.mixture import Mixture
from momentmix.estimators.base import Table, checked_weights, in_numpy
from momentmix.estimators.predictions import MixturePredictions
from momentmix.support.array import to_numpy
from momentmix.support.checks import whole_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: When "auto" stops merging. The three were chosen on the batteries fcps and sipu of a public
#: clustering suite (``make bench-suites``; others are reported there), where factors from 2.4 to 3
#: do about as well. The overlap has to fall by this factor from the last merge that is made to the
#: first that is not,
FALL = 2.7
#: to less than this, which is that of two equal balls 3.7 standard deviations apart. A single merge
#: is made only above it: penguins and crabs have clusters that touch, and others that do not;
SEPARATE = 0.05
#: and what is less than this counts as nothing, since a few rows make it.
NEGLIGIBLE = 0.001
#: Components that overlap more are merged in any case. Two equal balls do if they are less than
#: 1.4 standard deviations apart, where nobody sees two clusters.
SAME = 0.5


class Merge(NamedTuple):
    """A step in which two clusters become one."""

    first: tuple[int, ...]  # the components of either
    second: tuple[int, ...]
    overlap: float  # from 0, where no row is in doubt between the two, to 1


@dataclass(frozen=True, repr=False)
class MergedComponents:
    """Clusters, each of them one component of a mixture or several.

    Attributes
    ----------
    fit : fitted estimator or Mixture
        What has the components.
    tree : tuple of Merge
        All m - 1 merges, from m clusters to one, whether made or not.
    clusters_ : ndarray of shape (m,)
        The cluster of each component. The largest cluster is 0.
    labels_ : ndarray of shape (p,)
        The cluster of each row; -1 for outliers.
    """

    fit: MixturePredictions | Mixture
    tree: tuple[Merge, ...]
    clusters_: np.ndarray
    labels_: np.ndarray

    @property
    def n_clusters_(self) -> int:
        """The number of clusters."""
        return int(self.clusters_.max()) + 1

    def members(self, cluster: int) -> list[int]:
        """The components of a cluster."""
        return [int(k) for k in np.flatnonzero(self.clusters_ == cluster)]

    def predict_proba(self, X: Table, noise_covariance: Table = None) -> np.ndarray:
        """The probability of each cluster for each row: the sum of those of its components.

        Parameters
        ----------
        X : array of shape (p, n)
            The rows. NaN is a gap, which is left out.
        noise_covariance : scalar or array, optional
            The covariance of known errors in the rows, as in ``GaussianMixture.fit``.

        Returns
        -------
        ndarray of shape (p, number of clusters)
            Each row sums to 1. With a background, the probabilities are those if the row belongs
            to a component.
        """
        each = to_numpy(self.fit.predict_proba(X, noise_covariance))
        return np.asarray(each @ np.eye(self.n_clusters_)[self.clusters_])

    def predict(self, X: Table, noise_covariance: Table = None) -> np.ndarray:
        """The number of the most probable cluster of each row, or -1 for outliers.

        Parameters
        ----------
        X : array of shape (p, n)
            The rows. NaN is a gap, which is left out.
        noise_covariance : scalar or array, optional
            The covariance of known errors in the rows, as in ``GaussianMixture.fit``.

        Returns
        -------
        ndarray of shape (p,)
        """
        labels = self.predict_proba(X, noise_covariance).argmax(axis=1)
        return np.where(to_numpy(self.fit.predict(X, noise_covariance)) < 0, -1, labels)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the tree of merges, with the clusters in colours.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default in a new figure.

        Returns
        -------
        matplotlib.axes.Axes
        """
        # Plotting is a layer above this one, and matplotlib is optional.
        drawn: Axes = import_module("momentmix.plotting").plot_merges(self, ax=ax)
        return drawn

    def __repr__(self) -> str:
        parts = (", ".join(map(str, self.members(c))) for c in range(self.n_clusters_))
        of = "".join(f"\n  {cluster}: {which}" for cluster, which in enumerate(parts))
        return f"MergedComponents({len(self.clusters_)} components)\n  cluster: components{of}"


def merge_components(
    fit: MixturePredictions | Mixture,
    X: Table,
    n_clusters: int | Literal["auto"] = "auto",
    *,
    sample_weight: Table = None,
    noise_covariance: Table = None,
) -> MergedComponents:
    """Merge the components of a mixture that overlap into clusters of any shape.

    A mixture needs several Gaussians for a cluster that is bent, skewed or hollow. The two clusters
    that overlap most become one, again and again, which makes a tree. The overlap of two is the
    cosine between their probabilities for the rows, Σ_i r_ij r_ik / √(Σ_i r_ij² Σ_i r_ik²).

    Parameters
    ----------
    fit : fitted estimator or Mixture
        The components, best with their number chosen by BIC: ``GaussianMixture("auto")`` or the
        ``best`` of a :func:`select`.
    X : array of shape (p, n)
        The rows, as a rule those of the fit. NaN is a gap: overlaps are those of rows in which gaps
        are filled once at random, given the other values of the row. Outliers and rows without any
        value do not count.
    n_clusters : int or "auto", default="auto"
        The number of clusters. "auto" goes on as long as there are two that overlap about as much
        as those before. It stops where the overlap falls to a third or so, and to less than 5 %; if
        it never does, all components remain.
    sample_weight : array of shape (p,), optional
        How many times each row counts.
    noise_covariance : scalar or array, optional
        The covariance of known errors in the rows, as in ``GaussianMixture.fit``.

    Returns
    -------
    MergedComponents
        With ``labels_``, ``clusters_``, the ``tree``, ``predict``, ``predict_proba`` and ``plot``.

    Notes
    -----
    Overlaps of merged clusters follow from the matrix Σ_i r_i r_iᵀ, so the tree costs O(p m² + m³).
    The idea is that of [1]_ and [2]_, which measure overlap by entropy and by misclassified rows.

    References
    ----------
    .. [1] J.-P. Baudry, A. E. Raftery, G. Celeux, K. Lo and R. Gottardo, "Combining Mixture
       Components for Clustering", Journal of Computational and Graphical Statistics, 19, 2010.
    .. [2] C. Hennig, "Methods for Merging Gaussian Mixture Components", Advances in Data Analysis
       and Classification, 4, 2010.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from momentmix import GaussianMixture, merge_components
    >>> X, _ = make_moons(500, noise=0.05, random_state=0)
    >>> gm = GaussianMixture("auto", random_state=0).fit(X)
    >>> gm.n_components_ > 2, merge_components(gm, X).n_clusters_
    (True, 2)
    """
    whole_number("n_clusters", n_clusters, 1, "auto")
    R = np.asarray(to_numpy(fit.predict_proba(X, noise_covariance)), dtype=np.float64)
    rows, m = np.asarray(in_numpy(X, "X"), dtype=np.float64), R.shape[1]
    if n_clusters != "auto" and n_clusters > m:
        raise ValueError(
            f"n_clusters={n_clusters} is more than the {m} components of the fit; fit more "
            "components, or ask for fewer clusters"
        )
    own = to_numpy(fit.predict(X, noise_covariance)) >= 0
    counts = own & ~np.isnan(rows).all(axis=1)
    if sample_weight is not None:
        counts = counts * checked_weights(sample_weight, rows)
    complete = R
    if np.isnan(rows).any():  # a gap leaves a row in doubt between clusters that are far apart
        mixture: Mixture = getattr(fit, "mixture_", fit)
        filled = mixture.impute(rows, 1, noise_covariance=noise_covariance, random_state=0)
        complete = to_numpy(mixture.predict_proba(to_numpy(filled)[0], noise_covariance))
    tree = merge_tree(complete.T @ (complete * counts[:, None]))
    number = cluster_count(tree) if n_clusters == "auto" else int(n_clusters)
    clusters = clusters_of(tree, number, counts @ R)
    labels = (R @ np.eye(number)[clusters]).argmax(axis=1)
    return MergedComponents(fit, tree, clusters, np.where(own, labels, -1))


def merge_tree(G: np.ndarray) -> tuple[Merge, ...]:
    """All merges, from m clusters to one, of components with Σ_i r_i r_iᵀ = G (m, m). O(m³)."""
    G, tree = np.array(G), []
    groups: list[tuple[int, ...]] = [(k,) for k in range(len(G))]
    while len(groups) > 1:
        lengths = np.sqrt(np.diag(G))
        overlaps = G / np.maximum(np.outer(lengths, lengths), np.finfo(float).tiny)
        np.fill_diagonal(overlaps, -1.0)
        i, j = sorted(map(int, np.unravel_index(overlaps.argmax(), overlaps.shape)))
        tree.append(Merge(groups[i], groups[j], float(overlaps[i, j])))
        G[i] += G[j]
        G[:, i] += G[:, j]
        G = np.delete(np.delete(G, j, axis=0), j, axis=1)
        groups[i] += groups.pop(j)
    return tuple(tree)


def cluster_count(tree: Sequence[Merge]) -> int:
    """The number of clusters at the first fall of the overlap, as ``FALL`` and the others say."""
    # A merge may raise the overlap with a third; such steps belong to the one before.
    overlaps = np.minimum.accumulate([merge.overlap for merge in tree] or [0.0])
    floored = overlaps + NEGLIGIBLE
    falls = (floored[:-1] > FALL * floored[1:]) & (overlaps[1:] < SEPARATE)
    falls &= (overlaps[:-1] > SEPARATE) | (np.arange(len(falls)) > 0)
    made = int(falls.argmax()) + 1 if falls.any() else 0
    return len(tree) + 1 - max(made, int(np.sum(overlaps > SAME)))


def clusters_of(tree: Sequence[Merge], number: int, sizes: np.ndarray) -> np.ndarray:
    """The cluster of each component, of so many, the largest first; ``sizes`` (m,) are in rows."""
    m = len(tree) + 1
    of = np.arange(m)
    for merge in tree[: m - number]:
        of[[*merge.first, *merge.second]] = min(merge.first + merge.second)
    totals = np.bincount(of, sizes, minlength=m)
    ranked = sorted(set(of.tolist()), key=lambda one: -totals[one])
    return np.array([ranked.index(one) for one in of.tolist()])
