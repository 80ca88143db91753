"""The options about tables, the same for every command that reads tables."""

from __future__ import annotations

import csv
import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, get_type_hints

import typer

from momentmix.cli.console import one_of
from momentmix.files.columns import EVERY_NUMBER, Wanted
from momentmix.files.options import FIND_OUT, ReadOptions

_PANEL = "Tables"


class TableOptions(NamedTuple):
    """Which columns are wanted, and how to read the files."""

    wanted: Wanted = EVERY_NUMBER
    options: ReadOptions = FIND_OUT


def _option(text: str, *names: str) -> Any:
    return typer.Option(*names, help=text, rich_help_panel=_PANEL)


def _table_options(
    columns: Annotated[
        str | None,
        _option("The columns to use: names, patterns such as 'bill_*', or positions from 0."),
    ] = None,
    exclude: Annotated[
        str | None, _option("Columns to leave out, written in the same way.")
    ] = None,
    all_columns: Annotated[
        bool,
        _option(
            "Use every column of numbers, also constant ones and row numbers.", "--all-columns"
        ),
    ] = False,
    sep: Annotated[
        str | None, _option("What separates the cells of text: ',', ';', tab, '|' or space.")
    ] = None,
    decimal: Annotated[str | None, _option("The decimal mark of text: '.' or ','.")] = None,
    encoding: Annotated[
        str | None, _option("The encoding of text, such as utf-8 or latin-1.")
    ] = None,
    na: Annotated[
        str | None, _option("More words or numbers that stand for a gap, such as 'unknown,-999'.")
    ] = None,
    header: Annotated[
        str | None, _option("yes or no: whether the first line of text names the columns.")
    ] = None,
    sheet: Annotated[str | None, _option("The sheet of an Excel workbook to read.")] = None,
) -> TableOptions:
    wanted = Wanted(
        None if columns is None else split_names(columns, "--columns"),
        split_names(exclude or "", "--exclude"),
        all_columns,
    )
    words = {"tab": "\t", "\\t": "\t", "space": " ", "blank": " ", "comma": ",", "semicolon": ";"}
    options = ReadOptions(
        separator=None if sep is None else words.get(sep, sep),
        decimal={"comma": ",", "point": "."}.get(decimal or "", decimal),
        encoding=encoding,
        gaps=split_names(na or "", "--na"),
        header=None if header is None else one_of("--header", header, "yes", "no") == "yes",
        sheet=sheet,
    )
    return TableOptions(wanted, options)


def split_names(text: str, option: str) -> tuple[str, ...]:
    """Split words at commas; a word that contains a comma must be quoted."""
    cells = next(csv.reader([text], skipinitialspace=True), [])
    names = [name.strip() for name in cells if name.strip()]
    twice = [name for i, name in enumerate(names) if name in names[:i]]
    if twice:
        raise ValueError(f"{option} names {twice[0]} twice")
    if text and not names:
        raise ValueError(f"{option} names nothing")
    return tuple(names)


def reads_tables(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of tables to a command, whose argument ``tables`` returns TableOptions.

    The options are parsed when ``tables`` is called inside the command, so that their errors are
    reported like any other.
    """
    hints = get_type_hints(command, include_extras=True)
    added = get_type_hints(_table_options, include_extras=True)
    parameters = [
        p.replace(annotation=types[p.name], kind=p.KEYWORD_ONLY)
        for function, types in ((command, hints), (_table_options, added))
        for p in inspect.signature(function).parameters.values()
        if p.name != "tables"
    ]

    def with_options(**given: Any) -> None:
        options = {name: given.pop(name) for name in added if name != "return"}
        command(**given, tables=functools.partial(_table_options, **options))

    with_options.__doc__, with_options.__name__ = command.__doc__, command.__name__
    with_options.__annotations__ = {p.name: p.annotation for p in parameters}
    signature = inspect.Signature(parameters, return_annotation=None)
    setattr(with_options, "__signature__", signature)  # noqa: B010  (mypy does not know the attribute)
    return with_options
