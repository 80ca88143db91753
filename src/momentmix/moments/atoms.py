"""Gaussian atoms: what a mixture, samples, debiased samples and a single point have in common."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, cast

from momentmix.covariance import Covariance, Zero
from momentmix.support.array import (
    Array,
    Namespace,
    array_device,
    as_like,
    is_all_zero,
    namespace,
    to_numpy,
)


@dataclass(frozen=True)
class Atoms:
    """A finite weighted set of Gaussians (λ_j, μ_j, Σ_j), j = 1..m, in n features.

    | object                     | atoms             |
    | -------------------------- | ----------------- |
    | Gaussian mixture           | (λ_j, μ_j, Σ_j)   |
    | samples x_1..x_p           | (1/p, x_i, 0)     |
    | samples with noise N known | (1/p, x_i, -N)    |
    | a^{⊗d}                     | (1, a, 0)         |

    ``weights`` are (m,), or one number if they are all equal; ``means`` are (m, n). ``xp`` is the
    namespace of the arrays, which is looked up if it is not given.
    """

    weights: Array | float
    means: Array
    covariance: Covariance
    xp: Namespace = field(default=cast("Namespace", None), repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.xp is None:
            object.__setattr__(self, "xp", namespace(self.means))

    def __reduce__(self) -> tuple[type[Atoms], tuple[Array | float, Array, Covariance]]:
        return Atoms, (self.weights, self.means, self.covariance)  # a namespace does not pickle

    def __len__(self) -> int:
        return int(self.means.shape[0])

    @property
    def n_features(self) -> int:
        return int(self.means.shape[1])

    @property
    def column(self) -> Array:
        """The weights as a column (m, 1)."""
        if isinstance(self.weights, float):
            dtype, device = self.means.dtype, array_device(self.means)
            return self.xp.full((len(self), 1), self.weights, dtype=dtype, device=device)
        return self.weights[:, None]

    def on(self, like: Array) -> Atoms:
        """Convert NumPy's atoms to the library, dtype and device of ``like``."""
        weights, covariance = self.weights, self.covariance
        if not isinstance(weights, float):
            weights = as_like(to_numpy(weights), like)
        if not covariance.zero:
            covariance = covariance.of(
                as_like(to_numpy(covariance.array), like), covariance.n_features
            )
        return Atoms(weights, as_like(to_numpy(self.means), like), covariance)

    @property
    def are_points(self) -> bool:
        """Whether all covariances are 0, of whatever type they are."""
        return self.covariance.zero or is_all_zero(self.covariance.array)

    def as_points(self) -> Atoms:
        """The same atoms without the covariances, which then have no derivatives."""
        return Atoms(self.weights, self.means, Zero(self.n_features), self.xp)

    def take(self, rows: slice) -> Atoms:
        weights = self.weights if isinstance(self.weights, float) else self.weights[rows]
        return Atoms(weights, self.means[rows, :], self.covariance.take(rows), self.xp)


class Gradient(NamedTuple):
    """The derivatives of a number with respect to the parameters of a distribution.

    Each has the shape of its parameter.

    Attributes
    ----------
    weights : array of shape (m,)
        The derivative in the weights.
    means : array of shape (m, n)
        The derivative in the means. For Samples it is the derivative in X.
    covariances : array or None
        The derivative in the covariances, in their own shape: in the variances for the types diag
        and spherical, and symmetric for full and tied, so that dF = ⟨covariances, dΣ⟩; for low-rank
        in ``loadings`` and ``variances``, so named. For Samples it is the derivative in the noise
        covariance, and None if there is no noise.
    """

    weights: Array
    means: Array
    covariances: Array | None
