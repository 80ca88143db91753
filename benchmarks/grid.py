"""Does every fit hold what it promises? Types × scales × weights × ties × shapes, at random.

Each case is fitted, and again with its rows in another order, in other units, rotated (where the
covariance type allows it), and with whole-numbered weights as repeated rows. Reported are: numbers
that are not finite, errors that are no plain ValueError, a ``lower_bound_`` that is not ``score``,
a likelihood below that of one Gaussian, and answers that depend on order, units or the like.

    python benchmarks/grid.py [--cases 1200] [--first 0] [--show]
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from momentmix import GaussianMixture

KINDS = ("full", "tied", "diag", "spherical")
SHAPES = ((15, 2, 3), (40, 4, 3), (120, 3, 4), (60, 10, 3), (12, 1, 2), (50, 20, 2), (90, 2, 5))
SCALES = ("plain", "tiny", "huge", "far", "mixed")
TIES = ("none", "integers", "repeated rows", "constant column", "dependent column", "heavy tails")
WEIGHTS = ("none", "whole", "lognormal", "one heavy")
#: Nats a row by which an answer may differ: EM ends when a step gains less than a tenth of this.
CLOSE = 1e-5


class Case(NamedTuple):
    number: int
    kind: str
    shape: tuple[int, int, int]
    scale: str
    ties: str
    weights: str
    settings: dict[str, Any]

    def __str__(self) -> str:
        p, n, m = self.shape
        words = f"{self.kind} {p}×{n} m={m} {self.scale}, {self.ties}, weights {self.weights}"
        return f"case {self.number}: {words}, {self.settings}"


def case(number: int) -> Case:
    rng = np.random.default_rng([14, number])

    def one(choices: Any) -> Any:
        return choices[rng.integers(len(choices))]

    settings = {"prior": one(("auto", "auto", None)), "reg_covar": one((1e-6, 1e-6, 1e-9, 0.0))}
    return Case(number, one(KINDS), one(SHAPES), one(SCALES), one(TIES), one(WEIGHTS), settings)


def rows_of(c: Case) -> tuple[np.ndarray, np.ndarray | None]:
    rng = np.random.default_rng([15, c.number])
    p, n, m = c.shape
    centres = rng.normal(scale=3, size=(m, n))
    X = centres[rng.integers(m, size=p)] + rng.normal(size=(p, n))
    if c.ties == "integers":
        X = np.round(X)
    elif c.ties == "repeated rows":
        X = X[rng.integers(p // 3 + 1, size=p)]
    elif c.ties == "constant column":
        X[:, -1] = 0.1
    elif c.ties == "dependent column":
        X[:, -1] = X[:, 0] * 2 - X[:, n // 2]
    elif c.ties == "heavy tails":
        X = X * np.exp(rng.standard_t(3, size=(p, 1)))
    if c.scale == "tiny":
        X = X * 1e-120
    elif c.scale == "huge":
        X = X * 1e120
    elif c.scale == "far":
        X = X + 1e6
    elif c.scale == "mixed":
        X = X * 10.0 ** rng.integers(-8, 9, size=n)
    weights = None
    if c.weights == "whole":
        weights = rng.integers(1, 5, size=p).astype(float)
    elif c.weights == "lognormal":
        weights = rng.lognormal(sigma=1.5, size=p)
        weights *= p / weights.sum()
    elif c.weights == "one heavy":
        weights = np.ones(p)
        weights[rng.integers(p)] = 20.0
    return X, weights


def fitted(c: Case, X: np.ndarray, weights: np.ndarray | None, m: int | None = None) -> Any:
    m = c.shape[2] if m is None else m
    model = GaussianMixture(m, covariance_type=c.kind, random_state=0, **c.settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, sample_weight=weights)


def gain(c: Case, X: np.ndarray, weights: np.ndarray | None) -> float:
    """What the components are worth beyond one Gaussian, in nats a row: a number without units.

    Not even those of a direction in which the data do not vary, which nobody knows.
    """
    return float(fitted(c, X, weights).log_posterior_ - fitted(c, X, weights, 1).lower_bound_)


def judged(c: Case) -> list[str]:
    """What is wrong with a case, in words; nothing if all is well."""
    X, weights = rows_of(c)
    p, n = X.shape
    try:
        model = fitted(c, X, weights)
        score = np.average(model.score_samples(X), weights=weights)
        model.predict(X)
    except Exception as error:
        if type(error) is ValueError:
            return [f"refused: {error}"]
        return [f"error: {type(error).__name__}: {error}"]
    found = []
    parts = (model.weights_, model.means_, model.covariances_, model.precisions_)
    if not all(np.all(np.isfinite(part)) for part in parts) or not np.isfinite(score):
        found.append("not finite")
    off = abs(model.lower_bound_ - score)
    if not off <= CLOSE:
        found.append(f"lower_bound_ is not score: {model.lower_bound_} and {score}")
    best = gain(c, X, weights)
    if best < -CLOSE:
        found.append(f"below one Gaussian: by {-best:.6f}")
    rng = np.random.default_rng([16, c.number])
    order = rng.permutation(p)
    found += compared("order", best, gain(c, X[order], None if weights is None else weights[order]))
    units = 10.0 ** rng.integers(-3, 4, size=n) if c.kind != "spherical" else np.full(n, 0.01)
    found += compared("units", best, gain(c, X * units, weights))
    rounded = c.ties in ("integers", "repeated rows") and c.settings["prior"] is not None
    if c.kind != "diag" and c.scale != "mixed" and not rounded:
        Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
        middle = X.mean(axis=0)
        found += compared("rotation", best, gain(c, (X - middle) @ Q + middle, weights))
    if c.weights == "whole":
        repeated = np.repeat(X, weights.astype(int), axis=0)
        found += compared("repeats", best, gain(c, repeated, None))
    return found


def compared(what: str, one: float, other: float) -> list[str]:
    return [] if abs(one - other) <= CLOSE else [f"{what}: {one:.7f} and {other:.7f}"]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=1200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--show", action="store_true", help="say what is wrong with each case")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    for number in range(options.first, options.first + options.cases):
        c = case(number)
        for fault in judged(c):
            counts[fault.split(":")[0]] += 1
            if options.show:
                print(f"{c}\n    {fault}", flush=True)
    print(
        f"{options.cases} cases; " + (", ".join(f"{k}: {v}" for k, v in counts.items()) or "clean")
    )
    return int(bool(counts))


if __name__ == "__main__":
    sys.exit(main())
