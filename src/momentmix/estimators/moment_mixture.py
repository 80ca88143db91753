"""MomentMixture: the scikit-learn estimator. It validates, calls, and sets attributes."""

from __future__ import annotations

from typing import Any

import numpy as np

from momentmix.cluster.rows import DaskRows, is_dask
from momentmix.covariance import Kind, LogNormalPrior, covariance_type
from momentmix.data.cluster import ClusterData
from momentmix.data.frame import Frame
from momentmix.data.parameters import Parameters
from momentmix.data.rounding import least_variances, rounding_variances
from momentmix.data.sources import AtomData, Data, TensorData
from momentmix.distributions.mixture import Mixture
from momentmix.distributions.moment_tensors import MomentTensors, tensors_on_cluster
from momentmix.estimators.base import MixtureEstimator, by_weight
from momentmix.estimators.settings import (
    check_settings,
    frame_for,
    given_start,
    model_for,
    order_for,
)
from momentmix.fitting.noise import effective_count
from momentmix.likelihood import search
from momentmix.likelihood.cluster import ClusterLikelihood
from momentmix.likelihood.em import Density, Likelihood
from momentmix.likelihood.strength import cross_validated
from momentmix.matching import matching
from momentmix.matching.choices import (
    gaussian_weights,
    parameter_count,
    sampling_weights,
    tensors_pay,
)
from momentmix.matching.starts import around_points, normal_points
from momentmix.support.parallel import thread_limit
from momentmix.support.progress import Progress
from momentmix.support.warnings import warn_user

#: The least variance of a component even for reg_covar=0, relative to that of the data: one of a
#: single row must stay finite, and a covariance matrix hold its least eigenvalue to five digits.
LEAST_VARIANCE = 1e-10
#: Rows that a Dask array is taken to have, which may not know; tensors pay for that many.
CLUSTER_ROWS = 10_000_000


class MomentMixture(MixtureEstimator):
    """Gaussian mixture fitted by its moments, then by its likelihood.

    A drop-in for scikit-learn's ``GaussianMixture``: same methods and fitted attributes. Rows in
    memory are fitted by EM on a penalised likelihood, and exchanges of a merge for a split repair
    what EM leaves wrong. Moments are matched where rows are not to be read again (``polish=None``,
    ``partial_fit``, ``fit_moments``, Dask), and where starts of that kind are asked for
    (``n_init``). Components come by falling weight, unless a start was given.

    Parameters
    ----------
    n_components : int, default=1
    covariance_type : {"full", "tied", "diag", "spherical"}, default="full"
    order : int or "auto", default="auto"
        Moments of orders 1 to ``order`` are matched. "auto" is the least order that can determine
        the parameters, and at least 4 where there are few enough moments.
    order_weights : "auto" or sequence of order + 1 floats, default="auto"
        Weights of orders 0..order in the cost, in centred and scaled coordinates. "auto" derives
        them from the sampling noise of the moments: of normal data (1/k!) without polish, which
        knows the moments alone, and of the samples themselves with it.
    omega : float, optional
        The paper's ω in place of ``order_weights``: C(d, k) ω^(2(d-k)), on moments about the
        origin of X as it is given. The fit then depends on origin and unit, as in the paper.
    weighting : {"auto", "optimal", "orders"}, default="auto"
        "orders" uses one weight an order. "optimal" uses the inverse covariance that the distinct
        moments of samples have: at first of normal ones (Hermite moments), then of samples of the
        mixture found, which is known from its own moments of twice the order. "auto" is "optimal"
        where the moments are at most 2,000, and "orders" beyond a few thousand. With polish the
        first of the two weights is enough, for starts of EM.
    augmentation : {"implicit", "post-processing"}, default="implicit"
        The two forms of the paper's augmented system.
    solver : {"auto", "gauss-newton", "lbfgs"}, default="auto"
    init : {"auto", "random", "k-means++", "spectral"}, default="auto"
        Where moment fits start. "auto" takes several kinds in turn.
    n_init : int or "auto", default="auto"
        Number of moment starts. "auto" searches with polish: EM from k-means and random starts,
        each repaired by exchanges of a merge for a split, until two agree; and without polish
        tries moment starts until enough agree.
    polish : {"em", None}, default="em"
        None gives the moment estimate itself.
    prior : {"auto", "cv", None} or float, default="auto"
        How firmly the covariances of the components are held together. Their logarithms are taken
        to be normal about a common one, with the weight of so many rows in each component: a
        number, 3n - 1 for "auto" (2 for diag and spherical), or one that cross-validation chooses
        ("cv"). The effect vanishes beside many rows; on few it keeps components from collapsing
        onto a handful of them. No covariance is then smaller than what rounding of the columns
        hides, either. None maximises the likelihood alone, as scikit-learn does. A tied covariance
        has no others to be held to.
    reg_covar : float, default=1e-6
        The least variance that a component may have in any direction, relative to the variance of
        the data there.
    max_iter : int, default=200
        Limit on iterations of each solver; with 0 the fit is its first start.
    tol : float, default=1e-6
        EM stops when the mean log-likelihood gains less.
    weights_init, means_init, covariances_init : arrays, optional
        A start of one's own, or a part of one, the rest coming from k-means; then no other start
        is tried.
    random_state : int, RandomState or None
    warm_start : bool, default=False
        Start from the last solution.
    verbose : int, default=0
        1 shows a progress bar.
    n_jobs : int, optional
        Threads; by default as many as the BLAS may use.
    moments : {"auto", "tensors", "samples"}, default="auto"
        What ``polish=None`` works on: the moment tensors that one pass gives, or the samples, read
        at every step. "auto" takes the cheaper.

    Attributes
    ----------
    weights_, means_, covariances_, precisions_, precisions_cholesky_ : ndarray
    mixture_ : Mixture
    converged_, interrupted_ : bool
    n_iter_ : int
        Iterations of the last run of the solver that gave the result.
    n_passes_ : int
        Passes over the data in all.
    objective_ : float
        Moment cost of the start that led to the result.
    lower_bound_ : float
        Mean log-likelihood a sample; NaN without polish, which has not looked at it.
    log_posterior_ : float
        The same less the penalty of the prior: what the fit maximises.
    prior_strength_ : float
        Of the prior, in rows; 0 if there is none.
    collapsed_ : ndarray of int
        Components that rest on too few rows, or have no extent in some direction; there is a
        warning about them, and BIC and AIC mean little.
    history_ : list of float
        Moment cost after each iteration of that start.
    moments_ : MomentTensors
        After ``partial_fit``: the moments of all batches.

    Examples
    --------
    >>> import numpy as np
    >>> from momentmix import MomentMixture
    >>> X = np.array([[1, 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0]])
    >>> gm = MomentMixture(n_components=2, random_state=0).fit(X)
    >>> np.sort(gm.means_[:, 0]).round(3)
    array([ 1., 10.])
    >>> gm.predict([[0, 0], [12, 3]]).tolist() in ([0, 1], [1, 0])
    True
    """

    def __init__(
        self,
        n_components: int = 1,
        *,
        covariance_type: str = "full",
        order: int | str = "auto",
        order_weights: Any = "auto",
        omega: float | None = None,
        weighting: str = "auto",
        augmentation: str = "implicit",
        solver: str = "auto",
        init: str = "auto",
        n_init: int | str = "auto",
        polish: str | None = "em",
        reg_covar: float = 1e-6,
        max_iter: int = 200,
        tol: float = 1e-6,
        weights_init: Any = None,
        means_init: Any = None,
        covariances_init: Any = None,
        random_state: Any = None,
        warm_start: bool = False,
        verbose: int = 0,
        n_jobs: int | None = None,
        moments: str = "auto",
        prior: str | float | None = "auto",
    ) -> None:
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.order = order
        self.order_weights = order_weights
        self.omega = omega
        self.weighting = weighting
        self.augmentation = augmentation
        self.solver = solver
        self.init = init
        self.n_init = n_init
        self.polish = polish
        self.reg_covar = reg_covar
        self.max_iter = max_iter
        self.tol = tol
        self.weights_init = weights_init
        self.means_init = means_init
        self.covariances_init = covariances_init
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.moments = moments
        self.prior = prior

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> MomentMixture:
        """Fit to the rows of X; ``sample_weight`` counts each row that many times."""
        check_settings(self)
        if is_dask(X):
            return self._fit_dask(X, sample_weight)
        with self._kept_if_refused():
            early = False
            try:
                rows = self._fitted_rows(X, sample_weight)
            except KeyboardInterrupt:  # even a guess needs these
                rows, early = self._fitted_rows(X, sample_weight), True
            return self._fit_rows(*rows, early)

    def _fit_rows(
        self, X: np.ndarray, weights: np.ndarray | None, count: float, early: bool = False
    ) -> MomentMixture:
        if self.polish is None:
            data = self._data(X, weights)
            self._end_stream()
            return self._fit_pure(data, 1, count, early)
        if self.prior is not None and count < 0.1 * len(X):
            warn_user(
                f"the weights of {len(X)} rows sum to {count:g}, and count as so many rows beside "
                "the prior; scale them to sum to the number of rows, or use prior=None",
                UserWarning,
            )
        try:
            parts = self._likelihood_problem(X, weights, count)
        except KeyboardInterrupt:  # even a guess needs these
            parts, early = self._likelihood_problem(X, weights, count), True
        frame = parts[1]
        self._end_stream()
        with thread_limit(self.n_jobs):
            result = self._solve_likelihood(*parts, early)
        penalty = result.log_likelihood - result.log_posterior
        result.log_likelihood -= frame.log_volume
        result.log_likelihoods = [v - frame.log_volume for v in result.log_likelihoods]
        sharp = Density.of(self._kind, result.parameters).peaks is not None
        if sharp or X.size <= search.LARGE_DATA:
            # Of the parameters as they will be: rounded in the units of X, which a peak notices.
            mixture = Mixture(*frame.back(result.parameters), self.covariance_type)
            result.log_likelihood = float(np.average(mixture.log_prob(X), weights=weights))
        result.log_posterior = result.log_likelihood - penalty
        self._finish(result, frame, parts[3].floor, count)
        return self

    def _likelihood_problem(
        self, X: np.ndarray, weights: np.ndarray | None, count: float
    ) -> tuple[matching.Model, Frame, AtomData, Likelihood]:
        data = AtomData.of_rows(X, weights)
        frame = frame_for(self, data)
        hidden = least_variances(X)
        if self.prior is not None:
            hidden = np.maximum(hidden, rounding_variances(X, weights, count))
        scaled = search.in_order(data.within(frame))
        rows, weights = scaled.atoms.means, scaled.weights
        likelihood = Likelihood(
            rows,
            weights,
            self._kind,
            frame.bound(self._floor, hidden),
            prior=self._prior(X.shape[1]),
            count=count,
            to_features=frame.to_features,
        )
        auto_weights = gaussian_weights
        if self.n_init != "auto":  # moment starts, weighted by the noise of these rows

            def auto_weights(order: int) -> list[float]:
                return sampling_weights(rows, weights, order)

        model = model_for(self, scaled, frame.unit, False, auto_weights)
        return model, frame, scaled, likelihood

    def _prior(self, n: int) -> LogNormalPrior | None:
        return self._kind.prior(n, self.prior)

    @property
    def _kind(self) -> Kind:
        return covariance_type(self.covariance_type)

    @property
    def _floor(self) -> float:
        return max(float(self.reg_covar), LEAST_VARIANCE)

    def _fit_dask(self, X: Any, sample_weight: Any) -> MomentMixture:
        """The moment estimate, and EM from there on the workers: no rows leave them."""
        rows = DaskRows(X, sample_weight)
        self._end_stream()
        kind, m, n = self._kind, int(self.n_components), rows.n
        self._note_features(X)
        order = order_for(self, n)
        pays = tensors_pay(CLUSTER_ROWS, kind, m, n, order)
        data: Data = ClusterData(rows)
        if self.moments == "tensors" or (self.moments == "auto" and pays):
            data = TensorData(tensors_on_cluster(rows, order))
        frame = frame_for(self, data)
        scaled = data.within(frame)
        with thread_limit(self.n_jobs):
            result = self._solve_moments(model_for(self, scaled, frame.unit, True), frame, scaled)
        result.log_likelihood, em = np.nan, None
        if self.polish == "em" and not result.interrupted:
            em = ClusterLikelihood(rows, frame, kind, self._floor, prior=self._prior(n))
            with Progress(self.verbose, int(self.max_iter), "EM steps") as progress:
                polished = em.fit(
                    matching.widened(kind, result.parameters),
                    tol=float(self.tol),
                    max_iter=int(self.max_iter),
                    callback=progress.step,
                )
            result.parameters, result.n_iter = polished.parameters, polished.n_iter
            result.log_likelihood = polished.log_likelihood - frame.log_volume
            result.log_posterior = polished.log_posterior - frame.log_volume
            result.converged, result.interrupted = polished.converged, polished.interrupted
            result.strength = 0.0 if em.prior is None else em.prior.strength
        result.n_passes = rows.n_passes
        self._finish(result, frame, self._floor, em.count if em is not None else np.inf)
        return self

    def _data(self, X: np.ndarray, weights: np.ndarray | None) -> Data:
        """Rows for a pure moment fit, or the moments that one pass over them gives."""
        order = order_for(self, X.shape[1])
        kind, m = self._kind, int(self.n_components)
        pays = tensors_pay(len(X), kind, m, X.shape[1], order)
        if self.moments == "tensors" or (self.moments == "auto" and pays):
            with thread_limit(self.n_jobs):
                return TensorData(MomentTensors.from_samples(X, order, weights))
        return AtomData.of_rows(X, weights)

    def _fit_pure(
        self, data: Data, passes: int = 0, count: float | None = None, early: bool = False
    ) -> MomentMixture:
        """The moment estimate; ``passes`` were made over ``count`` rows to get the data."""
        try:
            frame, scaled, model = self._moment_problem(data)
        except KeyboardInterrupt:  # even a guess needs these
            (frame, scaled, model), early = self._moment_problem(data), True
        with thread_limit(self.n_jobs):
            result = self._solve_moments(model, frame, scaled, early)
        result.log_likelihood = np.nan
        result.n_passes += passes if data.passes == 0 else 0
        rows = effective_count(data) if count is None else count
        self._finish(result, frame, model.floor, rows)
        return self

    def _moment_problem(self, data: Data) -> tuple[Frame, Data, matching.Model]:
        frame = frame_for(self, data)
        scaled = data.within(frame)
        return frame, scaled, model_for(self, scaled, frame.unit, True)

    def _solve_moments(
        self, model: matching.Model, frame: Frame, data: Data, early: bool = False
    ) -> matching.Fit:
        """The best moment estimate; a guess if Ctrl-C came before (``early``) or early."""
        rng = self._generator()
        given = given_start(self, model, frame, None, rng)
        if model.m == 1 and given is None:
            return matching.single_component(model.kind, data, self._floor)
        count = 60 if model.explicit else 4
        if self.n_init != "auto":
            count = int(self.n_init)
        points: np.ndarray | None = None
        starts = [given] if given is not None else []
        try:
            if early:
                raise KeyboardInterrupt
            points = normal_points(data, rng)
            starts = starts or search.default_starts(
                points, None, model, rng, self.init, count, data
            )
            with Progress(self.verbose, len(starts)) as progress:
                return matching.match_moments(
                    matching.MomentMatching(model, data), starts, progress.iteration
                )
        except KeyboardInterrupt:
            if points is None:
                points = normal_points(data, rng)
            guess = starts[0] if starts else around_points(model.kind, points[: model.m])
            return matching.Fit(guess, np.nan, interrupted=True)

    def _solve_likelihood(
        self, model: matching.Model, frame: Frame, data: AtomData, whole: Likelihood, early: bool
    ) -> matching.Fit:
        """The best likelihood; a guess if Ctrl-C came before (``early``) or early in the search."""
        rng = self._generator()
        given = given_start(self, model, frame, whole, rng)
        if model.m == 1 and given is None:
            fit = matching.single_component(model.kind, data, whole.floor)
            fit.log_posterior = fit.log_likelihood = whole.value(fit.parameters)
            return fit
        try:
            if early:
                raise KeyboardInterrupt
            fit = self._search(model, data, whole, given, rng)
            if self.prior == "cv" and whole.prior is not None and not fit.interrupted:
                customary = whole.prior
                whole.prior = cross_validated(whole, customary, fit.parameters, rng)
                if whole.prior.strength != customary.strength:
                    fit = self._search(model, data, whole, given, rng)
            fit.strength = 0.0 if whole.prior is None else whole.prior.strength
            return fit
        except KeyboardInterrupt:  # so early that there is nothing better than a guess
            points = normal_points(data, rng)
            guess = given or around_points(model.kind, points[: model.m])
            return matching.Fit(guess, np.nan, whole.value(guess), interrupted=True)

    def _search(
        self,
        model: matching.Model,
        data: AtomData,
        whole: Likelihood,
        given: Parameters | None,
        rng: np.random.Generator,
    ) -> matching.Fit:
        tol, max_iter = float(self.tol), int(self.max_iter)
        if max_iter == 0 and given is None:  # as in scikit-learn: a start, and what it is worth
            given = next(search.plain_starts(whole, model.m, rng))
        if given is not None:
            with Progress(self.verbose, max_iter, "EM steps") as progress:
                result = whole.fit(given, tol=tol, max_iter=max_iter, callback=progress.step)
            return search.of_likelihood(result)
        auto = self.n_init == "auto"
        part = search.sample_of_rows(whole, rng)
        matchings, jobs = [], []
        if not auto:
            matchings = [matching.MomentMatching(model, data)]
            starts = search.default_starts(
                part.X, part.weights, model, rng, self.init, int(self.n_init), data
            )
            jobs = [(0, start) for start in starts]
        with Progress(self.verbose, 2 * len(jobs) + 10) as progress:
            return search.fit_likelihood(
                matchings,
                part,
                whole,
                jobs,
                model.m,
                rng,
                tol=tol,
                max_iter=max_iter,
                wide=auto,
                callback=progress.start,
            )

    def _finish(self, result: matching.Fit, frame: Frame, floor: Any, count: float) -> None:
        kind = self._kind
        starts = (self.weights_init, self.means_init, self.covariances_init)
        if not self.warm_start and all(part is None for part in starts):
            result.parameters = by_weight(kind, result.parameters)
        weights, _, covariances = result.parameters
        flat = np.broadcast_to(kind.on_floor(covariances, floor), weights.shape)
        thin = kind.too_few(count * weights, frame.n) if len(weights) > 1 else flat & False
        try:
            self._set(result, frame.back(result.parameters), kind)
        except np.linalg.LinAlgError as error:
            raise ValueError(
                f"a fitted covariance is singular with reg_covar={self.reg_covar:g}; raise it, "
                "or drop constant or dependent features"
            ) from error
        self._note_collapse(flat, thin, count * weights)

    def _check_settings(self) -> None:
        check_settings(self)

    def _needed_order(self, n: int, held: int | None = None) -> int:
        return order_for(self, n, held)

    def _n_parameters(self) -> int:
        return parameter_count(self._kind, *self.means_.shape)
