"""Rows with gaps: is a fit to what was seen better than one to rows that were dropped or filled?

The parts "gaps" and "imputed cells" of ``observed.py``. Values are taken out of real tables that
have none missing, and every fit is scored by the rows of a test half as they were.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer

from momentmix import GaussianMixture
from real import FRESH, UNSEEN, Table

#: How steeply the probability of a gap depends on the first column, which has none.
STEEPNESS = 2.0
#: Fresh tables smaller than this are left out: half of their rows, with gaps, carry no fit.
LEAST_ROWS, LEAST_COLUMNS = 200, 4
SHARES = (0.1, 0.3)
#: Nats a row from which a fit is out of the world, and a mean over draws says nothing.
WORLD = 20.0


def completely_at_random(X: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """MCAR: each cell is lost with the same probability; a row keeps one value at least."""
    lost = rng.random(X.shape) < share
    empty = np.flatnonzero(lost.all(axis=1))
    lost[empty, rng.integers(X.shape[1], size=len(empty))] = False
    return lost


def depending_on_the_first(X: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """MAR: cells of odd columns are lost where the first is high, of even ones where it is low."""
    z = (X[:, 0] - X[:, 0].mean()) / X[:, 0].std()
    lost = np.zeros(X.shape, dtype=bool)
    for j in range(1, X.shape[1]):
        slope = STEEPNESS if j % 2 else -STEEPNESS
        level = brentq(lambda a, s=slope: float(expit(a + s * z).mean()) - share, -30, 30)
        lost[:, j] = rng.random(len(X)) < expit(level + slope * z)
    return lost


MECHANISMS: dict[str, Callable[[np.ndarray, float, np.random.Generator], np.ndarray]] = {
    "MCAR": completely_at_random,
    "MAR": depending_on_the_first,
}


def tables(names: list[str] | None = None) -> dict[str, Table]:
    """The fresh tables that are large enough, and the unseen ones; or some of these."""
    chosen = {n: load for n, load in {**FRESH, **UNSEEN}.items() if names is None or n in names}
    loaded = {name: load() for name, load in chosen.items()}
    return {
        name: table
        for name, table in loaded.items()
        if len(table.X) >= LEAST_ROWS and table.X.shape[1] >= LEAST_COLUMNS
    }


class Draw(NamedTuple):
    """One draw of a half of the rows and of gaps in it."""

    complete: np.ndarray  # the train half as it was
    gaps: np.ndarray  # the same with NaN
    test: np.ndarray


def drawn(X: np.ndarray, mechanism: str, share: float, seed: int) -> Draw:
    rng = np.random.default_rng(seed)
    train, test = np.split(rng.permutation(len(X)), [len(X) // 2])
    complete = X[train]
    lost = MECHANISMS[mechanism](complete, share, rng)
    return Draw(complete, np.where(lost, np.nan, complete), X[test])


class Result(NamedTuple):
    """What came of one draw."""

    scores: dict[str, float]  # of the test rows, nats a row; NaN where there is no fit
    errors: dict[str, float]  # of imputed cells, in units of the deviation of each column
    collapsed: bool  # whether the fit to rows with gaps warned of a component


def result_of(draw: Draw, m: int, seed: int, whole: float | None = None) -> Result:
    """All fits of one draw; ``whole`` is the score of a fit to rows without gaps, if known."""
    G, lost = draw.gaps, np.isnan(draw.gaps)
    filled = {
        "mean": SimpleImputer().fit_transform(G),
        "iterative": IterativeImputer(random_state=seed).fit_transform(G),
    }
    fit = fitted(G, m, seed)
    scores = {"gaps": float(fit.score(draw.test))}
    for name, rows in {"complete rows": G[~lost.any(axis=1)], **filled}.items():
        try:
            scores[name] = float(fitted(rows, m, seed).score(draw.test))
        except ValueError:  # fewer rows than components
            scores[name] = np.nan
    scores["no gaps"] = (
        float(fitted(draw.complete, m, seed).score(draw.test)) if whole is None else whole
    )
    filled["impute"] = fit.impute(G)
    filled["KNN"] = KNNImputer().fit_transform(G)
    units = draw.complete.std(axis=0)
    errors = {
        name: float(np.sqrt(np.mean((((F - draw.complete) / units)[lost]) ** 2)))
        for name, F in filled.items()
    }
    return Result(scores, errors, len(fit.collapsed_) > 0)


def fitted(rows: np.ndarray, m: int, seed: int) -> GaussianMixture:
    return GaussianMixture(m, random_state=seed).fit(rows)


def difference(results: list[Result], other: str) -> np.ndarray:
    """Nats a row of the fit to gaps above another; a fit that cannot be made is infinitely bad."""
    below = np.array([r.scores["gaps"] - r.scores[other] for r in results])
    return np.where(np.isnan(below), np.inf, below)


def shown(values: np.ndarray) -> str:
    """Mean and standard error of differences, or the median where a fit fell out of the world."""
    if not np.all(np.abs(values) < WORLD):
        middle = float(np.median(values))
        return f"{middle:+.2f} (median)" if abs(middle) < WORLD else f"{middle:+.0e} (median)"
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return f"{values.mean():+.2f} ± {error:.2f}"


def gaps(quick: bool, draws: int = 10, few: int = 3) -> None:
    """All settings, or in the quick form one draw of one table. The fits of glass take long."""
    names, shares = None, SHARES
    if quick:
        draws, names, shares = 1, ["leaves"], SHARES[1:]
    print("\n## Gaps in real tables\n")
    print(
        "Half of the rows are fitted after cells were taken out of them, and the other half, as\n"
        f"it was, scores the fits. Draws: {draws} ({few} of glass). MCAR: cells are lost at\n"
        "random. MAR: cells of all columns but the first are lost, depending on the first. All\n"
        "have full covariances, as many components as known groups, and default settings,\n"
        "IterativeImputer too. Figures are nats a row by which the fit to the rows with gaps is\n"
        "above a fit to complete rows only, to rows filled with means, and to rows filled by\n"
        "IterativeImputer: mean and standard error over draws, or the median where one fit is\n"
        f"more than {WORLD:.0f} nats away. 'No gaps': above the fit to the same rows without\n"
        "gaps. 'Collapsed': draws in which the fit to gaps warns of a component.\n"
    )
    rivals = ("complete rows", "mean", "iterative")
    print(
        "| table | rows × columns, m | gaps | complete rows | mean | iterative | no gaps |"
        " collapsed |"
    )
    print("| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |", flush=True)
    settings: dict[tuple[str, str, float], list[Result]] = {}
    for name, table in tables(names).items():
        whole: dict[int, float] = {}
        for mechanism in MECHANISMS:
            for share in shares:
                results = []
                for seed in range(few if name == "glass" else draws):
                    draw = drawn(table.X, mechanism, share, seed)
                    results.append(result_of(draw, table.m, seed, whole.get(seed)))
                    whole[seed] = results[-1].scores["no gaps"]
                settings[name, mechanism, share] = results
                cells = [shown(difference(results, other)) for other in (*rivals, "no gaps")]
                collapsed = sum(r.collapsed for r in results)
                print(
                    f"| {name} | {len(table.X) // 2} × {table.X.shape[1]}, {table.m} | "
                    f"{100 * share:.0f} % {mechanism} | {' | '.join(cells)} | "
                    f"{collapsed} of {len(results)} |",
                    flush=True,
                )
    _verdict(settings, rivals)
    _errors(settings)


def _verdict(settings: dict[tuple[str, str, float], list[Result]], rivals: tuple[str, ...]) -> None:
    """In how many settings the fit to gaps is at least as good as each rival, and as all."""
    won = sum(
        int(min(r.scores["gaps"] - np.nan_to_num(r.scores[o], nan=-np.inf) for o in rivals) >= 0)
        for results in settings.values()
        for r in results
    )
    draws = sum(len(results) for results in settings.values())
    print("\nSettings in which the fit to gaps is at least as good:\n")
    print(f"| | {' | '.join(rivals)} | all three |")
    print("| --- |" + " ---: |" * (len(rivals) + 1))
    for name, middle in (("mean over draws", np.mean), ("median over draws", np.median)):
        better = [
            [middle(difference(results, other)) >= 0 for other in rivals]
            for results in settings.values()
        ]
        counts = [*np.sum(better, axis=0), np.sum(np.all(better, axis=1))]
        cells = " | ".join(f"{count} of {len(settings)}" for count in counts)
        print(f"| {name} | {cells} |")
    print(f"\nIt is the best of the four in {won} of {draws} single draws.", flush=True)


def _errors(settings: dict[tuple[str, str, float], list[Result]]) -> None:
    print("\n## Errors of imputed cells\n")
    print(
        "Root mean square errors of the cells that were taken out, in units of the deviation of\n"
        "their column: means over the same draws, and the difference to the better of\n"
        "IterativeImputer and KNNImputer in each draw, with its standard error.\n"
    )
    print("| table | gaps | impute | iterative | KNN | mean | impute − the better of two |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    names = ("impute", "iterative", "KNN", "mean")
    wins = np.zeros(2, dtype=int)
    for (table, mechanism, share), results in settings.items():
        values = np.array([[r.errors[name] for name in names] for r in results])
        away = values[:, 0] - np.minimum(values[:, 1], values[:, 2])
        error = away.std(ddof=1) / np.sqrt(len(away)) if len(away) > 1 else 0.0
        middle = values.mean(axis=0)
        wins += middle[0] <= middle[1:3]
        cells = " | ".join(f"{v:.3f}" for v in middle)
        print(
            f"| {table} | {100 * share:.0f} % {mechanism} | {cells} | "
            f"{away.mean():+.3f} ± {error:.3f} |"
        )
    print(
        f"\nThe error of impute is at most that of IterativeImputer in {wins[0]} of\n"
        f"{len(settings)} settings, and at most that of KNNImputer in {wins[1]}.",
        flush=True,
    )
