"""KnownCovarianceMixture: components that differ in mean and weight alone, under known noise.

X = Y + N(0, Σ) with Σ known and Y one of m points. The moments of Y are those of X with the noise
taken out (Thm. 5.1 of Pereira–Kileel–Kolda), and a symmetric CP decomposition of all their orders
gives the points and how often each occurs (§5.2). EM with the covariance held fixed finishes.
"""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from momentmix.cluster.rows import DaskRows, is_dask
from momentmix.covariance import Covariance, Spherical, common_noise
from momentmix.data.frame import Frame
from momentmix.data.parameters import Parameters
from momentmix.data.sources import AtomData, Data, TensorData, mean_and_covariance
from momentmix.decomposition.terms import TermSearch
from momentmix.distributions.moment_tensors import tensors_on_cluster
from momentmix.estimators.base import MixtureEstimator, by_weight
from momentmix.estimators.settings import check_common_settings, weights_over_orders
from momentmix.fitting.noise import (
    check_size,
    effective_count,
    noise_frame,
    trailing_variance,
)
from momentmix.likelihood import search
from momentmix.likelihood.cluster import ClusterLikelihood
from momentmix.likelihood.em import EM, Likelihood
from momentmix.matching.choices import check_rank
from momentmix.matching.matching import Fit
from momentmix.matching.starts import normal_points
from momentmix.support.parallel import single_threaded_blas, thread_limit
from momentmix.support.progress import Progress
from momentmix.tensors.packed import total_size

#: Moments up to which a cluster sums them up.
MOST_MOMENTS = 1 << 24
#: Weight of a component of which the moments say nothing.
LOST = 1e-6


class KnownCovarianceMixture(MixtureEstimator):
    """Mixture of Gaussians with one known covariance: signals seen through known noise.

    Finds the m means and their weights at noise levels where clusters overlap so much that k-means
    and EM from random starts see nothing: the noise is taken out of the moments exactly, the
    moments are decomposed, and EM with the covariance held fixed finishes.

    Parameters
    ----------
    n_components : int
        Number of means, m.
    covariance : float, array of shape (n,) or (n, n), or "estimate"
        Of the noise: a variance, variances, or a matrix. "estimate" takes noise of equal variance
        in all features and finds it in the directions in which the means do not differ, the
        trailing eigenvalues of the covariance of X; that needs n ≥ m.
    order : int, default=3
        Moments of orders 1 to ``order`` are matched.
    order_weights : "auto" or sequence of order + 1 floats, default="auto"
        Weights of orders 0..order in the cost, in coordinates where the data are centred and the
        noise is spherical. "auto" is 1/k!, the inverse sampling variance of debiased moments.
    omega : float, optional
        The paper's ω in place of ``order_weights``: C(d, k) ω^(2(d-k)), on moments about the
        origin of X as it is given.
    augmentation : {"implicit", "post-processing"}, default="implicit"
        The two forms of the paper's augmented system.
    solver : {"auto", "gauss-newton", "lbfgs"}, default="auto"
    init : {"auto", "random", "spectral"}, default="auto"
        Starts of the decomposition; see :func:`momentmix.symmetric_cp`.
    n_init : int or "auto", default="auto"
        Number of starts. "auto" stops when several agree, and lets plain EM starts compete.
    polish : {"em", None}, default="em"
        None gives the moment estimate itself.
    max_iter : int, default=500
        Limit on iterations of each solver.
    tol : float, default=1e-6
        EM stops when the mean log-likelihood gains less.
    weights_init, means_init : arrays, optional
        A start of one's own; then no other start is tried.
    random_state : int, RandomState or None
    warm_start : bool, default=False
        Start from the last solution.
    verbose : int, default=0
        1 shows a progress bar.
    n_jobs : int, optional
        Threads; by default as many as the BLAS may use.

    Attributes
    ----------
    weights_, means_ : ndarray of shape (m,) and (m, n)
    covariance_ : float or ndarray
        The covariance of the noise, as given or estimated.
    covariances_, precisions_, precisions_cholesky_ : ndarray
        In the shapes of the type "spherical", "diag" or "tied"; precisions are None where the
        covariance is singular.
    mixture_ : Mixture
    converged_, n_iter_, n_passes_, objective_, lower_bound_, history_, moments_
        As in :class:`MomentMixture`, whose prior has no say here: the covariance is known. The
        components come by falling weight, unless a start was given.

    Examples
    --------
    >>> import numpy as np
    >>> from momentmix import KnownCovarianceMixture
    >>> rng = np.random.default_rng(0)
    >>> signals = np.array([[1.0, 0.0, 0.5], [0.0, 1.0, -0.5]])
    >>> X = signals[rng.integers(2, size=50_000)] + rng.normal(size=(50_000, 3))
    >>> km = KnownCovarianceMixture(2, covariance=1.0, random_state=0).fit(X)
    >>> order = np.argsort(-km.means_[:, 0])
    >>> bool(np.abs(km.means_[order] - signals).max() < 0.1)
    True
    """

    def __init__(
        self,
        n_components: int,
        covariance: Any,
        *,
        order: int = 3,
        order_weights: Any = "auto",
        omega: float | None = None,
        augmentation: str = "implicit",
        solver: str = "auto",
        init: str = "auto",
        n_init: int | str = "auto",
        polish: str | None = "em",
        max_iter: int = 500,
        tol: float = 1e-6,
        weights_init: Any = None,
        means_init: Any = None,
        random_state: Any = None,
        warm_start: bool = False,
        verbose: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.covariance = covariance
        self.order = order
        self.order_weights = order_weights
        self.omega = omega
        self.augmentation = augmentation
        self.solver = solver
        self.init = init
        self.n_init = n_init
        self.polish = polish
        self.max_iter = max_iter
        self.tol = tol
        self.weights_init = weights_init
        self.means_init = means_init
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> KnownCovarianceMixture:
        """Fit to the rows of X; ``sample_weight`` counts each row that many times."""
        self._check_settings()
        if is_dask(X):
            return self._fit_dask(X, sample_weight)
        with self._kept_if_refused():
            X, weights, count = self._fitted_rows(X, sample_weight)
            problem = _Problem(self, AtomData.of_rows(X, weights), count)
            problem.check_polish()
            with thread_limit(self.n_jobs):
                result = problem.fit_moments() if self.polish is None else problem.fit_likelihood()
        self._end_stream()
        self._finish(problem, result)
        return self

    def _fit_dask(self, X: Any, sample_weight: Any) -> KnownCovarianceMixture:
        """The moment estimate, and EM from there on the workers: no rows leave them."""
        rows = DaskRows(X, sample_weight)
        order = self._needed_order(rows.n)
        if total_size(rows.n, order) > MOST_MOMENTS:
            raise ValueError(
                f"{rows.n} features have too many moments of order {order} to be summed up on a "
                "cluster; use fewer features or fit a sample of the rows in memory"
            )
        problem = _Problem(self, TensorData(tensors_on_cluster(rows, order)))
        problem.check_polish()
        self._end_stream()
        self._note_features(X)
        with thread_limit(self.n_jobs):
            result = problem.fit_moments()
        if self.polish == "em" and not result.interrupted:
            em = ClusterLikelihood(rows, problem.frame, Spherical, 0.0, problem.variance)
            result = problem.polished(em, result)
        result.n_passes = rows.n_passes
        self._finish(problem, result)
        return self

    def fit_moments(self, P: Any, y: Any = None) -> KnownCovarianceMixture:
        """Fit to the moments of a Mixture, of Samples or MomentTensors, with the noise in them.

        It is this estimator that takes the noise out. For moments that are without it already,
        set ``covariance=0``, or use :func:`momentmix.symmetric_cp`.
        """
        return super().fit_moments(P)

    def _fit_pure(
        self, data: Data, passes: int = 0, count: float | None = None
    ) -> KnownCovarianceMixture:
        problem = _Problem(self, data, count)
        with thread_limit(self.n_jobs):
            result = problem.fit_moments()
        result.n_passes += passes
        self._finish(problem, result)
        return self

    def _finish(self, problem: _Problem, result: Fit) -> None:
        noise, m = problem.noise, int(self.n_components)
        self.covariance_ = noise.array[0]
        if not isinstance(self.covariance, str):
            self.covariance_ = np.asarray(self.covariance, dtype=np.float64)
        covariances = noise.kind.repeated(m, noise.matrices()[0])
        found = result.parameters
        if self.means_init is None and not self.warm_start:
            found = by_weight(Spherical, found)
        means = problem.frame.restore(found.means)
        parameters = Parameters(found.weights, means, covariances)
        self._set(result, parameters, noise.kind, definite=problem.definite)

    def _check_settings(self) -> None:
        check_common_settings(self, ("auto", "random", "spectral"))
        if isinstance(self.covariance, str) and self.covariance != "estimate":
            raise ValueError(f"covariance must be numbers or 'estimate', got {self.covariance!r}")

    def _needed_order(self, n: int, held: int | None = None) -> int:
        order = self.order
        if isinstance(order, bool) or not isinstance(order, int | np.integer) or order < 3:
            raise ValueError(
                f"order must be a whole number of at least 3, got {order!r}: means and weights do "
                "not follow from the first two moments"
            )
        check_rank(self.n_components, n, int(order), single=False, name="n_components")
        if not isinstance(self.covariance, str):
            common_noise(self.covariance, n)
        omega = self.omega
        if omega is not None and not (isinstance(omega, Real) and 0 < omega < np.inf):
            raise ValueError(f"omega must be a positive number, got {omega!r}")
        weights = weights_over_orders(self, int(order), 1.0)
        if weights[-1] == 0 or not any(weights[1:-1]):
            raise ValueError(
                "order_weights must not be 0 for the highest order, nor for all others: one order "
                f"alone does not tell means from weights; got {self.order_weights!r}"
            )
        if held is not None and order > held:
            raise ValueError(
                f"order={order} is asked for, but these moments were kept up to order {held}; "
                f"accumulate with order={order}"
            )
        return int(order)

    def _n_parameters(self) -> int:
        m, n = self.means_.shape
        return m - 1 + m * n + isinstance(self.covariance, str)


class _Problem:
    """Data in coordinates where the noise is spherical, and the fits to them.

    ``s`` is the estimator, whose settings are read.
    """

    def __init__(self, s: KnownCovarianceMixture, data: Any, count: float | None = None) -> None:
        self.s, self.m, self.n = s, int(s.n_components), data.n
        held = data.tensors.order if isinstance(data, TensorData) else None
        self.order = s._needed_order(data.n, held)
        count = effective_count(data) if count is None else count
        if count < self.m and isinstance(data, TensorData):
            raise ValueError(
                f"{self.m} components need as many samples at least, and there are {count:.0f}"
            )
        self.rng = s._generator()
        centre, covariance = mean_and_covariance(data)
        self.count, self.noise = count, self._noise(covariance, count)
        self.definite = self.noise.is_definite()
        self.frame, self.variance = noise_frame(self.noise, self.definite, centre, covariance)
        self.data, self.scaled = data, data.within(self.frame)

    def check_polish(self) -> None:
        if self.s.polish == "em" and not self.definite:
            raise ValueError(
                "the covariance of the noise is singular, so there is no likelihood; add a small "
                "multiple of the identity to it, or use polish=None"
            )

    def _noise(self, covariance: np.ndarray, count: float) -> Covariance:
        """The covariance of the noise, of a type that all atoms share."""
        if isinstance(self.s.covariance, str):
            variance = trailing_variance(covariance, self.m - 1, count)
            return Spherical(np.array([variance]), self.n)
        noise = common_noise(self.s.covariance, self.n)
        check_size(noise, covariance, count)
        return noise

    def fit_moments(self) -> Fit:
        """Means and weights from the moments with the noise taken out, in the frame."""
        s = self.s
        if self.m == 1:  # the mean, which every method agrees on
            only = self._components(np.ones(1), np.zeros((1, self.n)))
            return Fit(only, 0.0, np.nan, n_iter=1, n_passes=1, converged=True, history=[0.0])
        frame = self.frame
        if s.omega is not None:  # refers to the origin and one unit for all features
            frame = Frame.about_the_origin(Spherical, self.frame)
        weights = weights_over_orders(s, self.order, frame.unit)
        same = frame is self.frame
        scaled = self.scaled if same else self.data.within(frame)
        debiased = scaled.debiased(frame.apply_covariance(self.noise))
        terms = TermSearch(
            debiased,
            self.m,
            weights,
            form=s.augmentation,
            solver=s.solver,
            max_iter=int(s.max_iter),
            tol=1e-9,
            mixture=True,
        )
        given = self.given()
        if given is not None:
            points = frame.apply(self.frame.restore(given.means))
            given = Parameters(given.weights, points, np.empty((self.m, 0)))
        fit = terms.solve(s.init, s.n_init, self.rng, s.verbose, given)
        means = fit.parameters.means
        if not same:
            means = self.frame.apply(frame.restore(means))
        shares = np.maximum(fit.parameters.weights, 0)
        # A component without weight may be anywhere, as far as moments go; the centre is better.
        lost = (shares < LOST * shares.sum()) | ~np.all(np.isfinite(means), axis=1)
        means = np.where(lost[:, None], 0.0, means)
        fit.parameters = self._components(shares / shares.sum(), means)
        fit.log_likelihood = np.nan
        return fit

    def _components(self, weights: np.ndarray, means: np.ndarray) -> Parameters:
        return Parameters(weights, means, np.full(self.m, self.variance))

    def fit_likelihood(self) -> Fit:
        """The best likelihood that the moment estimate, or plain starts, lead to."""
        s, given, rows = self.s, self.given(), search.in_order(self.scaled)
        settings = Spherical, 0.0, self.variance, None, self.count
        whole = Likelihood(rows.atoms.means, rows.weights, *settings)
        if given is not None:
            fit = Fit(given, np.nan)
            return self.polished(whole, fit)
        try:
            moments = self.fit_moments()
        except KeyboardInterrupt:
            points = normal_points(self.scaled, self.rng)[: self.m]
            moments = Fit(self._components(np.full(self.m, 1 / self.m), points), np.nan)
            moments.interrupted = True
        if moments.interrupted:
            moments.log_likelihood = whole.value(moments.parameters) - self.frame.log_volume
            return moments
        fit = self.polished(whole, moments)
        if s.n_init == "auto" and self.m > 1 and not fit.interrupted:
            self._compete(whole, fit)
        return fit

    def _compete(self, whole: Likelihood, fit: Fit) -> None:
        """Let plain starts and repairs try for a better likelihood; change the fit if one has it.

        They run on a sample of large data. What looks good there under much noise may not be good
        on the whole, so the whole decides.
        """
        s, shift = self.s, self.frame.log_volume
        tol, max_iter = float(s.tol), int(s.max_iter)
        part = search.sample_of_rows(whole, self.rng)
        try:
            with Progress(s.verbose, 8, "EM starts") as progress, single_threaded_blas():
                tries = search.LikelihoodSearch(part, self.rng, tol, max_iter, progress.start)
                tries.run([search.Candidate(fit.parameters)], repair=True)
                tries.run(tries.promising(self.m), repair=True)
            assert tries.best is not None
            rival = whole.fit(tries.best.parameters, tol=tol, max_iter=10)
            n_iter = rival.n_iter
            if rival.log_likelihood - shift > fit.log_likelihood - tol and not rival.converged:
                rival = whole.fit(rival.parameters, tol=tol, max_iter=max_iter)
                n_iter += rival.n_iter
        except KeyboardInterrupt:
            fit.interrupted = True
            return
        fit.interrupted = tries.interrupted or rival.interrupted
        fit.n_passes += tries.n_iter + n_iter
        fit.log_likelihoods = [fit.log_likelihood, *(value - shift for value in tries.values)]
        if rival.log_likelihood - shift > fit.log_likelihood + tol:
            fit.parameters, fit.log_likelihood = rival.parameters, rival.log_likelihood - shift
            fit.n_iter, fit.converged = n_iter, rival.converged

    def polished(self, em: EM, fit: Fit) -> Fit:
        """EM from the parameters of a fit."""
        max_iter = int(self.s.max_iter)
        with Progress(self.s.verbose, max_iter, "EM steps") as progress:
            result = em.fit(
                fit.parameters, tol=float(self.s.tol), max_iter=max_iter, callback=progress.step
            )
        fit.parameters, fit.n_iter = result.parameters, result.n_iter
        fit.n_passes += result.n_iter
        fit.log_likelihood = result.log_likelihood - self.frame.log_volume
        fit.converged, fit.interrupted = result.converged, result.interrupted
        return fit

    def given(self) -> Parameters | None:
        s, m, n = self.s, self.m, self.n
        last = s._previous_solution()
        if s.warm_start and last is not None and last[1].shape == (m, n):
            return self._components(last[0], self.frame.apply(last[1]))
        if s.means_init is None:
            if s.weights_init is not None:
                raise ValueError("weights_init needs means_init as well")
            return None
        means = np.asarray(s.means_init, dtype=np.float64)
        if means.shape != (m, n) or not np.all(np.isfinite(means)):
            raise ValueError(
                f"means_init must be finite and have shape {(m, n)}, got shape {means.shape}"
            )
        weights = np.full(m, 1 / m)
        if s.weights_init is not None:
            weights = np.asarray(s.weights_init, dtype=np.float64)
            if weights.shape != (m,) or not np.all(weights > 0) or abs(weights.sum() - 1) > 1e-6:
                raise ValueError(f"weights_init must be {m} positive numbers with sum 1")
        return self._components(weights, self.frame.apply(means))
