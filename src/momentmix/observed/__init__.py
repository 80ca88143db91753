"""Rows as they were observed: x_i = R_i v_i + ε_i, with gaps (R_i) and errors ε_i ~ N(0, N_i).

Under a Gaussian v ~ N(μ, Σ), what was observed is Gaussian too, of covariance T = R Σ Rᵀ + N. The
files here have its density, what is to be expected of v, and sums of that over rows, for rows that
have gaps alone or one noise in common (gaps.py), for rows with noise of their own (errors.py), and
for features that are independent (separate.py). rows.py sorts rows by which of these they are.
"""

from momentmix.observed.part import Evaluated, Gaussians, Part
from momentmix.observed.rows import ObservedRows, noise_of_rows
from momentmix.observed.standard_errors import noise_of_errors

__all__ = ["Evaluated", "Gaussians", "ObservedRows", "Part", "noise_of_errors", "noise_of_rows"]
