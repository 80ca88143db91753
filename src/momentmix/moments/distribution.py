"""Distributions: everything that has moments, whether made of atoms or stored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol, TypeAlias, TypeVar

import numpy as np

from momentmix.moments.atoms import Atoms, Gradient
from momentmix.moments.bilinear import InnerProducts, bilinear
from momentmix.support.array import Array


class AtomDistribution(ABC):
    """A distribution made of Gaussian atoms, which determine all of its moments."""

    _atoms: Atoms

    @property
    def atoms(self) -> Atoms:
        return self._atoms

    @property
    def n_features(self) -> int:
        return int(self.atoms.means.shape[1])

    def inner_with(self, P: Atoms, weights: Sequence[float], gradient: bool) -> InnerProducts:
        """Σ_k w_k ⟨M_i, M⟩ for the moments M_i of each atom of P; see :func:`bilinear`."""
        return bilinear(P, self.atoms, weights, gradient)

    @abstractmethod
    def as_gradient(self, weights: Array, means: Array, covariances: Array | None) -> Gradient:
        """Turn derivatives in the atoms into those in the distribution's own parameters."""


_Same = TypeVar("_Same", bound="StoredMoments", contravariant=True)


class StoredMoments(Protocol):
    """A distribution that is known by its moments alone, as MomentTensors is."""

    @property
    def n_features(self) -> int: ...

    def inner_with(self, P: Atoms, weights: Sequence[float], gradient: bool) -> InnerProducts:
        """Σ_k w_k ⟨M_i, M⟩ for the moments M_i of each atom of P; see :func:`bilinear`."""

    def inner(self: _Same, other: _Same, weights: Sequence[float]) -> float:
        """Σ_k w_k ⟨M_k, M'_k⟩ with the moments M' of another such distribution."""

    def squared_distance(self: _Same, other: _Same, weights: Sequence[float]) -> float:
        """Σ_k w_k ‖M_k - M'_k‖²."""

    def tensor(self, order: int) -> np.ndarray:
        """The dense moment of one order."""


#: What the functions of moments take: a Mixture, Samples, a decomposition or MomentTensors.
Distribution: TypeAlias = "AtomDistribution | StoredMoments"


def check_distribution(P: object, name: str = "P", hint: str = "") -> None:
    """Raise a TypeError unless P is a distribution."""
    if not hasattr(P, "inner_with"):
        raise TypeError(
            f"{name} must be a Mixture, Samples or MomentTensors, got {type(P).__name__}{hint}"
        )
