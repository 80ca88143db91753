"""Atoms: Gaussians with weights and covariances of any sign, which need not be a probability."""

from __future__ import annotations

from momentmix.covariance import Covariance, Zero, component_covariance, join
from momentmix.moments import atoms as records
from momentmix.moments.functions import AtomDistribution
from momentmix.support.array import (
    Array,
    ArrayLike,
    all_finite,
    as_float_array,
    frozen_copy,
    like,
    namespace,
)
from momentmix.tensors.dense import dense_moment


class Atoms(AtomDistribution):
    """Gaussians with weights of any sign and sum, and covariances of any sign.

    Every function of moments takes them where it takes a :class:`Mixture`, which is a probability:
    use them for differences of mixtures, for residuals, for noise taken out, or for the points that
    an optimiser visits. They have moments, but no density, and nothing can be drawn from them.

    Parameters
    ----------
    weights : array of shape (m,)
        The weight of each Gaussian, any number.
    means : array of shape (m, n)
        The centre of each.
    covariances : array, optional
        Symmetric, in the shapes that :class:`Mixture` takes. By default the atoms are points.
    covariance_type : str, default="full"
        The form of ``covariances``, any that :class:`Mixture` takes.

    See Also
    --------
    Mixture : The same as a probability.
    moment_objective : A cost whose arguments are such atoms.

    Notes
    -----
    The moment of order d is Σ_j λ_j Σ_k C_{d,k} sym(μ_j^{⊗d-2k} ⊗ Σ_j^{⊗k}), a polynomial in all
    parameters; so formulas for inner products hold whatever their signs, Lemma A.4 of Pereira,
    Kileel and Kolda (arXiv:2202.06930).

    Examples
    --------
    >>> from momentmix import Atoms, inner
    >>> away = Atoms([1.0, -1.0], [[0.0, 1.0], [0.0, 2.0]], [0.5, -0.25], "spherical")
    >>> float(inner(away, away, 1))
    1.0
    """

    def __init__(
        self,
        weights: ArrayLike,
        means: ArrayLike,
        covariances: ArrayLike | None = None,
        covariance_type: str = "full",
    ) -> None:
        means = as_float_array(means, "means", (2,))
        m, n = (int(k) for k in means.shape)
        weights = as_float_array(like(weights, means), "weights", (1,))
        if m == 0 or n == 0 or tuple(weights.shape) != (m,):
            raise ValueError(
                "means must be (m, n) and weights (m,), with m and n at least 1; got shapes "
                f"{(m, n)} and {tuple(weights.shape)}"
            )
        if not all_finite(means) or not all_finite(weights):
            raise ValueError("weights and means must be finite, but hold NaN or infinity")
        covariance: Covariance = Zero(n)
        if covariances is not None:
            array = as_float_array(
                like(join(covariances, covariance_type), means), "covariances", (1, 2, 3)
            )
            covariance = component_covariance(covariance_type, array, m, n, signed=True)
            covariance = covariance.of(frozen_copy(covariance.array), n)
            namespace(means, covariance.array)
        namespace(weights, means)
        self._atoms = records.Atoms(frozen_copy(weights), frozen_copy(means), covariance)

    @classmethod
    def of(cls, atoms: records.Atoms) -> Atoms:
        """Make them of arrays that are known to be valid, without checks and copies."""
        new = cls.__new__(cls)
        new._atoms = atoms
        return new

    @property
    def weights(self) -> Array:
        """The weight of each Gaussian, of shape (m,)."""
        return self._atoms.column[:, 0]

    @property
    def means(self) -> Array:
        """The centre of each, of shape (m, n)."""
        return self._atoms.means

    @property
    def covariances(self) -> Array | None:
        """The covariances in the shape of their type; None for points."""
        covariance = self._atoms.covariance
        return None if covariance.zero else covariance.present(covariance.array)

    @property
    def covariance_type(self) -> str:
        """The form of the covariances, as :class:`Mixture` has it; zero for points."""
        return self._atoms.covariance.name

    def moment(self, order: int) -> Array:
        """The moment tensor of one order; see :func:`momentmix.dense_moment`."""
        return dense_moment(self, order)

    def __repr__(self) -> str:
        return f"Atoms({len(self._atoms)} × {self.n_features}, {self.covariance_type})"
