"""Tables in Excel workbooks: a sheet, read as if it had been saved as CSV."""

from __future__ import annotations

import csv
import io
from datetime import date, time
from typing import IO
from zipfile import ZipFile

from momentmix.files.arrow_table import import_pyarrow
from momentmix.files.streams import TextStream
from momentmix.files.table import TableError
from momentmix.files.text_table import TextTable

#: Cells of a sheet, with those that are empty.
_MOST_CELLS = 1 << 28


def is_workbook(file: IO[bytes]) -> bool:
    """Whether a zip file is a workbook."""
    try:
        return any(name.startswith("xl/") for name in ZipFile(file).namelist())
    except Exception:  # a damaged archive can raise almost any exception
        return False


class ExcelTable(TextTable):
    """A sheet of a workbook: the one that the user names, or the first that is not empty."""

    def _names(self) -> list[str] | None:
        import_pyarrow(self.path, self.label, extra="excel")
        self._sheet = self._as_text()
        return super()._names()

    def _text(self, skip: int = 0) -> TextStream:
        file = io.BytesIO(self._sheet)
        return TextStream(file, self.label, len(self._sheet), "utf-8", skip=skip)

    def _as_text(self) -> bytes:
        try:
            from openpyxl import load_workbook
        except ImportError as error:
            raise TableError(
                f"{self.label}: reading Excel files needs openpyxl: pip install 'momentmix[excel]'"
            ) from error
        try:
            # As bytes, because openpyxl refuses paths with other endings.
            content = io.BytesIO(self.path.read_bytes())
            book = load_workbook(content, read_only=True, data_only=True)
        except Exception as error:  # a damaged workbook can raise anything
            raise TableError(f"{self.label}: this workbook cannot be read: {error}") from error
        try:
            names, wanted = book.sheetnames, self.options.sheet
            if wanted is not None and wanted not in names:
                raise TableError(
                    f"{self.label}: there is no sheet {wanted!r}; it has {', '.join(names)}"
                )
            for name in names if wanted is None else [wanted]:
                text = _sheet_as_text(book[name])
                if text:
                    self._say_which(name, names)
                    return text
        except TableError:
            raise
        except Exception as error:  # a damaged sheet can raise anything
            raise TableError(f"{self.label}: this workbook cannot be read: {error}") from error
        finally:
            book.close()
        raise TableError(f"{self.label}: the workbook is empty")

    def _say_which(self, name: str, names: list[str]) -> None:
        if self.options.sheet is None and len(names) > 1:
            self.said.append(
                f"{self.label}: the sheet {name} of {len(names)} was read; --sheet names another"
            )


def _sheet_as_text(sheet: object) -> bytes:
    # The size that a sheet claims would make cells that are not there.
    sheet.reset_dimensions()  # type: ignore[attr-defined]
    lines: list[tuple[int, str]] = []  # cells in a line, and the line
    for row in sheet.iter_rows(values_only=True):  # type: ignore[attr-defined]
        if any(cell is not None for cell in row):
            text = io.StringIO()
            csv.writer(text, lineterminator="").writerow([_as_cell(cell) for cell in row])
            lines.append((len(row), text.getvalue()))
    width = max((cells for cells, _ in lines), default=0)
    if width * len(lines) > _MOST_CELLS:
        raise ValueError(f"{len(lines):,} rows of {width:,} cells; delete those far to the right")
    padded = (f"{text}{',' * (width - cells)}\n" for cells, text in lines)
    return "".join(padded).encode("utf-8", "replace")


def _as_cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, (date, time)):
        return value.isoformat()
    return str(value).lower() if isinstance(value, bool) else str(value)
