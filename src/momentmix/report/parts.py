"""The parts of sections: tables, marks of components, coloured cells."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from html import escape
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np

from momentmix.plotting import component_colour, text_on
from momentmix.summary import readable

#: Headings are at least as wide as their longest word, up to this many letters; only longer words
#: break. Chosen by how the page looks.
_LONGEST_WORD = 14
#: The letters of a column's name for which a cell leaves room, on a wide page and on a phone.
#: Chosen by how the page looks.
_LONGEST_NAME, _LONGEST_PIECE = 20, 11

Row = TypeVar("Row")


class Section(NamedTuple):
    """A part of the page with a heading, linked from the top."""

    name: str  # the anchor of links
    title: str
    html: str

    def __str__(self) -> str:
        return f'<section id="{self.name}">\n<h2>{escape(self.title)}</h2>\n{self.html}\n</section>'


class Cell(NamedTuple):
    """One cell of a table."""

    value: float  # by which its column sorts
    html: str


#: A heading, and the function that makes the cell below it from a row of the table.
Column: TypeAlias = tuple[str, Callable[[Row], Cell]]


def table(
    label: str,
    columns: Sequence[Column[Row]],
    rows: Sequence[Row],
    is_best: Callable[[Row], bool] = lambda row: False,
    words: Collection[int] = (),
) -> str:
    """A table that sorts by any of its columns.

    ``words`` are the positions of columns of words, which are aligned left like the first one.
    """
    top = "".join(_th(head, i in words) for i, (head, _) in enumerate(columns))
    body = "".join(
        ('<tr class="best">' if is_best(row) else "<tr>")
        + "".join(_td(cell(row), i in words) for i, (_, cell) in enumerate(columns))
        + "</tr>"
        for row in rows
    )
    return wide(
        f'<table class="sortable"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>', label
    )


def _th(head: str, is_words: bool) -> str:
    # Wide enough for the longest word, unless that is very long.
    pieces = _pieces(head)
    longest = min(max(map(len, pieces)), _LONGEST_WORD)
    kind = ' class="words"' if is_words else ""
    inside = "<wbr>".join(map(escape, pieces))
    return f'<th scope="col"{kind} style="--word:{longest}ch"><button>{inside}</button></th>'


def _td(cell: Cell, is_words: bool) -> str:
    kind = ' class="words"' if is_words else ""
    return f'<td{kind} data-value="{float(cell.value)!r}">{cell.html}</td>'


def wide(html: str, label: str) -> str:
    """HTML that may be wider than the page; it then scrolls, and a hint says so."""
    return (
        '<div class="wide"><p class="hint" aria-hidden="true">There is more to the right: scroll '
        f'sideways →</p><div class="scroll" role="region" tabindex="0" '
        f'aria-label="{escape(label)}">{html}</div></div>'
    )


def _pieces(name: str) -> list[str]:
    """The words of a name, each with the mark after it; lines may break between them."""
    return re.split(r"(?<=[\s_/.:-])", name)


def name_html(name: str) -> str:
    """The name of a column as HTML that may break between words or after marks.

    Its style holds the width that it wants on a wide page and on a phone.
    """
    pieces = _pieces(name)
    whole = min(len(name), _LONGEST_NAME)
    piece = min(max(map(len, pieces)), _LONGEST_PIECE)
    return (
        f'<span class="name" style="--whole:{whole}ch;--piece:{piece}ch">'
        f"{'<wbr>'.join(map(escape, pieces))}</span>"
    )


def mark(component: int) -> str:
    """The number of a component on its colour, as in pictures."""
    colour = component_colour(component)
    return (
        f'<span class="mark" style="background:{colour};color:{text_on(colour)}">{component}</span>'
    )


def heat(value: float, strongest: float) -> str:
    """A style that colours a cell: orange above zero, blue below, full at ``strongest``.

    The colour is translucent, so that text on it is legible on light and on dark pages.
    """
    share = min(abs(value) / strongest, 1.0) if np.isfinite(value) else 0.0
    colour = "213 94 0" if value > 0 else "0 114 178"
    return f"background:rgb({colour} / {0.78 * share:.2f})"


def heat_scale(strongest: float, words: str) -> str:
    """The legend of the colours: a strip from blue to orange."""
    steps = "".join(
        f'<i style="{heat(value, strongest)}"></i>'
        for value in np.linspace(-strongest, strongest, 9)
    )
    return (
        f'<p class="scale"><span>−{strongest:g}</span><span class="strip">{steps}</span>'
        f"<span>+{strongest:g}</span> <span>{escape(words)}</span></p>"
    )


def signed(value: float, decimals: int = 1) -> str:
    """A number with its sign; zero has none."""
    text = f"{value:+.{decimals}f}"
    return text[1:] if float(text) == 0 else text.replace("-", "−")


def one_decimal(value: float) -> str:
    """A number with one decimal, commas between thousands, and a true minus sign."""
    return f"{value:,.1f}".replace("-", "−")


def decimal_cell(value: float) -> Cell:
    """A cell with one decimal."""
    return Cell(value, one_decimal(value))


def number_cell(value: float, digits: int = 4) -> Cell:
    """A cell with a number of any size."""
    return Cell(float(np.nan_to_num(value)), readable(value, digits))


def plain_cell(value: float) -> Cell:
    """A cell with a number as it may stand in the data, without trailing zeros."""
    text = readable(value)
    return Cell(float(np.nan_to_num(value)), re.sub(r"(\.\d*?)0+$", r"\1", text).removesuffix("."))


def component_cell(component: int) -> Cell:
    """A cell with the mark of a component."""
    return Cell(component, mark(component))
