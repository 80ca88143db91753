"""What a mixture says about data, in tables and plain words: components, moments, remarks."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from momentmix.summary.fit_summary import FitSummary as FitSummary
    from momentmix.summary.fit_summary import Rival as Rival
    from momentmix.summary.origin import Origin as Origin
else:

    def __getattr__(name):
        """A class, imported when first asked for: the help of commands needs none."""
        if name in ("FitSummary", "Origin", "Rival"):
            from momentmix.summary import fit_summary

            return getattr(fit_summary, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
