#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draw the dashboard of etc/monitoring as an SVG, from the answers of a Prometheus.

The panels, queries and legends are those of the file. Grafana draws the same lines in its own way. Standard library
only::

    doc/dashboard.py http://127.0.0.1:9090 --minutes 20 > doc/source/admin/dashboard.svg
"""

import argparse
import json
import math
import pathlib
import re
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

DASHBOARD = pathlib.Path(__file__).parents[1] / "etc/monitoring/zun-dashboard.json"
POINTS = 60
COLUMN, ROW, GAP = 392, 186, 12  # a panel, in pixels; Grafana has 24 columns and panels of 12 here
LEFT, RIGHT, TOP, BOTTOM = 42, 10, 30, 44  # of a panel, around the plot
ROWS = 6  # of a table
LEGEND, LETTERS = 6, 21  # names of lines below a panel, and the most letters of one
UNITS = {"s": "s", "reqps": "/s", "ops": "/s", "kbytes": "KiB", "mbytes": "MiB"}
STYLE = """
.p{fill:#eef3f8;stroke:#3b6ea5}.t{fill:#1c2733;font-size:12px;font-weight:bold}.l{fill:#41566b;font-size:10px}
.g{stroke:#c5d2df;stroke-width:.5}.s{fill:none;stroke-width:1.5}
@media (prefers-color-scheme:dark){.p{fill:#1e2a36;stroke:#7fb0e0}.t{fill:#e6edf3}.l{fill:#a9bccd}.g{stroke:#41566b}}
"""
COLOURS = ("#3b6ea5", "#d9822b", "#3d9970", "#b5485d", "#8e6bbf", "#6f7f8f")

Line = tuple[str, list[tuple[float, float]]]
"""Legend, and its points: seconds and value."""


def ask(prometheus: str, query: str, begin: float, end: float) -> list[dict[str, Any]]:
    """Return the answer of Prometheus to a query over a time."""
    words = {"query": query, "start": begin, "end": end, "step": (end - begin) / POINTS}
    url = f"{prometheus.rstrip('/')}/api/v1/query_range?{urllib.parse.urlencode(words)}"
    with urllib.request.urlopen(url, timeout=30) as answer:
        found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
    return found


def legend(form: str, labels: Mapping[str, str]) -> str:
    return re.sub(r"{{\s*(\w+)\s*}}", lambda found: labels.get(found[1], ""), form)


def lines(prometheus: str, panel: Mapping[str, Any], begin: float, end: float) -> Iterator[Line]:
    """Yield the lines of a panel. The variable of the dashboard is every host."""
    for target in panel["targets"]:
        for series in ask(prometheus, target["expr"].replace("$host", ".*"), begin, end):
            values = [(when, float(value)) for when, value in series["values"]]
            yield legend(target["legendFormat"], series["metric"]), [each for each in values if math.isfinite(each[1])]


def cells(prometheus: str, panel: Mapping[str, Any], end: float) -> dict[tuple[str, str], dict[str, float]]:
    """Return the present values of a table by host and cell, and by heading."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for target in panel["targets"]:
        for series in ask(prometheus, target["expr"].replace("$host", ".*"), end - 60, end):
            place = (series["metric"].get("host", ""), series["metric"].get("cell", ""))
            found.setdefault(place, {})[target["legendFormat"]] = float(series["values"][-1][1])
    return dict(sorted(found.items()))


def draw_table(panel: Mapping[str, Any], found: Mapping[tuple[str, str], Mapping[str, float]]) -> Iterator[str]:
    """Yield the elements of a panel that is a table: its first rows, from the panel's upper left corner."""
    headings = [target["legendFormat"] for target in panel["targets"]]
    yield f'<rect class="p" width="{COLUMN}" height="{ROW}" rx="6"/>'
    yield f'<text class="t" x="12" y="20">{escape(panel["title"])}</text>'
    step = (COLUMN - 90 - RIGHT) / len(headings)
    for number, heading in enumerate(headings):
        for line, word in enumerate((heading.partition(" ")[0], heading.partition(" ")[2])):
            x = 90 + step * (number + 1)
            yield f'<text class="l" x="{x:.0f}" y="{TOP + 13 + 11 * line}" text-anchor="end">{escape(word)}</text>'
    for row, ((host, cell), values) in enumerate(list(found.items())[:ROWS]):
        y = TOP + 44 + 18 * row
        yield f'<path class="g" d="M12 {y - 13}h{COLUMN - 12 - RIGHT}"/>'
        yield f'<text class="l" x="12" y="{y}">{escape(f"{host} cell {cell}")}</text>'
        for number, heading in enumerate(headings):
            value = f"{values[heading]:g}" if heading in values else ""
            yield f'<text class="l" x="{90 + step * (number + 1):.0f}" y="{y}" text-anchor="end">{value}</text>'
    if not found:
        yield f'<text class="l" x="{COLUMN / 2}" y="{ROW / 2}" text-anchor="middle">No data</text>'


def top(highest: float) -> float:
    """Return the end of the axis: 1, 2 or 5 times a power of ten, at least ``highest``."""
    if highest <= 0:
        return 1
    power = 10 ** math.floor(math.log10(highest))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= highest)


def draw(panel: Mapping[str, Any], found: list[Line], begin: float, end: float) -> Iterator[str]:
    """Yield the elements of a panel, from its upper left corner."""
    width, height = COLUMN - LEFT - RIGHT, ROW - TOP - BOTTOM
    unit = UNITS.get(panel["fieldConfig"]["defaults"]["unit"], "")
    high = top(max((value for _, values in found for _, value in values), default=0))
    yield f'<rect class="p" width="{COLUMN}" height="{ROW}" rx="6"/>'
    yield f'<text class="t" x="12" y="20">{escape(panel["title"])}</text>'
    yield f'<text class="l" x="{COLUMN - RIGHT}" y="20" text-anchor="end">{unit}</text>'
    for part in (0, 0.5, 1):
        y = TOP + height * (1 - part)
        yield f'<path class="g" d="M{LEFT} {y:g}h{width}"/>'
        yield f'<text class="l" x="{LEFT - 4}" y="{y + 3:g}" text-anchor="end">{high * part:g}</text>'
    minutes = round((end - begin) / 60)
    for part, text in ((0, f"{minutes} min ago"), (1, "now")):
        anchor = "end" if part else "start"
        yield f'<text class="l" x="{LEFT + width * part}" y="{TOP + height + 13}" text-anchor="{anchor}">{text}</text>'
    if not found:
        yield f'<text class="l" x="{LEFT + width / 2}" y="{TOP + height / 2}" text-anchor="middle">No data</text>'
    for number, (name, values) in enumerate(found):
        colour = COLOURS[number % len(COLOURS)]
        points = " ".join(
            f"{LEFT + width * (when - begin) / (end - begin):.0f},{TOP + height * (1 - value / high):.0f}"
            for when, value in values
        )
        yield f'<polyline class="s" stroke="{colour}" points="{points}"/>'
        if number < LEGEND:
            x, y = 12 + number % 3 * (COLUMN - 12) / 3, ROW - 20 + number // 3 * 12
            yield f'<path class="s" stroke="{colour}" d="M{x:.0f} {y - 3}h10"/>'
            short = name if len(name) <= LETTERS else f"{name[:LETTERS]}…"
            yield f'<text class="l" x="{x + 14:.0f}" y="{y}">{escape(short)}</text>'


def picture(prometheus: str, dashboard: Mapping[str, Any], begin: float, end: float) -> Iterator[str]:
    places = [(panel["gridPos"]["x"] // 12, panel["gridPos"]["y"] // 8) for panel in dashboard["panels"]]
    width, height = 2 * (COLUMN + GAP) + GAP, (max(y for _, y in places) + 1) * (ROW + GAP) + GAP
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" font-family="sans-serif"'
    yield f' font-size="13">\n<title>{escape(dashboard["title"])}</title>\n<style>{STYLE}</style>'
    for panel, (column, row) in zip(dashboard["panels"], places, strict=True):
        yield f'<g transform="translate({GAP + column * (COLUMN + GAP)} {GAP + row * (ROW + GAP)})">'
        if panel["type"] == "table":
            yield from draw_table(panel, cells(prometheus, panel, end))
        else:
            yield from draw(panel, sorted(lines(prometheus, panel, begin, end)), begin, end)
        yield "</g>"
    yield "</svg>"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("prometheus", help="URL of a Prometheus that reads the programs' metrics")
    parser.add_argument("--minutes", type=int, default=20, help="how far back (default: 20)")
    words = parser.parse_args()
    end = time.time()
    dashboard = json.loads(DASHBOARD.read_text())
    for each in picture(words.prometheus, dashboard, end - 60 * words.minutes, end):
        sys.stdout.write(each + "\n")


if __name__ == "__main__":
    main()
