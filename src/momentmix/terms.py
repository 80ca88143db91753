"""Matching moments by terms λ a^{⊗d}, components without covariance, of any sign and sum.

What is special about them: weights for given vectors are a linear problem, and two terms can come
to stand for one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import nnls

from momentmix.atoms import Atoms
from momentmix.covariance import Zero
from momentmix.data import Data, Less
from momentmix.em import Parameters
from momentmix.matching import Model, MomentMatching
from momentmix.solvers import Solution
from momentmix.starts import normal_points

#: Cosine from which two terms share a direction, iterations after which that is looked for, and
#: random starts for the one that must move.
SHARED, LOOK, TRIES = 0.9, 40, 6


def start_at(vectors: np.ndarray, data: Any, model: Model) -> Parameters:
    """Weights for vectors by linear least squares, none of them so small as to be lost."""
    w, d = model.weights, model.order
    single = not any(w[:-1])
    if single:
        vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-300)
    form = data.tested(Atoms(1.0, vectors, Zero(model.n), np), w, False)
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
    return Parameters(weights, vectors, np.empty((len(weights), 0)))


Found = tuple[Parameters, Solution]


def _after(before: Found, found: Found) -> Found:
    """A solution that another led to, with the iterations of both."""
    parameters, last = found
    first = before[1]
    last.n_iter, last.n_passes = first.n_iter + last.n_iter, first.n_passes + last.n_passes
    last.history = first.history + last.history
    return parameters, last


class TermMatching(MomentMatching):
    """Moment matching by points, which leaves the swamp where two terms came to share one.

    Two terms of one direction, or of opposite ones that nearly cancel, are where decompositions
    get stuck. One term then takes the place of both, and the other goes to what is left.
    """

    def __init__(self, model: Model, data: Data, rng: np.random.Generator) -> None:
        super().__init__(model, data)
        self.rng = rng

    def solve(
        self,
        start: Parameters,
        *,
        strict: bool,
        callback: Callable | None = None,
        tol: float | None = None,
        max_iter: int | None = None,
    ) -> Found:
        limit = self.model.max_iter if max_iter is None else max_iter

        def run(start: Parameters, most: int) -> Found:
            return super(TermMatching, self).solve(
                start, strict=strict, callback=callback, tol=tol, max_iter=most
            )

        best, moves, failed, carried = run(start, min(limit, LOOK)), 0, False, False
        while not best[1].interrupted:
            done = moves == self.model.m or abs(best[1].value) <= 1e5 * self.zero
            pair = None if done else self._shared(best[0])
            if pair is None or failed:
                if carried or best[1].converged or best[1].n_iter >= limit:
                    break
                best = _after(best, run(best[0], limit - best[1].n_iter))
                carried, failed = True, False
                continue
            moves += 1
            trial = _after(best, run(self._apart(best[0], *pair), LOOK))
            if trial[1].value < best[1].value - 1e-3 * abs(best[1].value):
                best, carried = trial, False
            else:
                failed = True
        return best

    def _shared(self, parameters: Parameters) -> tuple[int, int] | None:
        """The two terms of the most similar direction, if it is nearly one."""
        vectors = parameters.means
        if any(self.model.weights[:-1]):
            vectors = np.column_stack([vectors, np.ones(len(vectors))])
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
        return Parameters(weights, means, np.empty((len(weights), 0)))

    def _one_term(self, others: Atoms, points: np.ndarray | None) -> Parameters:
        """The best term for what the others leave, from given points or from random ones."""
        data: Any = Less(self.data, others) if len(others) else self.data
        one = replace(self.model, m=1, explicit=False, max_iter=50, tol=1e-6)
        matching = MomentMatching(one, data)
        if points is None:
            points = normal_points(self.data, self.rng)[:TRIES]
        starts = [start_at(point[None], data, one) for point in points]
        found = [matching.solve(start, strict=False) for start in starts]
        return min(found, key=lambda pair: pair[1].value)[0]
