"""Units of features: which are logarithms of a column, and rows that look like the data.

A feature called ``log(x)`` or ``log1p(x)`` is the natural logarithm of column x, or of 1 + x where
x may be 0. As the name says it, model files, marginals and pictures keep it without being told.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import numpy as np

_LOGGED = re.compile(r"(log|log1p)\((.+)\)", re.DOTALL)


def log_for(column: str, least: float) -> str:
    """The logarithm for a column whose least value is known: "log1p" if that is 0, else "log"."""
    if not least >= 0:
        raise ValueError(
            f"column {column} reaches {least:g}, and numbers below zero have no logarithm; leave "
            "it in its own units"
        )
    return "log1p" if least == 0 else "log"


class Units:
    """How features are computed from columns.

    Parameters
    ----------
    columns : sequence of str
    logs : sequence of str
        For each column "log", "log1p" or, for the column itself, "".

    Examples
    --------
    >>> import numpy as np
    >>> from momentmix.distributions.units import Units
    >>> units = Units.of_features(["log(income)", "age"])
    >>> units.columns
    ['income', 'age']
    >>> units.to_data(units.from_data(np.array([[10.0, 40.0]]))).round(9).tolist()
    [[10.0, 40.0]]
    """

    def __init__(self, columns: Sequence[str], logs: Sequence[str]) -> None:
        self.columns, self.logs = list(columns), list(logs)
        self.features = [
            f"{log}({name})" if log else name for name, log in zip(columns, logs, strict=True)
        ]
        twice = {name for name, log in zip(self.features, logs, strict=True) if log} & {*columns}
        if twice:
            raise ValueError(f"there is a column {min(twice)} already; leave one of the two out")
        self.logged = np.array([bool(log) for log in logs], dtype=bool)
        self._plus = np.array([float(log == "log1p") for log in logs])[self.logged]

    @classmethod
    def of_features(cls, names: Sequence[str], known: Collection[str] = ()) -> Units:
        """The units of features with these names; the ``known`` are columns as they are."""
        found = [None if name in known else _LOGGED.fullmatch(name) for name in names]
        parts = [(m[2], m[1]) if m else (x, "") for x, m in zip(names, found, strict=True)]
        return cls([column for column, _ in parts], [log for _, log in parts])

    def __bool__(self) -> bool:
        """Whether any feature is a logarithm."""
        return bool(self.logged.any())

    def to_data(self, Z: np.ndarray) -> np.ndarray:
        """Rows Z (p, n) of features in the units of the columns."""
        X = np.array(Z, dtype=np.float64)
        with np.errstate(over="ignore"):
            X[:, self.logged] = np.exp(X[:, self.logged]) - self._plus
        return X

    def from_data(self, X: np.ndarray) -> np.ndarray:
        """Rows X (p, n) of columns as features; -inf and NaN where a number has no logarithm."""
        Z = np.array(X, dtype=np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            Z[:, self.logged] = np.log(Z[:, self.logged] + self._plus)
        return Z

    def log_jacobian(self, Z: np.ndarray) -> np.ndarray:
        """What to add to a log density of features to get that of the columns; (p,).

        With z = log x or z = log(1 + x), log dz/dx is -z. A gap, NaN, adds nothing.
        """
        return -np.nansum(Z[:, self.logged], axis=1)


#: Numbers with more decimal places are measured finely enough to count as not rounded. As many as
#: float64 holds beside nine digits before the point.
_MOST_PLACES = 6


def rounded_like(drawn: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Rows (q, n) within the range of each column of X (p, n), and on its grid if it has one.

    The grid of a column is the coarsest that holds all its values: whole numbers, cents, multiples
    of 25. NaN in X is a gap.
    """
    found = np.array(drawn, dtype=np.float64)
    for column, values in zip(found.T, np.asarray(X, dtype=np.float64).T, strict=True):
        values = values[np.isfinite(values)]
        if len(values):
            step = grid_step(values)
            if step:
                column[:] = values[0] + step * np.rint((column - values[0]) / step)
                column[:] = np.round(column, _MOST_PLACES)  # 9.09, not 9.090000000000002
            np.clip(column, values.min(), values.max(), out=column)
    return found


def grid_step(values: np.ndarray) -> float:
    """The step of the coarsest grid that holds all the values, 0 if they are not rounded."""
    for places in range(_MOST_PLACES + 1):
        scaled = values * 10.0**places
        whole = np.rint(scaled)
        if np.abs(whole).max() > 2**53:
            return 0.0
        if np.allclose(scaled, whole, rtol=1e-12, atol=1e-7):
            return float(np.gcd.reduce((whole - whole[0]).astype(np.int64))) / 10.0**places
    return 0.0
