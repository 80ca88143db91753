"""The same pictures in scikit-learn's convention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from momentmix.distributions.mixture import Mixture
from momentmix.plotting.axes import mixture_of
from momentmix.plotting.mixtures import plot_density, plot_ellipses, plot_marginal
from momentmix.summary import telling_features

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

    from momentmix.plotting.axes import Model


class MixtureDisplay:
    """A mixture with samples, drawn as scikit-learn's displays are.

    Parameters
    ----------
    mixture : Mixture
    X : (p, n), optional
    features : pair of positions, or one; by default all of one or two, else the most telling pair

    Attributes
    ----------
    ax_, figure_ : where it was drawn last

    Examples
    --------
    >>> from momentmix import GaussianMixture
    >>> from momentmix.datasets import load_quakes
    >>> from momentmix.plotting import MixtureDisplay
    >>> X, names = load_quakes()
    >>> fit = GaussianMixture(3, random_state=0).fit(X[:, :2])
    >>> display = MixtureDisplay.from_estimator(fit, X[:, :2], kind="ellipses")
    >>> display.ax_.get_xlabel()
    'x0'
    """

    def __init__(
        self, mixture: Mixture, X: ArrayLike | None = None, features: Sequence[int] | None = None
    ) -> None:
        self.mixture, self.X = mixture, X
        if features is None:
            features = telling_features(mixture, min(2, mixture.n_features))
        self.features = [int(i) for i in features]
        if len(self.features) not in (1, 2):
            raise ValueError(f"features must be one or two positions, got {features!r}")

    @classmethod
    def from_estimator(
        cls,
        estimator: Model,
        X: ArrayLike | None = None,
        *,
        kind: Literal["density", "ellipses"] = "density",
        features: Sequence[int] | None = None,
        ax: Axes | None = None,
    ) -> MixtureDisplay:
        """Draw a fitted estimator over samples."""
        return cls(mixture_of(estimator), X, features).plot(kind=kind, ax=ax)

    from_mixture = from_estimator

    def plot(
        self, *, kind: Literal["density", "ellipses"] = "density", ax: Axes | None = None
    ) -> MixtureDisplay:
        """``kind`` is "density" or "ellipses"; one feature alone is drawn as a curve."""
        if kind not in ("density", "ellipses"):
            raise ValueError(f"kind must be 'density' or 'ellipses', got {kind!r}")
        if len(self.features) == 1:
            self.ax_ = plot_marginal(self.mixture, self.X, feature=self.features[0], ax=ax)
        else:
            draw = plot_density if kind == "density" else plot_ellipses
            self.ax_ = draw(self.mixture, self.X, features=self.features, ax=ax)
        self.figure_ = self.ax_.figure
        return self
