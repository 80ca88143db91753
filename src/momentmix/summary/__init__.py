"""What a mixture says about data, in tables and plain words: components, moments, remarks."""

from momentmix.goodness.distances import Distribution, Match, comparable_order, moment_match
from momentmix.summary.assignment import (
    DOUBTFUL,
    SURE,
    Assignment,
    ConfusedPair,
    assignment_of,
)
from momentmix.summary.columns import ColumnSummary, column_summaries
from momentmix.summary.component import (
    Component,
    components,
    covariance_matrices,
    feature_variances,
    features_by_tellingness,
    names_of,
    overall_mean_and_deviation,
    paired_components,
    standardised_means,
    telling_features,
)
from momentmix.summary.correlations import (
    Correlation,
    correlation_matrices,
    correlations_together,
    strongest_correlations,
)
from momentmix.summary.fit import FitSummary, Rival
from momentmix.summary.origin import Origin
from momentmix.summary.outliers import Outlier, Outliers, outliers_of
from momentmix.summary.remark import closeness, remarks
from momentmix.summary.tests_of_fit import MOST_TESTED_ROWS, tests_of_fit
from momentmix.summary.uncertainty import Uncertainty, rows_for_errors, uncertainty_of
from momentmix.summary.words import (
    counted,
    fine_percent,
    listed,
    mean_and_deviation,
    percent,
    readable,
)

__all__ = [
    "DOUBTFUL",
    "MOST_TESTED_ROWS",
    "SURE",
    "Assignment",
    "ColumnSummary",
    "Component",
    "ConfusedPair",
    "Correlation",
    "Distribution",
    "FitSummary",
    "Match",
    "Origin",
    "Outlier",
    "Outliers",
    "Rival",
    "Uncertainty",
    "assignment_of",
    "closeness",
    "column_summaries",
    "comparable_order",
    "components",
    "correlation_matrices",
    "correlations_together",
    "counted",
    "covariance_matrices",
    "feature_variances",
    "features_by_tellingness",
    "fine_percent",
    "listed",
    "mean_and_deviation",
    "moment_match",
    "names_of",
    "outliers_of",
    "overall_mean_and_deviation",
    "paired_components",
    "percent",
    "readable",
    "remarks",
    "rows_for_errors",
    "standardised_means",
    "strongest_correlations",
    "telling_features",
    "tests_of_fit",
    "uncertainty_of",
]
