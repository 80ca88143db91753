"""Symmetric CP decompositions of moments (§5 of Pereira–Kileel–Kolda)."""

from momentmix.decomposition.symmetric_cp import SymmetricCP, symmetric_cp

__all__ = ["SymmetricCP", "symmetric_cp"]
