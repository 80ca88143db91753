"""What the estimators share: streams of batches, fitted attributes, predictions.

An estimator says how it fits moments (``_fit_pure``) and up to which order it needs them
(``_needed_order``); the rest is here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from momentmix.cluster.rows import DaskRows, feature_names, is_dask, map_rows
from momentmix.covariance import Kind
from momentmix.data.content import distinct_rows
from momentmix.data.parameters import Parameters
from momentmix.data.sources import AtomData, Data, TensorData, data_of
from momentmix.distributions.mixture import Mixture
from momentmix.distributions.moment_tensors import MomentTensors
from momentmix.estimators.settings import generator
from momentmix.likelihood.em import softmax
from momentmix.likelihood.search import LARGE_DATA
from momentmix.matching.matching import Fit
from momentmix.support.parallel import thread_limit
from momentmix.support.warnings import CollapseWarning, warn_user

#: Largest entry of X, and inverse of the least difference, of which covariances can speak.
HUGE = 1e150
#: Attributes that a stream of partial_fit makes when they are asked for.
SOLVED = (
    "covariance_",
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
    "log_posterior_",
    "prior_strength_",
    "collapsed_",
    "history_",
)


class MixtureEstimator(DensityMixin, BaseEstimator):
    """A mixture to be fitted by its moments, in the manner of scikit-learn's GaussianMixture."""

    #: Of the rows, and so of what is given back; fits themselves are in float64.
    _dtype: Any = np.float64

    def _check_settings(self) -> None:
        raise NotImplementedError

    def _needed_order(self, n: int, held: int | None = None) -> int:
        """The order of the moments to match; ``held`` is the highest that there is."""
        raise NotImplementedError

    def _fit_pure(self, data: Data, passes: int = 0, count: float | None = None) -> Any:
        """The moment estimate; ``passes`` were made over ``count`` rows to get the data."""
        raise NotImplementedError

    def _n_parameters(self) -> int:
        raise NotImplementedError

    # Rows, weights and names

    @contextmanager
    def _kept_if_refused(self) -> Iterator[None]:
        """The names of the features stay those of the last fit where a new one is refused."""
        names = ("n_features_in_", "feature_names_in_", "_dtype")
        before = {name: vars(self)[name] for name in names if name in vars(self)}
        try:
            yield
        except Exception:
            for name in names:
                self.__dict__.pop(name, None)
            self.__dict__.update(before)
            raise

    def _checked_rows(
        self, X: Any, sample_weight: Any, least: int = 1, reset: bool = True
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Rows as float64 and their weights, neither negative nor summing to anything yet."""
        X = validate_data(
            self, X, reset=reset, dtype=[np.float64, np.float32], ensure_min_samples=least
        )
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(
                sample_weight, X, dtype=np.float64, ensure_non_negative=True
            )
            if not np.any(weights):  # scikit-learn itself says so from 1.9 on
                raise ValueError("sample_weight must hold at least one non-zero number")
        return X, weights

    def _fitted_rows(
        self, X: Any, sample_weight: Any
    ) -> tuple[np.ndarray, np.ndarray | None, float]:
        """Rows to fit, those without weight left out; weights with sum 1, and their sum before.

        The rows are distinct, unless there are very many (content.py).
        """
        X, counts = self._checked_rows(X, sample_weight, least=2)
        self._dtype = X.dtype.type
        X = X.astype(np.float64, copy=False)
        if counts is not None:
            X, counts = X[counts > 0], counts[counts > 0]
        if len(X) < self.n_components:
            raise ValueError(
                f"Expected n_samples >= n_components but got n_components = {self.n_components}, "
                f"n_samples = {len(X)}"
            )
        _check_size(X)
        if X.size <= LARGE_DATA:
            X, counts = distinct_rows(X, counts)
        if counts is None:
            return X, None, float(len(X))
        with np.errstate(over="ignore"):
            count = float(counts.sum())
        if not np.isfinite(count):
            raise ValueError("the sum of sample_weight overflows; scale the weights down")
        even = bool(np.all(counts == counts[0]))
        return X, None if even else counts / count, count

    def _note_features(self, X: Any) -> None:
        """As scikit-learn does for tables in memory."""
        self.n_features_in_ = int(X.shape[1])
        self.__dict__.pop("feature_names_in_", None)
        self.__dict__.pop("_dtype", None)
        names = feature_names(X)
        if names is not None:
            self.feature_names_in_ = names

    def _check_features(self, X: Any, first: bool = False) -> None:
        if first:
            return
        if X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input"
            )
        names, known = feature_names(X), getattr(self, "feature_names_in_", None)
        if names is not None and known is not None and list(names) != list(known):
            raise ValueError(
                f"the columns are {', '.join(names)}, but were {', '.join(known)} in fit"
            )

    # Fits from moments

    def fit_moments(self, P: Any, y: Any = None) -> Any:
        """Fit to the moments of a Mixture, of Samples, debiased ones included, or MomentTensors.

        There is no likelihood to polish, so this is the moment estimate itself.
        """
        self._check_settings()
        data = data_of(P)
        held = data.tensors.order if isinstance(data, TensorData) else None
        self._needed_order(data.n, held=held)
        if isinstance(data, AtomData) and abs(data.mass - 1) > 1e-6:
            raise ValueError(
                f"the weights of P sum to {data.mass:g}, but those of a mixture sum to 1; of one "
                "order alone symmetric_cp leaves them open, so give it weights over the orders"
            )
        with self._kept_if_refused():
            self.n_features_in_ = data.n
            self.__dict__.pop("feature_names_in_", None)
            self.__dict__.pop("_dtype", None)
            if getattr(P, "feature_names", None) is not None:
                self.feature_names_in_ = np.array(P.feature_names, dtype=object)
            stream = self.__dict__.pop("moments_", None)
            try:
                return self._fit_pure(data)
            except Exception:
                if stream is not None:
                    self.moments_ = stream
                raise

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Take in one more batch of rows, and forget the rows.

        The moments so far are in ``moments_``. Parameters are solved for when they are first asked
        for (``means_``, ``predict``, …), and then equal those of ``fit`` with ``polish=None`` on
        all batches together, to rounding where the solver gets there (1e-8 of parameters that the
        data determine). A Dask array or DataFrame is a batch too. ``fit`` and ``fit_moments``
        end the stream.
        """
        self._check_settings()
        stream: MomentTensors | None = self.__dict__.get("moments_")
        first = stream is None
        weights, there = sample_weight, is_dask(X)
        if there:
            self._check_features(X, first)
        else:
            X, weights = self._checked_rows(X, sample_weight, reset=first)
        if first:
            self.__dict__.pop("_dtype", None)
        order = self._needed_order(X.shape[1])
        moments = MomentTensors(X.shape[1], order) if stream is None else stream
        if moments.order != order:
            raise ValueError(
                f"the settings now need order {order}, but the stream was begun with order "
                f"{moments.order}; call partial_fit of a new estimator"
            )
        with thread_limit(self.n_jobs):
            moments = moments + MomentTensors.from_samples(X, order, weights)
        if there:
            self._note_features(X)
        self._last_solution = self._previous_solution()
        for name in SOLVED:
            self.__dict__.pop(name, None)
        self.moments_ = moments  # a new object, after the old parameters are gone
        return self

    def _end_stream(self) -> None:
        self.__dict__.pop("moments_", None)

    def _previous_solution(self) -> tuple | None:
        """Weights, means and covariances that were solved for last, if any were."""
        if "mixture_" in vars(self):
            return self.mixture_.weights, self.mixture_.means, self.mixture_.covariances
        return vars(self).get("_last_solution")

    def __getattr__(self, name: str) -> Any:
        # Only asked for what is not there: fitted attributes of a stream not solved yet.
        if name in SOLVED and "moments_" in vars(self):
            self._fit_pure(TensorData(self.moments_))
            return vars(self)[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    # What a fit leaves

    def _set(self, result: Fit, parameters: Parameters, kind: Kind, definite: bool = True) -> None:
        """Fitted attributes, from parameters in the coordinates of X.

        Without ``definite`` covariances there are no precisions.
        """
        weights, means, covariances = parameters
        weights = weights / weights.sum()
        covariances = np.ascontiguousarray(covariances)
        precisions: Any = kind.precision_cholesky(covariances) if definite else (None, None)
        names = vars(self).get("feature_names_in_")
        self.mixture_ = Mixture(weights, means, covariances, kind.name, feature_names=names)
        parts = (weights, means, covariances, *precisions)
        given: list[Any] = [
            None if part is None else part.astype(self._dtype, copy=False) for part in parts
        ]
        self.weights_, self.means_, self.covariances_ = given[:3]
        self.precisions_, self.precisions_cholesky_ = given[3:]
        self.converged_ = bool(result.converged)
        self.interrupted_ = bool(result.interrupted)
        self.n_iter_, self.n_passes_ = int(result.n_iter), int(result.n_passes)
        self.objective_ = float(result.objective)
        self.lower_bound_ = float(result.log_likelihood)
        self.lower_bounds_ = list(result.log_likelihoods)
        self.log_posterior_ = float(result.log_posterior)
        self.prior_strength_ = float(result.strength)
        self.collapsed_ = np.empty(0, dtype=np.intp)
        self.history_ = list(result.history)
        if result.interrupted:
            warn_user("the fit was interrupted; the attributes hold the best parameters so far")
        elif not result.converged:
            warn_user(
                f"the fit did not converge in max_iter={self.max_iter} iterations; raise max_iter "
                f"or tol (now {self.tol:g}), or ask for fewer components"
            )

    def _note_collapse(self, flat: np.ndarray, thin: np.ndarray, counts: np.ndarray) -> None:
        """Which components are not to be trusted, with a warning; all arguments are (m,)."""
        self.collapsed_ = np.flatnonzero(flat | thin)
        said = []
        if np.any(thin):
            rows = ", ".join(f"{count:.0f}" for count in counts[thin])
            said.append(
                f"{_which(thin, 'rest')} on about {rows} rows, few for a {self.covariance_type} "
                f"covariance of {self.n_features_in_} feature(s)"
            )
        if np.any(flat):
            said.append(
                f"{_which(flat, 'have')} no extent in some direction, where rows share a value or "
                "columns depend on each other"
            )
        if said:
            warn_user(
                f"{'; '.join(said)}. What they look like may be chance, and BIC and AIC mean "
                "little: ask for fewer components or a simpler covariance_type, or look at the "
                "columns",
                CollapseWarning,
            )

    # What a fitted estimator answers

    def _generator(self) -> np.random.Generator:
        return generator(self.random_state)

    def _rows(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return validate_data(self, X, reset=False, dtype=[np.float64, np.float32])

    def score_samples(self, X: Any) -> np.ndarray:
        """Log density of each row; of a Dask array or DataFrame a lazy Dask array, as below."""
        return self._by_row(X, Mixture.log_prob)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log density of the rows."""
        total, count = self._total_score(X)
        return total / count

    def _total_score(self, X: Any) -> tuple[float, int]:
        if is_dask(X):
            check_is_fitted(self)
            self._check_features(X)
            return DaskRows(X).total(_score_of_block, self.mixture_)
        X = self._rows(X)
        return float(np.sum(self.mixture_.log_prob(X))), len(X)

    def _by_row(self, X: Any, function: Any, width: int | None = None, dtype: Any = float) -> Any:
        """function(mixture, rows), here or block by block where the rows are."""
        if not is_dask(X):
            X = self._rows(X)
            found = function(self.mixture_, X)
            return found.astype(X.dtype, copy=False) if found.dtype.kind == "f" else found
        check_is_fitted(self)
        self._check_features(X)
        return map_rows(X, function, self.mixture_, width, dtype)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable component of each row."""
        return self._by_row(X, _most_probable, dtype=np.int64)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Posterior probability of each component for each row."""
        check_is_fitted(self)
        return self._by_row(X, posterior, width=len(self.weights_))

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> np.ndarray:
        return self.fit(X, y, sample_weight).predict(X)

    def sample(self, n_samples: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Random rows of the fitted mixture, and the component of each."""
        check_is_fitted(self)
        return self.mixture_.sample(n_samples, self._generator())

    def bic(self, X: Any) -> float:
        """Bayesian information criterion; the lower the better."""
        total, p = self._total_score(X)
        return -2 * total + self._n_parameters() * float(np.log(p))

    def aic(self, X: Any) -> float:
        """Akaike information criterion; the lower the better."""
        return -2 * self._total_score(X)[0] + 2 * self._n_parameters()


def _check_size(X: np.ndarray) -> None:
    """Refuse numbers whose squares are more, or the squares of whose differences less, than float64
    can hold.
    """
    lowest, highest = X.min(axis=0), X.max(axis=0)
    largest = max(-float(lowest.min()), float(highest.max()))
    spans = highest - lowest
    if largest > HUGE:
        raise ValueError(f"X holds {largest:.3g}, whose square overflows; rescale the features")
    if np.any((spans > 0) & (spans < 1 / HUGE)):
        raise ValueError(
            f"a feature of X varies by {spans[spans > 0].min():.3g}, whose square underflows; "
            "rescale the features"
        )


def _which(components: np.ndarray, verb: str) -> str:
    """Some components and what they do, in words."""
    numbers = [str(j) for j in np.flatnonzero(components)]
    if len(numbers) == 1:
        return f"component {numbers[0]} {'has' if verb == 'have' else verb + 's'}"
    if len(numbers) > 8:
        numbers = [*numbers[:7], f"{len(numbers) - 7} more"]
    return f"components {', '.join(numbers)} {verb}"


def by_weight(kind: Kind, parameters: Parameters) -> Parameters:
    """The components by falling weight; of equal ones, by their means."""
    weights, means, covariances = parameters
    keys = [*means.T[::-1], -np.round(weights, 9)]
    order = np.lexsort(keys)
    return Parameters(weights[order], means[order], kind.taken(covariances, order))


def _most_probable(mixture: Mixture, X: np.ndarray) -> np.ndarray:
    return mixture.log_joint(X).argmax(axis=1)


def posterior(mixture: Mixture, X: np.ndarray) -> np.ndarray:
    """(p, m); components are alike where all their densities are 0 to float64."""
    log_joint = mixture.log_joint(X)
    log_joint[np.all(log_joint == -np.inf, axis=1)] = 0.0
    return softmax(log_joint)[0]


def _score_of_block(
    X: np.ndarray, weights: np.ndarray | None, mixture: Mixture
) -> tuple[float, int]:
    return (float(np.sum(mixture.log_prob(X))) if len(X) else 0.0), len(X)
