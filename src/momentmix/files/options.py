"""Options that say how to read a file, in place of automatic detection."""

from __future__ import annotations

import codecs
from dataclasses import dataclass


@dataclass(frozen=True)
class ReadOptions:
    """What the user says about the form of a table; None means that it is detected.

    ``gaps`` are words that stand for a missing number besides the usual ones. ``header`` tells
    whether the first line names the columns. ``sheet`` is the name of a sheet in a workbook.
    """

    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    gaps: tuple[str, ...] = ()
    header: bool | None = None
    sheet: str | None = None

    def __post_init__(self) -> None:
        if self.separator is not None and (len(self.separator) != 1 or self.separator in '"\n\r'):
            raise ValueError(f"a separator is one character, got {self.separator!r}")
        if self.decimal not in (None, ".", ","):
            raise ValueError(f"the decimal mark is '.' or ',', got {self.decimal!r}")
        if self.encoding is not None:
            try:
                "".encode(codecs.lookup(self.encoding).name)
            except (LookupError, ValueError) as error:
                raise ValueError(f"there is no encoding {self.encoding!r} of text") from error


FIND_OUT = ReadOptions()
