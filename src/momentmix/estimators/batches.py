"""Fits to rows that come in batches: read from wherever they are, or handed over one by one."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from momentmix.blocks.dask_rows import feature_names, is_dask
from momentmix.blocks.rows import BlockRows
from momentmix.blocks.sources import Source, block_rows
from momentmix.data.blocks import BlockData
from momentmix.data.gaps import check_gaps, tensors_with_gaps
from momentmix.data.sources import Data, TensorData
from momentmix.distributions.moment_tensors import MomentTensors
from momentmix.estimators.base import MixtureEstimator
from momentmix.estimators.rows import Table, checked_rows
from momentmix.estimators.streams import with_batch
from momentmix.fitting.asked import Sizes
from momentmix.observed import noise_of_rows
from momentmix.support.array import as_like, foreign, namespace, to_numpy
from momentmix.support.parallel import thread_limit

if TYPE_CHECKING:
    from typing_extensions import Self


class BatchEstimator(MixtureEstimator):
    """An estimator that can be fitted to batches."""

    polish: str | None

    def fit_batches(
        self,
        source: Source,
        *,
        columns: Sequence[Hashable] | None = None,
        weights: Hashable | None = None,
        device: str | None = None,
    ) -> Self:
        """Fit the mixture to rows that come in batches, which need not fit into memory.

        With ``polish=None`` the rows are read once; otherwise each step of the fit reads them
        again. At most a few batches are in memory at a time. Null and NaN are gaps.

        Parameters
        ----------
        source : table, stream, batches, or function
            Where the rows are. It may be a Polars LazyFrame or DataFrame, a DuckDB relation or
            query, a pyarrow Table, Dataset, RecordBatchReader or Flight reader, or anything else
            with an Arrow C stream; a Spark DataFrame, or a Dask array or DataFrame, whose sums are
            made on the cluster; a list or generator of batches, such as
            ``pandas.read_csv(path, chunksize=100_000)``, each of them an array (p, n), a table, or
            a pair of one of these and weights (p,); or a function without arguments that gives one
            of all these. Readers and generators can be read once, which needs ``polish=None``. A
            function can be called again for each pass.
        columns : sequence of str, optional
            The names of the columns that are features. By default they are all but ``weights``.
        weights : str, optional
            The name of the column that says how many times each row counts.
        device : str, optional
            A device of PyTorch, such as "cuda", to which batches are copied, and on which sums are
            then made. The rows need not fit there. The next batch is read and copied meanwhile,
            but for functions, generators and lists of yours. What was fitted comes back as NumPy's
            arrays.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from momentmix import MomentMixture
        >>> def batches():
        ...     rng = np.random.default_rng(0)
        ...     for _ in range(20):
        ...         yield rng.normal(size=(1000, 2)) + 6 * rng.integers(2, size=(1000, 1))
        >>> fit = MomentMixture(2, random_state=0).fit_batches(batches)
        >>> np.sort(fit.means_[:, 0]).round(1) + 0.0
        array([0., 6.])
        """
        self._check_settings()
        rows = block_rows(source, columns, weights, once=self.polish is None, device=device)

        def read() -> Data:
            self._note_features(rows.n, rows.names)
            return BlockData(rows) if rows.again else self._moments_of(rows)

        self._fitted(read)
        if not rows.again:  # the fit was given moments, and does not know of the pass
            self.n_passes_ += rows.n_passes
        return self

    def _moments_of(self, rows: BlockRows) -> TensorData:
        """The moments of rows that can be read once, so that nothing asks for them again."""
        if rows.n_passes:  # Ctrl-C came meanwhile, and the rows are gone
            raise KeyboardInterrupt
        tensors = tensors_with_gaps(rows, self._order(Sizes(rows.n)))
        check_gaps(tensors)
        return TensorData(tensors)

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
        for them (``means_``, ``predict`` and so on). They equal those of ``fit`` with
        ``polish=None`` on all batches together, to about 1e-8 where the data determine them.
        ``fit`` and ``fit_moments`` end the stream.

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
            The number of rows after which a row counts half. The fit then follows a stream that
            changes, and rests on about 2.9 times so many rows. By default all rows count alike.
            Rows are in the order of time, the oldest first; those of a Dask batch are all as old
            as its last.

        Returns
        -------
        self
        """
        self._check_settings()
        with self._kept_if_refused(), thread_limit(self.n_jobs):
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
            X, sample_weight = checked_rows(self, X, sample_weight, reset=stream is None)
            self.__dict__.pop("_like", None)
            if foreign(given):  # of float64, as all that a stream gives back
                self._like = as_like(np.empty((0, 1)), given, namespace(given).float64)
            if noise is not None:  # which is taken out of the moments in the main memory
                X = to_numpy(X)
                sample_weight = None if sample_weight is None else to_numpy(sample_weight)
                checked = noise_of_rows(to_numpy(noise), X)
                noise = None if checked is None else checked.array
        order = self._order(Sizes(int(X.shape[1])))
        moments = with_batch(stream, X, order, sample_weight, noise, half_life)
        noisy = vars(self).get("_noisy_stream", False) or noise is not None
        self._last_solution = self._previous_solution()
        for name in self._solved:
            self.__dict__.pop(name, None)
        self._noisy_stream = noisy
        self.moments_ = moments  # a new object, after the old parameters are gone
