"""What a mixture says about data, in tables and plain words: components, moments, remarks."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from momentmix.goodness.comparison import moment_match as moment_match
    from momentmix.summary.fit_summary import FitSummary as FitSummary
    from momentmix.summary.fit_summary import remarks as remarks
    from momentmix.summary.origin import Origin as Origin
    from momentmix.summary.papers import PaperTable as PaperTable
    from momentmix.summary.papers import choices_table as choices_table
    from momentmix.summary.papers import components_table as components_table

#: Where names that others use stand. They are imported when first asked for: help needs none.
_WHERE = dict.fromkeys(("PaperTable", "choices_table", "components_table"), "summary.papers")
_WHERE |= dict.fromkeys(("FitSummary", "remarks"), "summary.fit_summary")
_WHERE |= {"Origin": "summary.origin", "moment_match": "goodness.comparison"}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"momentmix.{_WHERE[name]}"), name)
