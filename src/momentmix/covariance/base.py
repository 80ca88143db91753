"""What a covariance type is: all that the rest of the package asks of one, and may ask.

A type is a subclass of :class:`Covariance`, and the class itself is what fits pass around as the
``kind`` of a mixture. A new type is one file with such a class: it states the class variables,
provides every abstract method, overrides the others where it can do better, and is entered in
``validation.py`` if users may name it. ``Variances`` holds what
diagonal types have in common, and ``Matrices`` what the others have.

Methods of an object speak of the covariances of the atoms of a distribution, and are written with
the array API. Methods of the class speak of the type: of its shapes, and of arrays of its shape
that a fit is at work on, which are NumPy's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np

from momentmix.covariance.anchor import Anchor
from momentmix.covariance.coordinates import Coordinates
from momentmix.covariance.prior import LogNormalPrior
from momentmix.covariance.tangent import Tangent
from momentmix.support.array import Array, namespace, to_numpy

#: Multiple of the floor up to which a variance counts as being on it.
NEAR_FLOOR = 1.01


#: What covariances are not to fall below: a variance, variances (n,) or a matrix (n, n).
Bound: TypeAlias = float | np.ndarray


@dataclass(frozen=True)
class Covariance(ABC):
    """The covariances Σ_i of a set of atoms in n features, all in one array.

    ``array`` has scikit-learn's shape, ``shape(g, n)``, where g is the number of atoms, or 1 where
    all atoms share one covariance; the zero of points has None. Nothing is checked.
    """

    array: Any
    n_features: int

    #: What users and model files call the type.
    name: ClassVar[str]
    #: Whether there is nothing to store: the covariance of points.
    zero: ClassVar[bool] = False
    #: Whether all Σ_i are diagonal, so that ``variances`` says all.
    diagonal: ClassVar[bool]
    #: Whether the type keeps its form only if all features change their unit alike.
    one_unit: ClassVar[bool] = False
    #: Whether features stand for themselves, each in a unit of its own: the type keeps its form if
    #: they change their units one by one, but not if the axes are turned.
    by_feature: ClassVar[bool] = False
    #: Whether there is one covariance for all components of a mixture, however many they are.
    common: ClassVar[bool] = False

    @classmethod
    def of(cls, array: Array, n: int) -> Covariance:
        """The covariances in an array of the type's shape; nothing is checked."""
        return cls(array, n)

    @property
    def kind(self) -> Kind:
        return type(self)

    # The covariances of atoms

    @property
    def shared(self) -> bool:
        """Whether all atoms have the one covariance that is stored, as a single one has too."""
        return bool(self.array.shape[0] == 1)

    def take(self, rows: slice) -> Covariance:
        """Those of some of the atoms; a shared one is everybody's."""
        return self if self.shared else self.of(self.array[rows, ...], self.n_features)

    def negative(self) -> Covariance:
        """-Σ_i, which debiasing uses (Lemma A.4 of Pereira–Kileel–Kolda)."""
        return self.of(-self.array, self.n_features)

    @abstractmethod
    def variances(self) -> Array:
        """The diagonals of diagonal Σ_i; (g, n)."""

    @abstractmethod
    def matrices(self) -> Array:
        """Σ_i; (g, n, n)."""

    @abstractmethod
    def times(self, A: Array) -> Array:
        """Σa for each row of A, where all atoms share Σ."""

    @abstractmethod
    def flat(self) -> Array:
        """xᵀΣ_i x as a product with ``features(x)``; (g, width)."""

    @abstractmethod
    def features_vjp(self, X: Array, W: Array) -> Array:
        """The gradient in the rows of X of Σ W ∗ features(X), W (p, width); (p, n)."""

    @abstractmethod
    def collect_flat(self, G: Array) -> Array:
        """From a gradient in ``flat`` (g, width) to that in the array."""

    @abstractmethod
    def collect_variances(self, weights: Array, G: Array) -> Array:
        """From gradients (m, n) in each atom's variances, times weights (m,), to the array's."""

    @abstractmethod
    def collect_matrices(self, weights: Array, G: Array) -> Array:
        """From gradients (m, n, n) in each atom's Σ, times weights (m,), to that in the array."""

    @abstractmethod
    def root(self) -> Array:
        """Factors R_i with R_i R_iᵀ = Σ_i, which colour samples of N(0, I)."""

    @abstractmethod
    def whitener(self) -> tuple[Array, Array]:
        """Factors that whiten, R_i⁻¹, and -log det Σ_i / 2; an error if Σ_i is singular."""

    @abstractmethod
    def apply(self, factors: Array, i: int, Z: Array) -> Array:
        """The factor of atom i, of ``root`` or ``whitener``, times each row of Z."""

    @abstractmethod
    def half_log_determinants(self) -> Array:
        """Those of Σ_i, log det Σ_i / 2; (g,)."""

    @abstractmethod
    def is_definite(self) -> bool:
        """Whether all Σ_i are safely invertible, whatever the units of the features."""

    @abstractmethod
    def marginal(self, features: Array) -> Covariance:
        """Of some of the features."""

    @abstractmethod
    def condition(
        self, kept: Array, given: Array, deltas: Array
    ) -> tuple[Array | float, Covariance]:
        """Shift of the means (m, n_kept) and covariance, given deltas (m, n_given) from means."""

    @abstractmethod
    def projected(self, basis: np.ndarray) -> Covariance:
        """BᵀΣ_i B along an orthonormal basis B (n, r)."""

    @abstractmethod
    def without(self, noise: Covariance) -> Covariance:
        """Σ_i - N, where N is a noise that all atoms share."""

    def _pooled(self, weights: Array, per_atom: Array) -> Array:
        """Σ_i weights_i G_i where the covariance is shared, each weights_i G_i where not."""
        xp = namespace(per_atom)
        weighted = xp.reshape(weights, (-1,) + (1,) * (per_atom.ndim - 1)) * per_atom
        return xp.sum(weighted, axis=0, keepdims=True) if self.shared else weighted

    # Shapes and sizes

    @staticmethod
    @abstractmethod
    def shape(m: int, n: int) -> tuple[int, ...]:
        """Of the array of a mixture of m components: scikit-learn's."""

    @staticmethod
    @abstractmethod
    def width(n: int) -> int:
        """How many quadratic features of x a covariance sees."""

    @staticmethod
    @abstractmethod
    def features(X: Array) -> Array:
        """These features of rows, with the array API; xᵀΣx is linear in them; (p, width)."""

    @staticmethod
    @abstractmethod
    def features_of_seconds(seconds: np.ndarray) -> np.ndarray:
        """Mean features (m, width) from mean products of features with each other, (m, n, n).

        Diagonal types also take the mean squares alone, (m, n).
        """

    @staticmethod
    @abstractmethod
    def free_parameters(m: int, n: int) -> int:
        """Degrees of freedom of the covariances of m components."""

    @staticmethod
    @abstractmethod
    def checked(array: Array, name: str) -> Array:
        """A finite array of a user, symmetric and semidefinite; rounding is taken out of it.

        The argument's ``name`` is for errors. With the array API.
        """

    # Likelihoods

    @staticmethod
    @abstractmethod
    def log_density_coefficients(
        means: np.ndarray, array: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """log N(x; μ_j, Σ_j) = constant_j + linear_j · x + quadratic_j · features(x).

        (m,), (m, n) and (m or 1, width). Cancellation costs a relative 1e-16 of ‖x‖²/σ², nothing
        in centred and scaled coordinates.
        """

    @classmethod
    @abstractmethod
    def whitened_squares(cls, array: np.ndarray, D: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """dᵀΣ_j⁻¹d for differences D (m, p, n) from each mean, and log det Σ_j / 2; (m, p), (m,).

        To the last digits however narrow Σ_j is, at the cost of a product of its own for each.
        """

    @staticmethod
    @abstractmethod
    def precision_cholesky(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Precisions, and their factors U with Σ⁻¹ = U Uᵀ, in the shape of the type.

        LinAlgError where there are none.
        """

    @staticmethod
    @abstractmethod
    def fitted(shares: np.ndarray, means: np.ndarray, seconds: np.ndarray) -> np.ndarray:
        """Covariances of components with given shares, means and mean features (m, width)."""

    @staticmethod
    @abstractmethod
    def outer(difference: np.ndarray) -> np.ndarray:
        """The outer square of a difference of means, as far as one covariance can see it."""

    @staticmethod
    @abstractmethod
    def optimism(counts: np.ndarray, n: int) -> np.ndarray:
        """How much more likely samples are under a Gaussian fitted to them than new ones would be.

        In nats for the means and covariances of components with ``counts`` (m,) samples each.
        """

    @classmethod
    def too_few(cls, counts: np.ndarray, n: int) -> np.ndarray:
        """Whether so many samples overfit a component more than twice as much as many would."""
        return cls.optimism(counts, n) > 2 * cls.optimism(np.array([np.inf]), n)

    # The prior

    @staticmethod
    @abstractmethod
    def customary_strength(n: int) -> float:
        """ν = 3d - 1 rows, d the features whose covariances are free: all n, or each alone (d = 1).

        Chosen on the tables TUNED of benchmarks/real.py, by the likelihood of rows held out.
        """

    @staticmethod
    @abstractmethod
    def prior_of_rows(n: int, rows: float) -> LogNormalPrior | None:
        """The prior that weighs as much as some rows; None where there is none."""

    @classmethod
    def prior(cls, n: int, strength: float | str | None) -> LogNormalPrior | None:
        """That of a strength in rows, or for a word the customary one; None where there is none."""
        if strength is None:
            return None
        rows = cls.customary_strength(n) if isinstance(strength, str) else float(strength)
        return cls.prior_of_rows(n, rows) if rows > 0 else None

    @staticmethod
    @abstractmethod
    def anchor(n: int, share: float, whole: float) -> Anchor | None:
        """What holds covariances if a share of all cells are gaps; None where it is not needed.

        ``whole`` is how many rows without gaps there are for each covariance.
        """

    # Arrays of the type's shape

    @staticmethod
    @abstractmethod
    def repeated(m: int, matrix: np.ndarray) -> np.ndarray:
        """One covariance matrix for all of m components, in the shape of the type.

        Variances (n,) are enough of it where the type is diagonal.
        """

    @staticmethod
    @abstractmethod
    def mapped(array: np.ndarray, A: Bound) -> np.ndarray:
        """A Σ Aᵀ, where A is a number if ``one_unit``, a vector if ``by_feature``, or a matrix."""

    @classmethod
    def taken(cls, array: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The covariances of some of the components."""
        some: np.ndarray = array[rows]
        return some

    @classmethod
    def replaced(cls, array: np.ndarray, rows: list[int], new: np.ndarray) -> np.ndarray:
        """The covariances with those of some components exchanged."""
        array = array.copy()
        array[rows] = new
        return array

    @classmethod
    def stacked(cls, first: np.ndarray, second: np.ndarray, m: int, n: int) -> Covariance:
        """The covariances of two mixtures of m components one after the other."""
        return cls.of(np.concatenate([first, second]), n)

    # Lower bounds

    @staticmethod
    @abstractmethod
    def bound(least: float, variances: np.ndarray, inverse: Bound, n: int) -> Bound:
        """A floor: ``least`` in scaled coordinates and, brought there, variances of features (n,).

        ``inverse`` is the scaling, as ``mapped`` takes it. A number, variances or a matrix.
        """

    @staticmethod
    @abstractmethod
    def raised(array: np.ndarray, floor: Bound) -> np.ndarray:
        """The covariances with no variance, or eigenvalue relative to the floor, below it.

        The floor is a number, variances (n,), or for matrices a positive definite matrix F (n, n).
        Of all Σ ⪰ F, the result S gives samples of covariance Σ the highest likelihood: it
        minimises log|S| + tr ΣS⁻¹.
        """

    @staticmethod
    @abstractmethod
    def on_floor(array: np.ndarray, floor: Bound) -> np.ndarray:
        """Which have no more extent in some direction than the floor; (m,), or (1,) if common."""

    @staticmethod
    @abstractmethod
    def smallest_variance(array: np.ndarray) -> float:
        """The least variance, or eigenvalue, of all components."""

    # Matching moments

    @classmethod
    @abstractmethod
    def coordinates(cls, m: int, n: int, floor: float | None = None) -> Coordinates:
        """The covariances of m components as a vector of free numbers, above a floor if any."""

    @staticmethod
    @abstractmethod
    def tangent(n: int) -> Tangent:
        """The covariances of one component close to given ones, for derivatives of likelihoods."""

    @staticmethod
    def pooled_coupling(coupling: np.ndarray, n: int) -> np.ndarray:
        """A matrix (m, m) that couples the entries of covariances, as it couples their numbers."""
        return coupling

    @staticmethod
    @abstractmethod
    def gradient_of_matrices(weights: np.ndarray, G: np.ndarray) -> np.ndarray:
        """Gradients (m, N, n, n) in each atom's Σ as gradients (N, own shape) of the mixture."""


#: A covariance type is its class.
Kind: TypeAlias = type[Covariance]


def corrected(parameters: float, numbers: np.ndarray, own: int) -> np.ndarray:
    """The optimism of a fit whose variances rest on ``numbers``, ``own`` of which are not free.

    E[log-likelihood of N samples - that of N new ones] is n(n+3)N / 2(N-n-2) for a full covariance
    (the corrected AIC), which is Akaike's number of parameters for large N and has no bound towards
    N = n+2 = own. Below N = n+3 it stays what it is there.
    """
    share = own / np.maximum(numbers, 1e-300)
    return np.asarray(parameters / np.maximum(1 - share, 1 / (own + 1)))


def refuse_degenerate(definite: Array) -> None:
    """An error that names the components, (g,), which are not definite."""
    bad = np.flatnonzero(~to_numpy(definite))  # in one piece from a device
    if len(bad):
        shown = ", ".join(map(str, bad[:10])) + (", …" if len(bad) > 10 else "")
        raise ValueError(
            f"the covariance of component(s) {shown} is singular, so there is no density; "
            "add a small multiple of the identity to it, or drop the constant or dependent features"
        )
