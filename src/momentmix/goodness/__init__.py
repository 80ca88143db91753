"""Does a mixture fit, and do two tables differ? Tests of their moments, order by order."""

from momentmix.goodness.compare import compare
from momentmix.goodness.distances import Distribution, Match, comparable_order, moment_match
from momentmix.goodness.moment_test import moment_test
from momentmix.goodness.results import Comparison, MomentTest, OrderTest

__all__ = [
    "Comparison",
    "Distribution",
    "Match",
    "MomentTest",
    "OrderTest",
    "comparable_order",
    "compare",
    "moment_match",
    "moment_test",
]
