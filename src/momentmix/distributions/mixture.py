"""Mixture: a Gaussian mixture model, immutable.

It may have a background, a constant density for rows that belong to no component.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from os import PathLike
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from momentmix.covariance import component_covariance, join
from momentmix.distributions.given_rows import MixtureGiven, log_odds, log_sum, probabilities
from momentmix.distributions.samples import check_weights
from momentmix.distributions.units import rounded_like
from momentmix.files.models import read_model, write_model
from momentmix.moments.atoms import Atoms
from momentmix.moments.functions import AtomDistribution
from momentmix.observed import ObservedRows, noise_of_rows
from momentmix.support.array import (
    Array,
    ArrayLike,
    all_finite,
    array_device,
    as_float_array,
    as_like,
    frozen_copy,
    index_array,
    like,
    namespace,
    on_accelerator,
    to_numpy,
    without_graph,
)
from momentmix.support.checks import RandomState, numpy_generator
from momentmix.support.device import block_bytes
from momentmix.support.parallel import parallel_map, worker_count
from momentmix.tensors.dense import dense_moment


@dataclass(frozen=True)
class Background:
    """A density that is the same everywhere: 1 over the product of some widths.

    It is the density of rows spread evenly over a box of those widths; the position of the box does
    not matter. For rows with gaps, only the observed features count.

    Parameters
    ----------
    share : float
        The share of the rows that belong to no component: at least 0, and less than 1.
    widths : array of shape (n,)
        The extent in each feature, positive.
    """

    share: float
    widths: np.ndarray

    def __post_init__(self) -> None:
        widths = np.array(self.widths, dtype=np.float64)
        if widths.ndim != 1 or not np.all(np.isfinite(widths)) or np.any(widths <= 0):
            raise ValueError("the widths of a background must be positive numbers, one per feature")
        if not 0 <= self.share < 1:
            raise ValueError(
                f"the share of a background must be at least 0 and less than 1, got {self.share!r}"
            )
        widths.setflags(write=False)
        object.__setattr__(self, "widths", widths)

    def log_joint(self, X: np.ndarray) -> np.ndarray:
        """The log of share times density at rows X (p, n), in which NaN is a gap; (p,)."""
        logs = np.log(self.widths)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.share) - ~np.isnan(X) @ logs)

    def marginal(self, features: np.ndarray) -> Background:
        """The background of some of the features alone."""
        return Background(self.share, self.widths[features])


#: Features by their positions, by a mask or as a slice.
Features: TypeAlias = "Array | npt.ArrayLike | slice"


def feature_positions(features: Features, n: int) -> np.ndarray:
    """Distinct positions in 0..n-1 from a mask, a slice or positions.

    Negative positions count from the end.
    """
    if isinstance(features, slice):
        features = np.arange(n)[features]
    chosen = np.atleast_1d(to_numpy(features))
    if chosen.dtype == bool:
        if chosen.shape != (n,):
            raise ValueError(f"features as a mask must have {n} entries")
        chosen = np.flatnonzero(chosen)
    if chosen.ndim != 1 or chosen.size == 0 or chosen.dtype.kind not in "iu":
        raise ValueError(f"features must be one or more feature positions, got {features!r}")
    if chosen.min() < -n or chosen.max() >= n:
        raise ValueError(f"features must lie in 0..{n - 1}, got {chosen.tolist()}")
    chosen = chosen.astype(np.int64) % n
    if len(np.unique(chosen)) < len(chosen):
        raise ValueError(f"features names a feature twice: {chosen.tolist()}")
    return chosen


def check_names(names: Sequence[str] | None, n: int) -> tuple[str, ...] | None:
    """Check names of n features, which must all differ; None stays None."""
    if names is None:
        return None
    names = tuple(map(str, names))
    if len(names) != n:
        raise ValueError(f"{len(names)} feature_names for {n} features")
    if len(set(names)) < n:
        raise ValueError(f"feature_names must differ, got {', '.join(names)}")
    return names


def checked_values(values: ArrayLike, means: Array, count: int) -> Array:
    """Finite values of so many features, in the library and dtype of the means; (count,)."""
    values = as_float_array(like(values, means), "values", (0, 1))
    xp = namespace(values, means)
    values = xp.astype(xp.reshape(values, (-1,)), means.dtype)
    if values.shape[0] != count:
        raise ValueError(
            f"values must hold {count} number(s), one for each of features, but holds "
            f"{values.shape[0]}"
        )
    if not all_finite(values):
        raise ValueError("values must be finite; leave out of features what is not known")
    return values


def refuse_overflow(covariances: Array, n: int) -> None:
    """Refuse covariances if sums of 4n entries overflow: eigenvalues could not be checked then."""
    xp = namespace(covariances)
    size = float(xp.max(xp.abs(covariances))) if 0 not in covariances.shape else 0.0
    bound = float(xp.finfo(covariances.dtype).max) / (4 * n)
    if bound < size < float("inf"):
        raise ValueError(
            f"covariances reach {size:.3g}, but above {bound:.3g} arithmetic overflows; rescale "
            "the features"
        )


def mixture_in_words(mixture: Mixture) -> str:
    """A line about the mixture, and one for each component."""
    rows: Sequence[tuple[str, str]] = [("weight", "mean"), *_rows(mixture)]
    table = "\n".join(f"  {w:<6}  {' '.join(mu.split())}" for w, mu in rows)
    return f"Mixture({_heading(mixture)})\n{_tidy(table)}"


def mixture_in_html(mixture: Mixture) -> str:
    """The same as an HTML table."""
    body = "".join(
        f"<tr><td>{j}</td><td>{escape(w)}</td><td>{escape(mu)}</td></tr>"
        for j, (w, mu) in enumerate(_rows(mixture))
    )
    return (
        f"<table><caption>Mixture: {escape(_heading(mixture))}</caption>"
        f"<tr><th></th><th>weight</th><th>mean</th></tr>{body}</table>"
    )


def _heading(mixture: Mixture) -> str:
    m, n, background = mixture.n_components, mixture.n_features, mixture.background
    beyond = "" if background is None else f", background of {100 * background.share:.3g} %"
    return (
        f"{m} component{'s' * (m != 1)}, {n} feature{'s' * (n != 1)}, "
        f"{mixture.covariance_type}, {str(mixture.means.dtype).rpartition('.')[2]}{beyond}"
    )


def _rows(mixture: Mixture, limit: int = 10) -> list[tuple[str, str]]:
    weights, means = (to_numpy(without_graph(x)) for x in (mixture.weights, mixture.means))
    shown = [
        (f"{w:.4g}", np.array2string(mu, precision=4, threshold=8, edgeitems=3))
        for w, mu in zip(weights[:limit], means[:limit], strict=True)
    ]
    return shown + [("…", f"{len(weights) - limit} more")] * (len(weights) > limit)


def _tidy(table: str) -> str:
    return table.replace("[ ", "[").replace(". ", " ").replace(".]", "]")


#: Bytes of the rows in a block of a density. A round number that was not tuned; it affects only
#: memory and speed.
_BLOCK_BYTES = 1 << 20


class Mixture(AtomDistribution):
    """A Gaussian mixture: m Gaussian components in n features, each with a weight.

    It cannot be changed once it is made. A fitted estimator has one as ``mixture_``.

    Parameters
    ----------
    weights : array of shape (m,)
        The share of each component: not negative, with sum 1.
    means : array of shape (m, n)
        The centre of each component.
    covariances : array
        The shapes of the components, in scikit-learn's forms: (m, n, n) for full, (n, n) for tied,
        (m, n) variances for diag, (m,) variances for spherical, and variances (n,) for tied-diag or
        one number for tied-spherical. They must be positive semidefinite, and zero is allowed. For
        low-rank a pair: loadings W (m, n, q) and variances s (m, n) of W Wᵀ + diag(s).
    covariance_type : {"full", "tied", "diag", "spherical", "tied-diag", "tied-spherical", \
            "low-rank"}, default="full"
        Any ellipsoids; one ellipsoid for all; ellipsoids along the axes; balls; one such ellipsoid
        or ball for all; a few factors beside variances along the axes.
    feature_names : sequence of str, optional
        The names of the n features, kept in files and in marginals and conditionals.
    background : Background, optional
        A constant density with a share of its own, for rows that belong to no component. It counts
        in ``log_prob`` but in no moment, and ``sample`` draws no rows from it.

    See Also
    --------
    GaussianMixture : Fits a mixture to rows.
    Samples : The distribution of rows.

    Examples
    --------
    >>> from momentmix import Mixture
    >>> mixture = Mixture([0.3, 0.7], [[0.0, 0.0], [4.0, 0.0]], [1.0, 0.5], "spherical")
    >>> X, labels = mixture.sample(5, random_state=0)
    >>> X.shape
    (5, 2)
    >>> mixture
    Mixture(2 components, 2 features, spherical, float64)
      weight  mean
      0.3     [0 0]
      0.7     [4 0]
    """

    def __init__(
        self,
        weights: ArrayLike,
        means: ArrayLike,
        covariances: ArrayLike,
        covariance_type: str = "full",
        *,
        feature_names: Sequence[str] | None = None,
        background: Background | None = None,
    ) -> None:
        means = as_float_array(means, "means", (2,))
        m, n = (int(k) for k in means.shape)
        if m == 0 or n == 0:
            raise ValueError(f"means must have at least one row and one column, got shape {(m, n)}")
        if not all_finite(means):
            raise ValueError("means must be finite, but hold NaN or infinity")
        weights = as_float_array(like(weights, means), "weights", (1,))
        covariances = like(join(covariances, covariance_type), means)
        covariances = as_float_array(covariances, "covariances", (0, 1, 2, 3))
        refuse_overflow(covariances, n)
        covariance = component_covariance(covariance_type, covariances, m, n)
        namespace(weights, means, covariance.array)
        covariance = covariance.of(frozen_copy(covariance.array), n)
        weights = frozen_copy(check_weights(weights, m, "components"))
        self._atoms = Atoms(weights, frozen_copy(means), covariance)
        self._names = check_names(feature_names, n)
        if background is not None and len(background.widths) != n:
            raise ValueError(f"the background has {len(background.widths)} widths for {n} features")
        self._background = background

    @classmethod
    def from_atoms(
        cls,
        atoms: Atoms,
        names: tuple[str, ...] | None = None,
        background: Background | None = None,
    ) -> Mixture:
        """Make a mixture of atoms that are known to be valid, without checks and copies."""
        mixture = cls.__new__(cls)
        mixture._atoms, mixture._names, mixture._background = atoms, names, background
        return mixture

    @property
    def background(self) -> Background | None:
        """The constant density of rows that belong to no component, or None."""
        return self._background

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The names of the features, or None."""
        return self._names

    def named(self, feature_names: Sequence[str] | None) -> Mixture:
        """The same mixture with other names of the features, or with none."""
        names = check_names(feature_names, self.n_features)
        return Mixture.from_atoms(self._atoms, names, self._background)

    def on(self, X: Array) -> Mixture:
        """The same mixture in float64, in the library of X and on its device."""
        double = as_like(np.empty(0), X, namespace(X).float64)
        return Mixture.from_atoms(self._atoms.on(double), self._names, self._background)

    @property
    def weights(self) -> Array:
        """The share of each component, of shape (m,)."""
        weights = self._atoms.weights
        assert not isinstance(weights, float)  # only samples store one number for all weights
        return weights

    @property
    def means(self) -> Array:
        """The centre of each component, of shape (m, n)."""
        return self._atoms.means

    @property
    def covariances(self) -> Array:
        """The covariances, in the shape of their type; for low-rank a pair of arrays, named."""
        covariance = self._atoms.covariance
        return covariance.present(covariance.array)

    @property
    def covariance_type(self) -> str:
        """One of full, tied, diag, spherical, tied-diag, tied-spherical and low-rank."""
        return self._atoms.covariance.name

    @property
    def n_components(self) -> int:
        """The number of components, m."""
        return int(self.means.shape[0])

    def moment(self, order: int) -> Array:
        """The moment tensor of one order; see :func:`momentmix.dense_moment`."""
        return dense_moment(self, order)

    def sample(
        self,
        n_samples: int = 1,
        random_state: RandomState = None,
        *,
        like: ArrayLike | None = None,
    ) -> tuple[Array, Array]:
        """Draw random rows, of shape (n_samples, n), and the component (n_samples,) of each.

        The same ``random_state`` (a seed or a generator) gives the same rows in every array
        library. With rows ``like`` (p, n), those that are drawn are rounded and bounded as these
        are: whole numbers stay whole, and none is below zero if none of these is.
        """
        if n_samples < 1:
            raise ValueError(f"n_samples must be at least 1, got {n_samples}")
        rng = numpy_generator(random_state)
        weights = to_numpy(self.weights).astype(np.float64)
        labels = rng.choice(self.n_components, size=n_samples, p=weights / weights.sum())
        Z = rng.standard_normal((n_samples, self.n_features))
        # Always drawn in NumPy, so that a seed gives the same rows in every library.
        array = to_numpy(self._atoms.covariance.array).astype(np.float64)
        covariance = self._atoms.covariance.of(array, self.n_features)
        root = covariance.root()
        means = to_numpy(self.means)
        for j in np.unique(labels):
            Z[labels == j] = means[j] + covariance.colour(root, int(j), Z[labels == j], rng)
        if like is not None:
            Z = rounded_like(Z, to_numpy(without_graph(self._check_rows(like))))
        xp = namespace(self.means)
        device = array_device(self.means)
        X = xp.asarray(Z, dtype=self.means.dtype, device=device)
        return X, xp.asarray(labels, device=device)

    def log_prob(self, X: ArrayLike, noise_covariance: ArrayLike | None = None) -> Array:
        """The logarithm of the density at each row of X, of shape (p,).

        NaN in X is a gap: the density is that of the observed values. ``noise_covariance`` is that
        of known noise in the rows, in the shapes that :class:`Samples` takes.
        """
        log_joint = self.log_joint(X, noise_covariance)
        if self._background is None:
            return log_sum(log_joint)
        rows = to_numpy(without_graph(self._check_rows(X)))
        beyond = self._like(self._background.log_joint(rows))  # of derivative 0 almost everywhere
        return log_sum(namespace(log_joint).concat([log_joint, beyond[:, None]], axis=1))

    def predict(self, X: ArrayLike, noise_covariance: ArrayLike | None = None) -> Array:
        """The number of the most probable component of each row of X, of shape (p,).

        It is -1 for rows that more probably belong to the background than to any component. Gaps
        and noise are treated as in :meth:`log_prob`.
        """
        odds = self.log_odds(X, noise_covariance)
        labels: Array = namespace(odds).argmax(odds, axis=1)
        if self._background is None:
            return labels
        out = self.outlier_probability(X, noise_covariance) > 0.5
        xp, device = namespace(labels), array_device(labels)
        return xp.asarray(np.where(out, -1, to_numpy(labels)), device=device)

    def predict_proba(self, X: ArrayLike, noise_covariance: ArrayLike | None = None) -> Array:
        """The probability of each component for each row of X, of shape (p, m).

        Each row sums to 1. If there is a background, the probabilities assume that the row belongs
        to a component. Gaps and noise are treated as in :meth:`log_prob`.
        """
        return probabilities(self.log_odds(X, noise_covariance))

    def outlier_probability(
        self, X: ArrayLike, noise_covariance: ArrayLike | None = None
    ) -> np.ndarray:
        """The probability that each row belongs to no component, of shape (p,).

        It is 0 without a background. Gaps and noise are treated as in :meth:`log_prob`.
        """
        density = to_numpy(self.log_prob(X, noise_covariance))
        if self._background is None:
            return np.zeros(len(density))
        beyond = self._background.log_joint(to_numpy(self._check_rows(X)))
        known = np.where(np.isfinite(density), density, 0.0)
        return np.exp(np.minimum(beyond - known, 0.0))

    def log_joint(self, X: ArrayLike, noise_covariance: ArrayLike | None = None) -> Array:
        """The logarithm of λ_j N(x_i; μ_j, Σ_j) for each row and component, of shape (p, m).

        If there is a background, λ_j are shares of all rows including it. Gaps and noise are
        treated as in :meth:`log_prob`.
        """
        log_joint = self._log_joint(X, noise_covariance)
        if self._background is None:
            return log_joint
        return log_joint + float(np.log1p(-self._background.share))

    def log_odds(self, X: ArrayLike, noise_covariance: ArrayLike | None = None) -> Array:
        """``log_joint`` up to a number for each row; its differences are exact however far out.

        So it compares components where ``log_joint`` has lost its digits. (In rows with noise, and
        of densities that differ in all directions, they are as exact as those of ``log_joint``.)
        """
        X = self._check_rows(X)
        if noise_covariance is not None or not all_finite(X):
            return self._like(self._given(X, noise_covariance).log_odds())
        return log_odds(self._atoms, self._log_joint(X, None), X)

    def _log_joint(self, X: ArrayLike, noise_covariance: ArrayLike | None) -> Array:
        X = self._check_rows(X)
        if noise_covariance is not None or not all_finite(X):
            return self._like(self._given(X, noise_covariance).log_joint())
        xp, n = namespace(X, self.means), self._atoms.n_features
        whitener, log_root = self._atoms.covariance.whitener()
        positive = self.weights > 0
        safe = xp.where(positive, self.weights, xp.ones_like(self.weights))
        minus_inf = xp.full_like(self.weights, -float("inf"))
        constant = xp.where(positive, xp.log(safe), minus_inf) + log_root
        constant = constant - 0.5 * n * float(np.log(2 * np.pi))

        def block(start: int) -> Array:
            rows = X[start : min(start + step, X.shape[0]), :]
            whitened = (
                self._atoms.covariance.apply(whitener, j, rows - self.means[j, :])
                for j in range(self.n_components)
            )
            with np.errstate(over="ignore"):  # a distance that overflows gives density 0
                squares = [xp.sum(w * w, axis=1) for w in whitened]
            return constant[None, :] - 0.5 * xp.stack(squares, axis=1)

        step = max(1, _BLOCK_BYTES // (8 * n))
        if on_accelerator(X):
            step = max(1, block_bytes(X) // (32 * (n + self.n_components)))
        parts = parallel_map(block, range(0, max(X.shape[0], 1), step), worker_count(xp))
        logs = xp.concat(parts)
        if all_finite(logs):
            return logs
        return xp.where(xp.isnan(logs), minus_inf[None, :], logs)  # infinities of both signs

    def impute(
        self,
        X: ArrayLike,
        draws: int | None = None,
        *,
        noise_covariance: ArrayLike | None = None,
        random_state: RandomState = None,
    ) -> Array:
        """Fill the gaps (NaN) in the rows of X with their expected values; (p, n).

        With ``draws``, each gap is filled that many times with random values: (draws, p, n).
        Observed values stay as they are. Gaps of an outlier are filled as if none of its values
        were known.
        """
        given = self._given(X := self._check_rows(X), noise_covariance)
        out = None if self._background is None else self.outlier_probability(X, noise_covariance)
        if draws is None:
            expected = given.means() if out is None else given.means_beside(out)
            return self._like(np.where(given.rows.seen, given.rows.X, expected))
        if isinstance(draws, bool) or not isinstance(draws, int | np.integer) or draws < 1:
            raise ValueError(f"draws must be a whole number of at least 1, got {draws!r}")
        drawn = given.draws(int(draws), rng := numpy_generator(random_state))
        if out is not None and np.any(apart := rng.uniform(size=drawn.shape[:2]) < out):
            drawn[apart] = to_numpy(self.sample(int(apart.sum()), rng)[0])
        return self._like(np.where(given.rows.seen, given.rows.X, drawn))

    def denoise(
        self, X: ArrayLike, noise_covariance: ArrayLike | None = None
    ) -> tuple[Array, Array]:
        """The mean (p, n) and covariance (p, n, n) of each row's noiseless values, given the row.

        ``noise_covariance`` is that of known noise in the rows, in the shapes that
        :class:`Samples` takes. NaN in X is a gap.
        """
        means, covariances = self._given(self._check_rows(X), noise_covariance).posterior()
        return self._like(means), self._like(covariances)

    def _given(self, X: Array, noise_covariance: ArrayLike | None) -> MixtureGiven:
        rows = to_numpy(X).astype(np.float64, copy=False)
        noise = None if noise_covariance is None else to_numpy(noise_covariance)
        return MixtureGiven(self._atoms, ObservedRows(rows, noise_of_rows(noise, rows)))

    def _like(self, array: np.ndarray) -> Array:
        """Convert results to the library and device of the mixture."""
        xp = namespace(self.means)
        return xp.asarray(array, dtype=self.means.dtype, device=array_device(self.means))

    def marginal(self, features: Features) -> Mixture:
        """The mixture of some of the features alone.

        ``features`` are positions from 0, a mask of True and False, or a slice.
        """
        kept = index_array(feature_positions(features, self.n_features), self.means)
        xp = namespace(self.means)
        means = xp.take(self.means, kept, axis=1)
        atoms = Atoms(self.weights, means, self._atoms.covariance.marginal(kept))
        background = self._background
        if background is not None:
            background = background.marginal(to_numpy(kept))
        return Mixture.from_atoms(atoms, self._names_at(kept), background)

    def condition(self, features: Features, values: ArrayLike) -> Mixture:
        """The mixture of the other features, given that ``features`` take ``values``.

        The covariances of ``features`` must not be singular. The share of a background becomes its
        probability given the values.
        """
        given_positions = feature_positions(features, self.n_features)
        kept_positions = np.setdiff1d(np.arange(self.n_features), given_positions)
        if len(kept_positions) == 0:
            raise ValueError("condition leaves no feature; use log_prob for the density of a point")
        values = checked_values(values, self.means, len(given_positions))
        xp = namespace(values)
        marginal, background = self.marginal(given_positions), self._background
        odds = marginal.log_odds(values[None, :])
        if background is not None:
            share = min(float(marginal.outlier_probability(values[None, :])[0]), 1 - 1e-12)
            background = Background(share, background.widths[kept_positions])
        weights = probabilities(odds)[0, :]
        given = index_array(given_positions, self.means)
        kept = index_array(kept_positions, self.means)
        deltas = values[None, :] - xp.take(self.means, given, axis=1)
        with np.errstate(over="ignore", invalid="ignore"):
            shift, covariance = self._atoms.covariance.condition(kept, given, deltas)
            means = xp.take(self.means, kept, axis=1) + shift
        if not all_finite(means):
            raise ValueError("values lie so far out that means given them overflow")
        atoms = Atoms(weights, means, covariance)
        return Mixture.from_atoms(atoms, self._names_at(kept), background)

    def _names_at(self, kept: Array) -> tuple[str, ...] | None:
        if self._names is None:
            return None
        return tuple(self._names[i] for i in to_numpy(kept))

    def save(self, path: str | PathLike[str]) -> None:
        """Write a JSON file, from which :meth:`load` gives back every number exactly."""
        write_model(path, self)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Mixture:
        """Read a file that :meth:`save` wrote; nothing in the file is executed."""
        parameters, evenly = read_model(path)
        try:
            return cls(**parameters, background=None if evenly is None else Background(*evenly))
        except ValueError as error:
            raise ValueError(f"{path} is not a momentmix model: {error}") from error

    def _check_rows(self, X: ArrayLike) -> Array:
        X = as_float_array(like(X, self.means), "X", (2,))
        if X.shape[1] != (n := self._atoms.n_features):
            raise ValueError(f"X has {X.shape[1]} feature(s), but the mixture has {n}")
        if not all_finite(X) and np.any(np.isinf(to_numpy(without_graph(X)))):
            raise ValueError("X must not hold infinity; NaN is a gap")
        return X

    def __repr__(self) -> str:
        return mixture_in_words(self)

    def _repr_html_(self) -> str:
        return mixture_in_html(self)
