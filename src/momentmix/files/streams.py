"""The text of a file in UTF-8, however the file is compressed or encoded.

Nothing is unpacked as a whole, so memory stays flat even if a small file unpacks to very much.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import zipfile
import zlib
from typing import IO, cast

from momentmix.files.table import TableError

#: The first bytes of compressed files.
_PACKED = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"PK\x03\x04": "zip",
    b"PK\x05\x06": "zip",
}
#: Byte order marks of encodings, longer ones first.
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
    codecs.BOM_UTF8: "utf-8",
}
_DAMAGE = (EOFError, OSError, zipfile.BadZipFile, lzma.LZMAError, zlib.error, NotImplementedError)


def packing(first: bytes) -> str | None:
    """How a file with these first bytes is compressed; None if it is not."""
    return next((how for mark, how in _PACKED.items() if first.startswith(mark)), None)


def unpack(file: IO[bytes], label: str) -> IO[bytes]:
    """A file that decompresses while it is read; a file that is not compressed itself."""
    how = packing(file.read(8))
    file.seek(0)
    if how == "gzip":
        return cast("IO[bytes]", gzip.GzipFile(fileobj=file))
    if how == "bzip2":
        return cast("IO[bytes]", bz2.BZ2File(file))
    if how == "xz":
        return cast("IO[bytes]", lzma.LZMAFile(file))
    return _only_member(file, label) if how == "zip" else file


def _only_member(file: IO[bytes], label: str) -> IO[bytes]:
    try:
        archive = zipfile.ZipFile(file)
        names = [info.filename for info in archive.infolist() if not info.is_dir()]
    except Exception as error:  # a damaged archive can raise almost any exception
        raise TableError(f"{label}: this zip file is damaged ({error})") from error
    names = [name for name in names if not name.startswith("__MACOSX/")]
    if len(names) != 1:
        held = f"{len(names)} files ({', '.join(names[:5])})" if names else "no file"
        raise TableError(f"{label}: this zip file holds {held}; unpack it and name one table")
    try:
        return archive.open(names[0])
    except RuntimeError as error:  # encrypted
        raise TableError(f"{label}: {names[0]} in this zip file needs a password") from error


def encoding_of(head: bytes) -> str:
    """The encoding of a text from its beginning; what is not Unicode is taken for cp1252."""
    for mark, name in _BYTE_ORDER_MARKS.items():
        if head.startswith(mark):
            return name
    even, odd = head[0:400:2].count(0), head[1:400:2].count(0)
    if max(even, odd) > 4 * min(even, odd) + 2:  # UTF-16: plain letters have a zero byte each
        return "utf-16-be" if even > odd else "utf-16-le"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)  # the last character may be cut off
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


class TextStream:
    """The text of an open file in UTF-8, after skipping some bytes; it closes the file.

    ``size`` is that of the file when first opened; bytes added later are not read.
    ``old_mac`` turns carriage returns, the line ends of old Macs, into line feeds.
    """

    def __init__(
        self,
        file: IO[bytes],
        label: str,
        size: int,
        encoding: str,
        old_mac: bool = False,
        skip: int = 0,
    ) -> None:
        self._label, self._size, self._file = label, size, file
        self._decoder: io.IncrementalNewlineDecoder | None = None
        self._ahead = b""  # bytes read but not yet returned
        try:
            self._source = unpack(self._file, label)
            if codecs.lookup(encoding).name != "utf-8" or old_mac:
                decoder = codecs.getincrementaldecoder(encoding)
                errors = "replace" if encoding == "cp1252" else "strict"
                self._decoder = io.IncrementalNewlineDecoder(decoder(errors), translate=old_mac)
            self._skip(skip)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> TextStream:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    @property
    def plain(self) -> bool:
        """Whether the stream has the very bytes of the file."""
        return self._source is self._file and self._decoder is None

    @property
    def share(self) -> float:
        """How much of the file has been read, from 0 to 1."""
        return min(1.0, self._file.tell() / max(1, self._size))

    def read(self, count: int) -> bytes:
        """About ``count`` bytes; none at the end."""
        if self._ahead:
            ahead, self._ahead = self._ahead[:count], self._ahead[count:]
            return ahead
        while True:
            data = self._read_packed(count)
            if self._decoder is None:
                return data
            try:
                text = self._decoder.decode(data, final=not data)
            except UnicodeDecodeError as error:
                raise TableError(
                    f"{self._label}: this is not text in {error.encoding} ({error.reason}); "
                    "name another with --encoding"
                ) from error
            if text or not data:
                return text.encode("utf-8", "replace")

    def _read_packed(self, count: int) -> bytes:
        """Bytes of the file, decompressed if it is compressed."""
        if self._source is not self._file:
            try:
                return self._source.read(count)
            except _DAMAGE as error:
                raise TableError(f"{self._label}: the file is damaged: {error}") from error
        left = self._size - self._file.tell()
        data = self._file.read(min(count, max(0, left)))
        if left > 0 and not data:
            raise TableError(f"{self._label} became shorter while it was read")
        return data

    def _skip(self, count: int) -> None:
        if self.plain:
            self._file.seek(count)
            return
        while count > 0:
            data = self.read(1 << 20)
            if not data:
                raise TableError(f"{self._label} became shorter while it was read")
            data, self._ahead = data[:count], data[count:]
            count -= len(data)
