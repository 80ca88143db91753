"""Checks of users' options, with errors that name the option and its allowed values."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import TypeAlias

import numpy as np
from sklearn.utils import _param_validation, check_random_state

#: A seed, a generator, or None for a seed from the system.
RandomState: TypeAlias = "int | Sequence[int] | np.random.Generator | np.random.RandomState | None"


class Interval(_param_validation.Interval):  # type: ignore[misc]
    """An interval of numbers, to which True and False do not belong."""

    def is_satisfied_by(self, val: object) -> bool:
        return not isinstance(val, bool | np.bool_) and bool(super().is_satisfied_by(val))


def one_of(name: str, value: object, allowed: Sequence[object]) -> None:
    """Refuse a value that is not allowed."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {tuple(allowed)}, got {value!r}")


def whole_number(name: str, value: object, least: int, *words: str) -> None:
    """Refuse a value that is neither a whole number of at least ``least`` nor one of ``words``."""
    if not _is_number(value, Integral, least, words):
        raise ValueError(_message(name, "a whole number", least, words, value))


def number(name: str, value: object, least: float, *words: str) -> None:
    """Refuse a value that is neither a number of at least ``least`` nor one of ``words``."""
    if not _is_number(value, Real, least, words):
        raise ValueError(_message(name, "a number", least, words, value))


def positive(name: str, value: object) -> None:
    """Refuse a value that is not a positive, finite number."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < np.inf:
        raise ValueError(f"{name} must be a positive number, got {value!r}")


def probability(name: str, value: object) -> None:
    """Refuse a value that is not strictly between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < 1:
        raise ValueError(f"{name} must be a number between 0 and 1, such as 0.95, got {value!r}")


def _is_number(
    value: object, kind: type[Integral] | type[Real], least: float, words: Sequence[str]
) -> bool:
    if isinstance(value, str):
        return value in words
    return isinstance(value, kind) and not isinstance(value, bool) and float(value) >= least


def _message(name: str, what: str, least: float, words: Sequence[str], value: object) -> str:
    extra = "".join(f", or {word!r}" for word in words)
    return f"{name} must be {what} of at least {least}{extra}, got {value!r}"


def numpy_generator(random_state: RandomState) -> np.random.Generator:
    """Make NumPy's generator from a seed or another generator."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31, size=4))
    return np.random.default_rng(random_state)


def generator(random_state: object) -> np.random.Generator:
    """Make NumPy's generator from anything that scikit-learn takes as a random state."""
    return np.random.default_rng(check_random_state(random_state).randint(2**31, size=4))
