"""The base of estimators that match moments: fits to moments alone, and to streams of batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from momentmix.blocks.dask_rows import feature_names, is_dask
from momentmix.blocks.rows import BlockRows
from momentmix.data.blocks import BlockData
from momentmix.data.gaps import check_gaps, tensors_with_gaps
from momentmix.data.sources import AtomData, Data, TensorData, data_of
from momentmix.distributions.moment_tensors import MomentTensors
from momentmix.estimators.inference import InferenceEstimator
from momentmix.estimators.rows import Table, check_rows
from momentmix.fitting.asked import Sizes
from momentmix.fitting.problem import Problem
from momentmix.matching.fit import Fit
from momentmix.moments.distribution import AtomDistribution
from momentmix.observed import noise_of_rows
from momentmix.support.array import (
    Array,
    as_like,
    empty_like_rows,
    foreign,
    namespace,
    to_numpy,
)
from momentmix.support.checks import positive
from momentmix.support.parallel import thread_limit

if TYPE_CHECKING:
    from typing_extensions import Self

#: Attributes that a fit of moments makes, besides those about features.
SOLVED = (
    "weights_",
    "means_",
    "covariances_",
    "precisions_",
    "precisions_cholesky_",
    "mixture_",
    "n_components_",
    "covariance_type_",
    "outlier_share_",
    "converged_",
    "interrupted_",
    "n_iter_",
    "n_passes_",
    "objective_",
    "history_",
    "collapsed_",
)


class MomentEstimator(InferenceEstimator):
    """An estimator that needs only moments, so rows can be read once and forgotten."""

    #: Attributes that a stream of partial_fit computes when they are first used.
    _solved: tuple[str, ...] = SOLVED

    def _order(self, sizes: Sizes) -> int:
        """The order of the moments that a fit without rows needs."""
        raise NotImplementedError

    def fit_moments(self, P: object, y: object = None) -> Self:
        """Fit the mixture to the moments of a distribution, without rows.

        Without rows there is no likelihood, so this is the estimate from moments alone.

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
        self._validate_params()  # type: ignore[no-untyped-call]
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

        return self._fit(read, rows=False)

    def partial_fit(
        self,
        X: Table,
        y: object = None,
        sample_weight: Table = None,
        noise_covariance: Table = None,
        half_life: float | None = None,
    ) -> Self:
        """Take in one more batch of rows, and forget the rows.

        Only the moments are kept, in ``moments_``. The parameters are solved for when you first ask
        for them (``means_``, ``predict`` and so on). They equal those of a fit to the moments of
        all batches together, to about 1e-8 where the data determine them. ``fit`` and
        ``fit_moments`` end the stream.

        Parameters
        ----------
        X : array of shape (p, n)
            The rows of this batch. A Dask array or DataFrame is a batch too. NaN is a gap: each
            moment is then the mean over the rows that have all of its features, which is right if
            values are missing completely at random.
        y : ignored
            It is there because scikit-learn's pipelines pass it.
        sample_weight : array of shape (p,), optional
            How many times each row counts.
        noise_covariance : scalar or array, optional
            The covariance of known errors in these rows, as in ``fit``. It is taken out of the
            moments.
        half_life : float, optional
            The number of rows after which the weight of a row has halved. The fit then follows a
            stream that changes, and rests on about 2.9 times as many rows. By default all rows
            count alike. Rows are in the order of time, the oldest first; those of a Dask batch all
            count as old as its last.

        Returns
        -------
        self
        """
        self._validate_params()  # type: ignore[no-untyped-call]
        with self._restore_if_refused(), thread_limit(self.n_jobs):
            self._take_in(X, sample_weight, noise_covariance, half_life)
        return self

    def _take_in(
        self, X: Table, sample_weight: Table, noise: Table, half_life: float | None
    ) -> None:
        stream: MomentTensors | None = vars(self).get("moments_")
        if is_dask(X):
            if stream is None:
                self._note_features(X.shape[1], feature_names(X))
            else:
                self._check_features(X)
        else:
            given = X
            X, sample_weight = check_rows(self, X, sample_weight, reset=stream is None)
            self.__dict__.pop("_like", None)
            if foreign(given):  # of float64, as all that a stream gives back
                self._like = as_like(np.empty((0, 1)), given, namespace(given).float64)
            if noise is not None:  # noise is removed from moments in main memory
                X = to_numpy(X)
                sample_weight = None if sample_weight is None else to_numpy(sample_weight)
                checked = noise_of_rows(to_numpy(noise), X)
                noise = None if checked is None else checked.array
        order = self._order(Sizes(int(X.shape[1])))
        moments = add_batch(stream, X, order, sample_weight, noise, half_life)
        noisy = vars(self).get("_noisy_stream", False) or noise is not None
        self._last_solution = self._previous_solution()
        for name in self._solved:
            self.__dict__.pop(name, None)
        self._noisy_stream = noisy
        self.moments_ = moments  # a new object, after the old parameters are gone

    def _data_of_blocks(self, rows: BlockRows) -> Data:
        """The rows, or the moments of rows that can be read only once."""
        if rows.again:
            return BlockData(rows)
        if rows.n_passes:  # Ctrl-C came meanwhile, and the rows are gone
            raise KeyboardInterrupt
        tensors = tensors_with_gaps(rows, self._order(Sizes(rows.n)))
        check_gaps(tensors)
        return TensorData(tensors)

    def _kept_data(self) -> TensorData:
        """The moments of the stream, which for noisy rows may be inconsistent by chance."""
        if "moments_" not in vars(self):
            return super()._kept_data()
        if not self._noisy_stream:
            check_gaps(self.moments_)
        return TensorData(self.moments_)

    def __sklearn_is_fitted__(self) -> bool:
        return "mixture_" in vars(self) or "moments_" in vars(self)

    def __getattr__(self, name: str) -> Any:
        # Python calls this for missing attributes. A stream has no fitted attributes until they
        # are first used after its last batch.
        if name in self._solved and "moments_" in vars(self):
            with self._restore_if_refused():
                self._solve(self._kept_data, rows=False)
            return vars(self)[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _set(self, problem: Problem, fit: Fit) -> None:
        super()._set(problem, fit)
        self.objective_, self.history_ = float(fit.objective), list(fit.history)


def add_batch(
    stream: MomentTensors | None,
    X: Table,
    order: int,
    weights: Table,
    noise: Table,
    half_life: float | None,
) -> MomentTensors:
    """The moments of a stream, if there is one yet, and of one more batch, as a new object.

    With a half-life h, a row followed by k rows weighs 2^(-k/h), within the batch and before it, so
    it does not matter how rows were cut into batches. On a cluster the order of rows is not known,
    so all rows of a batch count as old as its last.
    """
    if stream is not None and stream.order != order:
        raise ValueError(
            f"the settings now need order {order}, but the stream was begun with order "
            f"{stream.order}; call partial_fit of a new estimator"
        )
    if half_life is not None:
        positive("half_life", half_life)
        if not is_dask(X):
            fading: Array = np.exp2(-np.arange(X.shape[0])[::-1] / half_life)
            if foreign(X):
                fading = as_like(to_numpy(fading), X, namespace(X).float64)
            weights = fading if weights is None else weights * fading
    batch = tensors_with_gaps(X, order, weights, noise)
    if stream is None:
        return batch
    if half_life is not None:
        stream = stream.copy().decay(float(np.exp2(-batch.count / half_life)))
    return stream + batch
