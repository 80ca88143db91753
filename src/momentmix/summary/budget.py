"""What may be spent on remarks about a fit: about what the fit itself took."""

from __future__ import annotations

from momentmix.distributions.mixture import Mixture
from momentmix.matching.identifiability import parameter_count

#: Products of numbers that take a fraction of a second, which every fit takes.
LEAST_WORK = 1e9
#: Products for each parameter and row of a search, and rows among which a fit searches.
_SEARCH, _SEARCHED_ROWS = 800, 50_000


def affordable(mixture: Mixture, rows: int) -> float:
    """Products of numbers that take no longer than the fit of so many rows.

    They are counted from sizes, and not by a clock, so that every machine says the same of a fit.
    """
    kind, m, n = mixture.atoms.covariance.kind, mixture.n_components, mixture.n_features
    if m == 1:  # there is no search
        return LEAST_WORK
    return max(LEAST_WORK, float(_SEARCH * min(rows, _SEARCHED_ROWS)) * parameter_count(kind, m, n))
