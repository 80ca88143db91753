"""Rows in memory, in the coordinates of a fit: densities, and the sums that a fit needs of them.

The log density of a Gaussian is linear in x and in quadratic features of x, which depend on the
covariance type. So an E-step is two matrix products and a softmax, and an M-step two products more;
one matrix that all components share needs no features (``needs_no_features``). ``Passes`` makes the
products in blocks, on a thread per core; device.py makes the same passes on a device.

``Rows`` says what a fit asks of its rows, wherever they are. Rows in memory can do more: a search
looks at them one by one, divides them, and draws others like them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Concatenate, NamedTuple, ParamSpec, TypeVar

import numpy as np
from scipy.linalg.blas import dtrmm

from momentmix.covariance import Full, Kind
from momentmix.distributions.mixture import Mixture
from momentmix.fit import Parameters, outlier_share
from momentmix.rows.frame import LARGE_DATA, by_distance
from momentmix.rows.screening import Crowding
from momentmix.support.array import to_numpy
from momentmix.support.parallel import parallel_map, worker_count

if TYPE_CHECKING:
    from typing_extensions import Self


#: The terms of a log density cancel near the mean. Above this size they cost more than eight of the
#: sixteen digits of float64, and the density is computed from distances instead.
SHARP = 1e8


class Sums(NamedTuple):
    """What an EM step needs of the rows: sums over them, with weights w and responsibilities R."""

    log_likelihoods: np.ndarray  # of each of S mixtures; (S,)
    shares: np.ndarray  # Σ w R; (S m,)
    firsts: np.ndarray  # Σ w R xᵀ; (S m, n)
    seconds: np.ndarray  # Σ w R (features of x)ᵀ; (S m, width)


class Box(NamedTuple):
    """The box of a background: rows that belong to no component are spread evenly over it.

    ``log_volume`` converts densities in the units of X to those in the coordinates of a fit.
    """

    widths: np.ndarray  # in the units of X; (n,)
    log_volume: float
    most: float  # the largest share of rows that may belong to no component

    @property
    def log_density(self) -> float:
        """The log density of the background, without its share."""
        return self.log_volume - float(np.sum(np.log(self.widths)))


class Peaks(NamedTuple):
    """Components so narrow that their densities are computed from distances to their means."""

    kind: Kind
    numbers: np.ndarray  # (J,)
    parameters: Parameters  # of these components alone

    @classmethod
    def of(cls, kind: Kind, parameters: Parameters, numbers: np.ndarray) -> Peaks:
        weights, means, covariances = parameters
        own = Parameters(
            weights[numbers], means[numbers], kind.take_components(covariances, numbers)
        )
        return cls(kind, numbers, own)

    def log_joint(self, X: np.ndarray) -> np.ndarray:
        """(J, p)"""
        weights, means, covariances = self.parameters
        squares, half_logs = self.kind.whitened_squares(covariances, X - means[:, None, :])
        constant = np.log(np.maximum(weights, 1e-300)) - half_logs
        return (constant - X.shape[1] * np.log(2 * np.pi) / 2)[:, None] - squares / 2

    def one_by_one(self) -> Iterator[tuple[int, float, np.ndarray, np.ndarray]]:
        """Number, constant, mean μ and factor U of each: constant - ‖(x - μ)U‖² / 2 is its part.

        For diagonal types U is entrywise, a number or (n,).
        """
        weights, means, covariances = self.parameters
        own = self.kind.of(covariances, means.shape[1])
        factors = self.kind.precision_cholesky(covariances)[1]
        constants = np.log(np.maximum(weights, 1e-300)) - own.half_log_determinants()
        constants = constants - means.shape[1] * np.log(2 * np.pi) / 2
        for i, j in enumerate(self.numbers):
            factor = factors if self.kind.common else factors[i]
            yield int(j), float(constants[i]), means[i], np.asarray(factor)


#: The power ρ to which weights are raised where clusters are sought. With 1, one component for all
#: rows is often best; with less than 0.884 (for the sharpness 1.25), two components that share one
#: Gaussian cluster gain. In between that just does not pay, and clusters may overlap the most.
RHO = 0.9


def blunt(sharpness: float) -> float:
    """The power of weights beside densities: 1 for a likelihood, ρ if clusters are sought."""
    return 1.0 if sharpness == 1 else RHO


def blunted(parameters: Parameters, sharpness: float) -> Parameters:
    """The parameters with weights λ^ρ."""
    return parameters._replace(weights=parameters.weights ** blunt(sharpness))


@dataclass(frozen=True)
class Density:
    """log λ_j N(x; μ_j, Σ_j) = constant_j + linear_jᵀx + quadratic_jᵀ(features of x).

    With a ``sharpness`` above 1, it is the logarithm of λ_j^ρ N(x; μ_j, Σ_j).
    """

    kind: Kind
    parameters: Parameters  # of S mixtures, one after the other, with weights λ^ρ
    groups: int = 1  # S
    sharpness: float = 1.0  # γ of ``softmax``

    @classmethod
    def of(
        cls, kind: Kind, parameters: Parameters, groups: int = 1, sharpness: float = 1.0
    ) -> Density:
        return cls(kind, blunted(parameters, sharpness), groups, sharpness)

    @cached_property
    def coefficients(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Constant (S m,), linear (S m, n) and quadratic (S m or 1, width)."""
        weights, means, covariances = self.parameters
        constant, linear, quadratic = self.kind.log_density_coefficients(means, covariances)
        return constant + np.log(np.maximum(weights, 1e-300)), linear, quadratic

    @cached_property
    def peaks(self) -> Peaks | None:
        """Components whose three terms cancel too far."""
        # Near its mean a component is the difference of terms of this size.
        means, quadratic = self.parameters.means, self.coefficients[2]
        sizes = np.max(-quadratic, axis=1) * (1 + np.einsum("ij,ij->i", means, means))
        sharp = np.flatnonzero(np.broadcast_to(sizes, len(means)) > SHARP)
        return Peaks.of(self.kind, self.parameters, sharp) if len(sharp) else None

    @cached_property
    def each(self) -> list[tuple[int, float, np.ndarray, np.ndarray]]:
        """All components as distances to their means, one by one."""
        everyone = np.arange(len(self.parameters.weights))
        return list(Peaks.of(self.kind, self.parameters, everyone).one_by_one())

    @cached_property
    def loadings(self) -> np.ndarray | None:
        """V of further terms ‖V_jᵀx‖² / 2; (S m, n, q)."""
        return self.kind.precision_loadings(self.parameters.covariances)

    def products(self, X: np.ndarray) -> np.ndarray | None:
        """V_jᵀx for each row and component, if there are loadings; (p, S m, q)."""
        if self.loadings is None:
            return None
        V = self.loadings.swapaxes(0, 1)
        return np.asarray((X @ V.reshape(len(V), -1)).reshape(len(X), *V.shape[1:]))

    def log_joint(
        self, X: np.ndarray, squares: np.ndarray | None, products: np.ndarray | None = None
    ) -> np.ndarray:
        """(S m, p), with samples contiguous in memory, because the next steps run over samples.

        Without the features of the rows, their squares are those of xᵀU or (x - μ_j)ᵀU_j.
        """
        if squares is None and not self.kind.common:
            L = np.empty((len(self.each), len(X)))
            for j, level, mean, U in self.each:
                Y = dtrmm(1.0, U, (X - mean).T, trans_a=1, overwrite_b=1)
                L[j] = level - np.einsum("ij,ij->j", Y, Y) / 2
            return L
        constant, linear, quadratic = self.coefficients
        L = linear @ X.T
        if squares is None:
            Y = X @ self.kind.precision_cholesky(self.parameters.covariances)[1]
            L -= np.einsum("ij,ij->i", Y, Y) / 2
        else:
            L += quadratic @ squares.T
        products = self.products(X) if products is None else products
        if products is not None:
            L += np.einsum("pjq,pjq->jp", products, products) / 2
        L += constant[:, None]
        if self.peaks is not None:
            L[self.peaks.numbers] = self.peaks.log_joint(X)
        return L

    def step_sums(
        self,
        X: np.ndarray,
        squares: np.ndarray | None,
        weights: np.ndarray,
        background: np.ndarray | None = None,
    ) -> Sums:
        """The sums of EM steps over some rows; ``background`` (S, 1, p) is that of ``softmax``.

        Weights are those of the rows (p,), or of the rows for each mixture (S, p).
        """
        products = self.products(X)
        L = self.log_joint(X, squares, products).reshape(self.groups, -1, len(X))
        R, log_density = softmax(L, 1, background, self.sharpness)
        R *= weights if weights.ndim == 1 else weights[:, None]
        R = R.reshape(-1, len(X))
        values, seconds = np.vecdot(log_density, weights), seconds_of(self.kind, R, X, squares)
        if products is not None:
            seconds = self.with_products(seconds, R, X, products)
        return Sums(values, R.sum(axis=1), R @ X, seconds)

    def with_products(
        self, seconds: np.ndarray, R: np.ndarray, X: np.ndarray, products: np.ndarray
    ) -> np.ndarray:
        """Seconds with Σ r x (V_jᵀx)ᵀ beside them, and Σ r times the covariances that V is from."""
        (m, p), n = R.shape, X.shape[1]
        weighted = (products * R.T[:, :, None]).reshape(p, -1)
        own = (X.T @ weighted).reshape(n, m, -1).swapaxes(0, 1).reshape(m, -1)
        present = R.sum(axis=1, keepdims=True) * self.parameters.covariances.reshape(m, -1)
        return np.concatenate([seconds, own, present], axis=1)


#: From so many columns on, a matrix for each component is multiplied with the rows themselves. The
#: n²/2 features of a row then no longer fit the caches; for five components both ways took the same
#: time at 50 columns, and at 100 the features took twice as long.
WIDE = 50
#: Responsibilities below this share of a component's own sum change no digit of its covariance.
NEGLIGIBLE = 1e-20


def needs_no_features(kind: Kind, n: int) -> bool:
    """Whether products of n columns each, with X, take the place of n²/2 features of each row.

    It is so for one matrix that all components share: the density needs xᵀΣ⁻¹x once for all, and
    the M-step asks for sums over components alone. It is so for any matrices of many columns, too.
    """
    return not kind.thin and (kind.common or n >= WIDE)


def seconds_of(kind: Kind, R: np.ndarray, X: np.ndarray, squares: np.ndarray | None) -> np.ndarray:
    """Σ r (features of x)ᵀ for each component, with r in R (m, p); (m, width).

    Without features it is XᵀDX with D = diag r_j or, if all share one matrix, D = diag Σ_j r_j,
    which is divided among components by their shares.
    """
    if squares is not None:
        return np.asarray(R @ squares)
    if not kind.common:
        matrices = np.empty((len(R), X.shape[1], X.shape[1]))
        for matrix, r in zip(matrices, R, strict=True):
            rows = np.flatnonzero(r > NEGLIGIBLE * r.sum())
            Y = X[rows] * np.sqrt(r[rows, None])
            np.matmul(Y.T, Y, out=matrix)
        return kind.features_of_seconds(matrices)
    together = Full.features_of_seconds(((X.T * R.sum(axis=0)) @ X)[None])
    shares = R.sum(axis=1, keepdims=True)
    return np.asarray(shares / np.maximum(shares.sum(), 1e-300) * together)


def softmax(
    L: np.ndarray,
    axis: int = 1,
    background: np.ndarray | None = None,
    sharpness: float = 1.0,
) -> tuple[np.ndarray, np.ndarray]:
    """exp(γL) with sum 1 along the axis, and 1/γ times the logarithms of the sums.

    γ is the ``sharpness``: 1 for probabilities, and with more of it they are nearer to 0 and 1. A
    ``background``, of length 1 along the axis, is one more term of the sums. The result lacks its
    share. L is overwritten.
    """
    if sharpness != 1:
        L *= sharpness
        background = None if background is None else sharpness * background
    highest = L.max(axis=axis, keepdims=True)
    if background is not None:
        highest = np.maximum(highest, background)
    L -= highest
    np.exp(L, out=L)
    total = L.sum(axis=axis, keepdims=True)
    if background is not None:
        total += np.exp(background - highest)
    L /= total
    return L, np.squeeze(highest + np.log(total), axis=axis) / sharpness


#: No variance is less while loadings are first found, in units of the variance of the data. A round
#: number that was not tuned; EM goes on from there, with the floor of the fit.
OPENING_FLOOR = 1e-6
#: The size of a block of rows, and the size up to which products of pairs of features are kept, in
#: bytes. These are round numbers: results do not depend on them, only memory and speed do.
_BLOCK_BYTES, _CACHE_BYTES = 4 << 20, 256 << 20
T = TypeVar("T")


class Passes:
    """Rows X (p, n), and the passes over them for mixtures of one covariance type.

    If ``keeps``, products of pairs of features are kept for later passes if they fit.
    """

    def __init__(self, X: np.ndarray, kind: Kind, keeps: bool = True) -> None:
        self.X, self.kind, self.keeps = X, kind, keeps
        n = X.shape[1]
        width = n if needs_no_features(kind, n) else kind.width(n)
        self._step = max(256, _BLOCK_BYTES // (8 * (2 * n + width)))
        self._products: tuple[np.ndarray, np.ndarray] | None = None  # weights, and sums of products

    def part(self, rows: np.ndarray) -> Passes:
        """The same for some of the rows."""
        return Passes(self.X[rows], self.kind)

    @cached_property
    def _features(self) -> np.ndarray | None:
        """Quadratic features of all rows, or None if each block makes its own.

        Squares of features are cheap and made again; products of pairs are kept if they fit.
        """
        p, n = self.X.shape
        fit = 8 * p * self.kind.width(n) <= _CACHE_BYTES
        keep = self.keeps and fit and not self.kind.thin
        if not keep and p > self._step:
            return None
        return np.ascontiguousarray(to_numpy(self.kind.features(self.X)))

    def quadratic(self, rows: slice) -> np.ndarray | None:
        """The quadratic features of a block of rows; None if they are not needed."""
        if needs_no_features(self.kind, self.X.shape[1]):
            return None
        if self._features is not None:
            return self._features[rows]
        return to_numpy(self.kind.features(self.X[rows]))

    def over_blocks(self, function: Callable[[slice], T], most: int | None = None) -> list[T]:
        """function(rows) for all rows in blocks, of at most about ``most`` rows each."""
        step = self._step if most is None else max(256, min(most, self._step))
        blocks = [slice(a, a + step) for a in range(0, len(self.X), step)]
        if len(blocks) == 1:
            return [function(blocks[0])]
        return parallel_map(function, blocks, worker_count(np))

    def log_joint(self, density: Density) -> np.ndarray:
        """log λ_j N(x_i; μ_j, Σ_j); (p, m)."""

        def block(rows: slice) -> np.ndarray:
            return density.log_joint(self.X[rows], self.quadratic(rows)).T

        return np.concatenate(self.over_blocks(block))

    def sums(
        self,
        density: Density,
        weights: np.ndarray,
        background: np.ndarray | None = None,
    ) -> Sums:
        """The sums of EM steps over the rows; ``background`` (S, 1, p) is that of ``softmax``."""
        common = needs_no_features(self.kind, 0) and weights.ndim == 1
        if common and background is None and density.peaks is None:
            return self._sums_of_one_matrix(density, weights)

        def block(rows: slice) -> Sums:
            beyond = None if background is None else background[..., rows]
            return density.step_sums(self.X[rows], self.quadratic(rows), weights[..., rows], beyond)

        return add_up(self.over_blocks(block))

    def _sums_of_one_matrix(self, density: Density, weights: np.ndarray) -> Sums:
        """The same for components that share one matrix, without products of n columns.

        The term xᵀΣ⁻¹x does not decide between components, and responsibilities sum to 1: the sum
        of products of two features over all rows is the same in every step.
        """
        if self._products is None or self._products[0] is not weights:
            together = Full.features_of_seconds(((self.X.T * weights) @ self.X)[None])
            self._products = weights, together[0]
        constant, linear, quadratic = density.coefficients

        def block(rows: slice) -> Sums:
            L = linear @ self.X[rows].T + constant[:, None]
            R, log_density = softmax(L[None], 1, None, density.sharpness)
            R = R[0] * weights[rows]
            rest = np.zeros((len(R), 0))
            return Sums(log_density @ weights[rows], R.sum(axis=1), R @ self.X[rows], rest)

        sums, squares = add_up(self.over_blocks(block)), self._products[1]
        values = sums.log_likelihoods + quadratic[0] @ squares
        share = sums.shares[:, None] / max(sums.shares.sum(), 1e-300)
        return sums._replace(log_likelihoods=values, seconds=share * squares)

    def weighted_sums(self, R: np.ndarray, weights: np.ndarray) -> Sums:
        """The sums with responsibilities R (p, m) that are given.

        If an M-step improves covariances, the sums are those after a few such steps.
        """
        density: Density | None = None

        def block(rows: slice) -> Sums:
            X, weighted = self.X[rows], (R[rows] * weights[rows, None]).T
            seconds = seconds_of(self.kind, weighted, X, self.quadratic(rows))
            if density is not None and (products := density.products(X)) is not None:
                seconds = density.with_products(seconds, weighted, X, products)
            return Sums(np.zeros(1), weighted.sum(axis=1), weighted @ X, seconds)

        sums = add_up(self.over_blocks(block))
        for _ in range(self.kind.opening_steps):
            _, shares, firsts, seconds = sums
            safe = np.maximum(shares, 1e-300)[:, None]
            covariances = self.kind.estimate(shares, firsts / safe, seconds / safe)
            covariances = self.kind.raise_to(covariances, OPENING_FLOOR)
            density = Density.of(self.kind, Parameters(shares, firsts / safe, covariances))
            sums = add_up(self.over_blocks(block))
        return sums


def add_up(parts: list[Sums]) -> Sums:
    """Add the sums over parts of the rows."""
    if len(parts) == 1:
        return parts[0]
    return Sums(*(sum(part, start=np.zeros(())) for part in zip(*parts, strict=True)))


Arguments = ParamSpec("Arguments")


class Rows(ABC):
    """Rows that make the sums of EM steps, for mixtures of one covariance type."""

    kind: Kind
    count: float  # how many samples the rows count for
    complete: bool = True  # they have neither gaps nor errors, so one component has a closed form

    @property
    @abstractmethod
    def here(self) -> MemoryRows | None:
        """Rows in memory, all or a sample; None if no rows are in memory."""

    @abstractmethod
    def sums(
        self,
        parameters: Parameters,
        groups: int = 1,
        box: Box | None = None,
        sharpness: float = 1.0,
    ) -> Sums:
        """The sums of an EM step of some mixtures over all rows, of total weight 1: one pass.

        With a box, rows may belong to no component. ``softmax`` says what the sharpness is.
        """

    def log_likelihood(
        self, parameters: Parameters, box: Box | None = None, sharpness: float = 1.0
    ) -> float:
        """The mean over the rows."""
        return float(self.sums(parameters, 1, box, sharpness).log_likelihoods[0])

    def total(
        self,
        function: Callable[Concatenate[MemoryRows, Arguments], tuple[np.ndarray, ...]],
        *arguments: Arguments.args,
        **named: Arguments.kwargs,
    ) -> tuple[np.ndarray, ...]:
        """The sums of a function over all rows, whose weights sum to 1.

        The function takes rows in memory, which may be a block of them.
        """
        raise NotImplementedError


class Expectations(NamedTuple):
    """The E-step of a block of B rows, in the coordinates of a fit.

    v is the row without gaps and errors. If x has neither, v = x, and there are no covariances.
    """

    responsibilities: np.ndarray  # (m, B)
    deviations: np.ndarray  # E[v - μ_j | x_i, j]; (m, B, n)
    covariances: np.ndarray | None  # Cov[v | x_i, j]; (m, B, n, n)


class MemoryRows(Rows):
    """Rows X (p, n) in memory, centred and scaled.

    ``weights`` (p,) sum to 1, and None means equal ones; together they count for ``count`` rows, by
    default p. ``to_features`` (n, n) maps these coordinates to features in their own units, if they
    differ. ``crowding`` tells which rows stand alone, if that is known.
    """

    def __init__(
        self,
        X: np.ndarray,
        weights: np.ndarray | None,
        kind: Kind,
        count: float | None = None,
        to_features: np.ndarray | None = None,
        crowding: Crowding | None = None,
    ) -> None:
        p = len(X)
        self.X, self.kind, self.to_features = X, kind, to_features
        self.weights = np.full(p, 1 / p) if weights is None else weights
        self.count = float(p) if count is None else count
        self.passes = Passes(X, kind)
        if crowding is not None:
            self.crowding = crowding

    @property
    def here(self) -> MemoryRows:
        return self

    @cached_property
    def crowding(self) -> Crowding:
        """Which rows stand alone."""
        return Crowding.of(self.X, self.weights * self.count)

    # Other rows like these

    def with_passes(self, passes: Passes) -> Self:
        """The same rows, whose passes are made by others, such as those on a device."""
        other = copy(self)
        other.passes = passes
        return other

    def reweight(self, weights: np.ndarray) -> Self:
        """The same rows with other weights, of sum 1."""
        other = copy(self)
        other.weights = weights
        return other

    def counted_as(self, count: float) -> Self:
        """The same rows, which together count for another number of rows."""
        other = copy(self)
        other.count = count
        return other

    def take(
        self, places: np.ndarray, weights: np.ndarray | None = None, share: float = 1.0
    ) -> MemoryRows:
        """Some of the rows, which have new weights and count for a share of all."""
        passes = self.passes.part(places)
        own = MemoryRows(passes.X, weights, self.kind, share * self.count, self.to_features)
        own.passes = passes
        return own

    def sample(self, rng: np.random.Generator) -> MemoryRows:
        """All rows or, of large data, rows drawn by weight."""
        p, n = self.X.shape
        if p * n <= LARGE_DATA:
            return self
        order = by_distance(self.X)  # equal rows are neighbours, and are drawn like one row
        up_to = np.cumsum(self.weights[order])
        draws = np.sort(rng.uniform(0, up_to[-1], max(LARGE_DATA // 2 // n, 2000)))
        return self.take(order[np.minimum(np.searchsorted(up_to, draws, side="right"), p - 1)])

    def draw(
        self, parameters: Parameters, rng: np.random.Generator, box: Box | None = None
    ) -> MemoryRows:
        """Draw as many rows as these count for: from a mixture, and outliers from the rows."""
        p, out = max(round(self.count), 1), self.draw_outliers(parameters, rng, box)
        drawn = draw_points(self.kind, parameters, p - len(out), rng)
        Z = np.concatenate([drawn, self.X[out]])
        return MemoryRows(Z, None, self.kind, self.count, self.to_features)

    def draw_outliers(
        self, parameters: Parameters, rng: np.random.Generator, box: Box | None
    ) -> np.ndarray:
        """Draw outliers from the rows, by their probability to belong to no component; places.

        A constant density without bounds can be fitted, but nothing can be drawn from it.
        """
        if box is None:
            return np.empty(0, dtype=int)
        p = max(round(self.count), 1)
        out = 1 - self.responsibilities(parameters, box)[0].sum(axis=1)
        chances = self.weights * np.maximum(out, 0.0)
        if (total := float(chances.sum())) <= 0:
            return np.empty(0, dtype=int)
        number = min(rng.binomial(p, min(outlier_share(parameters.weights), 1.0)), p - 1)
        return rng.choice(len(chances), number, p=chances / total)

    # Densities

    def log_joint(self, parameters: Parameters) -> np.ndarray:
        """log λ_j N(x_i; μ_j, Σ_j); (p, m)."""
        return self.passes.log_joint(Density.of(self.kind, parameters))

    def log_uniform(self, box: Box) -> np.ndarray:
        """The log density of the background at each row; (p,)."""
        return np.full(len(self.X), box.log_density)

    def background(
        self, parameters: Parameters, box: Box | None, groups: int = 1, sharpness: float = 1.0
    ) -> np.ndarray | None:
        """The log density of the background at the rows, times its share; (S, 1, p)."""
        if box is None:
            return None
        shares = 1 - parameters.weights.reshape(groups, -1).sum(axis=1)
        logs = blunt(sharpness) * np.log(np.maximum(shares, 1e-300))[:, None, None]
        return np.asarray(logs + self.log_uniform(box))

    def responsibilities(
        self, parameters: Parameters, box: Box | None = None, sharpness: float = 1.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Posterior probabilities (p, m) and log densities (p,)."""
        background = self.background(parameters, box, 1, sharpness)
        beyond = None if background is None else background[0].T
        return softmax(self.log_joint(blunted(parameters, sharpness)), 1, beyond, sharpness)

    def log_likelihood(
        self, parameters: Parameters, box: Box | None = None, sharpness: float = 1.0
    ) -> float:
        return float(self.weights @ self.responsibilities(parameters, box, sharpness)[1])

    # Sums

    def sums(
        self,
        parameters: Parameters,
        groups: int = 1,
        box: Box | None = None,
        sharpness: float = 1.0,
    ) -> Sums:
        density = Density.of(self.kind, parameters, groups, sharpness)
        background = self.background(parameters, box, groups, sharpness)
        return self.passes.sums(density, self.weights, background)

    def weighted_sums(self, R: np.ndarray) -> Sums:
        """The sums with responsibilities R (p, m) that are given."""
        return self.passes.weighted_sums(R, self.weights)

    def total(
        self,
        function: Callable[Concatenate[MemoryRows, Arguments], tuple[np.ndarray, ...]],
        *arguments: Arguments.args,
        **named: Arguments.kwargs,
    ) -> tuple[np.ndarray, ...]:
        return function(self, *arguments, **named)

    def each(
        self,
        parameters: Parameters,
        function: Callable[[slice | np.ndarray, Expectations], T],
        most: int | None = None,
        box: Box | None = None,
    ) -> list[T]:
        """function(places, expectations) for all rows in blocks, of at most about ``most`` rows."""
        density, means = Density.of(self.kind, parameters), parameters.means[:, None, :]
        background = self.background(parameters, box)

        def block(rows: slice) -> T:
            L = density.log_joint(self.X[rows], self.passes.quadratic(rows))
            beyond = None if background is None else background[..., rows]
            R, _ = softmax(L[None], axis=1, background=beyond)
            return function(rows, Expectations(R[0], self.X[rows] - means, None))

        return self.passes.over_blocks(block, most)


def draw_points(kind: Kind, parameters: Parameters, p: int, rng: np.random.Generator) -> np.ndarray:
    """Points of the components of a mixture; (p, n)."""
    weights, means, covariances = parameters
    mixture = Mixture(weights / weights.sum(), means, covariances, kind.plain().name)
    return to_numpy(mixture.sample(p, rng)[0])


def random_points(
    X: np.ndarray, weights: np.ndarray | None, m: int, rng: np.random.Generator
) -> np.ndarray:
    """m distinct rows of X, drawn by weight."""
    p = None if weights is None else weights / weights.sum()
    allowed = len(X) if weights is None else int(np.count_nonzero(weights))
    return X[rng.choice(len(X), m, replace=allowed < m, p=p)]


def spread_points(
    X: np.ndarray, weights: np.ndarray | None, m: int, rng: np.random.Generator
) -> np.ndarray:
    """Rows that k-means++ draws far from each other.

    Each is the best of a few, drawn by their squared distances to the nearest of those before. As
    in scikit-learn these few are 2 + log m.
    """
    p = np.full(len(X), 1 / len(X)) if weights is None else weights / weights.sum()
    norms, tried = np.einsum("ij,ij->i", X, X), rng.choice(len(X), 1, p=p)
    squares, found = np.full(len(X), np.inf), []
    for _ in range(m):
        apart = norms + norms[tried, None] - 2 * (X[tried] @ X.T)
        nearer = np.minimum(squares, np.maximum(apart, 0.0))  # (tried, p)
        best = int(np.argmin(nearer @ p))
        found.append(tried[best])
        squares = nearer[best]
        up_to = np.cumsum(p * squares if squares.any() else p)
        draws = rng.uniform(0, up_to[-1], 2 + int(np.log(m)))
        tried = np.minimum(np.searchsorted(up_to, draws, side="right"), len(X) - 1)
    return X[found]
