# SPDX-License-Identifier: Apache-2.0
"""Every view in light and dark, wide and narrow: axe-core finds no serious fault, and nothing is cut off.

The pictures are kept as files of the run; three of them are in the documentation.
"""

import pytest

from zun.tests.browser.page import NARROW, WIDE


@pytest.fixture(scope="module")
def busy(running):
    """A service with some containers of each kind."""
    shapes = [
        {"name": "database", "cpu_policy": "dedicated", "cpu": 4, "memory": 4096},
        {"name": "cache", "cpu_policy": "dedicated", "cpu": 2, "memory": 2048, "numa_nodes": 2},
        {"name": "web", "cpu": 1, "memory": 512},
        {"name": "trainer", "cpu_policy": "dedicated", "cpu": 2, "memory": 256, "devices": [{"alias": "gpu"}]},
        {"name": "too-large", "cpu_policy": "dedicated", "cpu": 40, "memory": 1024},
    ]
    made = {fields["name"]: running.run("root", **fields) for fields in shapes}
    running.run("alice", name="report", cpu_policy="dedicated", cpu=2, memory=512)
    running.ask("root", "POST", f"/v1/containers/{made['web']['uuid']}/pause")
    return made


def login(page, busy):
    page.find("#user")


def cloud(page, busy):
    page.login("root")
    page.go("#/cloud")
    page.shows("node-pci")


def host(page, busy):
    page.login("root")
    page.go("#/hosts/node-a")
    page.find(".stage svg")
    page.shows("database")


def containers(page, busy):
    page.login("root")
    page.go("#/containers")
    page.find("td.name", "trainer")


def container(page, busy):
    page.login("root")
    page.go(f"#/containers/{busy['database']['uuid']}")
    page.find(".stage svg")


def container_in_error(page, busy):
    page.login("root")
    page.go(f"#/containers/{busy['too-large']['uuid']}")
    page.find(".changes button")


def member(page, busy):
    page.login("alice")
    page.go("#/containers")
    page.find("td.name", "report")


def why(page, busy):
    page.login("root")
    page.go("#/why")
    page.click("form button.primary", "See what fits")
    page.find(".stage svg")


def why_not(page, busy):
    page.login("root")
    page.go("#/why")
    page.type("#cpu", "20")
    page.click("form button.primary", "See what fits")
    page.find(".changes button")


VIEWS = [login, cloud, host, containers, container, container_in_error, member, why, why_not]


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.__name__.replace("_", "-"))
def test_a_view_has_no_serious_fault(page, busy, view):
    view(page, busy)
    name = view.__name__.replace("_", "-")
    found = []
    for size, scheme in ((WIDE, "light"), (NARROW, "light"), (NARROW, "dark"), (WIDE, "dark")):
        page.size(*size)
        page.scheme(scheme)
        label = f"{name}-{'wide' if size == WIDE else 'narrow'}-{scheme}"
        page.picture(label)
        found += [f"{label}: {fault}" for fault in page.faults()]
        if page.overflow() > 0:
            found.append(f"{label}: wider than the window by {page.overflow()} pixels")
    assert found == []
