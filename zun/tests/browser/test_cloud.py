# SPDX-License-Identifier: Apache-2.0
"""The element zun-cloud: tiles of all hosts, filters, keyboard, and many hosts."""

import pytest
from selenium.webdriver import ActionChains
from selenium.webdriver.common.keys import Keys

from zun.tests.browser.page import NARROW, WIDE

#: A client of pages of hosts, which the test changes: ``window.pages`` by the query of the request.
CLIENT = """
window.pages = arguments[0];
window.asked = [];
element.client = Object.assign(new EventTarget(), {
    signedOut: false,
    async get(path, {etag}) {
        window.asked.push(path);
        const page = window.pages[new URL(path, location).search];
        return etag === page.etag ? {status: 304, body: null, etag} : {status: 200, ...page};
    },
});
"""


def host(number, free=2, **more):
    """Return one host of the list. Of eight cells ``free`` are free."""
    def amounts(cells):
        return {"cells": cells, "cores": 8 * cells, "cpus": 16 * cells, "memory_mib": 65536 * cells,
                "devices": {"PGPU": cells} if number % 2 else {}}  # fmt: skip

    return {
        "uuid": f"uuid-{number}", "hostname": f"node-{number:05}", "total_containers": number % 7,
        "availability_zone": ("east", "west")[number % 2], "aggregates": [] if number % 3 else ["ssd"],
        "traits": ["HW_CPU_X86_AVX2"] if number % 4 else [], "total": amounts(8), "free": amounts(free),
        "engine": {"name": "Docker", "version": "29.1.0", "away": None}, **more,
    }  # fmt: skip


def cloud(number):
    return {"hosts": [host(each, each % 9) for each in range(number)], "next": None}


def tile(alone, index):
    """Return the label, the text of the number and the shade of a tile."""
    return alone.inside(
        """(() => { const tile = root.querySelectorAll(".tile")[arguments[0]];
            return [tile.getAttribute("aria-label"), tile.lastChild.textContent, tile.className]; })()""",
        index,
    )


@pytest.mark.parametrize(("changes", "expected"), [
    pytest.param({"free": 0}, ["node-00001 0: 0 of 8 whole cells free", "0", "tile h0"], id="nothing-free"),
    pytest.param({"free": 1}, ["node-00001 1: 1 of 8 whole cells free", "1", "tile h1"], id="little-free"),
    pytest.param({"free": 8}, ["node-00001 8: 8 of 8 whole cells free", "8", "tile h5"], id="all-free"),
    pytest.param({"engine": {"name": "Docker", "version": "29", "away": "it is gone"}},
                 ["node-00001 2: 2 of 8 whole cells free, engine away", "2", "tile h2 away"], id="engine-away"),
    pytest.param({"engine": None, "total": None, "free": None},
                 ["node-00001 ?: amounts unknown", "?", "tile none"], id="unreadable"),
])  # fmt: skip
def test_a_tile_tells_what_is_free(alone, changes, expected):
    made = host(1, changes.get("free") or 0) if isinstance(changes.get("free"), int) else {**host(1), **changes}
    alone.show("zun-cloud", {"hosts": [made], "next": None})
    assert tile(alone, 0) == expected


def test_hosts_can_be_coloured_by_devices_and_memory(alone):
    alone.show("zun-cloud", cloud(10))
    alone.choose(".filters select", "free devices PGPU")
    assert tile(alone, 3) == ["node-00003 3: 3 of 8 devices PGPU free", "3", "tile h2"]
    assert tile(alone, 2) == ["node-00002 –: 0 of 0 devices PGPU free", "–", "tile none"]
    alone.choose(".filters select", "free memory")
    assert tile(alone, 3) == ["node-00003 192: 192 GiB of 512 GiB memory free", "192", "tile h2"]


def names(alone):
    return [label.split(" ")[0] for label in alone.inside(
        '[...root.querySelectorAll(".tile")].map((each) => each.getAttribute("aria-label"))')]  # fmt: skip


@pytest.mark.parametrize(("heading", "choice", "left"), [
    ("Zone", "east", {0, 2, 4, 6, 8, 10}),
    ("Aggregate", "ssd", {0, 3, 6, 9}),
    ("Trait", "HW_CPU_X86_AVX2", {1, 2, 3, 5, 6, 7, 9, 10}),
    ("Device", "PGPU", {1, 3, 5, 7, 9}),
])
def test_a_filter_leaves_its_hosts(alone, heading, choice, left):
    alone.show("zun-cloud", cloud(11))
    alone.inside(
        """[...root.querySelectorAll("label")].find((each) => each.textContent.trim().startsWith(arguments[0]))
            .querySelector("select").id = "chosen" """,
        heading,
    )
    alone.choose("#chosen", choice)
    assert set(names(alone)) == {f"node-{number:05}" for number in left}
    assert f"{len(left)} of 11 hosts" in alone.text()


def test_hosts_are_found_by_name_and_sorted_by_what_is_free(alone):
    alone.show("zun-cloud", cloud(30))
    alone.inside('[...root.querySelectorAll("label")].at(-2).querySelector("select").id = "order"')
    alone.choose("#order", "most free first")
    assert names(alone)[:4] == ["node-00008", "node-00017", "node-00026", "node-00007"]
    alone.type("input[type=search]", "0002")
    assert set(names(alone)) == {"node-00002", *(f"node-0002{digit}" for digit in range(10))}


def test_keys_lead_from_host_to_host_and_enter_chooses(alone):
    alone.show("zun-cloud", cloud(2000))
    alone.script("window.chosen = []; element.addEventListener('zun-host', (event) => chosen.push(event.detail.host))")
    columns = int(alone.inside('root.querySelector(".grid").getAttribute("aria-colcount")'))
    alone.inside('root.querySelector(".grid").focus()')

    def active():
        alone.inside('root.querySelector(".grid").getAttribute("aria-activedescendant") === "active"')
        return alone.inside('root.querySelector("#active").getAttribute("aria-label").slice(5, 10)')

    for key, expected in (
        (Keys.ARROW_RIGHT, 1), (Keys.ARROW_DOWN, 1 + columns), (Keys.ARROW_LEFT, columns), (Keys.ARROW_UP, 0),
        (Keys.ARROW_LEFT, 0), (Keys.END, columns - 1), (Keys.HOME, 0),
    ):  # fmt: skip
        ActionChains(alone.driver).send_keys(key).perform()
        assert int(active()) == expected
    ActionChains(alone.driver).key_down(Keys.CONTROL).send_keys(Keys.END).key_up(Keys.CONTROL).perform()
    assert int(active()) == 1999
    ActionChains(alone.driver).send_keys(Keys.ENTER).perform()
    assert alone.find(".about h3").text == "node-01999"
    assert alone.script("return chosen") == ["node-01999"]


def test_a_click_chooses_a_host(alone):
    alone.show("zun-cloud", cloud(20))
    alone.script("window.chosen = []; element.addEventListener('zun-host', (event) => chosen.push(event.detail.host))")
    alone.click(".row:nth-child(2) .tile")
    assert alone.script("return chosen") == ["node-00006"]


def test_of_ten_thousand_hosts_only_those_in_view_are_drawn(alone):
    alone.show("zun-cloud", cloud(10_000))
    assert alone.inside('root.querySelectorAll(".tile").length') < 1500
    alone.inside('root.querySelector(".grid").scrollTop = 1e9')
    alone.patiently(lambda: "node-09999" in names(alone))
    rows = alone.inside('[...root.querySelectorAll(".row")].map((each) => Number(each.getAttribute("aria-rowindex")))')
    assert max(rows) == int(alone.inside('root.querySelector(".grid").getAttribute("aria-rowcount")'))
    assert len(rows) == len(set(rows)) and alone.log() == []


def test_every_page_of_the_list_is_read_and_followed(alone):
    alone.show("zun-cloud", {"hosts": [], "next": None})
    every = cloud(25)["hosts"]
    following = "http://elsewhere/v1/hosts?limit=1000&marker=uuid-9"
    pages = {
        "?limit=1000": {"etag": "1", "body": {"hosts": every[:10], "next": following}},
        "?limit=1000&marker=uuid-9": {"etag": "1", "body": {"hosts": every[10:], "next": None}},
    }
    alone.script(CLIENT, pages)
    alone.shows("25 hosts")
    ActionChains(alone.driver).move_to_element(alone.every(".tile")[3]).perform()
    assert alone.find(".about h3").text == "node-00003"
    pages["?limit=1000"] = {"etag": "2", "body": {"hosts": [host(0, 8), *every[1:10]], "next": following}}
    alone.script("window.pages = arguments[0]", pages)
    alone.patiently(lambda: tile(alone, 0)[1] == "8")
    assert len(names(alone)) == 25
    assert alone.find(".about h3").text == "node-00003", "the pointer is still there"
    pages["?limit=1000"] = {"etag": "3", "body": {"hosts": every[:10], "next": None}}
    alone.script("window.pages = arguments[0]", pages)
    alone.shows("10 hosts")


@pytest.mark.parametrize(("number", "scheme", "window"), [
    (40, "light", WIDE), (400, "dark", WIDE), (40, "dark", NARROW), (400, "light", NARROW),
])  # fmt: skip
def test_axe_finds_no_serious_fault(alone, number, scheme, window):
    alone.size(*window)
    alone.scheme(scheme)
    alone.show("zun-cloud", cloud(number))
    assert alone.overflow() <= 0
    assert alone.faults() == []
    assert alone.log() == []
    alone.picture(f"cloud-{number}-{window[0]}")


def test_names_with_markup_are_text(alone):
    evil = "<img src=x onerror='window.broken = 1'>"
    made = host(1, hostname=evil, availability_zone=evil, aggregates=[evil])
    alone.show("zun-cloud", {"hosts": [made], "next": None})
    ActionChains(alone.driver).move_to_element(alone.find(".tile")).perform()
    assert alone.find(".about h3").text == evil
    assert alone.inside('root.querySelectorAll("img").length') == 0
    assert alone.script("return window.broken ?? null") is None


def test_on_paper_the_tiles_stay_and_the_filters_go(alone):
    alone.show("zun-cloud", cloud(20))
    alone.paper("light")
    assert not alone.every(".filters") and len(alone.every(".tile")) == 20


def test_a_tile_follows_its_host_and_opens_its_map(page, running):
    page.login("root")
    page.go("#/cloud")
    tile = '.tile[aria-label="node-b 4: 4 of 4 whole cells free"]'
    page.find(tile)
    made = running.run("root", name="on-b", cpu=4, memory=64, cpu_policy="dedicated", numa_nodes=4)
    assert made["host"] == "node-b"
    page.find('.tile[aria-label="node-b 0: 0 of 4 whole cells free"]')
    page.click('.tile[aria-label^="node-b"]')
    page.find("tr[data-row]", "on-b")
    assert page.script("return location.hash") == "#/hosts/node-b"
    assert page.log() == []
