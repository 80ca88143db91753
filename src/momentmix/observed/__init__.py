"""Rows as they were observed: x_i = R_i v_i + ε_i, with gaps (R_i) and noise ε_i ~ N(0, N_i).

Under a Gaussian v ~ N(μ, Σ), the observed values are Gaussian too, with covariance T = R Σ Rᵀ + N.
The files here compute its density, the expectation of v given x, and sums of both over rows:
gaps.py for rows without noise or with a common one (patterns.py has those of the gaps), noisy.py
for rows with noise of their own, and part.py for what they share and for independent features.
rows.py sorts the rows into these cases.
"""

from momentmix.observed.completed import ObservedRows as ObservedRows
from momentmix.observed.completed import noise_of_rows as noise_of_rows
from momentmix.observed.noisy import noise_of_errors as noise_of_errors
from momentmix.observed.part import Evaluated as Evaluated
from momentmix.observed.part import Gaussians as Gaussians
