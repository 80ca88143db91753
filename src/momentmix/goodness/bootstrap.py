"""The parametric bootstrap: draw tables from the mixture, fit each, and compute its statistics."""

from __future__ import annotations

import warnings
from contextlib import suppress

import numpy as np

from momentmix.estimators.gaussian_mixture import GaussianMixture
from momentmix.estimators.moment_mixture import MomentMixture
from momentmix.goodness.given import mixture_of
from momentmix.goodness.multipliers import lengths, mean_residual
from momentmix.goodness.residuals import Standardised
from momentmix.support.parallel import parallel_map, thread_limit, worker_count
from momentmix.support.progress import Progress

#: An interrupted bootstrap with fewer draws gives no result. With 19 draws the smallest possible
#: p-value is 1/20 = 0.05, so with fewer no test could reject at 5 %.
LEAST_DRAWS = 19


class Refits:
    """Refits that start at the mixture, of the rows themselves and of tables drawn from it.

    Both use the settings of the estimator, if there is one, so that the prior, for example, has
    the same effect on both.
    """

    def __init__(self, model: object, order: int, verbose: int, n_jobs: int | None) -> None:
        self.mixture, self.order = mixture_of(model), order
        self.verbose, self.n_jobs = verbose, n_jobs
        mixture, own = self.mixture, model
        if not isinstance(own, GaussianMixture | MomentMixture):
            own = GaussianMixture()
        self._estimator = type(own)
        self._settings = own.get_params()  # type: ignore[no-untyped-call]
        self._settings |= {
            "n_components": mixture.n_components,
            "covariance_type": mixture.covariance_type,
            "weights_init": mixture.weights,
            "means_init": mixture.means,
            "covariances_init": mixture.covariances,
            "precisions_init": None,
            "warm_start": False,
            "verbose": 0,
            "random_state": 0,
        }

    def residual(
        self, X: np.ndarray, counts: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """The moments (N,) of the rows less those of their fit, and the statistics (order + 1,).

        Raises KeyboardInterrupt if Ctrl-C stopped the fit.
        """
        estimator = self._estimator(**self._settings).fit(X, sample_weight=counts)
        if estimator.interrupted_:
            raise KeyboardInterrupt
        model = Standardised(estimator.mixture_, self.order)
        rows = model.rows(X, rng)

        def features(block: slice) -> np.ndarray:
            return model.features(rows.take(block))

        mean = mean_residual(features, counts, model.size)
        return mean, counts.sum() * lengths(mean, model.n, self.order)

    def draws(self, X: np.ndarray, p: float, n_boot: int, rng: np.random.Generator) -> np.ndarray:
        """The statistics of tables drawn from the mixture; (n_boot, order + 1).

        Each table has p rows and the gaps of X. After Ctrl-C fewer draws are returned.
        """
        gaps = np.isnan(X)
        found: list[np.ndarray] = []

        def one(seed: np.random.SeedSequence) -> None:
            own = np.random.default_rng(seed)
            drawn = np.array(self.mixture.sample(max(round(p), 1), own)[0])
            if gaps.any():
                shown = (
                    gaps if len(gaps) == len(drawn) else gaps[own.integers(len(X), size=len(drawn))]
                )
                drawn = np.where(shown, np.nan, drawn)
            found.append(self.residual(drawn, np.ones(len(drawn)), own)[1])
            progress.done()

        seeds = np.random.SeedSequence(rng.integers(2**63)).spawn(n_boot)
        with (
            suppress(KeyboardInterrupt),
            Progress(self.verbose, n_boot, "fits") as progress,
            warnings.catch_warnings(),
            thread_limit(self.n_jobs),
        ):
            warnings.simplefilter("ignore")  # a drawn table may be hard to fit
            parallel_map(one, seeds, worker_count(np))
        if len(found) < min(LEAST_DRAWS, n_boot):
            raise KeyboardInterrupt
        return np.array(found)
