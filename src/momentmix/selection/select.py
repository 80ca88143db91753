"""``select``: numbers of components and covariance types, compared by a criterion."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from momentmix.covariance import COVARIANCE_TYPES
from momentmix.data.observed import ObservedData
from momentmix.data.sources import AtomData
from momentmix.estimators.auto import MOST, PATIENCE, sweeps
from momentmix.estimators.gaussian_mixture import GaussianMixture
from momentmix.estimators.rows import Table
from momentmix.selection.choice import CRITERIA, Choice, Criterion, Rows
from momentmix.selection.compare import Comparison
from momentmix.selection.selection import Selection
from momentmix.support.array import check_same_place, foreign, to_numpy
from momentmix.support.checks import one_of, whole_number
from momentmix.support.parallel import thread_limit

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def select(
    X: Table,
    n_components: Sequence[int] | int | Literal["auto"] = range(1, MOST + 1),
    covariance_types: Sequence[str] | str = COVARIANCE_TYPES,
    criterion: Criterion = "bic",
    *,
    sample_weight: ArrayLike | None = None,
    noise_covariance: ArrayLike | None = None,
    seeds: int = 1,
    callback: Callable[[Choice], None] | None = None,
    **settings: Any,
) -> Selection:
    """Fit mixtures with several numbers of components and covariance types, and choose one.

    The fits share their work: one component more is found by cutting one in two, and one less by
    merging two, up and down until nothing improves. The best is then searched for like any other
    fit. A fit with a collapsed component is chosen only if all have one.

    Parameters
    ----------
    X : array of shape (p, n)
        The rows. NaN is a gap; rows without any value do not count.
    n_components : sequence of int, int or "auto", default=range(1, 11)
        The numbers to compare, as far as the rows are enough for them. "auto" is 1 to 10, and stops
        after three numbers in a row that were no better.
    covariance_types : sequence of str or str, default=("spherical", "diag", "tied", "full")
        The types to compare; "auto" is all of them.
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
    >>> selection = select(X, range(1, 6), random_state=0)
    >>> selection.best.n_components_, selection.best.covariance_type_
    (3, 'spherical')
    """
    numbers, patience = _numbers(n_components)
    types = _types(covariance_types)
    one_of("criterion", criterion, CRITERIA)
    whole_number("seeds", seeds, 1)
    return _compare(
        X,
        numbers,
        types,
        criterion,
        patience=patience,
        seeds=seeds,
        sample_weight=sample_weight,
        noise_covariance=noise_covariance,
        callback=callback,
        settings=settings,
    )


def choose_components(
    X: ArrayLike,
    most: int = 15,
    patience: int = 3,
    callback: Callable[[Choice], None] | None = None,
    noise_covariance: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    **settings: Any,
) -> tuple[Choice, list[Choice]]:
    """The number of components with the lowest BIC, and all numbers from 1 that were tried.

    It is :func:`momentmix.select` for one covariance type, which stops by itself.

    Parameters
    ----------
    X : (p, n)
        The rows. NaN is a gap; rows without any value do not count.
    most : int, default=15
        The largest number tried.
    patience : int, default=3
        It stops after so many numbers in a row that do not lower the BIC.
    callback : callable, optional
        Is called with each Choice as soon as it is known, to show progress.
    noise_covariance : scalar or array, optional
        The covariance of known errors in the rows, as in ``GaussianMixture.fit``.
    sample_weight : array of shape (p,), optional
        How many times each row counts.
    **settings
        Those of GaussianMixture, the number of components apart.

    Returns
    -------
    best : Choice
    looked_at : list of Choice

    Examples
    --------
    >>> from momentmix import Mixture
    >>> from momentmix.selection import choose_components
    >>> truth = Mixture([0.5, 0.3, 0.2], [[0, 0], [4, 0], [0, 4]], [1.0, 0.5, 0.5], "spherical")
    >>> X, _ = truth.sample(2000, random_state=0)
    >>> best, looked_at = choose_components(X, covariance_type="spherical", random_state=0)
    >>> best.n_components
    3
    """
    if most < 1:
        raise ValueError(f"most must be at least 1, got {most}")
    types = _types(settings.pop("covariance_type", "full"))
    found = _compare(
        X,
        range(1, most + 1),
        types,
        "bic",
        patience=patience,
        sample_weight=sample_weight,
        noise_covariance=noise_covariance,
        callback=callback,
        settings=settings,
    )
    return found.chosen, found.table


def _numbers(given: Sequence[int] | int | str) -> tuple[Sequence[int], int | None]:
    """The numbers to compare in rising order, and after how many worse ones to stop."""
    if isinstance(given, str):
        one_of("n_components", given, ("auto",))
        return range(1, MOST + 1), PATIENCE
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
        one_of("covariance_types", name, COVARIANCE_TYPES)
    return list(dict.fromkeys(given))


def _compare(
    X: Table,
    numbers: Sequence[int],
    types: Sequence[str],
    criterion: Criterion,
    *,
    patience: int | None,
    seeds: int = 1,
    sample_weight: Table = None,
    noise_covariance: Table = None,
    callback: Callable[[Choice], None] | None,
    settings: dict[str, Any],
) -> Selection:
    template = GaussianMixture(n_components=numbers[0], **settings)
    template._validate_params()  # type: ignore[no-untyped-call]
    # Rows on a device are compared in main memory.
    check_same_place(X, sample_weight, "sample_weight")
    X, sample_weight = (to_numpy(part) if foreign(part) else part for part in (X, sample_weight))
    data = template._data(X, sample_weight, noise_covariance)
    if not isinstance(data, AtomData | ObservedData):
        raise TypeError("rows in memory are compared, not those of Dask; choose on a sample")
    rows = _rows(template, X, sample_weight, noise_covariance)
    comparison = Comparison(template, data, rows, criterion, callback)
    with thread_limit(template.n_jobs):
        if sweeps(template, data):
            comparison.sweep(numbers, types, patience, seeds)
        else:
            comparison.one_by_one(X, sample_weight, numbers, types, patience)
    return Selection(comparison.choices, criterion)


def _rows(template: GaussianMixture, X: Table, sample_weight: Table, noise: Table) -> Rows:
    array = template._rows(X)
    weights = np.ones(len(array)) if sample_weight is None else np.asarray(sample_weight, float)
    weights = np.where(np.isnan(array).all(axis=1), 0.0, weights)
    return Rows(array, weights, noise)
