"""Symmetric CP decompositions of moments (§5 of Pereira–Kileel–Kolda)."""

from momentmix.decomposition.symmetric_cp import symmetric_cp as symmetric_cp
