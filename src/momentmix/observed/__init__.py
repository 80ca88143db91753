"""Rows as they were observed: x_i = R_i v_i + ε_i, with gaps (R_i) and noise ε_i ~ N(0, N_i).

Under a Gaussian v ~ N(μ, Σ), the observed values are Gaussian too, with covariance T = R Σ Rᵀ + N.
The files here compute its density, the expectation of v given x, and sums of both over rows:
gaps.py for rows without noise or with a common one, noisy.py for rows with noise of their own, and
separate.py for independent features. rows.py sorts the rows into these cases.
"""

from momentmix.observed.error_bars import noise_of_errors
from momentmix.observed.part import Evaluated, Gaussians, Part
from momentmix.observed.rows import ObservedRows, noise_of_rows

__all__ = ["Evaluated", "Gaussians", "ObservedRows", "Part", "noise_of_errors", "noise_of_rows"]
