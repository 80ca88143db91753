"""Fits to rows that come in batches from wherever they are."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from momentmix.blocks.rows import BlockRows
from momentmix.blocks.sources import Source, block_rows
from momentmix.data.blocks import BlockData
from momentmix.data.gaps import check_gaps, tensors_with_gaps
from momentmix.data.sources import Data, TensorData
from momentmix.estimators.base import MixtureEstimator
from momentmix.fitting.asked import Sizes

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
        rows = block_rows(source, columns, weights, once=self.polish is None)

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
