"""The choice of the number of components and of their type, and clusters of several of them."""

from momentmix.selection.blrt import BLRT as BLRT
from momentmix.selection.blrt import blrt as blrt
from momentmix.selection.criteria import Choice as Choice
from momentmix.selection.criteria import Criterion as Criterion
from momentmix.selection.criteria import Selection as Selection
from momentmix.selection.criteria import best_choice as best_choice
from momentmix.selection.criteria import why_no_more as why_no_more
from momentmix.selection.merging import Merge as Merge
from momentmix.selection.merging import MergedComponents as MergedComponents
from momentmix.selection.merging import merge_components as merge_components
from momentmix.selection.select import select as select
