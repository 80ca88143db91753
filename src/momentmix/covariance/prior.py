"""What holds covariances: a prior towards each other, and an anchor under gaps.

The prior says that the covariances of a mixture may differ, but seldom by orders of magnitude.
Their logarithms are normal about a common matrix L, which is estimated too:

    penalty = ν/4 Σ_k ‖log Σ_k - L‖²,   smallest for L = (1/m) Σ_k log Σ_k.

exp L is the geometric mean of the covariances. Near it, the penalty is that of ν rows with the
covariance exp L in each component (ν/2 times twice the Kullback–Leibler divergence). So ν is a
number of rows, and the prior hardly matters beside many more. It has no scale of its own: only
ratios of covariances count. How alike the covariances of a mixture are can be seen from them, so ν
can be learned (``LogNormalPrior.learned``).

Where features hardly depend on each other within components, each matrix is also held to the axes
of the features:

    penalty = τ/2 Σ_k (log det S_k + Σ_i log (S_k⁻¹)_ii),   S_k in the units of X.

It is the least penalty of τ rows with a diagonal covariance, over all diagonals, so it has no scale
either; 1 / (S_k⁻¹)_ii is the diagonal that is best. The bracket is minus the log determinant of the
partial correlations. Rotations of X change it, so τ is 0 unless the rows clearly ask for it.

The anchor is for data with gaps: each component gets a few artificial rows with a common
covariance. The variance in a direction that involves many features is known only from rows that
show all these features. If gaps leave few such rows, covariances that are all flat in that
direction make the rows arbitrarily likely, and the prior does not prevent that. So the anchor is a
ridge prior in the sense of Schafer (Analysis of Incomplete Multivariate Data, 1997, section 5.2.3)
with the covariance Ψ of one Gaussian fitted to all rows:

    penalty = ε/2 Σ_k (log det Σ_k + tr Ψ Σ_k⁻¹ - log det Ψ - n).

It is that of ε rows of covariance Ψ in each component, less its minimum, which is at Σ_k = Ψ.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import gammaln

from momentmix.covariance.coordinates import eigen

#: Beyond so many times the rows, covariances are equal to eight digits, and arithmetic loses them.
MOST_STRENGTH = 1e8
#: The strengths among which one is learned, in units of the customary one. They are a factor of two
#: apart, because the effect of a strength changes slowly, and because fits that differ a little
#: should learn the same. With weaker ones, components collapse onto rows with equal values; with
#: the strongest, covariances are as good as equal.
SHARES = 2.0 ** np.arange(-1, 9)
#: The evidence is lowered by the square of the logarithm of a share, divided by this number. So the
#: share is taken to be within a factor of exp 2 = 7 of 1 in two tables of three, as it was in the
#: tables that were tried.
SPREAD = 8.0


class Strengths(NamedTuple):
    """How firm a prior is, in rows: ν and τ; 0 without a prior."""

    alike: float = 0.0
    diagonal: float = 0.0


def _group_means(values: np.ndarray, groups: int) -> np.ndarray:
    """The mean over the components of each mixture, repeated for each component."""
    by_group = values.reshape(groups, -1, *values.shape[1:])
    means = np.add.reduce(by_group, axis=1, keepdims=True) / by_group.shape[1]
    return np.broadcast_to(means, by_group.shape).reshape(values.shape)


@dataclass(frozen=True)
class LogNormalPrior:
    """log Σ_k is normal about L with the weight of ``strength`` rows; ``centre`` fixes L if given.

    ``pull`` does the arithmetic for variances or matrices; each variance occurs ``times`` times in
    Σ. The prior has no effect on a single covariance or on one that all components share. If the
    ``customary`` strength is given, the strength of a fit is learned, with that as a first guess.
    Matrices are held to the axes of the features, x = ``axes`` z + c, by ``diagonal`` rows.
    """

    pull: type[Pull]
    strength: float
    times: int = 1
    centre: np.ndarray | None = None
    customary: float | None = None
    axes: Any = None
    diagonal: float = 0.0

    @property
    def strengths(self) -> Strengths:
        return Strengths(self.strength, self.diagonal)

    def of_strengths(self, found: Strengths) -> LogNormalPrior:
        """The same with the strengths that a fit has found."""
        return replace(self, strength=found.alike, diagonal=found.diagonal)

    def along(self, axes: np.ndarray | float) -> LogNormalPrior:
        """The same in coordinates z, where x = ``axes`` z + c, so that τ can be learned."""
        return replace(self, axes=np.asarray(axes)) if self.pull.joint else self

    def at(self, covariances: np.ndarray, groups: int = 1) -> Pull:
        """Evaluate the prior at the covariances of some mixtures, stored one after the other."""
        return self.pull(self, covariances, groups)

    def centres(self, logs: np.ndarray, groups: int) -> np.ndarray:
        """L of each of some mixtures, in a shape that broadcasts to the logarithms (S m, …)."""
        return _group_means(logs, groups) if self.centre is None else self.centre

    def drift(self, moved: np.ndarray, rows: np.ndarray, groups: int) -> np.ndarray | float:
        """How far L moves if it follows the logarithms of the covariances, and they follow L.

        ``moved`` (S m, …) is how far they move with L fixed, and ``rows`` the total weight of each.
        If L moves by s, each moves by another ν s / rows, and s must be the mean of these sums.
        """
        if self.centre is not None:
            return 0.0
        share = _group_means(self.strength / rows, groups)
        s = _group_means(moved, groups) / (1 - share)
        size = np.sqrt(np.einsum("kij,kij->k", s, s)) if s.ndim > 2 else np.abs(s)
        size = size.reshape(size.shape + (1,) * (s.ndim - size.ndim))
        # Longer steps could make covariances negative.
        return np.asarray(s / np.maximum(size, 1.0))

    def pool(self, counts: np.ndarray, scatter: np.ndarray, groups: int = 1) -> np.ndarray:
        """Rough covariances, as if the prior's rows had covariance exp L, or that of all rows."""
        if self.diagonal:
            turned = self.axes @ scatter @ self.axes.T
            counts, scatter = self.hold(counts, scatter, np.diagonal(turned, axis1=1, axis2=2))
        rows = counts.reshape(-1, *[1] * (scatter.ndim - 1))
        if self.centre is None or np.ndim(self.centre) < scatter.ndim - 1:  # L lacks loadings
            common = _group_means(rows * scatter, groups) / _group_means(rows, groups)
        else:
            common = self.pull.exponential(self.centre)
        return np.asarray((rows * scatter + self.strength * common) / (rows + self.strength))

    def hold(
        self, counts: np.ndarray, scatter: np.ndarray, variances: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Counts and scatter with the rows along the axes, of these variances (m, n) in X."""
        inverse, own = np.linalg.inv(self.axes), counts[:, None, None]
        rows = self.diagonal * (inverse * variances[:, None, :]) @ inverse.T
        return counts + self.diagonal, (own * scatter + rows) / (own + self.diagonal)

    def beside(self, rows: float) -> LogNormalPrior:
        """The same, with at most ``MOST_STRENGTH`` times the strength of the rows it is beside."""
        return self.of_strengths(Strengths(*np.minimum(self.strengths, MOST_STRENGTH * rows)))

    def about(self, centre: np.ndarray) -> LogNormalPrior:
        """The same prior with L fixed at ``centre``."""
        return replace(self, centre=centre)

    def learned(self, counts: np.ndarray, scatter: np.ndarray, at: Pull) -> LogNormalPrior:
        """The same with the strengths under which the scatter C_k of n_k rows is most probable.

        ``at`` is the prior at the covariances of the fit, and ``counts`` (m,) are the n_k.
        """
        if self.customary is None or len(counts) < 2:
            return self
        customary, size = self.customary, scatter.shape[-1] if at.joint else 1
        rows, degrees = self.times * np.maximum(counts - 1, 0), self.times * customary * SHARES

        def likeliest(spectra: np.ndarray) -> float:
            spectra = self.times * counts[:, None] * np.maximum(spectra, 0)
            evidence = log_evidence(degrees + size + 1, rows, spectra, size)
            return float(customary * SHARES[np.argmax(evidence - np.log(SHARES) ** 2 / SPREAD)])

        alike, *others = map(likeliest, at.spectra(scatter))
        return self.of_strengths(Strengths(alike, *(one * (one > customary) for one in others)))


#: The halvings of an interval of log scales of a few units, which leave an error of about 1e-8.
HALVINGS = 30


def log_evidence(
    degrees: np.ndarray, rows: np.ndarray, spectra: np.ndarray, size: int
) -> np.ndarray:
    """How probable scatter matrices W_k are if covariances are drawn about a common one; (g,).

    The covariance of component k has an inverse Wishart distribution with d ``degrees`` and scale
    u Λ, and W_k given it a Wishart distribution with f_k degrees, ``rows`` (m,). If e_k are the
    eigenvalues of Λ^(-1/2) W_k Λ^(-1/2), the logarithm is, up to a constant,

        Σ_k [log Γ_n((d + f_k)/2) - log Γ_n(d/2) + (d/2) Σ_j log u - (d + f_k)/2 Σ_j log(u + e_kj)]

    at its maximum over u, which bisection finds: the slope falls in log u. Such matrices have
    ``size`` n; ``spectra`` (m, q) may hold those of q / n independent ones. The result is one
    number for each d (g,). It stands in for the evidence of the log-normal prior, which has no
    closed form; both have nearly the same spread for large d. O(g m q).
    """
    m, q = spectra.shape
    half, own = degrees / 2, (degrees[:, None] + rows) / 2  # (g,), (g, m)
    places = np.arange(size) / 2
    gammas = gammaln(own[:, :, None] - places).sum(axis=(1, 2))
    gammas -= m * gammaln(half[:, None] - places).sum(axis=1)
    logs = np.log(np.maximum(spectra, 1e-12 * max(float(spectra.max()), 1e-300)))
    middle = np.log(m * half / np.maximum(rows.sum() / 2, 1e-300))
    low, high = middle + logs.min(), middle + logs.max()
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        shares = 1 / (1 + np.exp(logs - middle[:, None, None]))  # u / (u + e)
        rising = m * q * half > np.sum(own[:, :, None] * shares, axis=(1, 2))
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    beside = np.logaddexp(middle[:, None, None], logs)
    spread = m * q * half * middle - np.sum(own[:, :, None] * beside, axis=(1, 2))
    return np.asarray(q / size * gammas + spread)


class Pull(ABC):
    """The prior evaluated at covariances Σ_k: penalties, gradients and a step of the M-step."""

    joint: ClassVar[bool]  # the directions of a component belong to one matrix
    centre: np.ndarray  # L
    penalties: np.ndarray  # (m,), of each component

    @abstractmethod
    def __init__(self, prior: LogNormalPrior, covariances: np.ndarray, groups: int) -> None: ...

    @staticmethod
    @abstractmethod
    def exponential(logarithm: np.ndarray) -> np.ndarray:
        """The covariance exp L for one L."""

    @abstractmethod
    def spectra(self, scatter: np.ndarray) -> list[np.ndarray]:
        """The eigenvalues of Λ^(-1/2) C_k Λ^(-1/2) for scatter C_k and Λ = exp L; (m, any).

        If axes are known, also those for the diagonals of Σ_k along them in place of Λ.
        """

    @abstractmethod
    def gradients(self) -> np.ndarray:
        """The gradients of the sum of the penalties; the terms from moving L cancel."""

    @abstractmethod
    def step(self, counts: np.ndarray, scatter: np.ndarray) -> np.ndarray:
        """Covariances that increase -½ Σ_k n_k (log|Σ_k| + tr C_k Σ_k⁻¹) - penalty.

        The penalty is replaced by that of ν' rows of covariance Ψ_k with the same gradient at Σ_k,
        Ψ_k = Σ_k - (ν/ν') Σ_k (∂log_Σk [log Σ_k - L]) Σ_k, which makes the maximum explicit:
        (n_k C_k + ν' Ψ_k) / (n_k + ν'). With ν' = ν (1 + the largest positive diagonal entry of
        log Σ_k - L in the eigenvectors of Σ_k), the curvature is right and Ψ_k positive if the
        matrices commute. The movement of L is added, because otherwise a strong prior would hold
        the covariances in place. The line from Σ_k to the result always starts uphill, but a long
        step may overshoot.
        """


class PullOfVariances(Pull):
    """The prior for variances, entry by entry. A spherical one counts for each of n features."""

    joint = False

    def __init__(self, prior: LogNormalPrior, variances: np.ndarray, groups: int) -> None:
        self.prior, self.groups = prior, groups
        self.strength, self.variances = prior.strength, variances
        logs = np.log(variances)
        self.centre = prior.centres(logs, groups)
        self.away = logs - self.centre
        squares = (self.away**2).reshape(len(logs), -1).sum(axis=1)
        self.penalties = prior.strength / 4 * prior.times * squares

    @staticmethod
    def exponential(logarithm: np.ndarray) -> np.ndarray:
        return np.asarray(np.exp(logarithm))

    def spectra(self, scatter: np.ndarray) -> list[np.ndarray]:
        return [(scatter / np.exp(self.centre)).reshape(len(scatter), -1)]

    def gradients(self) -> np.ndarray:
        return np.asarray(self.strength / 2 * self.prior.times * self.away / self.variances)

    def step(self, counts: np.ndarray, scatter: np.ndarray) -> np.ndarray:
        counts = counts.reshape(-1, *[1] * (scatter.ndim - 1))
        rows = self.strength * (1 + np.maximum(self.away, 0))
        pulled = (rows - self.strength * self.away) * self.variances
        rows = counts + rows
        result = (counts * scatter + pulled) / rows
        drift = self.prior.drift(result / self.variances - 1, rows, self.groups)
        return np.asarray(result + self.strength / rows * drift * self.variances)


class PullOfMatrices(Pull):
    """The prior for matrices, with one eigendecomposition for each component."""

    joint = True

    def __init__(self, prior: LogNormalPrior, matrices: np.ndarray, groups: int) -> None:
        self.prior, self.groups = prior, groups
        self.strength, self.matrices = prior.strength, matrices
        values, self.vectors = eigen(matrices)
        self.values = np.maximum(values, 1e-300)
        self.logs = np.log(self.values)
        turned = self.vectors.swapaxes(1, 2)
        logarithms = (self.vectors * self.logs[:, None, :]) @ turned
        self.centre = prior.centres(logarithms, groups)
        away = logarithms - self.centre
        self.penalties = prior.strength / 4 * np.einsum("kij,kij->k", away, away)
        self.away = turned @ away @ self.vectors
        if prior.diagonal:
            inverse = np.linalg.inv(prior.axes)
            self.along = turned @ inverse  # (m, n, n)
            self.variances = 1 / np.sum(self.along**2 / self.values[:, :, None], axis=1)
            volume = 2 * np.linalg.slogdet(inverse)[1]
            bracket = np.sum(self.logs - np.log(self.variances), axis=1) - volume
            self.penalties = self.penalties + prior.diagonal / 2 * bracket

    @staticmethod
    def exponential(logarithm: np.ndarray) -> np.ndarray:
        values, vectors = eigen(logarithm)
        return np.asarray((vectors * np.exp(values)) @ vectors.T)

    def _slopes(self) -> np.ndarray:
        """∂log_Σ B has the entries (log d_i - log d_j) / (d_i - d_j) B_ij in the eigenvectors.

        These are h / sinh h / √(d_i d_j) for h = (log d_i - log d_j) / 2, and here they lack the
        root, as in coordinates where Σ = I.
        """
        halves = (self.logs[:, :, None] - self.logs[:, None, :]) / 2
        return np.asarray(halves / np.where(halves == 0, 1.0, np.sinh(halves)) + (halves == 0))

    def spectra(self, scatter: np.ndarray) -> list[np.ndarray]:
        values, vectors = eigen(self.centre[0])
        sides, axes = [np.exp(-values / 2)[:, None] * vectors.T], self.prior.axes
        if axes is not None and len(values) > 1:
            variances = np.diagonal(axes @ self.matrices @ axes.T, axis1=1, axis2=2)
            sides.append(axes / np.sqrt(variances)[:, :, None])
        return [eigen(side @ scatter @ side.swapaxes(-1, -2))[0] for side in sides]

    def gradients(self) -> np.ndarray:
        roots = np.sqrt(self.values)[:, None, :]
        white, inside = self.vectors / roots, self.strength * self._slopes() * self.away
        if self.prior.diagonal:
            sides = self.along / roots.swapaxes(1, 2)
            held = (sides * self.variances[:, None, :]) @ sides.swapaxes(1, 2)
            inside -= self.prior.diagonal * (held - np.eye(len(held[0])))
        return np.asarray(white @ inside @ white.swapaxes(1, 2) / 2)

    def step(self, counts: np.ndarray, scatter: np.ndarray) -> np.ndarray:
        nu, V, roots = self.strength, self.vectors, np.sqrt(self.values)[:, None, :]
        turned, white, side = V.swapaxes(1, 2), V / roots, V * roots
        if self.prior.diagonal:
            counts, scatter = self.prior.hold(counts, scatter, self.variances)
        furthest = np.einsum("kii->ki", self.away).max(axis=1)
        rows = counts + nu * (1 + np.maximum(furthest, 0))
        own, share = (counts / rows)[:, None, None], (nu / rows)[:, None, None]
        # How far each covariance moves, in its eigenvectors and in units of itself.
        move = own * (white.swapaxes(1, 2) @ scatter @ white - np.eye(V.shape[1]))
        move -= share * (self._slopes() * self.away)
        if self.prior.centre is None:
            drift = self.prior.drift(V @ move @ turned, rows[:, None, None], self.groups)
            move += share * (turned @ drift @ V)
        result = self.matrices + side @ move @ side.swapaxes(1, 2)
        return np.asarray((result + result.swapaxes(1, 2)) / 2)


#: The factor in ``anchor_rows``; it matters only for data with gaps. Chosen on the tables TUNED of
#: benchmarks/real.py by the likelihood of held-out rows.
STRENGTH = 0.25


def anchor_rows(n: int, share: float, whole: float) -> float:
    """ε for n features, a share of cells that are gaps, and ``whole`` rows without gaps.

    A matrix has n² entries, and gaps hide the given share of the rows from each. Once there are n
    complete rows for each component, they begin to determine the matrix, so ε decreases.
    """
    return STRENGTH * n**2 * share * n / (n + whole)


@dataclass(frozen=True)
class Anchor:
    """The prior of ε ``rows`` in coordinates where Ψ = I, for each matrix or a shared one."""

    rows: float

    def penalties(self, matrices: np.ndarray, groups: int = 1) -> np.ndarray:
        """The penalties of S mixtures, whose matrices are stored one after the other; (S,)."""
        values = np.maximum(np.linalg.eigvalsh(matrices).reshape(groups, -1), 1e-300)
        return np.asarray(self.rows / 2 * np.sum(np.log(values) + 1 / values - 1, axis=1))

    def gradients(self, matrices: np.ndarray) -> np.ndarray:
        """The gradients of the penalties in the matrices."""
        inverse = np.linalg.inv(matrices)
        return np.asarray(self.rows / 2 * (inverse - inverse @ inverse))

    def pool(self, counts: np.ndarray, scatter: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Add the artificial rows to counts (m,) and scatter: new counts and covariances.

        Scatter is (m, n, n), or (n, n) for all components together.
        """
        own = counts.sum() if scatter.ndim == 2 else counts[:, None, None]
        together = (own * scatter + self.rows * np.eye(scatter.shape[-1])) / (own + self.rows)
        return counts + self.rows, np.asarray(together)
