"""Fits that are compared: found from each other, or one by one if the settings demand it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations

import numpy as np
from sklearn.metrics import adjusted_rand_score

from momentmix.covariance import covariance_type
from momentmix.data.observed import ObservedData
from momentmix.data.sources import AtomData
from momentmix.estimators.auto import estimator_with, fits_of, with_choice
from momentmix.estimators.gaussian_mixture import GaussianMixture
from momentmix.estimators.rows import Table
from momentmix.fitting.sweep import Found, is_determined, search_again
from momentmix.likelihood.rows import RowLikelihood
from momentmix.likelihood.strength import folds, held_out_log_likelihood
from momentmix.selection.blrt import blrt_of
from momentmix.selection.choice import LEVEL, Choice, Criterion, Rows, best_choice, choice_of
from momentmix.support.checks import generator
from momentmix.support.warnings import CollapseWarning, warn_user


class Comparison:
    """Fits that are being compared: ``choices``."""

    def __init__(
        self,
        template: GaussianMixture,
        data: AtomData | ObservedData,
        rows: Rows,
        criterion: Criterion,
        callback: Callable[[Choice], None] | None,
    ) -> None:
        self.template, self.data, self.rows = template, data, rows
        self.criterion, self.callback = criterion, callback
        self.rng = generator(template.random_state)
        self.choices: list[Choice] = []

    def sweep(
        self, numbers: Sequence[int], types: Sequence[str], patience: int | None, seeds: int
    ) -> None:
        """Find fits from each other, and then search for the best like any other fit."""
        # The other criteria are not known on the way, so all numbers are improved.
        prices = {"bic": float(np.log(self.data.count)), "aic": 2.0}
        rngs = [self.rng]
        rngs += [np.random.default_rng(self.rng.integers(2**63)) for _ in range(seeds - 1)]
        tell = self.callback

        def told(found: Found) -> None:
            if tell is not None and found.plan.m in numbers:
                tell(self._choice(found))

        found: list[Found] = []
        stability: list[float | None] = []
        for name in types:
            runs = []
            for rng in rngs:
                runs.append(
                    fits_of(
                        self.template,
                        self.data,
                        name,
                        numbers,
                        rng,
                        patience=patience,
                        price=prices.get(self.criterion),
                        callback=told if rng is rngs[0] else lambda found: None,
                    )
                )
                if runs[-1][-1].fit.interrupted:
                    break
            best, alike = self._over_seeds(runs)
            found += best
            stability += alike
            if runs[-1][-1].fit.interrupted:
                break
        interrupted = any(one.fit.interrupted for one in found)
        self.choices = [
            self._choice(one)._replace(stability=alike)
            for one, alike in zip(found, stability, strict=True)
        ]
        try:
            if not interrupted:
                self._decide(found)
        except KeyboardInterrupt:
            self.choices[-1].fit.interrupted_ = interrupted = True
        if interrupted:
            warn_user("the comparison was interrupted; its fits hold the best parameters so far")

    def _decide(self, found: list[Found]) -> None:
        """Compute the criterion, and search for the best like any other fit."""
        if self.criterion == "cv":
            for i, one in enumerate(found):
                self.choices[i] = self.choices[i]._replace(cv=self._hold_out(one))
        if self.criterion == "blrt":
            self._test(found)
        searched_for: set[int] = set()
        while True:
            i = self.choices.index(best_choice(self.choices, self.criterion))
            if i in searched_for:
                return
            searched_for.add(i)
            # From the same seed, so it searches like a fit with this number and type.
            better = search_again(found[i], generator(self.template.random_state))
            before = self.choices[i]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CollapseWarning)
                fit = estimator_with(self.template, better)
            cv = self._hold_out(better) if self.criterion == "cv" else None
            self.choices[i] = choice_of(fit, self.rows, cv)._replace(
                stability=before.stability, p_value=before.p_value
            )

    def _test(self, found: list[Found]) -> None:
        """For each type, test m against m + 1 components, from the smallest number on."""
        last: dict[str, float] = {}
        for i, one in enumerate(found):
            name, after = one.plan.kind.name, found[i + 1 : i + 2]
            more = any(two.plan.kind is one.plan.kind for two in after)
            if more and last.get(name, 0.0) <= LEVEL:
                test = blrt_of(self.template, one, self.data, self.rng, level=LEVEL)
                last[name] = test.p_value
                self.choices[i] = self.choices[i]._replace(p_value=test.p_value)

    def _over_seeds(self, runs: list[list[Found]]) -> tuple[list[Found], list[float | None]]:
        """The best fit of each number over the seeds, and how similar the classifications are."""
        by_number: dict[int, list[Found]] = {}
        for run in runs:
            for one in run:
                by_number.setdefault(one.plan.m, []).append(one)
        best = [
            max(fits, key=lambda one: (-one.collapsed, one.fit.log_posterior))
            for fits in by_number.values()
        ]
        return best, [self._stability(fits) for fits in by_number.values()]

    def _stability(self, fits: list[Found]) -> float | None:
        if len(fits) < 2:
            return None
        X, weights, noise = self.rows
        with _without_warnings():
            labels = [
                estimator_with(self.template, one).predict(X, noise)[weights > 0] for one in fits
            ]
        return float(np.mean([adjusted_rand_score(a, b) for a, b in combinations(labels, 2)]))

    def _choice(self, found: Found) -> Choice:
        with _without_warnings():
            return choice_of(estimator_with(self.template, found), self.rows)

    def _hold_out(self, found: Found) -> float:
        likelihood, start = found.problem.likelihood, found.fit.parameters
        assert isinstance(likelihood, RowLikelihood)
        # The same rows are left out of every fit that is compared.
        fold = folds(likelihood, np.random.default_rng(0))
        value = held_out_log_likelihood(likelihood, likelihood.prior, start, fold)
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
            kind, alike = covariance_type(name), []
            for m in numbers:
                if m > numbers[0] and not is_determined(m, rows.number, rows.X.shape[1], kind):
                    break
                one = with_choice(self.template, name, m)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", CollapseWarning)
                    one.fit(X, sample_weight=sample_weight, noise_covariance=rows.noise)
                alike.append(choice_of(one, rows))
                if self.callback is not None:
                    self.callback(alike[-1])
                best = best_choice(alike, self.criterion).n_components
                if one.interrupted_ or (patience is not None and m - best >= patience):
                    break
            self.choices += alike


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Suppress warnings of fits that are only compared."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
