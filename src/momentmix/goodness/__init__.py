"""Does a mixture fit, and do two tables differ? Tests of their moments, order by order."""

from momentmix.goodness.distances import Distribution, Match, comparable_order, moment_match
from momentmix.goodness.drifts import drift
from momentmix.goodness.fits import moment_test
from momentmix.goodness.permutations import compare
from momentmix.goodness.results import (
    LEVEL,
    Comparison,
    Drift,
    FeatureTest,
    MomentTest,
    OrderTest,
    TestsByOrder,
)

__all__ = [
    "LEVEL",
    "Comparison",
    "Distribution",
    "Drift",
    "FeatureTest",
    "Match",
    "MomentTest",
    "OrderTest",
    "TestsByOrder",
    "comparable_order",
    "compare",
    "drift",
    "moment_match",
    "moment_test",
]
