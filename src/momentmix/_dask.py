"""Rows on a Dask cluster: the only file that names Dask, which is imported only when used."""

from __future__ import annotations

from typing import Any


def is_dask(X: Any) -> bool:
    """Whether X is a Dask array or DataFrame."""
    return type(X).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(X, "dask")
