"""MomentMixture, the method of moments: its parameters, what they mean, and the plan they make.

``MomentEstimator`` is the base of estimators that match moments: fits to moments alone, and to
streams of batches.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import StrOptions

from momentmix.blocks.block_rows import BlockRows
from momentmix.blocks.dask_rows import feature_names
from momentmix.blocks.engines import is_dask
from momentmix.covariance import COVARIANCE_TYPES, CovarianceName, covariance_type
from momentmix.distributions.mixture import Mixture
from momentmix.distributions.moment_tensors import MomentTensors
from momentmix.estimators.base import Table, check_rows
from momentmix.estimators.gaussian_mixture import SHARED_CONSTRAINTS
from momentmix.estimators.inference import InferenceEstimator
from momentmix.estimators.predictions import OutlierAnswers
from momentmix.fit import Fit
from momentmix.fitting.plan import (
    LEAST_VARIANCE,
    Plan,
    Sizes,
    count_of_starts,
    given_start,
    last_start,
)
from momentmix.fitting.problem import Problem
from momentmix.matching.model import (
    ESTIMATE_TOL,
    INITS,
    LEAST_MATCHED_VARIANCE,
    Init,
    Model,
    SolverName,
    Weighting,
)
from momentmix.matching.orders import (
    check_order_weights,
    choose_order,
    choose_weighting,
    is_explicit,
    parameter_count,
    tensors_pay,
)
from momentmix.moments.functions import AtomDistribution
from momentmix.observed import noise_of_rows
from momentmix.rows.data import AtomData, Data, TensorData, data_of
from momentmix.rows.elsewhere import BlockData
from momentmix.rows.incomplete import check_gaps, tensors_with_gaps
from momentmix.support.array import Array, as_like, empty_like_rows, foreign, namespace, to_numpy
from momentmix.support.checks import Interval, positive
from momentmix.support.parallel import thread_limit
from momentmix.tensors.packed import total_size

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


#: The allowed values of the parameters that say how moments are matched.
MATCHING_CONSTRAINTS: dict[str, list[object]] = {
    "order_weights": ["array-like", StrOptions({"auto"})],
    "omega": [Interval(Real, 0, None, closed="neither"), None],
    "augmentation": [StrOptions({"implicit", "post-processing"})],
    "solver": [StrOptions({"auto", "gauss-newton", "lbfgs"})],
}
_OF_LIKELIHOODS = "it is one of GaussianMixture, the likelihood fit"


@dataclass(eq=False, repr=False)
class MomentMixture(OutlierAnswers, MomentEstimator):
    """Gaussian mixture by the method of moments, which reads the rows once.

    It matches the moments of the mixture (means of products of features) to those of the data, and
    never computes a likelihood. So one pass over the rows is enough, batches can be forgotten once
    they are summed up, and you can fit moments without any rows. If rows are in memory or can be
    read again, :class:`GaussianMixture` is more accurate.

    Parameters
    ----------
    n_components : int, default=1
        The number of components, m.
    covariance_type : {"full", "tied", "diag", "spherical", "tied-diag", "tied-spherical"}, \
            default="full"
        The shapes that components may have. "full": each its own ellipsoid. "tied": one ellipsoid
        for all. "diag": each its own ellipsoid along the axes, so that features do not correlate
        within a component. "spherical": each its own ball. "tied-diag" and "tied-spherical": one
        such ellipsoid, or ball, for all.
    order : int or "auto", default="auto"
        Moments of orders 1 to ``order`` are matched. "auto" is the smallest order that determines
        the parameters well: 2 for one component. For several of full or tied covariance it is at
        least 4 if there are few enough moments.
    order_weights : "auto" or sequence of order + 1 floats, default="auto"
        How much each of the orders 0 to ``order`` counts, in centred and scaled coordinates. "auto"
        derives this from the sampling noise that moments of normal data have, which gives 1/k! for
        order k.
    omega : float, optional
        The ω of the paper, in place of ``order_weights``: C(d, k) ω^(2(d-k)) for moments about the
        origin of X as it is given. The fit then depends on origin and unit. Use it to reproduce the
        paper.
    weighting : {"auto", "optimal", "orders"}, default="auto"
        How differences are weighted. "orders" uses one weight for each order.
        "optimal" uses the inverse of the covariance that moments of samples have: first for normal
        data, and then for samples of the fitted mixture. "auto" is "optimal" for up to 3,100
        moments.
    augmentation : {"implicit", "post-processing"}, default="implicit"
        The two forms of the paper's augmented system. In "implicit" the weights sum to 1 at every
        step; in "post-processing" they are scaled afterwards, and a last fit in the first form
        lowers the cost that this raised. So both end at the same minimum.
    solver : {"auto", "gauss-newton", "lbfgs"}, default="auto"
        How the difference of the moments is minimised. "auto" is Gauss-Newton, which takes few
        steps; "lbfgs" is a gradient method, as in the paper.
    init : {"auto", "random", "k-means++", "spectral"}, default="auto"
        Where a fit starts: at rows drawn at random, at rows that k-means++ draws far from
        each other, or at a decomposition of the third moment. "auto" takes the first two in turn.
    n_init : int or "auto", default="auto"
        The number of starts. "auto" tries until enough of them agree.
    moments : {"auto", "tensors", "samples"}, default="auto"
        What the fit works on: the moment tensors, made in one pass, or the samples, read at every
        step. "auto" takes the cheaper.
    reg_covar : float, default=1e-6
        The smallest variance that a component may have in any direction, relative to the variance
        of the data there.
    max_iter : int, default=200
        The limit on iterations of the solver.
    weights_init : array of shape (m,), optional
        Weights to start from. If you give any part of a start, no other start is tried. The parts
        that you do not give come from a fit without a start, or lie around ``means_init``.
    means_init : array of shape (m, n), optional
        Means to start from.
    covariances_init : array, optional
        Covariances to start from, in the shape of ``covariances_``.
    precisions_init : array, optional
        The inverses of ``covariances_init``, in the same shape, as scikit-learn takes them. Give
        one of the two.
    random_state : int, RandomState or None, default=None
        The seed of the random starts. A number makes fits repeatable.
    warm_start : bool, default=False
        Whether ``fit`` starts from the last solution.
    verbose : int, default=0
        1 shows a progress bar.
    n_jobs : int, optional
        The number of threads; by default as many as NumPy's linear algebra uses.

    Attributes
    ----------
    weights_ : ndarray of shape (m,)
        The share of each component. Components are sorted by it, the largest first, unless a start
        was given.
    means_ : ndarray of shape (m, n)
        The centre of each component.
    covariances_ : ndarray
        The covariances: (m, n, n) for full, (n, n) for tied, (m, n) for diag, (m,) for spherical.
    precisions_ : ndarray
        Their inverses, in the same shape.
    precisions_cholesky_ : ndarray
        The Cholesky factors of the inverses, as in scikit-learn.
    mixture_ : Mixture
        The fitted mixture, to save, load, condition and draw.
    converged_ : bool
        Whether the fit came to its end before ``max_iter``.
    interrupted_ : bool
        Whether Ctrl-C ended the fit; then the attributes hold the best so far.
    n_iter_ : int
        The iterations of the start that gave the result.
    n_passes_ : int
        The passes over the data in all.
    objective_ : float
        The cost of the moments that is left, in the centred and scaled coordinates of the fit; for
        rows, if tensors are not formed, without its constant ‖M̂‖². For the cost in the units of X,
        see ``moment_objective``.
    history_ : list of float
        The difference of the moments after each iteration.
    collapsed_ : ndarray of int
        The components that rest on too few rows, or whose width in some direction these moments do
        not tell. There is a warning about them.
    moments_ : MomentTensors
        After ``partial_fit``: the moments of all batches.

    See Also
    --------
    GaussianMixture : The likelihood fit, for rows that are in memory or can be read again.
    MomentTensors : Collects moments, to be merged, kept and fitted later.
    KnownCovarianceMixture : Components that differ only in their means, under known noise.

    Notes
    -----
    It minimises Σ_k w_k ‖M_k - M̂_k‖², the weighted difference of the moments of the mixture and of
    the data, without forming a tensor [1]_. "optimal" weights are those of the generalised method
    of moments [2]_.

    References
    ----------
    .. [1] J. M. Pereira, J. Kileel and T. G. Kolda, "Tensor Moments of Gaussian Mixture Models:
       Theory and Applications", arXiv:2202.06930, 2022.
    .. [2] L. P. Hansen, "Large Sample Properties of Generalized Method of Moments Estimators",
       Econometrica, 50, 1982.

    Examples
    --------
    >>> import numpy as np
    >>> from momentmix import MomentMixture
    >>> rng = np.random.default_rng(0)
    >>> fit = MomentMixture(2, covariance_type="spherical", random_state=0)
    >>> for _ in range(20):
    ...     batch = rng.normal(size=(1000, 2)) + 6 * rng.integers(2, size=(1000, 1))
    ...     fit = fit.partial_fit(batch)
    >>> np.sort(fit.means_[:, 0]).round(1) + 0.0
    array([0., 6.])
    """

    n_components: int = 1
    _: KW_ONLY
    covariance_type: CovarianceName = "full"
    order: int | Literal["auto"] = "auto"
    order_weights: ArrayLike | Literal["auto"] = "auto"
    omega: float | None = None
    weighting: Literal["auto", "optimal", "orders"] = "auto"
    augmentation: Literal["implicit", "post-processing"] = "implicit"
    solver: SolverName = "auto"
    init: Init = "auto"
    n_init: int | Literal["auto"] = "auto"
    moments: Literal["auto", "tensors", "samples"] = "auto"
    reg_covar: float = 1e-6
    max_iter: int = 200
    weights_init: ArrayLike | None = None
    means_init: ArrayLike | None = None
    covariances_init: ArrayLike | None = None
    precisions_init: ArrayLike | None = None
    random_state: object = None
    warm_start: bool = False
    verbose: int = 0
    n_jobs: int | None = None

    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        **SHARED_CONSTRAINTS,
        **MATCHING_CONSTRAINTS,
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "covariance_type": [StrOptions({*COVARIANCE_TYPES})],
        "order": [Interval(Integral, 2, None, closed="left"), StrOptions({"auto"})],
        "weighting": [StrOptions({"auto", "orders", "optimal"})],
        "init": [StrOptions({*INITS})],
        "moments": [StrOptions({"auto", "tensors", "samples"})],
    }
    _instead: ClassVar[dict[str, str]] = {
        "polish": "it fits moments alone; GaussianMixture fits likelihoods, and its "
        "init_params='moments' starts at moments",
        "init_params": _OF_LIKELIHOODS,
        "tol": _OF_LIKELIHOODS,
        "prior": _OF_LIKELIHOODS,
        "method": _OF_LIKELIHOODS,
        "outliers": _OF_LIKELIHOODS,
        "verbose_interval": _OF_LIKELIHOODS,
    }

    def _validate_params(self) -> None:
        for name in ("n_components", "covariance_type"):
            if getattr(self, name) == "auto":
                raise ValueError(
                    f"{name}='auto' compares likelihoods, and MomentMixture looks at none; give "
                    "it, or use GaussianMixture or select"
                )
        super()._validate_params()  # type: ignore[no-untyped-call]

    @property
    def _reads_once(self) -> bool:
        return True

    def _order(self, sizes: Sizes) -> int:
        return moment_order(self, sizes)

    def _plan(self, sizes: Sizes) -> Plan:
        return plan_moments(self, sizes, self._previous_solution())

    def _n_parameters(self) -> int:
        return parameter_count(self.mixture_.atoms.covariance.kind, *self.means_.shape)


def moment_order(s: MomentMixture, sizes: Sizes) -> int:
    """The order that MomentMixture matches.

    Higher orders pay only with the efficient weight.
    """
    given = s.omega is not None or not isinstance(s.order_weights, str)
    efficient = not given and s.weighting != "orders" and s.moments != "samples"
    order = None if s.order == "auto" else int(s.order)
    kind = covariance_type(s.covariance_type)
    return choose_order(
        kind, int(s.n_components), sizes.n, order, known=sizes.order, start=not efficient
    )


def plan_moments(s: MomentMixture, sizes: Sizes, last: Mixture | None) -> Plan:
    """The plan of MomentMixture: moments are matched as well as they can be."""
    kind, m, n = covariance_type(s.covariance_type), int(s.n_components), sizes.n
    order = moment_order(s, sizes)
    explicit = is_explicit(kind, m, n, order) and (
        s.moments != "samples" or sizes.order is not None
    )
    pays = s.moments == "auto" and tensors_pay(sizes.rows, kind, m, n, order)
    weights = check_order_weights(s.order_weights, s.omega, order)
    parts = s.weights_init, s.means_init, s.covariances_init, s.precisions_init
    given = given_start(kind, m, n, *parts)
    weighting: Weighting = "orders"
    if s.weighting == "optimal" and s.moments == "samples" and not explicit:
        raise ValueError(
            "weighting='optimal' weights a table of all moments, which moments='samples' does not "
            "make; use moments='auto' or 'tensors', or weighting='auto' or 'orders'"
        )
    if s.omega is None and not weights:
        weighting = choose_weighting(explicit, total_size(n, order), s.weighting)
    elif s.weighting == "optimal":
        raise ValueError(
            "weighting='optimal' derives the weights of all moments, but omega or order_weights "
            "gives them too; leave that out, or use weighting='auto' or 'orders'"
        )
    floor = max(float(s.reg_covar), LEAST_VARIANCE)
    model = Model(
        kind=kind,
        m=m,
        n=n,
        order=order,
        weights=weights,
        augmentation=s.augmentation,
        weighting=weighting,
        solver=s.solver,
        floor=max(floor, LEAST_MATCHED_VARIANCE),
        max_iter=int(s.max_iter),
        tol=ESTIMATE_TOL,
        explicit=explicit,
        omega=s.omega,
        tensors=(pays or s.moments == "tensors") and sizes.place != "moments",
        init=s.init,
    )
    return Plan(
        kind=kind,
        m=m,
        n=n,
        matching=model,
        n_init=count_of_starts(s.n_init),
        polish=False,
        floor=floor,
        tol=ESTIMATE_TOL,
        max_iter=int(s.max_iter),
        start=last_start(last if s.warm_start else None, kind, m, n) or given,
        by_weight=not s.warm_start and given is None,
        verbose=s.verbose,
    )
