"""The interface of a covariance type, which is all that the rest of the package may use.

A type is a subclass of :class:`Covariance`, and fits pass the class itself around as the ``kind``
of a mixture. A new type is one such class beside its relatives: it sets the class variables,
provides every abstract method, overrides others where it can do better, and is listed in
``validation.py`` if users may name it. ``Variances`` holds what diagonal types share, and
``Matrices`` the same for the others.

Instance methods concern the covariances of the atoms of a distribution and use the array API.
Class methods concern the type: its shapes, and NumPy arrays of these shapes during a fit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np

from momentmix.covariance.coordinates import Coordinates, Tangent
from momentmix.covariance.prior import Anchor, LogNormalPrior
from momentmix.support.array import Array, namespace, to_numpy

#: A variance of up to this multiple of the floor counts as being on it. A round number that was not
#: tuned; it decides only which components are reported as collapsed or too wide.
NEAR_FLOOR = 1.01


#: A lower bound of covariances: a variance, variances (n,) or a matrix (n, n).
Bound: TypeAlias = float | np.ndarray


@dataclass(frozen=True)
class Covariance(ABC):
    """The covariances Σ_i of a set of atoms in n features, all in one array.

    ``array`` has scikit-learn's shape, ``shape(g, n)``, where g is the number of atoms, or 1 if
    all atoms share one covariance; for points it is None. Nothing is checked.
    """

    array: Any
    n_features: int

    #: What users and model files call the type.
    name: ClassVar[str]
    #: Whether all Σ_i are 0, as for points, so that nothing is stored.
    zero: ClassVar[bool] = False
    #: Whether all Σ_i are diagonal, so that ``variances`` describes them fully.
    diagonal: ClassVar[bool]
    #: Whether Σ_i are few loadings beside a diagonal, or a diagonal alone, so that nothing needs an
    #: n × n matrix.
    thin: ClassVar[bool] = False
    #: How many loadings each feature has, if the type is ``thin``.
    rank: ClassVar[int] = 0
    #: Whether ``estimate`` only improves covariances, so that even one component takes many steps.
    iterated: ClassVar[bool] = False
    #: How many such steps are taken at once where only responsibilities are known.
    opening_steps: ClassVar[int] = 0
    #: Whether the type keeps its form only if all features change their units by the same factor.
    one_unit: ClassVar[bool] = False
    #: Whether the type keeps its form if each feature changes its unit separately, but not if the
    #: axes are rotated.
    by_feature: ClassVar[bool] = False
    #: Whether there is one covariance for all components of a mixture, however many they are.
    common: ClassVar[bool] = False
    #: Whether the covariances of a mixture are estimated together, so that mixtures take turns.
    together: ClassVar[bool] = False
    #: Whether the sum of two arrays of the type need not be one, so that it has no coordinates.
    curved: ClassVar[bool] = False

    @classmethod
    def of(cls, array: Array, n: int) -> Covariance:
        """The covariances in an array of the type's shape; nothing is checked."""
        return cls(array, n)

    @classmethod
    def present(cls, array: Array) -> Array:
        """The array, or a gradient in it, as users see it: a named pair, if it is one."""
        return array

    @property
    def kind(self) -> Kind:
        return type(self)

    # The covariances of atoms

    @property
    def shared(self) -> bool:
        """Whether all atoms have the one stored covariance; also true for a single atom."""
        return bool(self.array.shape[0] == 1)

    def take(self, rows: slice) -> Covariance:
        """The covariances of some of the atoms; a shared one is returned as it is."""
        return self if self.shared else self.of(self.array[rows, ...], self.n_features)

    def negative(self) -> Covariance:
        """-Σ_i, for debiasing (Lemma A.4 of Pereira–Kileel–Kolda)."""
        return self.of(-self.array, self.n_features)

    @property
    def stacked(self) -> Array:
        """The array with one entry for each stored covariance, also if it is common; (g, …)."""
        return self.array[None, ...] if self.common else self.array

    def _own_shape(self, stack: Array, n: int) -> Array:
        """Reshape what belongs to g covariances of n features to an array of the type."""
        return namespace(stack).reshape(stack, self.shape(stack.shape[0], n))

    @abstractmethod
    def variances(self) -> Array:
        """The diagonals of thin Σ_i without what loadings add; (g, n)."""

    def loadings(self) -> Array:
        """W_i of thin Σ_i = W_i W_iᵀ + diagonal; (g, n, q)."""
        variances = self.variances()
        return variances[..., None][..., :0]

    def spread(self) -> Array:
        """The variances of the features; (g, n)."""
        return (
            self.variances()
            if self.thin
            else namespace(self.array).linalg.diagonal(self.matrices())
        )

    @abstractmethod
    def matrices(self) -> Array:
        """Σ_i; (g, n, n)."""

    @abstractmethod
    def times(self, A: Array) -> Array:
        """Σa for each row a of A, if all atoms share Σ."""

    @abstractmethod
    def flat(self) -> Array:
        """The vectors whose products with ``features(x)`` are xᵀΣ_i x; (g, width)."""

    @abstractmethod
    def features_vjp(self, X: Array, W: Array) -> Array:
        """The gradient in the rows of X of Σ W ∗ features(X), W (p, width); (p, n)."""

    @abstractmethod
    def collect_flat(self, G: Array) -> Array:
        """Turn a gradient in ``flat`` (g, width) into one in the array."""

    @abstractmethod
    def collect_variances(self, weights: Array, G: Array) -> Array:
        """Turn gradients (m, n) in each atom's variances, times weights (m,), into the array's."""

    @abstractmethod
    def collect_matrices(self, weights: Array, G: Array) -> Array:
        """Turn gradients (m, n, n) in each atom's Σ, times weights (m,), into the array's."""

    def collect_factors(self, weights: Array, loadings: Array, variances: Array) -> Array:
        """The same for gradients in each atom's loadings (m, n, q) and variances (m, n)."""
        return self.collect_variances(weights, variances)

    @abstractmethod
    def root(self) -> Array:
        """Factors R_i with R_i R_iᵀ = Σ_i, for ``colour``."""

    @abstractmethod
    def whitener(self) -> tuple[Array, Array]:
        """Whitening factors R_i⁻¹, and -log det Σ_i / 2; a ValueError if Σ_i is singular."""

    @abstractmethod
    def apply(self, factors: Array, i: int, Z: Array) -> Array:
        """Multiply each row of Z by the factor of atom i from ``root`` or ``whitener``."""

    def apart(self, factors: Array, j: int, r: int, Z: Array) -> Array:
        """Multiply each row of Z by the difference of the factors of two atoms."""
        j, r = (0, 0) if self.shared else (j, r)
        return self.apply(factors[j : j + 1, ...] - factors[r : r + 1, ...], 0, Z)

    def colour(self, root: Array, i: int, Z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Turn samples Z of N(0, I) into samples of N(0, Σ_i), in NumPy."""
        return np.asarray(self.apply(root, i, Z))

    @abstractmethod
    def half_log_determinants(self) -> Array:
        """log det Σ_i / 2; (g,)."""

    @abstractmethod
    def is_definite(self) -> bool:
        """Whether all Σ_i are safely invertible, whatever the units of the features."""

    @abstractmethod
    def marginal(self, features: Array) -> Covariance:
        """The covariances of some of the features."""

    @abstractmethod
    def condition(
        self, kept: Array, given: Array, deltas: Array
    ) -> tuple[Array | float, Covariance]:
        """The shift of means (m, n_kept) and the covariance, given deviations (m, n_given)."""

    @abstractmethod
    def project(self, basis: np.ndarray) -> Covariance:
        """BᵀΣ_i B along an orthonormal basis B (n, r)."""

    @abstractmethod
    def without(self, noise: Covariance) -> Covariance:
        """Σ_i - N for a noise covariance N that all atoms share."""

    def _pool(self, weights: Array, per_atom: Array) -> Array:
        """Σ_i weights_i G_i if the covariance is shared, otherwise each weights_i G_i."""
        xp = namespace(per_atom)
        weighted = xp.reshape(weights, (-1,) + (1,) * (per_atom.ndim - 1)) * per_atom
        return xp.sum(weighted, axis=0, keepdims=True) if self.shared else weighted

    # Shapes and sizes

    @staticmethod
    @abstractmethod
    def shape(m: int, n: int) -> tuple[int, ...]:
        """The shape of the array of a mixture of m components, which is scikit-learn's."""

    @staticmethod
    @abstractmethod
    def width(n: int) -> int:
        """How many quadratic features of x matter to a covariance."""

    @staticmethod
    @abstractmethod
    def features(X: Array) -> Array:
        """The quadratic features of rows, in which xᵀΣx is linear; array API; (p, width)."""

    @staticmethod
    @abstractmethod
    def features_of_seconds(seconds: np.ndarray) -> np.ndarray:
        """Mean quadratic features (m, width) from mean products of two features, (m, n, n).

        Diagonal types also take only the mean squares, (m, n).
        """

    @staticmethod
    @abstractmethod
    def free_parameters(m: int, n: int) -> int:
        """Degrees of freedom of the covariances of m components."""

    @staticmethod
    @abstractmethod
    def check(array: Array, name: str) -> Array:
        """Check that a user's array is symmetric and semidefinite, and remove rounding errors.

        ``name`` is what error messages call it. With the array API.
        """

    # Likelihoods

    @staticmethod
    @abstractmethod
    def log_density_coefficients(
        means: np.ndarray, array: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """log N(x; μ_j, Σ_j) = constant_j + linear_j · x + quadratic_j · features(x).

        (m,), (m, n) and (m or 1, width). Cancellation causes an error of about 1e-16 ‖x‖²/σ², which
        does not matter in centred and scaled coordinates.
        """

    @classmethod
    def precision_loadings(cls, array: np.ndarray) -> np.ndarray | None:
        """V (m, n, q), if there are terms ‖V_jᵀx‖² / 2 beside; None if there are none."""
        return None

    @classmethod
    @abstractmethod
    def whitened_squares(cls, array: np.ndarray, D: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """dᵀΣ_j⁻¹d for differences D (m, p, n) from each mean, and log det Σ_j / 2; (m, p), (m,).

        Accurate to the last digits however narrow Σ_j is, but each component costs a product.
        """

    @staticmethod
    @abstractmethod
    def precision_cholesky(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Precisions and factors U with Σ⁻¹ = U Uᵀ, in the shape of the type.

        Raises LinAlgError if Σ is not positive definite.
        """

    @staticmethod
    @abstractmethod
    def estimate(shares: np.ndarray, means: np.ndarray, seconds: np.ndarray) -> np.ndarray:
        """Covariances of components with given shares, means and mean features (m, width)."""

    @classmethod
    def merge(
        cls, shares: tuple[float, float], one: np.ndarray, other: np.ndarray, apart: np.ndarray
    ) -> np.ndarray:
        """The covariance of two components together, whose means differ by ``apart``."""
        (a, b), square = shares, apart**2 if cls.thin else np.outer(apart, apart)
        return np.asarray(a * one + b * other + a * b * cls.repeat(1, square)[0])

    @staticmethod
    @abstractmethod
    def optimism(counts: np.ndarray, n: int) -> np.ndarray:
        """How many nats more likely samples are than new ones under a Gaussian fitted to them.

        For the means and covariances of components with ``counts`` (m,) samples each.
        """

    @classmethod
    def too_few(cls, counts: np.ndarray, n: int) -> np.ndarray:
        """Whether ``counts`` samples are too few to tell what a component looks like.

        That is if they have over twice the optimism of infinitely many samples.
        """
        return cls.optimism(counts, n) > 2 * cls.optimism(np.array([np.inf]), n)

    @classmethod
    def total_optimism(cls, counts: np.ndarray, n: int) -> float:
        """The optimism of all components together."""
        return float(cls.optimism(counts, n).sum())

    # The prior

    @staticmethod
    @abstractmethod
    def customary_strength(n: int) -> float:
        """ν = 3d - 1 rows, where d = n if the features may be correlated and d = 1 if not.

        Chosen on the tables TUNED of benchmarks/real.py by the likelihood of held-out rows.
        """

    @staticmethod
    @abstractmethod
    def prior_of_rows(n: int, rows: float) -> LogNormalPrior | None:
        """The prior with the weight of ``rows`` rows; None if the type has no prior."""

    @classmethod
    def prior(cls, n: int, strength: float | str | None) -> LogNormalPrior | None:
        """The prior of a strength in rows, or of customary strength for a word; None if none.

        With "auto", fits learn the strength.
        """
        if strength is None:
            return None
        rows = cls.customary_strength(n) if isinstance(strength, str) else float(strength)
        prior = cls.prior_of_rows(n, rows) if rows > 0 else None
        return replace(prior, customary=rows) if prior is not None and strength == "auto" else prior

    @staticmethod
    @abstractmethod
    def anchor(n: int, share: float, whole: float) -> Anchor | None:
        """The penalty for data in which a share of all cells are gaps; None if it is not needed.

        ``whole`` is the number of rows without gaps for each covariance.
        """

    # Arrays of the type's shape

    @staticmethod
    @abstractmethod
    def repeat(m: int, matrix: np.ndarray) -> np.ndarray:
        """One covariance matrix for all of m components, in the shape of the type.

        Variances (n,) are enough of it where the type is diagonal.
        """

    @staticmethod
    @abstractmethod
    def transform(array: np.ndarray, A: Bound) -> np.ndarray:
        """A Σ Aᵀ, where A is a number if ``one_unit``, a vector if ``by_feature``, or a matrix."""

    @classmethod
    def take_components(cls, array: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The covariances of some of the components."""
        some: np.ndarray = array[rows]
        return some

    @classmethod
    def replace_components(cls, array: np.ndarray, rows: list[int], new: np.ndarray) -> np.ndarray:
        """The covariances with those of some components replaced."""
        array = array.copy()
        array[rows] = new
        return array

    @classmethod
    def plain(cls) -> Kind:
        """The type of a mixture with such covariances: this one, if it is not a matter of fits."""
        return cls

    @classmethod
    def restrict(cls, shares: np.ndarray, array: np.ndarray) -> np.ndarray:
        """The covariances of the type that are nearest in likelihood, which its own are already."""
        return array

    # Lower bounds

    @staticmethod
    @abstractmethod
    def bound(least: float, variances: np.ndarray, inverse: Bound, n: int) -> Bound:
        """A floor from ``least`` in scaled coordinates, and variances (n,) in the original ones.

        ``inverse`` is the scaling, as ``transform`` takes it: a number, a vector or a matrix. The
        result is a number, variances or a matrix.
        """

    @staticmethod
    @abstractmethod
    def raise_to(array: np.ndarray, floor: Bound) -> np.ndarray:
        """Raise variances, or eigenvalues relative to the floor, that are below it.

        The floor is a number, variances (n,), or for matrices a positive definite matrix F (n, n).
        Of all S ⪰ F, the result gives samples of covariance Σ the highest likelihood: it minimises
        log|S| + tr ΣS⁻¹.
        """

    @staticmethod
    @abstractmethod
    def on_floor(array: np.ndarray, floor: Bound) -> np.ndarray:
        """Which covariances are on the floor in some direction; (m,), or (1,) if common."""

    @staticmethod
    @abstractmethod
    def smallest_variance(array: np.ndarray) -> float:
        """The least variance, or eigenvalue, of all components."""

    # Matching moments

    @classmethod
    @abstractmethod
    def coordinates(cls, m: int, n: int, floor: float | None = None) -> Coordinates:
        """Coordinates of the covariances of m components, above a floor if one is given."""

    @staticmethod
    @abstractmethod
    def tangent(n: int) -> Tangent:
        """Coordinates near a given covariance, for derivatives of likelihoods."""

    @staticmethod
    def pool_coupling(coupling: np.ndarray, n: int) -> np.ndarray:
        """Turn a matrix (m, m) that couples entries of covariances into one for their numbers."""
        return coupling

    @staticmethod
    @abstractmethod
    def gradient_of_matrices(weights: np.ndarray, G: np.ndarray) -> np.ndarray:
        """Turn gradients (m, N, n, n) in each atom's Σ into those (N, own shape) of the mixture."""


#: A covariance type is represented by its class.
Kind: TypeAlias = type[Covariance]


def optimism_of(parameters: float, numbers: np.ndarray, own: int) -> np.ndarray:
    """The optimism of a fit whose variances rest on ``numbers`` values, ``own`` of them not free.

    E[log-likelihood of N samples - that of N new ones] is n(n+3)N / 2(N-n-2) for a full covariance
    (the corrected AIC). For large N it is Akaike's number of parameters, and it diverges towards
    N = n+2 = own. Below N = n+3 its value there is used.
    """
    share = own / np.maximum(numbers, 1e-300)
    return np.asarray(parameters / np.maximum(1 - share, 1 / (own + 1)))


def refuse_degenerate(definite: Array) -> None:
    """Raise an error that names the components that are not definite, from booleans (g,)."""
    bad = np.flatnonzero(~to_numpy(definite))  # a single copy from a device
    if len(bad):
        shown = ", ".join(map(str, bad[:10])) + (", …" if len(bad) > 10 else "")
        raise ValueError(
            f"the covariance of component(s) {shown} is singular, so there is no density; "
            "add a small multiple of the identity to it, or drop the constant or dependent features"
        )
