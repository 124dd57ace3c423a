# SPDX-License-Identifier: Apache-2.0
"""Tables for people that fit into their terminal: without empty columns and rows, and with long texts on more lines.

Only the format ``table`` is changed, and only where the user chose neither columns nor a width. ``-f json`` and the
other formats have every column.
"""

import argparse
import shutil
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from cliff import columns

Cells = Sequence[Sequence[str]]
_LEAST = 8  # characters of a column that is made narrower
_WHOLE = frozenset({"uuid", "id"})  # columns that are copied from the screen


def fitted(names: Sequence[str], rows: Cells, width: int) -> tuple[list[str], list[list[str]]]:
    """Return the columns of a list, and its cells with line breaks, so that a line has at most ``width`` characters.

    Empty columns are left out. If that is not enough, the widest columns are broken, then the last ones left out.
    """
    kept = [at for at, _ in enumerate(names) if not rows or any(row[at] for row in rows)]
    while True:
        widths = {at: max([len(names[at]), *(_longest(row[at]) for row in rows)]) for at in kept}
        while sum(widths.values()) + 3 * len(kept) + 1 > width:
            narrower = [at for at in kept if names[at] not in _WHOLE and widths[at] > max(_LEAST, len(names[at]))]
            if not narrower:
                break
            widths[max(narrower, key=lambda at: widths[at])] -= 1
        if sum(widths.values()) + 3 * len(kept) + 1 <= width or len(kept) <= 2:
            return [names[at] for at in kept], [[_broken(row[at], widths[at]) for at in kept] for row in rows]
        kept.pop()


def told(names: Sequence[str], values: Sequence[str], width: int) -> tuple[list[str], list[str]]:
    """Return the rows of one thing that have a value, with line breaks in the values."""
    shown = [(name, value) for name, value in zip(names, values, strict=True) if value]
    left = max(width - max((len(name) for name, _ in shown), default=0) - 7, 2 * _LEAST)
    return [name for name, _ in shown], [_broken(value, left) for _, value in shown]


def text(value: Any) -> str:
    """Return a value as the table shows it; nothing for an empty one."""
    if isinstance(value, columns.FormattableColumn):
        value = value.human_readable()
    return "" if value is None or value in ("", [], {}, ()) else str(value)


def _longest(cell: str) -> int:
    return max(map(len, cell.splitlines()), default=0)


def _broken(cell: str, width: int) -> str:
    if _longest(cell) <= width:
        return cell
    return "\n".join(part for line in cell.splitlines() for part in textwrap.wrap(line, width, break_on_hyphens=False))


def _width() -> int:
    """Return the width of the terminal or of the variable COLUMNS, 80 where there is neither."""
    return shutil.get_terminal_size((80, 24)).columns


def _chosen(parsed_args: argparse.Namespace) -> bool:
    """Return whether the user chose the format, the columns, their order or a width."""
    given = ("columns", "sort_columns", "fit_width")
    return (
        parsed_args.formatter != "table"
        or int(parsed_args.max_width) > 0
        or any(getattr(parsed_args, name, None) for name in given)
    )


class List:
    """Mixin for a command that prints a list."""

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Iterable[Sequence[Any]]
    ) -> int:
        names, rows = column_names, data
        if not _chosen(parsed_args):
            names, rows = fitted(column_names, [[text(value) for value in row] for row in data], _width())
        status: int = super().produce_output(parsed_args, names, rows)  # type: ignore[misc]
        return status


class One:
    """Mixin for a command that prints one thing."""

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Sequence[Any]) -> int:
        names, values = column_names, data
        if not _chosen(parsed_args):
            names, values = told(column_names, [text(value) for value in data], _width())
        status: int = super().produce_output(parsed_args, names, values)  # type: ignore[misc]
        return status
