"""Matching moments by terms λ a^{⊗d}: components without covariance, with weights of any sign.

They differ from other components in two ways: the weights for given vectors are a linear problem,
and two terms can come to stand for the same one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from scipy.optimize import nnls

from momentmix.covariance import Zero
from momentmix.decomposition.subspace import (
    ROUNDS,
    augment,
    decompose,
    halves,
    highest_rank,
    leading_subspace,
    second_moment,
)
from momentmix.fit import Fit, Parameters
from momentmix.matching.estimate import match_moments
from momentmix.matching.model import (
    Augmentation,
    Matched,
    Model,
    MomentMatching,
    SolverName,
    normal_points,
)
from momentmix.matching.orders import is_explicit, tensors_pay
from momentmix.moments.atoms import Atoms
from momentmix.moments.orders import is_single
from momentmix.rows.data import Deflated, MomentData, MomentSource, Rescaled, as_tensors
from momentmix.rows.frame import Frame
from momentmix.solvers import Callback
from momentmix.support.messages import Progress
from momentmix.support.stopping import stopped
from momentmix.tensors.dense import packed_size

TermInit = Literal["auto", "random", "spectral"]
#: If two terms have a cosine above SHARED after LOOK iterations, one takes the place of both and
#: the other moves to the best of TRIES random starts. These are round numbers that were not tuned;
#: they affect how often a fit leaves a poor solution, and its time.
SHARED, LOOK, TRIES = 0.9, 40, 6
#: A spectral start is tried only if its work (rank times that of a singular value decomposition)
#: is less than this. This is a round number that was not tuned; a larger one costs time.
SPECTRAL_WORK = 1e11


def start_at(vectors: np.ndarray, data: MomentSource, model: Model) -> Parameters:
    """Weights for vectors by linear least squares, none of them so small that a term is lost."""
    w, d = model.weights, model.order
    single = is_single(w)
    if single:
        vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-300)
    form = data.inner_with(Atoms(1.0, vectors, Zero(model.n), np), w, False)
    b = np.asarray(form.values)
    if single and d % 2:
        vectors, b = np.where(b < 0, -1.0, 1.0)[:, None] * vectors, np.abs(b)
    products = vectors @ vectors.T
    G = sum(x * products**k for k, x in enumerate(w))
    G = G + 1e-8 * np.trace(G) * np.eye(len(G))
    if model.augmentation == "free":
        weights = np.linalg.solve(G, b)
        least = 0.1 * np.mean(np.abs(weights))
        weights = np.where(np.abs(weights) < least, least, weights)
    else:
        L = np.linalg.cholesky(G)
        weights = nnls(L.T, np.linalg.solve(L, b))[0]
        weights = np.maximum(weights, 0.1 * np.mean(weights) + 1e-6)
    if model.mixture:
        weights = weights / np.sum(weights)
    return Parameters(weights, vectors, np.empty((len(weights), 0)))


def _after(before: Matched, found: Matched) -> Matched:
    """The later of two solutions, with the iterations of both."""
    return Matched(found.parameters, found.solution.after(before.solution))


class TermMatching(MomentMatching):
    """Moment matching by points, which can free two terms that have come to share one direction.

    Decompositions get stuck where two terms have the same direction, or opposite ones that nearly
    cancel. Then one term takes the place of both, and the other is fitted to what is left.
    """

    #: Fewer starts must agree than for mixtures, because terms that no move improves are seldom
    #: wrong. This is a round number that was not tuned.
    agreeing = 3

    def __init__(self, model: Model, data: MomentData, rng: np.random.Generator) -> None:
        super().__init__(model, data, data.moments(model.order) if model.explicit else None)
        self.data, self.rng = data, rng

    def solve(
        self,
        start: Parameters,
        *,
        strict: bool,
        callback: Callback | None = None,
        tol: float | None = None,
        max_iter: int | None = None,
    ) -> Matched:
        """Match the moments from a start, and free terms that share a direction on the way.

        ``carried``: the best was already carried on to the limit. ``failed``: the last move did not
        gain, so the best is carried on before another move is tried.
        """
        limit = self.model.max_iter if max_iter is None else max_iter

        def run(start: Parameters, most: int) -> Matched:
            return super(TermMatching, self).solve(
                start, strict=strict, callback=callback, tol=tol, max_iter=most
            )

        best, moves, failed, carried = run(start, min(limit, LOOK)), 0, False, False
        while not stopped():
            done = moves == self.model.m or abs(best.solution.value) <= 1e5 * self.zero
            pair = None if done else self._shared(best.parameters)
            if pair is None or failed:
                if carried or best.solution.converged or best.solution.n_iter >= limit:
                    break
                best = _after(best, run(best.parameters, limit - best.solution.n_iter))
                carried, failed = True, False
                continue
            moves += 1
            trial = _after(best, run(self._apart(best.parameters, *pair), LOOK))
            lowest = best.solution.value
            if trial.solution.value < lowest - 1e-3 * abs(lowest):
                best, carried = trial, False
            else:
                failed = True
        return best

    def _shared(self, parameters: Parameters) -> tuple[int, int] | None:
        """The two terms of the most similar directions, if they are nearly the same."""
        vectors = parameters.means
        if not is_single(self.model.weights):  # points that are close for their spread
            vectors = vectors - vectors.mean(axis=0)
            spread = np.sqrt(np.mean(np.sum(vectors**2, axis=1))) + 1e-300
            vectors = np.column_stack([vectors / spread, np.ones(len(vectors))])
        unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-300)
        cosines = np.abs(np.tril(unit @ unit.T, -1))
        i, j = np.unravel_index(np.argmax(cosines), cosines.shape)
        return (int(i), int(j)) if cosines[i, j] > SHARED else None

    def _apart(self, parameters: Parameters, i: int, j: int) -> Parameters:
        weights, means, _ = parameters
        keep = np.setdiff1d(np.arange(self.model.m), [i, j])
        middle = weights[i] * means[i] + weights[j] * means[j]
        for points in (np.array([means[i], means[j], middle]), None):
            others = Atoms(weights[keep], means[keep], Zero(self.model.n), np)
            term = self._one_term(others, points)
            weights = np.append(weights[keep], term.weights)
            means = np.vstack([means[keep], term.means])
            keep = np.arange(len(weights))
        if self.model.mixture:
            weights = weights / weights.sum()
        return Parameters(weights, means, np.empty((len(weights), 0)))

    def _one_term(self, others: Atoms, points: np.ndarray | None) -> Parameters:
        """The best term for the rest that the others leave, from given or from random points."""
        left: MomentSource = Deflated(self.data, others) if len(others) else self.data
        form: Augmentation = "free" if self.model.augmentation == "free" else "post-processing"
        one = replace(
            self.model, m=1, explicit=False, max_iter=50, tol=1e-6, augmentation=form, mixture=False
        )
        matching = MomentMatching(one, left, None)
        if points is None:
            points = normal_points(self.data, self.rng)[:TRIES]
        starts = [start_at(point[None], left, one) for point in points]
        found = [matching.solve(start, strict=False) for start in starts]
        return min(found, key=lambda matched: matched.solution.value).parameters


class TermSearch:
    """The search for terms that match the moments of some data.

    ``weights`` are those of the orders 0..d, and ``form`` is the form of the weights of the terms
    (``Parametrisation``), whose sum is 1 for a ``mixture``. If the data have many dimensions, terms
    are found in the few that the moments span, and finished in all of them.
    """

    def __init__(
        self,
        data: MomentData,
        rank: int,
        weights: Sequence[float],
        *,
        form: Augmentation,
        solver: SolverName,
        max_iter: int,
        tol: float,
        mixture: bool,
    ) -> None:
        self.data, self.rank, self.weights, self.d = data, rank, list(weights), len(weights) - 1
        self.single = is_single(self.weights)
        self.form, self.solver, self.mixture = form, solver, mixture
        self.max_iter, self.tol = max_iter, tol

    @property
    def has_constant(self) -> bool:
        """Whether the cost of a fit includes the constant ‖T‖²."""
        return is_explicit(Zero, self.rank, self.data.n, self.d)

    def solve(
        self,
        init: TermInit,
        n_init: int | None,
        rng: np.random.Generator,
        verbose: int,
        given: Parameters | None = None,
    ) -> Fit:
        """The best fit of several starts, or the fit from a ``given`` one, in the data's unit."""
        n, d = self.data.n, self.d
        if init == "spectral":
            self._check_spectral(min(self.rank, n))
        basis, passes = np.eye(n), 1  # for the unit
        if given is None and self.rank < n:
            basis = leading_subspace(self.data, self.weights, self.rank, rng)
            passes += ROUNDS + 1  # and for the data in the subspace
        square = second_moment(self.data, basis)
        if square == 0:
            raise ValueError("the second moment of the data is zero, so there is nothing to find")
        # It is negative if too much noise was subtracted, but its size is still right.
        unit = float(np.sqrt(abs(square) / self.rank))
        # The weights in units of the data, up to a factor that all orders share.
        scaled = [w * unit ** (2 * (k - d)) if w else 0.0 for k, w in enumerate(self.weights)]
        few = basis.shape[1] < n
        small = self._scale(self.data.compress(basis, d) if few else self.data, unit)
        explicit = is_explicit(Zero, self.rank, small.n, d)
        matching = TermMatching(self._model(small.n, scaled, explicit), small, rng)
        if given is not None:
            starts = [given._replace(means=given.means / unit)]
        else:
            starts = self._starts(matching, init, self._count(n_init, explicit), rng)
        with Progress(verbose, len(starts)) as progress:
            fit = match_moments(matching, starts, progress.iteration)
        means = fit.parameters.means @ basis.T
        fit = replace(fit, parameters=fit.parameters._replace(means=means))
        if few and not stopped():
            fit = self._finish(fit, unit, scaled)
        passes = passes * self.data.passes
        return self._in_units(replace(fit, n_passes=fit.n_passes + passes), unit)

    def _scale(self, data: MomentData, unit: float) -> MomentData:
        """The data in another unit, as moment tensors if those are cheaper."""
        rows = data.rows
        if rows > 1000 and tensors_pay(rows, Zero, self.rank, data.n, self.d):
            data = as_tensors(data, self.d)
        return data.within(Frame(Zero, np.zeros(data.n), unit**2 * np.eye(data.n)))

    def _model(self, n: int, weights: list[float], explicit: bool) -> Model:
        return Model(
            kind=Zero,
            m=self.rank,
            n=n,
            order=self.d,
            weights=weights,
            augmentation=self.form,
            weighting="orders",
            solver=self.solver,
            floor=0.0,
            max_iter=self.max_iter,
            tol=self.tol,
            explicit=explicit,
            mixture=self.mixture,
        )

    def _count(self, n_init: int | None, explicit: bool) -> int:
        if n_init is not None:
            return n_init
        if self.solver == "lbfgs":
            return 8 if explicit else 4  # a start takes hundreds of iterations
        return 30 if explicit else 4

    def _finish(self, first: Fit, unit: float, weights: list[float]) -> Fit:
        """Least squares in all dimensions, from the solution in a few."""
        n = self.data.n
        model = self._model(n, weights, self.has_constant)
        if model.explicit:
            matching = MomentMatching.of(model, self._scale(self.data, unit))
        else:
            matching = MomentMatching(model, Rescaled(self.data, unit), None)
        fit = match_moments(matching, [first.parameters])
        n_iter, n_passes = first.n_iter + fit.n_iter, first.n_passes + fit.n_passes
        return replace(fit, n_iter=n_iter, n_passes=n_passes)

    def _in_units(self, fit: Fit, unit: float) -> Fit:
        scale = unit ** (2 * self.d)
        return replace(
            fit,
            parameters=fit.parameters._replace(means=fit.parameters.means * unit),
            objective=fit.objective * scale,
            history=tuple(value * scale for value in fit.history),
        )

    def _starts(
        self, matching: TermMatching, init: TermInit, count: int, rng: np.random.Generator
    ) -> list[Parameters]:
        small, model = matching.data, matching.model
        if init == "spectral":
            return [self._spectral(matching, rng) for _ in range(min(count, 4))]
        starts = []
        if init == "auto" and self._spectral_pays(small.n):
            starts = [self._spectral(matching, rng)]
        points = normal_points(small, rng)
        for _ in range(count - len(starts)):
            chosen = rng.choice(len(points), self.rank, replace=len(points) < self.rank)
            starts.append(start_at(points[chosen], small, model))
        return starts

    def _check_spectral(self, n: int) -> None:
        most = highest_rank(n + (not self.single), self.d)
        if self.rank > most:
            raise ValueError(
                f"init='spectral' serves up to {most} terms of order {self.d} in {n} dimensions, "
                f"not {self.rank}; use init='random'"
            )

    def _spectral_pays(self, n: int) -> bool:
        dimensions = n + (not self.single)
        rows, columns = (packed_size(dimensions, k) for k in halves(self.d))
        work = self.rank * rows * columns * min(rows, columns)
        return self.rank <= highest_rank(dimensions, self.d) and work < SPECTRAL_WORK

    def _spectral(self, matching: TermMatching, rng: np.random.Generator) -> Parameters:
        small = matching.data
        T = augment(small.moments(self.d), small.n, self.weights)
        vectors = decompose(T, small.n + (not self.single), self.d, self.rank, rng)
        if not self.single:  # (t, a) stands for the point a / t
            first = vectors[:, :1]
            vectors = vectors[:, 1:] / np.where(np.abs(first) < 0.05, 0.05, first)
        return start_at(vectors, small, matching.model)
