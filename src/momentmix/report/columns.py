"""The section on the columns of the data: what they hold, and what was left out."""

from __future__ import annotations

from html import escape

from momentmix.report.parts import Cell, Column, Section, name_html, number_cell, plain_cell, table
from momentmix.summary import ColumnSummary, FitSummary, Origin, counted, listed

#: Columns that a sentence names for each reason.
_MOST_NAMED = 20


def columns_section(report: FitSummary) -> Section | None:
    """For fits with rows, or with something to tell about where they come from."""
    columns, origin = report.columns, report.origin
    words = [] if origin is None else [_rows_words(origin, report.rows), _left_out(origin)]
    told = " ".join(word for word in words if word)
    if not columns and not told:
        return None
    shown = _table(columns) if columns else ""
    return Section("columns", "The columns", (f"<p>{escape(told)}</p>" if told else "") + shown)


def _rows_words(origin: Origin, used: int | None) -> str:
    """What became of the rows that were read."""
    if origin.rows_read is None:
        return ""
    if origin.rows_dropped == 0:
        empty = sum(origin.gaps.values())
        gaps = f" {counted(empty, 'cell')} of them {'is' if empty == 1 else 'are'} empty."
        return f"All {counted(origin.rows_read, 'row')} were used.{gaps if empty else ''}"
    have = "has gaps and was" if origin.rows_dropped == 1 else "have gaps and were"
    left = "" if used is None else f", so that {counted(used, 'row')} were used"
    return f"Of {counted(origin.rows_read, 'row')}, {origin.rows_dropped:,} {have} left out{left}."


def _left_out(origin: Origin) -> str:
    """The columns that were left out, those with the same reason together."""
    reasons: dict[str, list[str]] = {}
    nameless = 0
    for name, reason in origin.left_out:
        if name.strip():
            reasons.setdefault(reason, []).append(f"“{name}”")
        else:
            nameless += 1
    groups = [f"{listed(names, _MOST_NAMED)} ({reason})" for reason, names in reasons.items()]
    if nameless:
        groups.append(f"{'one' if nameless == 1 else f'{nameless:,}'} without a name")
    were = "Left out was a column:" if len(origin.left_out) == 1 else "Left out were columns:"
    return f"{were} {listed(groups, len(groups))}." if groups else ""


def _table(columns: list[ColumnSummary]) -> str:
    heads: list[Column[ColumnSummary]] = [
        ("column", lambda column: Cell(columns.index(column), name_html(column.name))),
        ("mean", lambda column: number_cell(column.mean)),
        ("standard deviation", lambda column: number_cell(column.deviation)),
        ("minimum", lambda column: plain_cell(column.minimum)),
        ("median", lambda column: plain_cell(column.median)),
        ("maximum", lambda column: plain_cell(column.maximum)),
    ]
    if any(column.gaps for column in columns):
        heads.append(("gaps", lambda column: Cell(column.gaps, f"{column.gaps or '—'}")))
    return table("Columns", heads, columns)
