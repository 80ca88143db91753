"""Arrays in .npy and .npz files that may come from strangers.

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
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import IO, BinaryIO, NamedTuple

import numpy as np

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
