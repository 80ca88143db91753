"""Arrays in .npy and .npz files that may come from strangers, and tables in .npy files.

Nothing is trusted before it is checked: the header is read first, and the data only if the file is
as long as the header says. Members of a .npz file are read only by name and only if uncompressed,
as NumPy stores them, so that no file can take much more memory than its own size.
"""

from __future__ import annotations

import hashlib
import math
import os
import sys
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import IO, BinaryIO, NamedTuple

import numpy as np

from momentmix.files.table import HEAD_ROWS, CellKind, Piece, Place, Table, TableError

#: Bytes that are read at a time. It affects speed only.
_BLOCK = 1 << 20
#: The dtype kinds of numbers and text. Objects are missing because they would need pickle.
_KINDS = "biufU"


class Header(NamedTuple):
    """The header of an array."""

    shape: tuple[int, ...]
    fortran: bool  # whether columns, not rows, are contiguous
    dtype: np.dtype

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(file: IO[bytes]) -> Header:
    """Read the header of an array; the file is then at its first number."""
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        header = Header(*np.lib.format.read_array_header_1_0(file))
    elif version == (2, 0):
        header = Header(*np.lib.format.read_array_header_2_0(file))
    else:  # 3.0 is for names of fields, which no table of numbers has
        raise ValueError(f"the version of the array's header is {version}")
    if header.dtype.kind not in _KINDS:
        raise ValueError(f"it holds {header.dtype}, neither numbers nor text")
    if min(header.shape, default=0) < 0:
        raise ValueError(f"an array has the shape {header.shape}")
    return header


def read_arrays(path: str | PathLike[str], wanted: Iterable[str]) -> dict[str, np.ndarray]:
    """The ``wanted`` arrays that a .npz file holds; a ValueError if it is damaged."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path}: there is no such file")
    try:
        with open(path, "rb") as raw, zipfile.ZipFile(raw) as archive:
            size = os.fstat(raw.fileno()).st_size
            members = {info.filename: info for info in archive.infolist()}
            if len(members) < len(archive.infolist()):
                raise ValueError("a member stands twice")
            return {
                name: _member(archive, members[f"{name}.npy"], size)
                for name in wanted
                if f"{name}.npy" in members
            }
    except OSError as error:
        raise ValueError(error.strerror or str(error)) from error
    except Exception as error:  # a damaged archive can raise almost any exception
        raise ValueError(str(error) or type(error).__name__) from error


def write_arrays(file: BinaryIO, arrays: dict[str, np.ndarray]) -> None:
    """Write a .npz file as NumPy does, but leave no file open if the disk is full."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, size: int) -> np.ndarray:
    if info.compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"{info.filename} is compressed, as momentmix never writes it")
    if max(info.file_size, info.compress_size) > size:
        raise ValueError(f"{info.filename} is said to be larger than the file")
    with archive.open(info) as member:
        header = read_header(member)
        if member.tell() + header.nbytes != info.file_size:
            raise ValueError(f"{info.filename} is not as long as its header says")
        data, read = bytearray(header.nbytes), 0
        while part := member.read(_BLOCK):  # to the end, where zipfile checks the CRC
            data[read : read + len(part)] = part
            read += len(part)
    if read != header.nbytes:
        raise ValueError(f"{info.filename} is not as long as its header says")
    if header.dtype.kind == "U":
        codes = np.frombuffer(data, dtype=header.dtype.str[0] + "u4")
        if codes.max(initial=0) > sys.maxunicode:
            raise ValueError(f"{info.filename} holds text of characters that do not exist")
    array = np.frombuffer(data, dtype=header.dtype)
    return array.reshape(header.shape, order="F" if header.fortran else "C")


def checksum(arrays: dict[str, np.ndarray]) -> str:
    """SHA-256 of names, dtypes, shapes and contents."""
    found = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        found.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        found.update(np.ascontiguousarray(array).view(np.uint8).data)
    return found.hexdigest()


class NpyTable(Table):
    """A two-dimensional array saved by NumPy, read in pieces so that memory stays flat.

    It is not memory-mapped: if a mapped file is truncated, the process is killed.
    """

    def _names(self) -> None:
        try:
            with open(self.path, "rb") as file:
                self._header, self._start = read_header(file), file.tell()
        except Exception as error:  # a damaged header can raise anything
            raise TableError(f"{self.label} is not a .npy file of numbers: {error}") from error
        shape, _, dtype = self._header
        if len(shape) != 2 or dtype.kind not in "biuf":
            raise TableError(f"{self.label} holds {dtype} of shape {shape}, not a table of numbers")
        if self._start + self._header.nbytes > self.size:
            raise self._cut_short()

    def _width(self) -> int:
        return int(self._header.shape[1])

    @property
    def head_is_all(self) -> bool:
        return self._header.shape[0] <= HEAD_ROWS

    def _head_columns(self) -> list[tuple[CellKind, np.ndarray]]:
        with open(self.path, "rb", buffering=0) as file:
            rows = self._rows(file, 0, min(HEAD_ROWS, self._header.shape[0]))
        return [("numbers", column) for column in rows.astype(np.float64).T]

    def _cut_short(self) -> TableError:
        return TableError(f"{self.label} is not a whole .npy file: its end is missing")

    def _pieces(self, start: Place) -> Iterator[Piece]:
        count = self._header.shape[0]
        with open(self.path, "rb", buffering=0) as file:
            for first in range(start.rows, count, self._step):
                last = min(first + self._step, count)
                part = self._rows(file, first, last)
                if self.columns is not None:
                    part = part[:, [int(position) for position in self.columns]]
                yield Piece(part.astype(np.float64), Place(first), Place(last), last / count)

    def cells(self, columns: Sequence[str]) -> list[np.ndarray]:
        with open(self.path, "rb", buffering=0) as file:
            rows = self._rows(file, 0, self._header.shape[0])
        return [rows[:, int(position)] for position in columns]

    def _rows(self, file: BinaryIO, first: int, last: int) -> np.ndarray:
        count, n = self._header.shape
        if not self._header.fortran:
            return self._run(file, first * n, (last - first) * n).reshape(-1, n)
        columns = [self._run(file, count * i + first, last - first) for i in range(n)]
        return np.column_stack(columns)

    def _run(self, file: BinaryIO, at: int, count: int) -> np.ndarray:
        """Consecutive numbers of the file."""
        dtype = self._header.dtype
        file.seek(self._start + at * dtype.itemsize)
        numbers = np.fromfile(file, dtype, count)
        if len(numbers) < count:
            raise self._cut_short()
        return numbers
