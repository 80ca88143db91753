"""Model files: a mixture as JSON, which holds numbers and names and no code.

docs/model-files.md describes the format, and docs/model.schema.json is its JSON schema.
"""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Protocol, TypedDict

import numpy as np

from momentmix.covariance import MIXTURE_TYPES, join
from momentmix.files.writing import written_whole
from momentmix.support.array import Array, to_numpy, without_graph

#: What every model file says first. The version rises when older releases could not read a file.
FORMAT, VERSION = "momentmix-mixture", 1
_NUMBERS = ("weights", "means", "covariances")
_KEYS = {"format", "version", "covariance_type", "dtype", *_NUMBERS}
_OPTIONAL = {"feature_names", "background"}


class Model(Protocol):
    """The parts of a mixture that a file keeps."""

    @property
    def weights(self) -> Array: ...
    @property
    def means(self) -> Array: ...
    @property
    def covariances(self) -> Array: ...
    @property
    def covariance_type(self) -> str: ...
    @property
    def feature_names(self) -> tuple[str, ...] | None: ...
    @property
    def background(self) -> BackgroundOfFile | None: ...


class BackgroundOfFile(Protocol):
    """The parts of a background that a file keeps."""

    @property
    def share(self) -> float: ...
    @property
    def widths(self) -> np.ndarray: ...


class Parameters(TypedDict):
    """The arguments of Mixture."""

    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray
    covariance_type: str
    feature_names: list[str] | None


def write_model(path: str | PathLike[str], mixture: Model) -> None:
    """Write the parameters, whole or not at all, so that a crash leaves the old file."""
    arrays = {name: to_numpy(without_graph(join(getattr(mixture, name)))) for name in _NUMBERS}
    document: dict[str, object] = {
        "format": FORMAT,
        "version": VERSION,
        "covariance_type": mixture.covariance_type,
        "dtype": str(arrays["means"].dtype),
        # Every float32 is a float64, and JSON in Python round-trips float64 exactly.
        **{name: array.astype(np.float64).tolist() for name, array in arrays.items()},
    }
    if mixture.feature_names is not None:
        document["feature_names"] = list(mixture.feature_names)
    if (background := mixture.background) is not None:
        document["background"] = {"share": background.share, "widths": background.widths.tolist()}
    text = json.dumps(document, allow_nan=False) + "\n"
    with written_whole(path) as file:
        file.write(text.encode())


def read_model(
    path: str | PathLike[str],
) -> tuple[Parameters, tuple[float, np.ndarray] | None]:
    """Read the arguments of Mixture from a model file; a ValueError if it is none.

    The second result is the share and widths of the background, if there is one.
    """

    def refuse(why: str) -> ValueError:
        return ValueError(f"{path} is not a momentmix model: {why}")

    if not Path(path).is_file():
        raise FileNotFoundError(f"{path}: there is no such file")
    try:
        document = json.loads(
            Path(path).read_text(encoding="utf-8"),
            object_pairs_hook=_unique_keys,
            parse_constant=_no_constant,
        )
    except UnicodeDecodeError as error:
        raise refuse("it is not text") from error
    except json.JSONDecodeError as error:
        raise refuse(f"it is not JSON ({error})") from error
    except (ValueError, RecursionError) as error:
        raise refuse(str(error) or type(error).__name__) from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise refuse(f'it does not say "format": "{FORMAT}"')
    version = document.get("version")
    if type(version) is not int or version != VERSION:  # in Python True and 1.0 equal 1
        raise refuse(f"its version is {version!r}, this release reads version {VERSION}")
    if document.keys() - _OPTIONAL != _KEYS:
        odd = sorted((document.keys() - _OPTIONAL) ^ _KEYS)
        raise refuse(f"keys missing or unknown: {odd}")
    names = document.get("feature_names")
    if "feature_names" in document and not _are_names(names):
        raise refuse("feature_names is not a list of names, each of which stands once")
    if document["covariance_type"] not in MIXTURE_TYPES:
        raise refuse(f"covariance_type is {document['covariance_type']!r}")
    if document["dtype"] not in ("float32", "float64"):
        raise refuse(f"dtype is {document['dtype']!r}")
    try:
        arrays = {name: _numbers(document[name], document["dtype"]) for name in _NUMBERS}
        background = _background(document["background"]) if "background" in document else None
    except (ValueError, OverflowError, RecursionError) as error:
        raise refuse(str(error)) from error
    parameters: Parameters = {
        "weights": arrays["weights"],
        "means": arrays["means"],
        "covariances": arrays["covariances"],
        "covariance_type": document["covariance_type"],
        "feature_names": names,
    }
    return parameters, background


def _background(value: object) -> tuple[float, np.ndarray]:
    if not isinstance(value, dict) or value.keys() != {"share", "widths"}:
        raise ValueError("background is not an object with share and widths")
    share, widths = (_numbers(value[name], "float64") for name in ("share", "widths"))
    if share.ndim != 0:
        raise ValueError("the share of the background is not one number")
    return float(share), widths


def _are_names(value: object) -> bool:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        return False
    return len(set(value)) == len(value)


def _numbers(value: object, dtype: str) -> np.ndarray:
    if _holds_truth(value):
        raise ValueError("a parameter holds something else than numbers: true or false")
    array = np.asarray(value)
    if array.dtype.kind not in "if":
        raise ValueError(f"a parameter holds something else than numbers: {str(value)[:60]}")
    with np.errstate(over="ignore"):  # overflow gives infinity, which Mixture refuses
        return array.astype(dtype)


def _holds_truth(value: object) -> bool:
    """Whether a nested list holds true or false, which NumPy would take for 1 and 0."""
    if isinstance(value, list):
        return any(map(_holds_truth, value))
    return isinstance(value, bool)


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    document = dict(pairs)
    if len(document) < len(pairs):
        raise ValueError("a key stands twice")
    return document


def _no_constant(name: str) -> float:
    raise ValueError(f"it holds {name}")
