"""The base of the estimators: rows checked, one fit wherever they are, and its warnings.

Arrays of other libraries that are in main memory are read as NumPy arrays, without a copy. Arrays
on a device stay there. An estimator has a table of the values that its parameters may have, and
makes a plan and a problem from them; the rest is here. A fit that is refused leaves the estimator
as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import _check_n_features, _check_sample_weight, validate_data

from momentmix.blocks.block_rows import BlockRows
from momentmix.blocks.dask_rows import DaskRows, feature_names
from momentmix.blocks.device_rows import DeviceRows
from momentmix.blocks.engines import is_dask, refuse_unread
from momentmix.blocks.sources import Source, block_rows
from momentmix.covariance import Bound, Kind
from momentmix.distributions.mixture import Mixture
from momentmix.fit import Fit, Parameters
from momentmix.fitting.plan import Plan, Sizes
from momentmix.fitting.problem import Collapse, Problem, mixture_of, mixture_problem
from momentmix.fitting.solve import solve
from momentmix.observed import noise_of_rows
from momentmix.rows.data import Data, rows_to_fit
from momentmix.rows.elsewhere import BlockData
from momentmix.rows.frame import LARGE_DATA
from momentmix.support.array import (
    Array,
    all_finite,
    as_float_array,
    as_like,
    check_same_place,
    empty_like_rows,
    foreign,
    namespace,
    on_accelerator,
    place_of,
    refuse_graph,
    to_numpy,
    without_masks,
)
from momentmix.support.checks import generator
from momentmix.support.messages import CollapseWarning, SharedValueWarning, warn_user
from momentmix.support.parallel import thread_limit
from momentmix.support.stopping import stoppable

if TYPE_CHECKING:
    from sklearn.utils import Tags
    from typing_extensions import Self


#: Rows or weights as users have them: an array, a pandas or Polars table, or a Dask array or
#: DataFrame. They are checked before anything is done with them.
Table: TypeAlias = Any


def check_rows(
    estimator: BaseEstimator, X: Table, sample_weight: Table, least: int = 1, reset: bool = True
) -> tuple[Any, Any]:
    """Rows as float64 or float32, and their weights, which are not negative and not normalised.

    They are NumPy arrays, or both are on the device of X. NaN is a gap. With ``reset`` the
    estimator notes the number of features and their names.
    """
    refuse_unread(X)
    refuse_graph("estimators", X, sample_weight)
    check_same_place(X, sample_weight, "sample_weight")
    if on_accelerator(X):
        return _on_device(estimator, X, sample_weight, least, reset)
    X = checked_table(estimator, X, reset=reset, ensure_min_samples=least)
    weights = None
    if sample_weight is not None:
        weights = checked_weights(sample_weight, X)
        if not np.any(weights):  # scikit-learn itself says so from 1.9 on
            raise ValueError("sample_weight must hold at least one non-zero number")
    return X, weights


def checked_table(estimator: BaseEstimator, X: Table, *y: Table, **options: bool | int) -> Table:
    """Rows in the main memory, and y if there is one, as scikit-learn checks them; NaN is a gap."""
    X, y = in_numpy(X, "X"), tuple(in_numpy(each, "y") for each in y)
    try:
        return validate_data(
            estimator,
            X,
            *y,
            dtype=[np.float64, np.float32],
            ensure_all_finite="allow-nan",
            **options,
        )
    except TypeError as error:
        if "float()" not in str(error):
            raise
        raise TypeError(f"X must hold numbers, but one cannot be read: {error}") from error


def in_numpy(value: Table, name: str) -> Table:
    """An array of any library in NumPy, and a table as it is, with NaN for all that is absent."""
    return without_masks(to_numpy(value) if foreign(value) else value, name)


def checked_weights(sample_weight: Table, X: np.ndarray) -> np.ndarray:
    """A weight for each row, finite and not negative; (p,)."""
    given = in_numpy(sample_weight, "sample_weight")
    return _check_sample_weight(given, X, dtype=np.float64, ensure_non_negative=True)


def _on_device(
    estimator: BaseEstimator, X: Table, sample_weight: Table, least: int, reset: bool
) -> tuple[Array, Array | None]:
    """The same for rows on a device, with the error messages of scikit-learn."""
    if place_of(X) == "mps":
        raise TypeError(
            "X is on mps, a device without float64, in which fits are made; give X.cpu()"
        )
    X = as_float_array(X, "X", (2,))
    xp, (p, n) = namespace(X), X.shape
    if p < least or n < 1:
        raise ValueError(
            f"Found array with {p} sample(s) and {n} feature(s) (shape={(p, n)}) while a minimum "
            f"of {least} sample(s) and 1 feature(s) is required by {type(estimator).__name__}."
        )
    _check_n_features(estimator, X, reset=reset)
    if reset:
        estimator.__dict__.pop("feature_names_in_", None)
    if not all_finite(X) and bool(xp.any(xp.isinf(X))):
        raise ValueError(
            "Input X contains infinity or a value too large for its dtype; drop such rows"
        )
    if sample_weight is None:
        return X, None
    weights = sample_weight
    if isinstance(weights, int | float | np.number):
        weights = [float(weights)] * p
    if isinstance(weights, list | tuple):
        weights = as_like(np.asarray(weights, dtype=float), X, xp.float64)
    weights = as_float_array(weights, "sample_weight", (1,))
    weights = xp.astype(weights, xp.float64, copy=False)
    if weights.shape[0] != p:
        raise ValueError(f"sample_weight has {weights.shape[0]} entries for {p} rows of X")
    if not bool(xp.all(xp.isfinite(weights))) or bool(xp.any(weights < 0)):
        raise ValueError("sample_weight must be finite and not negative")
    if not bool(xp.any(weights > 0)):
        raise ValueError("sample_weight must hold at least one non-zero number")
    return X, weights


def warn_of_end(fit: Fit, max_iter: int) -> None:
    """Warn if a fit was interrupted or did not converge."""
    if fit.interrupted:
        warn_user("the fit was interrupted; the attributes hold the best parameters so far")
    elif not fit.converged:
        warn_user(
            f"the fit did not converge in max_iter={max_iter} iterations; raise max_iter, or ask "
            "for fewer components"
        )


def warn_of_columns(problem: Problem, fit: Fit, mixture: Mixture) -> None:
    """Name the columns that are constant, repeat each other, or hold the one value of a component.

    ``fit`` is in the coordinates of the problem.
    """
    if problem.constant:
        one = len(problem.constant) == 1
        warn_user(
            f"{columns_in_words(problem.constant, mixture)} {'is' if one else 'are'} constant in "
            f"these rows and {'tells' if one else 'tell'} nothing about groups; a new value there "
            "counts as odd, by a width that follows from the value alone. Leave "
            f"{'it' if one else 'them'} out, unless new rows should be judged by that",
            CollapseWarning,
        )
    said = []
    if problem.dependent:
        said.append(
            f"{columns_in_words(problem.dependent, mixture)} are copies or exact sums of each "
            "other, so one of them tells nothing new and can be left out"
        )
    if exact := problem.exact_columns(fit):
        said.append(
            f"in {columns_in_words(exact, mixture)} a component has a single value, which its rows "
            "share as zeros, caps and rounded values are shared. Such values count as known to the "
            "resolution of their column, so likelihoods and BIC compare; leave the column out if "
            "that value should not make rows a group"
        )
    if said:
        warn_user(f"{'; '.join(said)} (--exclude in the command)", SharedValueWarning)


def columns_in_words(places: Sequence[int], mixture: Mixture) -> str:
    """Columns by name or number, at most eight of them."""
    names = [
        str(place) if mixture.feature_names is None else mixture.feature_names[place]
        for place in places
    ]
    shown = names if len(names) <= 8 else [*names[:7], f"{len(names) - 7} more"]
    return f"column{'s' * (len(names) > 1)} {', '.join(shown)}"


def collapse_in_words(collapse: Collapse, mixture: Mixture, of_rows: bool = True) -> str:
    """Which components rest on too few rows or have no extent; "" if there are none.

    For fits of moments alone, the cause may be the rows or too few moments.
    """
    flat, thin, counts, columns, _ = collapse
    said = []
    if np.any(thin):
        rows = ", ".join(f"{count:.0f}" for count in counts[thin])
        common = mixture.atoms.covariance.common
        own = "mean" if common else f"{mixture.covariance_type} covariance"
        said.append(
            f"{_which(thin, 'rest')} on about {rows} rows, few for a {own} of "
            f"{mixture.n_features} feature{'s' * (mixture.n_features != 1)}"
        )
    if np.any(flat):
        what = "no extent in some direction"
        if of_rows and columns:
            what += f", that of {columns_in_words(columns, mixture)}"
        elif of_rows:
            what += ", where rows share a value or columns depend on each other"
        else:
            what = (
                "a width in some direction that these moments do not determine; moments of a "
                "higher order or of more rows may, unless columns depend on each other"
            )
        said.append(f"{_which(flat, 'have')} {what}")
    return "; ".join(said)


def _which(components: np.ndarray, verb: str) -> str:
    """Some components and what they do, in words."""
    numbers = [str(j) for j in np.flatnonzero(components)]
    if len(numbers) == 1:
        return f"component {numbers[0]} {'has' if verb == 'have' else verb + 's'}"
    if len(numbers) > 8:
        numbers = [*numbers[:7], f"{len(numbers) - 7} more"]
    return f"components {', '.join(numbers)} {verb}"


class KnownCurvature(NamedTuple):
    """The curvature at the end of a fit of rows elsewhere, from which standard errors follow."""

    kind: Kind
    parameters: Parameters  # in the coordinates of the fit
    curvature: np.ndarray  # per row; (size, size)
    rows: float
    factor: Bound
    collapse: Collapse | None


#: Reads the data of a fit, as often as it is called.
Reader: TypeAlias = Callable[[], Data]


class MixtureEstimator(DensityMixin, BaseEstimator):
    """The base of the estimators: fits to rows, wherever they are."""

    n_components: int | Literal["auto"]
    max_iter: int
    n_jobs: int | None
    random_state: object
    mixture_: Mixture
    means_: np.ndarray
    n_features_in_: int
    precisions_: np.ndarray | None
    precisions_cholesky_: np.ndarray | None
    _why_collapsed: str
    #: Parameters that users may expect here, and what to use instead.
    _instead: ClassVar[Mapping[str, str]] = {}
    #: An array without rows in the library and dtype and on the device of the rows, which results
    #: take over. Fits themselves are in float64.
    _like: Array = np.empty((0, 1))

    def __new__(cls, *args: object, **settings: object) -> Self:
        for name, instead in cls._instead.items():
            if name in settings:
                raise TypeError(f"{cls.__name__} has no parameter {name!r}: {instead}")
        return super().__new__(cls)

    def _plan(self, sizes: Sizes) -> Plan:
        """The plan that the parameters make for data of this size."""
        raise NotImplementedError

    def _problem(self, data: Data, plan: Plan) -> Problem:
        return mixture_problem(data, plan)

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
        self._validate_params()  # type: ignore[no-untyped-call]
        return self._fit(lambda: self._data(X, sample_weight, noise_covariance))

    def fit_batches(
        self,
        source: Source,
        *,
        columns: Sequence[Hashable] | None = None,
        weights: Hashable | None = None,
        device: str | None = None,
    ) -> Self:
        """Fit the mixture to rows that come in batches, which need not fit into memory.

        A fit of moments reads the rows once, and a likelihood fit reads them again in each of its
        last steps. At most a few batches are in memory at a time. Null and NaN are gaps.

        Parameters
        ----------
        source : table, stream, batches, or function
            Where the rows are. It may be a Polars LazyFrame or DataFrame, a DuckDB relation or
            query, a pyarrow Table, Dataset, RecordBatchReader or Flight reader, or anything else
            with an Arrow C stream; a Spark DataFrame, or a Dask array or DataFrame, whose sums are
            made on the cluster; a list or generator of batches, such as
            ``pandas.read_csv(path, chunksize=100_000)``, each of them an array (p, n), a table, or
            a pair of one of these and weights (p,); or a function without arguments that gives one
            of all these. Readers and generators can be read once, which is enough for
            :class:`MomentMixture`. A function can be called again for each pass.
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
        >>> from momentmix import GaussianMixture
        >>> def batches():
        ...     rng = np.random.default_rng(0)
        ...     for _ in range(20):
        ...         yield rng.normal(size=(1000, 2)) + 6 * rng.integers(2, size=(1000, 1))
        >>> fit = GaussianMixture(2, random_state=0).fit_batches(batches)
        >>> np.sort(fit.means_[:, 0]).round(1) + 0.0
        array([0., 6.])
        """
        self._validate_params()  # type: ignore[no-untyped-call]
        rows = block_rows(source, columns, weights, once=self._reads_once, device=device)

        def read() -> Data:
            self._note_features(rows.n, rows.names)
            return self._data_of_blocks(rows)

        self._fit(read)
        if not rows.again:  # the fit was given moments, and does not know of the pass
            self.n_passes_ += rows.n_passes
        return self

    @property
    def _reads_once(self) -> bool:
        """Whether one pass over the rows is enough."""
        return False

    def _data_of_blocks(self, rows: BlockRows) -> Data:
        return BlockData(rows)

    def _fit(self, read: Reader, rows: bool = True) -> Self:
        with self._restore_if_refused(), stoppable():
            self._solve(read, rows)
            for name in ("moments_", "_noisy_stream"):  # a stream ends here
                self.__dict__.pop(name, None)
        return self

    def _solve(self, read: Reader, rows: bool) -> None:
        """Read the data, fit, and set the attributes; without ``rows`` from moments alone."""
        with thread_limit(self.n_jobs):
            data = read()
            place = data.place if rows else "moments"
            plan = self._plan(Sizes(data.n, data.rows, data.order, place))
            problem = self._problem(data, plan)
            self._conclude(problem, solve(problem, plan, generator(self.random_state)))

    def _conclude(self, problem: Problem, fit: Fit) -> None:
        """Set the attributes from a fit in the coordinates of the problem, and warn if need be."""
        collapse, ended, fit = problem.collapse(fit), fit, problem.restore(fit)
        self._set(problem, fit)
        warn_of_columns(problem, ended, self.mixture_)
        if collapse is not None:
            self.collapsed_ = np.flatnonzero(collapse.components)
            of_rows = problem.likelihood is not None
            self._why_collapsed = collapse_in_words(collapse, self.mixture_, of_rows)
            if self._why_collapsed:
                what = "They" if problem.frame.kind.common else "Their shape"
                little = ", and BIC and AIC mean little" if len(self.collapsed_) else ""
                warn_user(
                    f"{self._why_collapsed}. {what} may be noise{little}: ask for fewer components "
                    "or a simpler covariance_type, or look at the columns",
                    CollapseWarning,
                )
        self.__dict__.pop("_known_curvature", None)
        if fit.curvature is not None and problem.likelihood is not None:
            self._known_curvature = KnownCurvature(
                problem.frame.kind,
                ended.parameters,
                fit.curvature,
                problem.count,
                problem.frame.factor,
                collapse,
            )

    def _data(
        self, X: Table, sample_weight: Table, noise_covariance: Table = None, reset: bool = True
    ) -> Data:
        """Rows as data of a fit; without ``reset`` their columns must be those that were fitted."""
        if is_dask(X):
            data = BlockData(DaskRows(X, sample_weight, noise_covariance))
            if reset:
                self._note_features(data.n, feature_names(X))
            else:
                self._check_features(X)
            return data
        given = X
        X, counts = check_rows(self, X, sample_weight, least=2, reset=reset)
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
        noise = None if noise_covariance is None else noise_of_rows(noise_covariance, X)
        names = vars(self).get("feature_names_in_")
        return rows_to_fit(X, counts, least, noise, names, device)

    def _stays(self, X: Array, noise_covariance: Table) -> bool:
        """Whether rows on a device are processed only there, because there are many.

        Fewer rows are also copied to main memory, and so are rows with gaps or errors, and rows of
        fits that need all of them.
        """
        many = X.shape[0] * X.shape[1] > LARGE_DATA
        return many and noise_covariance is None and not self._needs_memory and all_finite(X)

    @property
    def _needs_memory(self) -> bool:
        """Whether a fit needs all rows in main memory."""
        return False

    def _note_likeness(self, given: Table, X: Array) -> None:
        """Note the library, dtype and device of the rows, which results will have too."""
        if foreign(given) and not foreign(X):
            X = as_float_array(given[:0, :], "X", (2,))
        self._like = empty_like_rows(X)

    def _note_features(self, n: int, names: Sequence[str] | np.ndarray | None) -> None:
        """Note the number and names of features, as scikit-learn does for tables in memory."""
        for name in ("feature_names_in_", "_like"):
            self.__dict__.pop(name, None)
        self.n_features_in_ = int(n)
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)

    @contextmanager
    def _restore_if_refused(self) -> Iterator[None]:
        """Restore all attributes if a new fit is refused."""
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _previous_solution(self) -> Mixture | None:
        """The mixture of the last fit, if there was one."""
        solution: Mixture | None = vars(self).get("mixture_", vars(self).get("_last_solution"))
        return solution

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()  # type: ignore[no-untyped-call]
        tags.input_tags.allow_nan = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return "mixture_" in vars(self)

    # What a fit leaves

    def _set(self, problem: Problem, fit: Fit) -> None:
        """Set the fitted attributes from a fit in the coordinates of X."""
        kind, covariances = problem.frame.kind, np.asarray(fit.parameters.covariances, order="C")
        self.n_components_, self.covariance_type_ = len(fit.parameters.weights), kind.name
        precisions: tuple[np.ndarray | None, np.ndarray | None] = None, None
        if problem.definite and not kind.iterated:
            try:
                precisions = kind.precision_cholesky(covariances)
            except np.linalg.LinAlgError as error:
                raise ValueError(
                    "a fitted covariance is singular; raise reg_covar, or drop constant or "
                    "dependent features"
                ) from error
        names = vars(self).get("feature_names_in_")
        self.mixture_ = mixture_of(kind, fit.parameters, fit.widths, names)
        weights, means = to_numpy(self.mixture_.weights), fit.parameters.means
        self.weights_, self.means_ = self._as_given(weights), self._as_given(means)
        self.covariances_ = kind.present(self._as_given(covariances))
        self.precisions_, self.precisions_cholesky_ = (
            None if part is None else self._as_given(part) for part in precisions
        )
        self.converged_, self.interrupted_ = bool(fit.converged), bool(fit.interrupted)
        self.n_iter_, self.n_passes_ = int(fit.n_iter), int(fit.n_passes)
        self.collapsed_, self._why_collapsed = np.empty(0, dtype=np.intp), ""
        warn_of_end(fit, self.max_iter)

    def _set_likelihood(self, fit: Fit) -> None:
        """Set the attributes of a likelihood fit."""
        self.lower_bound_ = float(fit.log_likelihood)
        self.lower_bounds_ = list(fit.log_likelihoods)
        self.agreement_ = fit.agreement
        self.log_posterior_ = float(fit.log_posterior)
        self.prior_strength_, self.diagonal_strength_ = map(float, fit.strengths)

    def _as_given(self, array: np.ndarray) -> Any:
        """The array in the library and precision of the rows, and on their device."""
        return as_like(array, self._like)
