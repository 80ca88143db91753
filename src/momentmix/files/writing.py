"""Files that are written whole or not at all.

Tables can be written again with all their columns, numbers or not.
"""

from __future__ import annotations

import os
import platform
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from momentmix.files.table import Table, TableError


class WholeTable(NamedTuple):
    """The columns of concatenated tables, apart from those that were read as numbers."""

    names: list[str]  # of all columns, in the order of the first table
    used: list[str]  # the columns that were read as numbers, in this order
    others: dict[str, np.ndarray]  # arrays of numbers or of objects


def whole_table(tables: Sequence[Table], used: Sequence[str], rows: int) -> WholeTable:
    """The columns that all tables share besides the used ones, each with ``rows`` cells.

    A column that some table lacks is left out.
    """
    for table in tables:
        if not table.lasting:
            raise TableError(
                f"{table.label}: its columns are read one after the other, and a query may answer "
                "otherwise the next time; write what it answers to a file first"
            )
    common = [set(table.known) for table in tables]
    names = [name for name in tables[0].known if all(name in known for known in common)]
    others = [name for name in names if name not in used]
    parts = [dict(zip(others, table.cells(others), strict=True)) for table in tables]
    found = {name: _join([part[name] for part in parts]) for name in others}
    short = [name for name, column in found.items() if len(column) != rows]
    if short:
        raise TableError(
            f"{tables[0].label}: column {short[0]} has {len(found[short[0]]):,} cells in "
            f"{rows:,} rows"
        )
    return WholeTable(names, list(used), found)


def _join(columns: Sequence[np.ndarray]) -> np.ndarray:
    """One array of numbers or of objects; objects of different kinds become words."""
    if all(column.dtype.kind != "O" for column in columns):
        return np.concatenate(columns)
    found = np.concatenate([_as_objects(column) for column in columns])
    kinds = {type(cell) for cell in found if cell is not None}
    if len(kinds) > 1 and not kinds <= {int, float}:
        words = [None if cell is None else str(cell) for cell in found]
        return np.array([*words, None], dtype=object)[:-1]  # None forces an array of objects
    return found


def _as_objects(column: np.ndarray) -> np.ndarray:
    if column.dtype.kind == "O":
        return column
    found = column.astype(object)
    found[np.isnan(column)] = None
    return found


@contextmanager
def written_whole(path: str | PathLike[str]) -> Iterator[BinaryIO]:
    """Give a file to write into, which replaces ``path`` once it is on disk.

    A crash leaves the old file, or none, never half of a new one. A leftover beside it is removed
    when the same file is written again. Links and permissions are kept.
    """
    target = _target(path)
    _remove_leftovers(target)
    partial = _partial(target)
    old = stat.S_IMODE(target.stat().st_mode) if target.exists() else None

    def create(name: str, flags: int) -> int:
        return os.open(name, flags, 0o666 if old is None else old)

    try:
        with name_in_errors(path, partial):
            with open(partial, "xb", opener=create) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            if old is not None:
                partial.chmod(old)
            partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def check_writable(path: str | PathLike[str]) -> None:
    """Raise now the OSError that :func:`written_whole` would raise after the work."""
    partial = _partial(_target(path))
    with name_in_errors(path, partial):
        partial.unlink(missing_ok=True)
        open(partial, "xb").close()
        partial.unlink()


@contextmanager
def name_in_errors(what: object, instead_of: object = None) -> Iterator[None]:
    """Make OSErrors name the file ``what``, and not ``instead_of``."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename is not None and str(error.filename) != str(instead_of):
            raise
        if error.errno is None:
            raise OSError(f"{what}: {error}") from error
        raise OSError(error.errno, error.strerror, str(what)) from error


def _target(path: str | PathLike[str]) -> Path:
    """The file to write, with links resolved; an OSError if it cannot be written."""
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{path}: there is no folder {Path(path).parent}")
    if target.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a file in it")
    if target.exists() and not target.is_file():
        raise OSError(f"{path} is neither a file nor a folder")
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(f"{path} is read-only")
    return target


def _partial(target: Path) -> Path:
    return target.with_name(f"{target.name}.{platform.node()}-{os.getpid()}.part")


def _remove_leftovers(target: Path) -> None:
    """Remove parts of the same file whose writing processes, on this machine, have ended."""
    ours = re.compile(re.escape(f"{target.name}.{platform.node()}-") + r"(\d{1,9})\.part")
    with suppress(OSError):
        for name in os.listdir(target.parent):
            found = ours.fullmatch(name)
            if found and not _runs(int(found[1])):
                target.with_name(name).unlink(missing_ok=True)


def _runs(process: int) -> bool:
    if process == os.getpid():  # an earlier process had the same number
        return False
    if os.name != "posix":  # elsewhere os.kill may do harm
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
