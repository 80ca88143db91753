"""The choice of the number of components and of the covariance type."""

from momentmix.selection.blrt import BLRT, blrt
from momentmix.selection.choice import Choice, Criterion, best_choice, why_no_more
from momentmix.selection.select import choose_components, select
from momentmix.selection.selection import Selection

__all__ = [
    "BLRT",
    "Choice",
    "Criterion",
    "Selection",
    "best_choice",
    "blrt",
    "choose_components",
    "select",
    "why_no_more",
]
