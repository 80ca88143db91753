"""KnownCovarianceMixture: components that differ in mean and weight alone, under known noise.

It says what its parameters mean; base.py fits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, cast

import numpy as np
from numpy.typing import ArrayLike

from momentmix.data.sources import Data
from momentmix.decomposition.terms import TermInit
from momentmix.estimators.base import SOLVED, MixtureEstimator
from momentmix.estimators.settings import check_known_noise_settings
from momentmix.fitting.known_noise import NoiseFrame, known_noise_problem
from momentmix.fitting.plan import Plan, Sizes, known_noise_order, plan_known_noise
from momentmix.fitting.problem import Problem
from momentmix.matching.fit import Fit
from momentmix.matching.matching import SolverName

if TYPE_CHECKING:
    from typing_extensions import Self


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

    _solved = (*SOLVED, "covariance_")

    def __init__(
        self,
        n_components: int,
        covariance: ArrayLike | Literal["estimate"],
        *,
        order: int = 3,
        order_weights: ArrayLike | Literal["auto"] = "auto",
        omega: float | None = None,
        augmentation: Literal["implicit", "post-processing"] = "implicit",
        solver: SolverName = "auto",
        init: TermInit = "auto",
        n_init: int | Literal["auto"] = "auto",
        polish: Literal["em"] | None = "em",
        max_iter: int = 500,
        tol: float = 1e-6,
        weights_init: ArrayLike | None = None,
        means_init: ArrayLike | None = None,
        random_state: object = None,
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

    def fit_moments(self, P: object, y: object = None) -> Self:
        """Fit to the moments of a Mixture, of Samples or MomentTensors, with the noise in them.

        It is this estimator that takes the noise out. For moments that are without it already,
        set ``covariance=0``, or use :func:`momentmix.symmetric_cp`.
        """
        return super().fit_moments(P)

    def _check_settings(self) -> None:
        check_known_noise_settings(self)

    def _order(self, sizes: Sizes) -> int:
        return known_noise_order(self, sizes)

    def _plan(self, sizes: Sizes) -> Plan:
        return plan_known_noise(self, sizes, self._previous_solution())

    def _problem(self, data: Data, plan: Plan) -> Problem:
        return known_noise_problem(data, plan, self.covariance)

    def _set(self, problem: Problem, fit: Fit) -> None:
        super()._set(problem, fit)
        if not isinstance(self.covariance, str):
            self.covariance_ = np.asarray(self.covariance, dtype=np.float64)
        else:
            self.covariance_ = cast(NoiseFrame, problem.frame).noise.array[0]

    def _n_parameters(self) -> int:
        m, n = self.means_.shape
        return m - 1 + m * n + isinstance(self.covariance, str)
