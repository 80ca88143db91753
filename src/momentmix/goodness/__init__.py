"""Does a mixture fit, and do two tables differ? Tests of their moments, order by order."""

from momentmix.goodness.comparison import Distribution as Distribution
from momentmix.goodness.comparison import Match as Match
from momentmix.goodness.comparison import comparable_order as comparable_order
from momentmix.goodness.comparison import moment_match as moment_match
from momentmix.goodness.residuals import moment_test as moment_test
from momentmix.goodness.results import LEVEL as LEVEL
from momentmix.goodness.results import Comparison as Comparison
from momentmix.goodness.results import Drift as Drift
from momentmix.goodness.results import FeatureTest as FeatureTest
from momentmix.goodness.results import MomentTest as MomentTest
from momentmix.goodness.results import OrderTest as OrderTest
from momentmix.goodness.results import TestsByOrder as TestsByOrder
