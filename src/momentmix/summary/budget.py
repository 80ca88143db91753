"""How much work remarks about a fit may take: about as much as the fit itself."""

from __future__ import annotations

from momentmix.distributions.mixture import Mixture
from momentmix.matching.identifiability import parameter_count

#: Multiplications that are always allowed, a fraction of a second. A round number: it decides only
#: whether small fits get every remark.
LEAST_WORK = 1e9
#: The work of a search: about this many multiplications for each parameter and row, on at most this
#: many rows. Round estimates without a recorded measurement; they decide how much reports test.
_SEARCH, _SEARCHED_ROWS = 800, 50_000


def affordable(mixture: Mixture, rows: int) -> float:
    """About as many multiplications as the fit of this many rows takes.

    They follow from sizes, not from a clock, so every machine reports the same about a fit.
    """
    kind, m, n = mixture.atoms.covariance.kind, mixture.n_components, mixture.n_features
    if m == 1:  # there is no search
        return LEAST_WORK
    return max(LEAST_WORK, float(_SEARCH * min(rows, _SEARCHED_ROWS)) * parameter_count(kind, m, n))
