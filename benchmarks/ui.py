# SPDX-License-Identifier: Apache-2.0
"""Time that the elements of the page need in Chromium, for machines and clouds of several sizes.

    python benchmarks/ui.py [--json FILE] [--repeat N]

Needs Debian's ``chromium`` and ``chromium-driver``, and Selenium. Prints in milliseconds how long a machine or a cloud
takes from its data to the first frame that shows it (``drawn``; median and maximum of N pages that are loaded afresh)
and the CPU time of the page's main thread in that time (``cpu``, median). While a pointer goes over the map, or a list
is scrolled, it counts the frames a second, the longest frame, and the CPU time of the main thread for a frame. At the
end the goals, and whether they are met. Headless Chromium paints without a graphics card, on the processors that
everything else runs on, so only the CPU times mean something on a busy machine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from zun.tests.browser import machines
from zun.tests.browser.elements import Elements, serving
from zun.tests.browser.page import WIDE, chromium

SECONDS = 2.0

#: Puts an element that has no data yet into the page.
PUT = """
const [name, text, done] = arguments;
import(`/${name.slice(4)}.js`).then(() => {
    window.element = document.createElement(name);
    window.data = JSON.parse(text);
    document.getElementById("place").replaceChildren(element);
    requestAnimationFrame(() => setTimeout(done));
});
"""
#: Gives the data to the element and returns the milliseconds until the frame was painted.
DRAW = """
const [done] = arguments;
const start = performance.now();
element.data = data;
requestAnimationFrame(() => setTimeout(() => done(performance.now() - start)));
"""

#: Calls ``act`` in each frame for some seconds and returns the number of frames and the longest, in milliseconds.
FRAMES = """
const [seconds, done] = arguments;
const root = element.shadowRoot;
%s
const start = performance.now();
let [last, frames, longest] = [start, 0, 0];
function frame() {
    const now = performance.now();
    longest = Math.max(longest, now - last);
    last = now;
    frames += 1;
    if (now - start > 1000 * seconds) {
        done([frames, now - start, longest]);
    } else {
        act(frames);
        requestAnimationFrame(frame);
    }
}
requestAnimationFrame(() => { last = performance.now(); requestAnimationFrame(frame); });
"""
HOVER = """
const boxes = [...root.querySelectorAll("[data-cpu]")];
const act = (at) => boxes[(at * 7) % boxes.length].dispatchEvent(new PointerEvent("pointerover", {bubbles: true}));
"""
SCROLL = """
const grid = root.querySelector(".grid");
const act = (at) => { grid.scrollTop = (at * 120) % (grid.scrollHeight - grid.clientHeight); };
"""


def cloud(number: int) -> dict[str, Any]:
    """Return a list of hosts of eight cells, of which some are free."""

    def amounts(cells: int) -> dict[str, Any]:
        whole = {"cells": cells, "cores": 16 * cells, "cpus": 32 * cells, "memory_mib": 65536 * cells}
        return {**whole, "devices": {"PGPU": cells}}

    return {
        "hosts": [
            {
                "uuid": str(each),
                "hostname": f"compute-{each:05}",
                "total_containers": each % 40,
                "availability_zone": ("east", "west", "lab")[each % 3],
                "aggregates": ["ssd"] if each % 5 else [],
                "traits": ["HW_CPU_X86_AVX2", "HW_CPU_X86_AVX512F"],
                "engine": {"name": "Docker", "version": "29.1.0", "away": None},
                "total": amounts(8),
                "free": amounts(each * 7 % 9),
            }
            for each in range(number)
        ],
        "next": None,
    }


CASES: dict[str, tuple[str, Any, str]] = {
    "machine, 2 cells, 32 CPUs": ("zun-machine", machines.small, HOVER),
    "machine, 8 cells, 256 CPUs": ("zun-machine", lambda: machines.large(8, 16, 20), HOVER),
    "machine, 64 cells, 1,024 CPUs": ("zun-machine", machines.large, HOVER),
    "cloud, 1,000 hosts": ("zun-cloud", lambda: cloud(1000), SCROLL),
    "cloud, 10,000 hosts": ("zun-cloud", lambda: cloud(10_000), SCROLL),
}

GOALS = [
    ("machine, 8 cells, 256 CPUs", "drawn", 200.0, "at most"),
    ("machine, 8 cells, 256 CPUs", "frames a second", 30.0, "at least"),
    ("cloud, 1,000 hosts", "drawn", 1000.0, "at most"),
    ("cloud, 10,000 hosts", "frames a second", 30.0, "at least"),
]


def measure(page: Elements, name: str, data: Any, act: str, repeat: int) -> dict[str, float]:
    text, drawn, busy = json.dumps(data), [], []
    for _ in range(repeat):
        page.open()
        page.driver.execute_async_script(PUT, name, text)
        before = cpu_ms(page)
        drawn.append(page.driver.execute_async_script(DRAW))
        busy.append(cpu_ms(page) - before)
    before = cpu_ms(page)
    frames, milliseconds, longest = page.driver.execute_async_script(FRAMES % act, SECONDS)
    return {
        "drawn": statistics.median(drawn),
        "longest": max(drawn),
        "cpu": statistics.median(busy),
        "frames a second": frames / milliseconds * 1000,
        "longest frame": longest,
        "cpu of a frame": (cpu_ms(page) - before) / frames,
    }


def cpu_ms(page: Elements) -> float:
    """Return the CPU time that the main thread of the page has had."""
    page.driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
    found = page.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return 1000 * next(each["value"] for each in found if each["name"] == "TaskDuration")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", type=Path, help="file for the figures")
    parser.add_argument("--repeat", type=int, default=5, metavar="N", help="pages for each case (5)")
    asked = parser.parse_args()
    driver, found = chromium(), {}
    try:
        with serving() as url:
            page = Elements(driver, url)
            page.size(*WIDE)
            driver.set_script_timeout(60)
            for case, (name, make, act) in CASES.items():
                found[case] = measure(page, name, make(), act, asked.repeat)
                shown = "  ".join(f"{figure} {number:.0f}" for figure, number in found[case].items())
                print(f"{case:30}", shown, flush=True)
    finally:
        driver.quit()
    for case, figure, goal, word in GOALS:
        number = found[case][figure]
        met = number <= goal if word == "at most" else number >= goal
        print(f"{case}: {figure} {number:.0f}, goal {word} {goal:.0f}: {'met' if met else 'MISSED'}")
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
