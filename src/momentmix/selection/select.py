"""``select``: numbers of components and covariance types, compared by a criterion.

The fits are found from each other, or one by one if the settings demand it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from momentmix.covariance import COVARIANCE_TYPES, SHAPE_NAMES, CovarianceName, fitted_type
from momentmix.estimators.base import Table
from momentmix.estimators.gaussian_mixture import (
    GaussianMixture,
    estimator_with,
    fits_of,
    quietly,
    sweeps,
    warn_of_veto,
    with_choice,
)
from momentmix.fitting.held_out import folds, held_out_log_likelihood
from momentmix.fitting.sweep import PATIENCE, Found, is_determined, likelihood_in, numbers_for
from momentmix.rows.data import RowData
from momentmix.selection.blrt import blrt_of, check_replicates
from momentmix.selection.criteria import (
    CRITERIA,
    LEVEL,
    Choice,
    ComparedRows,
    Criterion,
    Selection,
    best_choice,
    choice_of,
    worth,
)
from momentmix.support.array import check_same_place, foreign, to_numpy
from momentmix.support.checks import generator, one_of, whole_number
from momentmix.support.messages import CollapseWarning, SharedValueWarning, warn_user
from momentmix.support.parallel import thread_limit
from momentmix.support.stopping import stoppable, stopped

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from sklearn.utils import Tags


@dataclass
class Candidates:
    """Fits that are being compared: ``choices``."""

    template: GaussianMixture
    data: RowData
    rows: ComparedRows
    criterion: Criterion
    callback: Callable[[Choice], None] | None
    n_boot: int | None = None
    choices: list[Choice] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = generator(self.template.random_state)

    def sweep(
        self, numbers: Sequence[int], types: Sequence[str], patience: int | None, seeds: int
    ) -> None:
        """Find fits from each other, each at least as good as one of its number alone."""
        # ICL and the test are not known on the way, so all numbers are improved. What rows that are
        # left out lose by a parameter is about what the AIC charges for it.
        prices = {"bic": float(np.log(self.data.count)), "aic": 2.0, "cv": 2.0}
        others = [int(self.rng.integers(2**31)) for _ in range(seeds - 1)]

        def told(found: Found) -> None:
            if self.callback is not None and found.plan.m in numbers:
                self.callback(self._choice(found))

        best: list[tuple[Found, float | None]] = []
        for name in types:
            runs: list[list[Found]] = []
            for seed in (None, *others):
                run = fits_of(
                    self.template,
                    self.data,
                    name,
                    numbers,
                    patience=patience,
                    price=prices.get(self.criterion),
                    callback=told if seed is None else lambda found: None,
                    seed=seed,
                )
                runs.append(run)
                if stopped():
                    break
            best += self._over_seeds(runs)
            if stopped():
                break
        found = [one for one, _ in best]
        self.choices = [self._choice(one)._replace(stability=alike) for one, alike in best]
        if not stopped():
            self._decide(found)
        if stopped():
            self.choices[-1].fit.interrupted_ = True
            warn_user("the comparison was interrupted; its fits hold the best parameters so far")
        chosen = self.choices.index(best_choice(self.choices, self.criterion))
        estimator_with(self.template, found[chosen])  # for its warnings

    def tell(self) -> None:
        """Warn if a fit that is better by the criterion was passed over."""
        by = "bic" if self.criterion == "blrt" else self.criterion
        best = best_choice(self.choices, self.criterion)
        lowest = min(self.choices, key=lambda choice: worth(choice, by))
        if lowest.collapsed > best.collapsed:
            warn_of_veto(lowest.fit, best.fit, by, worth(best, by) - worth(lowest, by))

    def _decide(self, found: list[Found]) -> None:
        """Compute the criteria that take more than the fits."""
        if self.criterion == "cv":
            for i, one in enumerate(found):
                value = self._hold_out(one)
                if stopped():
                    return
                self.choices[i] = self.choices[i]._replace(cv=value)
        if self.criterion == "blrt":
            self._test(found)

    def _test(self, found: list[Found]) -> None:
        """For each type, test m against m + 1 components, from the smallest number on."""
        last: dict[str, float] = {}
        for i, one in enumerate(found):
            name, after = one.plan.kind.name, found[i + 1 : i + 2]
            more = any(two.plan.kind is one.plan.kind for two in after)
            if more and last.get(name, 0.0) <= LEVEL and not stopped():
                test = blrt_of(
                    self.template, one, self.data, self.rng, level=LEVEL, n_boot=self.n_boot
                )
                last[name] = test.p_value
                self.choices[i] = self.choices[i]._replace(p_value=test.p_value)

    def _over_seeds(self, runs: list[list[Found]]) -> list[tuple[Found, float | None]]:
        """The best fit of each number over the seeds, and how similar the classifications are."""
        by_number: dict[int, list[Found]] = {}
        for one in chain(*runs):
            by_number.setdefault(one.plan.m, []).append(one)
        return [
            (
                max(fits, key=lambda one: (-one.collapsed, one.fit.log_posterior)),
                self._stability(fits),
            )
            for fits in by_number.values()
        ]

    def _stability(self, fits: list[Found]) -> float | None:
        if len(fits) < 2:
            return None
        X, weights, noise = self.rows
        labels = [quietly(self.template, one).predict(X, noise)[weights > 0] for one in fits]
        from sklearn.metrics import adjusted_rand_score

        return float(np.mean([adjusted_rand_score(a, b) for a, b in combinations(labels, 2)]))

    def _choice(self, found: Found) -> Choice:
        return choice_of(quietly(self.template, found), self.rows)

    def _hold_out(self, found: Found) -> float:
        likelihood = likelihood_in(found.problem)
        # The same rows are left out of every fit that is compared.
        fold = folds(likelihood, np.random.default_rng(0))
        value = held_out_log_likelihood(likelihood, found.fit.parameters, fold)
        return value - found.problem.frame.log_volume

    def one_by_one(
        self,
        X: Table,
        sample_weight: Table,
        numbers: Sequence[int],
        types: Sequence[str],
        patience: int | None,
    ) -> None:
        """Make independent fits, because the settings say how each starts."""
        if self.criterion in ("cv", "blrt"):
            raise ValueError(
                f"criterion={self.criterion!r} goes on from fits by EM; leave method, init_params, "
                "the starts and max_iter at their defaults, or use 'bic', 'icl' or 'aic'"
            )
        rows = self.rows
        for name in types:
            kind, alike = fitted_type(name), []
            for m in numbers:
                if m > numbers[0] and not is_determined(m, rows.number, rows.X.shape[1], kind):
                    break
                one = with_choice(self.template, name, m)
                with warnings.catch_warnings():
                    for category in (CollapseWarning, SharedValueWarning):
                        warnings.simplefilter("ignore", category)
                    one.fit(X, sample_weight=sample_weight, noise_covariance=rows.noise)
                alike.append(choice_of(one, rows))
                if self.callback is not None:
                    self.callback(alike[-1])
                best = best_choice(alike, self.criterion).n_components
                if one.interrupted_ or (patience is not None and m - best >= patience):
                    break
            self.choices += alike


def select(
    X: Table,
    n_components: Sequence[int] | int | Literal["auto"] = "auto",
    covariance_types: Sequence[str] | str = "full",
    criterion: Criterion = "bic",
    *,
    sample_weight: ArrayLike | None = None,
    noise_covariance: ArrayLike | None = None,
    seeds: int = 1,
    n_boot: int | None = None,
    callback: Callable[[Choice], None] | None = None,
    **settings: Any,
) -> Selection:
    """Fit mixtures with several numbers of components and covariance types, and choose one.

    The fits share their work: one component more is found by cutting one in two, and one less by
    merging two, up and down until nothing improves. Each number is also searched for like any other
    fit, so no ``GaussianMixture`` with these settings is better than its row of the table; numbers
    more than three beyond the best are tried from one start only. ``GaussianMixture("auto")`` makes
    the same choice. With ``n_components="auto"`` the choice does not depend on ``random_state``. A
    fit with a collapsed component is chosen only if all have one; a warning says so where it has
    decided.

    Parameters
    ----------
    X : array of shape (p, n)
        The rows. NaN is a gap; rows without any value do not count.
    n_components : sequence of int, int or "auto", default="auto"
        The numbers to compare, as far as the rows are enough for them. "auto" goes on from 1 until
        three in a row are no better.
    covariance_types : sequence of str or str, default="full"
        The types to compare; "auto" is all of them: "full", "tied", "diag", "spherical",
        "tied-diag" and "tied-spherical". mclust's other eight, such as "VEE", can be named too.
    criterion : {"bic", "icl", "aic", "cv", "blrt"}, default="bic"
        What decides. "bic" weighs the likelihood against the number of parameters. "icl" also
        charges for rows that no component clearly owns, so it counts clusters rather than
        Gaussians. "aic" charges less for parameters, and finds more components. "cv" is the
        log-likelihood of rows that were left out. "blrt" adds components as long as a bootstrap
        test at 5 % rejects the current number (:func:`momentmix.selection.blrt`).
    sample_weight : array of shape (p,), optional
        How many times each row counts.
    noise_covariance : scalar or array, optional
        The covariance of known errors in the rows, as in ``GaussianMixture.fit``.
    seeds : int, default=1
        How often everything is repeated with other random numbers. With more than one, the table
        says how similar the classifications are (``stability``), and the best fit of each number is
        kept.
    n_boot : int, optional
        For "blrt": the replicates of each test, for p-values as small as 1 / (n_boot + 1). By
        default a test ends as soon as its decision is certain.
    callback : callable, optional
        Is called with each Choice as soon as it is known, to show progress. It may still improve.
    **settings
        Those of GaussianMixture, such as ``random_state`` and ``prior``.

    Returns
    -------
    Selection
        ``best`` is the fitted GaussianMixture that was chosen, ``table`` has a row for each fit.

    Examples
    --------
    >>> from momentmix import Mixture, select
    >>> truth = Mixture([0.5, 0.3, 0.2], [[0, 0], [4, 0], [0, 4]], [1.0, 0.5, 0.5], "spherical")
    >>> X, _ = truth.sample(1000, random_state=0)
    >>> selection = select(X, range(1, 6), "auto", random_state=0)
    >>> selection.best.n_components_, selection.best.covariance_type_
    (3, 'spherical')
    """
    numbers, patience = _numbers(n_components)
    types = _types(covariance_types)
    one_of("criterion", criterion, CRITERIA)
    whole_number("seeds", seeds, 1)
    check_replicates(n_boot, LEVEL)
    return _compare(
        X,
        numbers,
        types,
        criterion,
        patience=patience,
        seeds=seeds,
        n_boot=n_boot,
        sample_weight=sample_weight,
        noise_covariance=noise_covariance,
        callback=callback,
        settings=settings,
    )


class ChoosesComponents:
    """What estimators have in common that fit mixtures whose number of components may be "auto"."""

    covariance_type: CovarianceName
    max_components: int

    def _check_choice(self, n_components: object) -> None:
        whole_number("n_components", n_components, 1, "auto")
        whole_number("max_components", self.max_components, 1)
        one_of("covariance_type", self.covariance_type, COVARIANCE_TYPES)

    def _settings(self) -> dict[str, Any]:
        """Those of GaussianMixture that the estimator has too."""
        names = "covariance_type", "prior", "random_state", "verbose", "n_jobs"
        return {name: getattr(self, name) for name in names if hasattr(self, name)}

    def _fit_mixture(
        self, m: int | Literal["auto"], X: np.ndarray, counts: Table = None
    ) -> GaussianMixture:
        """A fit with m components, or with as many as have the lowest BIC."""
        if m == "auto":
            settings = self._settings()
            return _compare(
                X,
                range(1, self.max_components + 1),
                _types(settings.pop("covariance_type")),
                "bic",
                patience=1,
                sample_weight=counts,
                settings=settings,
            ).best
        return GaussianMixture(m, **self._settings()).fit(X, sample_weight=counts)

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.allow_nan = True
        return tags


def _numbers(given: Sequence[int] | int | str) -> tuple[Sequence[int] | None, int | None]:
    """The numbers to compare in rising order, if given, and after how many worse ones to stop."""
    if isinstance(given, str):
        one_of("n_components", given, ("auto",))
        return None, PATIENCE
    numbers = list(given) if isinstance(given, Iterable) else [given]
    if not numbers:
        raise ValueError("n_components is empty; give at least one number")
    for m in numbers:
        whole_number("n_components", m, 1)
    return sorted({int(m) for m in numbers}), None


def _types(given: Sequence[str] | str) -> Sequence[str]:
    if isinstance(given, str):
        given = COVARIANCE_TYPES if given == "auto" else (given,)
    if len(given) == 0:
        raise ValueError("covariance_types is empty; give at least one type")
    for name in given:
        one_of("covariance_types", name, (*COVARIANCE_TYPES, *SHAPE_NAMES))
    return list(dict.fromkeys(given))


def _compare(
    X: Table,
    numbers: Sequence[int] | None,
    types: Sequence[str],
    criterion: Criterion,
    *,
    patience: int | None,
    seeds: int = 1,
    n_boot: int | None = None,
    sample_weight: Table = None,
    noise_covariance: Table = None,
    callback: Callable[[Choice], None] | None = None,
    settings: dict[str, Any],
) -> Selection:
    template = GaussianMixture(1 if numbers is None else numbers[0], **settings)
    template._validate_params()  # type: ignore[no-untyped-call]
    # Rows on a device are compared in main memory.
    check_same_place(X, sample_weight, "sample_weight")
    X, sample_weight = (to_numpy(part) if foreign(part) else part for part in (X, sample_weight))
    data = template._data(X, sample_weight, noise_covariance)
    if not isinstance(data, RowData):
        raise TypeError("rows in memory are compared, not those of Dask; choose on a sample")
    numbers = numbers_for(data.count) if numbers is None else numbers
    array = template._rows(X)
    weights = np.ones(len(array)) if sample_weight is None else np.asarray(sample_weight, float)
    weights = np.where(np.isnan(array).all(axis=1), 0.0, weights)
    rows = ComparedRows(array, weights, noise_covariance)
    found = Candidates(template, data, rows, criterion, callback, n_boot)
    with thread_limit(template.n_jobs), stoppable():
        if sweeps(template, data):
            found.sweep(numbers, types, patience, seeds)
        else:
            found.one_by_one(X, sample_weight, numbers, types, patience)
    found.tell()
    return Selection(found.choices, criterion)
