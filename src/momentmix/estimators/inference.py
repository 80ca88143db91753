"""Standard errors, intervals and the bootstrap as methods of the estimators."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from sklearn.utils.validation import check_is_fitted

from momentmix.distributions.moment_tensors import MomentTensors
from momentmix.estimators.base import KnownCurvature, Table
from momentmix.estimators.predictions import MixturePredictions
from momentmix.fit import Fit, Parameters
from momentmix.fitting.information import Directions
from momentmix.fitting.plan import Plan, Sizes
from momentmix.fitting.problem import Problem
from momentmix.matching.estimate import MixtureMoments
from momentmix.moments.functions import AtomDistribution
from momentmix.rows.data import Data, TensorData, data_of
from momentmix.support.array import foreign, to_numpy
from momentmix.support.checks import generator, one_of, probability, whole_number
from momentmix.support.messages import NoStandardErrors, warn_user
from momentmix.support.parallel import thread_limit
from momentmix.uncertainty import (
    Bootstrap,
    BootstrapKind,
    Errors,
    InformationKind,
    NormalEstimate,
    bootstrap_fits,
    curvature_errors,
    entry_names,
    likelihood_errors,
    moment_errors,
    warn_if_unreliable,
)

#: A variance below this, in units of the data, counts as zero. It lies between the rounding of
#: float64 (1e-16) and the least variance that fits allow (1e-10); its exact value does not matter.
NO_VARIANCE = 1e-13


class InferenceEstimator(MixturePredictions):
    """An estimator with standard errors, intervals and the bootstrap."""

    def standard_errors(
        self,
        X: Table = None,
        *,
        kind: InformationKind = "observed",
        sample_weight: Table = None,
        noise_covariance: Table = None,
    ) -> Parameters:
        """The standard error of each parameter: how far it is off, typically.

        They hold for many rows, and if the rows are from a mixture of this kind. Where components
        overlap so much that they might be one, there is a warning; then look at ``bootstrap``.

        Parameters
        ----------
        X : array of shape (p, n), or MomentTensors, Samples or Mixture, optional
            What was fitted. It is not needed for a stream of ``partial_fit``, which has kept its
            moments, nor for a fit of rows elsewhere (``fit_batches``, Dask), which has computed
            what standard errors need. For fits of moments, they follow from the fitted mixture and
            the number of rows alone.
        kind : {"observed", "opg", "sandwich"}, default="observed"
            What standard errors are derived from: the curvature of the likelihood, the squares of
            the scores of the rows, or both, which also holds if the components are not quite
            Gaussian. For fits of moments it changes nothing.
        sample_weight : array of shape (p,), optional
            How many times each row counts, as in ``fit``.
        noise_covariance : scalar or array, optional
            The covariance of known errors in the rows, as in ``fit``.

        Returns
        -------
        object with ``weights`` (m,), ``means`` (m, n) and ``covariances``
            Each in the shape of the fitted attribute. Known covariances have the error 0.

        Examples
        --------
        >>> from momentmix import GaussianMixture, Mixture
        >>> truth = Mixture([0.5, 0.5], [[0.0], [6.0]], [1.0, 1.0], "spherical")
        >>> X, _ = truth.sample(1000, random_state=0)
        >>> gm = GaussianMixture(2, covariance_type="spherical", random_state=0).fit(X)
        >>> gm.standard_errors(X).weights.round(3).tolist()
        [0.016, 0.016]
        """
        estimate = self._estimate(X, kind, sample_weight, noise_covariance)
        return estimate.standard_errors()

    def confidence_intervals(
        self,
        X: Table = None,
        level: float = 0.95,
        *,
        kind: InformationKind = "observed",
        sample_weight: Table = None,
        noise_covariance: Table = None,
    ) -> tuple[Parameters, Parameters]:
        """Intervals that hold the true value of each parameter with a probability.

        They come from the standard errors. Weights stay between 0 and 1, and variances positive.

        Parameters
        ----------
        X : array of shape (p, n), or MomentTensors, Samples or Mixture, optional
            What was fitted, as in ``standard_errors``.
        level : float, default=0.95
            The probability.
        kind : {"observed", "opg", "sandwich"}, default="observed"
            As in ``standard_errors``.
        sample_weight : array of shape (p,), optional
            How many times each row counts, as in ``fit``.
        noise_covariance : scalar or array, optional
            The covariance of known errors in the rows, as in ``fit``.

        Returns
        -------
        low, high : objects with ``weights``, ``means`` and ``covariances``
            The ends of the intervals, in the shapes of the fitted attributes.
        """
        probability("level", level)
        estimate = self._estimate(X, kind, sample_weight, noise_covariance)
        return estimate.intervals(float(level))

    def parameter_covariance(
        self,
        X: Table = None,
        kind: InformationKind = "observed",
        *,
        sample_weight: Table = None,
        noise_covariance: Table = None,
    ) -> np.ndarray:
        """The covariance matrix of all estimated parameters.

        The order is that of ``parameter_names``: weights, means component by component, and the
        distinct entries of the covariances. Weights sum to 1, so their errors sum to 0.

        Parameters
        ----------
        X : array of shape (p, n), or MomentTensors, Samples or Mixture, optional
            What was fitted, as in ``standard_errors``.
        kind : {"observed", "opg", "sandwich"}, default="observed"
            As in ``standard_errors``.
        sample_weight : array of shape (p,), optional
            How many times each row counts, as in ``fit``.
        noise_covariance : scalar or array, optional
            The covariance of known errors in the rows, as in ``fit``.

        Returns
        -------
        ndarray of shape (parameters, parameters)
        """
        return self._estimate(X, kind, sample_weight, noise_covariance).entries()

    def parameter_names(self) -> list[str]:
        """The names of the rows and columns of ``parameter_covariance``."""
        check_is_fitted(self)
        names = vars(self).get("feature_names_in_")
        if names is None:
            names = [f"x{i}" for i in range(self.n_features_in_)]
        kind = self.mixture_.atoms.covariance.kind if self._free_covariances else None
        return entry_names(kind, self.mixture_.n_components, list(names))

    def bootstrap(
        self,
        X: Table,
        n_boot: int = 200,
        kind: BootstrapKind = "rows",
        *,
        sample_weight: Table = None,
        noise_covariance: Table = None,
    ) -> Bootstrap:
        """Fit rows drawn anew, many times, to see how far the parameters move.

        It assumes less than ``standard_errors``, and takes the time of many short fits. Each starts
        from the fitted mixture. ``verbose=1`` shows a progress bar. After Ctrl-C the result holds
        the fits so far.

        Parameters
        ----------
        X : array of shape (p, n)
            The rows that were fitted, in memory.
        n_boot : int, default=200
            The number of fits. Standard errors need some 100, intervals some 1,000.
        kind : {"rows", "weights", "parametric"}, default="rows"
            How rows are drawn anew: from the rows, with replacement; all of them with random
            weights, so that no row is ever missing; or from the fitted mixture.
        sample_weight : array of shape (p,), optional
            How many times each row counts, as in ``fit``.
        noise_covariance : scalar or array, optional
            The covariance of known errors in the rows, as in ``fit``.

        Returns
        -------
        Bootstrap
            With ``weights``, ``means`` and ``covariances`` of all fits, and the methods
            ``standard_errors()`` and ``confidence_intervals(level)``.
        """
        one_of("kind", kind, ("rows", "weights", "parametric"))
        whole_number("n_boot", n_boot, 2)
        if foreign(X):  # each fit draws rows anew, which is done in main memory
            X, sample_weight, noise_covariance = (
                to_numpy(part) if foreign(part) else part
                for part in (X, sample_weight, noise_covariance)
            )
        with thread_limit(self.n_jobs):
            problem, plan = self._problem_of_fit(X, sample_weight, noise_covariance)
            likelihood = problem.all_here
            if likelihood is None:
                raise ValueError(
                    "bootstrap draws rows in memory and fits them by EM; this is a fit of moments "
                    "alone or of rows elsewhere, for which there is standard_errors"
                )
            found, interrupted = bootstrap_fits(
                likelihood,
                problem.frame.forward(Parameters.of(self.mixture_)),
                int(n_boot),
                kind,
                generator(self.random_state),
                tol=plan.tol,
                max_iter=plan.max_iter,
                verbose=plan.verbose,
            )
        if interrupted and len(found) < 2:
            raise KeyboardInterrupt
        if interrupted:
            warn_user(f"the bootstrap was interrupted after {len(found)} of {n_boot} fits")
        back = [problem.frame.back(parameters) for parameters in found]
        weights, means, covariances = (np.array(part) for part in zip(*back, strict=True))
        weights /= weights.sum(axis=1, keepdims=True)  # beside a background they sum to less
        return Bootstrap(weights, means, covariances, interrupted)

    def _kept_data(self) -> TensorData:
        """The moments that were fitted, if the estimator has kept them."""
        raise ValueError(
            "X is needed, the rows or moments that were fitted; only a stream of partial_fit keeps "
            "its moments, and fits of many rows elsewhere have errors of kind='observed' without X"
        )

    def _plan_as_fitted(self, sizes: Sizes) -> Plan:
        """The plan, with the values that were chosen for "auto"."""
        return self._plan(sizes)

    @property
    def _free_covariances(self) -> bool:
        """Whether covariances are fitted, and not known."""
        return True

    def _estimate(
        self, X: Table, kind: InformationKind, sample_weight: Table, noise_covariance: Table
    ) -> NormalEstimate:
        """The fitted parameters and the covariance of their errors; warn if it is unreliable."""
        one_of("kind", kind, ("observed", "opg", "sandwich"))
        check_is_fitted(self)
        known: KnownCurvature | None = vars(self).get("_known_curvature")
        if X is None and known is not None and kind == "observed":
            directions = Directions(known.kind, known.parameters)
            errors = curvature_errors(directions, known.curvature, known.rows)
            warn_if_unreliable(errors, known.collapse)
            natural = errors.natural(known.factor)
            return NormalEstimate(known.kind, Parameters.of(self.mixture_), natural)
        with thread_limit(self.n_jobs):
            problem, plan = self._problem_of_fit(X, sample_weight, noise_covariance)
            fitted = Parameters.of(self.mixture_)
            here = problem.frame.forward(fitted)
            free = self._free_covariances and problem.likelihood is not None
            if free and problem.frame.kind.smallest_variance(here.covariances) < NO_VARIANCE:
                raise NoStandardErrors(
                    "a fitted covariance is singular, so the likelihood gives no standard errors; "
                    "drop constant or dependent features"
                )
            errors = _errors(problem, plan, here, kind)
            warn_if_unreliable(errors, problem.collapse(Fit(errors.directions.parameters)))
        return NormalEstimate(problem.frame.kind, fitted, errors.natural(problem.frame.factor))

    def _problem_of_fit(
        self, X: Table, sample_weight: Table, noise_covariance: Table
    ) -> tuple[Problem, Plan]:
        """The problem that was fitted, made again from rows, from moments, or from the stream."""
        check_is_fitted(self)
        rows = False
        if X is None:
            data: Data = self._kept_data()
        elif isinstance(X, MomentTensors | AtomDistribution):
            data = data_of(X)
        else:
            rows = True
            data = self._data(X, sample_weight, noise_covariance, reset=False)
        sizes = Sizes(data.n, data.rows, data.order, data.place if rows else "moments")
        plan = self._plan_as_fitted(sizes)
        if plan.sharpness != 1:
            raise NoStandardErrors(
                "a fit with goal='clusters' is not at the maximum of the likelihood, from which "
                "errors and the bootstrap follow; fit the same rows with goal='density'"
            )
        if plan.prior is not None:  # its strengths may have been found by the fit
            prior = plan.kind.prior(plan.n, self.prior_strength_)
            if prior is not None:
                prior = replace(prior, diagonal=self.diagonal_strength_)
            plan = replace(plan, prior=prior)
        return self._problem(data, plan), plan


def _errors(problem: Problem, plan: Plan, parameters: Parameters, kind: InformationKind) -> Errors:
    if problem.likelihood is not None:
        return likelihood_errors(problem.likelihood, parameters, kind)
    moments = problem.moments(plan)
    if not isinstance(moments, MixtureMoments):
        raise NoStandardErrors(
            "fits of moments alone have no standard errors for signals; fit the likelihood of "
            "the rows"
        )
    return moment_errors(moments, parameters, problem.count)
