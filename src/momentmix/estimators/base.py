"""What the estimators share: one fit for rows wherever they are and for moments, and streams.

An estimator says how its parameters are checked, and which plan and which problem they make; the
rest is here. A fit that is refused leaves the estimator as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from momentmix.blocks.dask_rows import DaskRows, feature_names, is_dask
from momentmix.blocks.device_rows import DeviceRows
from momentmix.data.blocks import BlockData
from momentmix.data.content import LARGE_DATA
from momentmix.data.gaps import check_gaps
from momentmix.data.observed import ObservedData
from momentmix.data.rows import rows_to_fit
from momentmix.data.sources import AtomData, Data, TensorData, data_of
from momentmix.distributions.mixture import Mixture
from momentmix.distributions.moment_tensors import MomentTensors
from momentmix.estimators.collapse import warn_of_collapse, warn_of_constant_columns, warn_of_end
from momentmix.estimators.predictions import MixturePredictions
from momentmix.estimators.rows import Table, checked_rows
from momentmix.fitting.asked import Sizes
from momentmix.fitting.plan import Plan
from momentmix.fitting.problem import Problem, mixture_of
from momentmix.fitting.solve import solve
from momentmix.matching.fit import Fit
from momentmix.moments.distribution import AtomDistribution
from momentmix.observed import noise_of_rows
from momentmix.support.array import (
    Array,
    all_finite,
    as_float_array,
    as_like,
    empty_like_rows,
    foreign,
    to_numpy,
)
from momentmix.support.checks import generator
from momentmix.support.parallel import thread_limit

if TYPE_CHECKING:
    from sklearn.utils import Tags
    from typing_extensions import Self

#: Reads the data of a fit, as often as it is called.
Reader: TypeAlias = Callable[[], Data | ObservedData]
#: Attributes that a fit makes, besides those about features.
SOLVED = (
    "weights_",
    "means_",
    "covariances_",
    "precisions_",
    "precisions_cholesky_",
    "mixture_",
    "converged_",
    "interrupted_",
    "n_iter_",
    "n_passes_",
    "objective_",
    "lower_bound_",
    "lower_bounds_",
    "agreement_",
    "log_posterior_",
    "prior_strength_",
    "collapsed_",
    "history_",
)


class MixtureEstimator(MixturePredictions):
    """What the estimators share: fits to rows, to moments and to streams."""

    n_components: int | Literal["auto"]
    max_iter: int
    tol: float
    n_jobs: int | None
    precisions_: np.ndarray | None
    precisions_cholesky_: np.ndarray | None
    #: Attributes that a stream of partial_fit makes when they are asked for.
    _solved: tuple[str, ...] = SOLVED
    #: What the rows were like, and so what is given back is: an array without rows, in their
    #: library, dtype and on their device. Fits themselves are in float64.
    _like: Array = np.empty((0, 1))

    def _check_settings(self) -> None:
        raise NotImplementedError

    def _order(self, sizes: Sizes) -> int:
        """The order of the moments that a fit without rows needs."""
        raise NotImplementedError

    def _plan(self, sizes: Sizes) -> Plan:
        """What the parameters mean for data of a size."""
        raise NotImplementedError

    def _problem(self, data: Data | ObservedData, plan: Plan) -> Problem:
        raise NotImplementedError

    # Fits

    def fit(
        self,
        X: Table,
        y: object = None,
        sample_weight: Table = None,
        noise_covariance: Table = None,
    ) -> Self:
        """Fit the mixture to the rows of X, which may have gaps and known errors.

        A gap, NaN, is left out of the likelihood, which is that of the values that are there. This
        is right if whether a value is missing depends only on values that are not.

        Parameters
        ----------
        X : array of shape (p, n)
            The rows. A pandas table, a Dask array or DataFrame, or an array of PyTorch or CuPy,
            also on a GPU, works too. NaN is a gap. A row without any value counts for nothing.
        y : ignored
            It is there because scikit-learn's pipelines pass it.
        sample_weight : array of shape (p,), optional
            How many times each row counts. A row of weight 3 counts like that row three times.
        noise_covariance : scalar or array, optional
            The covariance of known Gaussian errors in the rows. The mixture is then that of the
            rows without their errors. Errors common to all rows are a scalar (one variance), n
            variances, or an (n, n) matrix. One for each row has the shape (p,), (p, n) or
            (p, n, n). If you have standard errors, square them.

        Returns
        -------
        self
        """
        self._check_settings()
        return self._fitted(lambda: self._data(X, sample_weight, noise_covariance))

    def fit_predict(
        self,
        X: Table,
        y: object = None,
        sample_weight: Table = None,
        noise_covariance: Table = None,
    ) -> np.ndarray:
        """Fit the mixture to the rows of X, and return the most probable component of each.

        Parameters
        ----------
        X : array of shape (p, n)
            The rows.
        y : ignored
            It is there because scikit-learn's pipelines pass it.
        sample_weight : array of shape (p,), optional
            How many times each row counts.
        noise_covariance : scalar or array, optional
            The covariance of known errors in the rows, as in ``fit``.

        Returns
        -------
        array of shape (p,)
        """
        fitted = self.fit(X, y, sample_weight, noise_covariance)
        return fitted.predict(X, noise_covariance)

    def fit_moments(self, P: object, y: object = None) -> Self:
        """Fit the mixture to the moments of a distribution, without rows.

        Without rows there is no likelihood, so this is the moment estimate, without polish.

        Parameters
        ----------
        P : MomentTensors, Samples or Mixture
            The distribution whose moments are matched. Samples may have known noise to take out.
        y : ignored
            It is there because scikit-learn's pipelines pass it.

        Returns
        -------
        self
        """
        self._check_settings()
        data = data_of(P)
        if isinstance(P, MomentTensors):
            check_gaps(P)
        if isinstance(data, AtomData) and abs(data.mass - 1) > 1e-6:
            raise ValueError(
                f"the weights of P sum to {data.mass:g}, but those of a mixture sum to 1; of one "
                "order alone symmetric_cp leaves them open, so give it weights over the orders"
            )

        def read() -> Data:
            self._note_features(data.n, getattr(P, "feature_names", None))
            if isinstance(P, AtomDistribution) and foreign(P.atoms.means):
                self._like = empty_like_rows(P.atoms.means)
            return data

        return self._fitted(read, rows=False)

    def _fitted(self, read: Reader, rows: bool = True) -> Self:
        with self._kept_if_refused():
            self._solve(read, rows)
            for name in ("moments_", "_noisy_stream"):  # a stream ends here
                self.__dict__.pop(name, None)
        return self

    def _solve(self, read: Reader, rows: bool) -> None:
        """Read the data, fit, and set what was found; without ``rows`` from moments alone."""
        with thread_limit(self.n_jobs):
            problem, plan, hurried = self._prepared(read, rows)
            fit = solve(problem, plan, generator(self.random_state), hurried)
            self._conclude(problem, fit)

    def _conclude(self, problem: Problem, fit: Fit) -> None:
        """Set what was found, in the coordinates of the problem, and warn of what is wrong."""
        collapse = problem.collapse(fit)
        try:
            fit = problem.restored(fit)
        except KeyboardInterrupt:  # there is a fit, which is not to be lost
            fit = problem.restored(replace(fit, interrupted=True))
        self._set(problem, fit)
        warn_of_constant_columns(problem.constant, self.mixture_)
        if collapse is not None:
            self.collapsed_ = np.flatnonzero(collapse.flat | collapse.thin)
            warn_of_collapse(collapse, self.mixture_, of_rows=problem.likelihood is not None)

    def _prepared(self, read: Reader, rows: bool) -> tuple[Problem, Plan, bool]:
        """The problem and the plan; and whether Ctrl-C came meanwhile, so that a guess has to do.

        Even a guess needs the rows, their mean and their covariance, so these are made again. A
        pass over the rows for more moments is not. Elsewhere everything takes a pass, and
        Ctrl-C ends the fit.
        """
        hurried = False
        try:
            data = read()
        except KeyboardInterrupt:
            data, hurried = read(), True
        place = data.place if rows else "moments"
        plan = self._plan(Sizes(data.n, data.rows, data.order, place))
        try:
            problem = self._problem(data, plan)
        except KeyboardInterrupt:
            if place == "elsewhere":
                raise
            plan, hurried = replace(plan, tensors=False), True
            problem = self._problem(data, plan)
        return problem, plan, hurried

    def _data(
        self, X: Table, sample_weight: Table, noise_covariance: Table = None, reset: bool = True
    ) -> Data | ObservedData:
        """Rows as data of a fit; without ``reset`` they must be like those that were fitted."""
        if is_dask(X):
            data = BlockData(DaskRows(X, sample_weight, noise_covariance))
            if reset:
                self._note_features(data.n, feature_names(X))
            else:
                self._check_features(X)
            return data
        given = X
        X, counts = checked_rows(self, X, sample_weight, least=2, reset=reset)
        if reset:
            self._note_likeness(given, X)
        least = 1 if self.n_components == "auto" else int(self.n_components)
        if foreign(X) and self._stays(X, noise_covariance):
            if X.shape[0] < least:
                raise ValueError(
                    f"Expected n_samples >= n_components but got n_components = {least}, "
                    f"n_samples = {X.shape[0]}"
                )
            return BlockData(DeviceRows(X, counts))
        device = empty_like_rows(X) if foreign(X) else None
        X, counts, noise_covariance = (
            None if part is None else to_numpy(part) for part in (X, counts, noise_covariance)
        )
        noise = noise_of_rows(noise_covariance, X)
        names = vars(self).get("feature_names_in_")
        here = rows_to_fit(X, counts, least, noise, names)
        if isinstance(here, AtomData):
            here.device = device
        return here

    def _stays(self, X: Array, noise_covariance: Table) -> bool:
        """Whether the rows of a device are worked at there alone, because they are many.

        Fewer have a copy in the main memory, and so have those with gaps or errors, and those of
        fits that look at all rows.
        """
        many = X.shape[0] * X.shape[1] > LARGE_DATA
        return many and noise_covariance is None and not self._needs_memory and all_finite(X)

    @property
    def _needs_memory(self) -> bool:
        """Whether a fit has to look at all rows in the main memory."""
        return False

    def _note_likeness(self, given: Table, X: Array) -> None:
        """What is given back is in the library and on the device of what was given."""
        if foreign(given) and not foreign(X):
            X = as_float_array(given[:0, :], "X", (2,))
        self._like = empty_like_rows(X)

    def _note_features(self, n: int, names: Sequence[str] | np.ndarray | None) -> None:
        """As scikit-learn does for tables in memory."""
        for name in ("feature_names_in_", "_like"):
            self.__dict__.pop(name, None)
        self.n_features_in_ = int(n)
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)

    @contextmanager
    def _kept_if_refused(self) -> Iterator[None]:
        """Names, stream and solution stay those of the last fit where a new one is refused."""
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    # Streams, of which batches.py makes the moments

    def _stream_data(self) -> TensorData:
        """The moments of the stream. Those of noisy rows may contradict each other by chance."""
        if not self._noisy_stream:
            check_gaps(self.moments_)
        return TensorData(self.moments_)

    def _previous_solution(self) -> Mixture | None:
        """What was solved for last, if anything was."""
        solution: Mixture | None = vars(self).get("mixture_", vars(self).get("_last_solution"))
        return solution

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()  # type: ignore[no-untyped-call]
        tags.input_tags.allow_nan = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return "mixture_" in vars(self) or "moments_" in vars(self)

    def __getattr__(self, name: str) -> Any:
        # Python comes here for what is not there: the fitted attributes of a stream, of which the
        # parameters have not been asked for since its last batch.
        if name in self._solved and "moments_" in vars(self):
            with self._kept_if_refused():
                self._solve(self._stream_data, rows=False)
            return vars(self)[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    # What a fit leaves

    def _set(self, problem: Problem, fit: Fit) -> None:
        """Fitted attributes, from a fit in the coordinates of X."""
        kind, covariances = problem.frame.kind, np.ascontiguousarray(fit.parameters.covariances)
        precisions: tuple[np.ndarray | None, np.ndarray | None] = None, None
        if problem.definite:
            precisions = kind.precision_cholesky(covariances)
        names = vars(self).get("feature_names_in_")
        self.mixture_ = mixture_of(kind, fit.parameters, fit.widths, names)
        weights, means = to_numpy(self.mixture_.weights), fit.parameters.means
        self.weights_, self.means_ = self._as_given(weights), self._as_given(means)
        self.covariances_ = self._as_given(covariances)
        self.precisions_, self.precisions_cholesky_ = (
            None if part is None else self._as_given(part) for part in precisions
        )
        self.converged_, self.interrupted_ = bool(fit.converged), bool(fit.interrupted)
        self.n_iter_, self.n_passes_ = int(fit.n_iter), int(fit.n_passes)
        self.objective_ = float(fit.objective)
        self.lower_bound_ = float(fit.log_likelihood)
        self.lower_bounds_ = list(fit.log_likelihoods)
        self.agreement_ = fit.agreement
        self.log_posterior_ = float(fit.log_posterior)
        self.prior_strength_ = float(fit.prior_strength)
        self.collapsed_ = np.empty(0, dtype=np.intp)
        self.history_ = list(fit.history)
        warn_of_end(fit, self.max_iter, self.tol)

    def _as_given(self, array: np.ndarray) -> Any:
        """In the library and the precision of the rows, and on their device."""
        return as_like(array, self._like)
