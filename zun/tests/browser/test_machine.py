# SPDX-License-Identifier: Apache-2.0
"""The element zun-machine: every kind of machine, who holds what, keyboard, screen readers, paper and files."""

import json
import os
import tarfile
from pathlib import Path
from xml.etree import ElementTree

import pytest
from selenium.webdriver import ActionChains
from selenium.webdriver.common.keys import Keys

from zun.tests.browser import machines
from zun.tests.browser.page import NARROW, WIDE
from zun.topology import CpuSet, PlacementRequest, discover

RECORDINGS = sorted(Path(os.environ.get("ZUN_RECORDED_MACHINES", "/nowhere")).glob("*.tar.xz"))
SVG = "{http://www.w3.org/2000/svg}"

#: Returns for several widths and each density the CPUs and devices that have a place, and the boxes that overlap.
LAYOUT = """
const {readMachine} = await import("/machine-model.js");
const {layOut, DENSITIES} = await import("/machine-layout.js");
const machine = readMachine(given[0]);
return [240, 368, 900, 2400].flatMap((width) => Object.keys(DENSITIES).map((density) => {
const layout = layOut(machine, width, density);
const wrong = [];
const within = (one, other) => one.x >= other.x - 0.01 && one.y >= other.y - 0.01
    && one.x + one.w <= other.x + other.w + 0.01 && one.y + one.h <= other.y + other.h + 0.01;
const apart = (one, other) => one.x + one.w <= other.x + 0.01 || other.x + other.w <= one.x + 0.01
    || one.y + one.h <= other.y + 0.01 || other.y + other.h <= one.y + 0.01;
const check = (kind, boxes, frame) => boxes.forEach((one, at) => {
    if (!within(one, frame)) wrong.push(`${kind} ${one.key ?? one.cpu ?? at} is outside`);
    for (const other of boxes.slice(at + 1)) {
        if (!apart(one, other)) wrong.push(`${kind} ${one.key ?? one.cpu ?? at} covers ${other.key ?? other.cpu}`);
    }
});
const frame = {x: 0, y: 0, w: layout.width, h: layout.height};
check("cell", layout.cells, frame);
check("socket", layout.sockets, frame);
check("legend", layout.legend, frame);
for (const cell of layout.cells) {
    check("part", [...cell.cores, ...cell.devices, ...cell.bars.map((bar) => ({key: bar.key, ...bar.area}))], cell);
    cell.cores.forEach((core) => check("thread", core.threads, core));
    cell.bars.forEach((bar) => check("segment", bar.segments, bar));
}
if (layout.matrix) check("distance", layout.matrix.boxes, layout.matrix);
const drawn = layout.cells.flatMap((cell) => cell.cores.flatMap((core) => core.threads.map((each) => each.cpu)));
const devices = layout.cells.flatMap((cell) => cell.devices.map((chip) => chip.device.address));
return {width, density, wrong: wrong.slice(0, 9), drawn, devices};
}));
"""

#: Returns the least contrast of every text on its colour and on the lines of its pattern, by name.
CONTRASTS = """
const words = await import("/words.js");
const light = (colour) => {
    const part = (at) => {
        const value = parseInt(colour.slice(at, at + 2), 16) / 255;
        return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    };
    return 0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5);
};
const contrast = (one, other) => {
    const [high, low] = [light(one), light(other)].sort((a, b) => b - a);
    return (high + 0.05) / (low + 0.05);
};
const found = {};
for (let at = 0; at < 56; at += 1) {
    const {fill, ink, line} = words.claimPaint(at);
    found[`claim ${at}`] = Math.min(contrast(ink, fill), contrast(ink, line));
}
const {ink, fill, line} = words.ANONYMOUS;
found.held = Math.min(contrast(ink, fill), contrast(ink, line));
for (const scheme of [0, 1]) {
    for (const [state, {fill, ink, line, pattern}] of Object.entries(words.STATE_PAINTS)) {
        found[`${state} ${scheme}`] = contrast(ink[scheme], fill[scheme]);
        if (pattern !== "plain") found[`${state} line ${scheme}`] = contrast(ink[scheme], line[scheme]);
    }
    for (const text of ["text", "muted"]) {
        for (const below of ["cell", "core"]) {
            found[`${text} ${below} ${scheme}`] = contrast(words.THEME[text][scheme], words.THEME[below][scheme]);
        }
    }
}
return found;
"""

#: A client of one answer, which the test changes: ``window.answer``.
CLIENT = """
window.answer = {etag: '"1"', body: arguments[0]};
window.asked = [];
element.client = Object.assign(new EventTarget(), {
    signedOut: false,
    async get(path, {etag}) {
        window.asked.push(path);
        return etag === window.answer.etag ? {status: 304, body: null, etag} : {status: 200, ...window.answer};
    },
});
"""


def every_cpu(answer):
    texts = [answer["offline"], *(cell["cpus"] for cell in answer["cells"])]
    return sorted({cpu for text in texts for cpu in CpuSet(text)})


def recorded(path, folder):
    """Return the answer for a recorded machine with two containers, if it has room for them."""
    with tarfile.open(path) as archive:
        archive.extractall(folder, filter="tar")
    topology = discover(folder / path.name.removesuffix(".tar.xz"), process_limits=False)
    return machines.answer(topology, [("one", PlacementRequest(1, 16)), ("web", machines.shared(1, 16))], path.name)


def check_layouts(alone, answer):
    for found in alone.module(LAYOUT, answer):
        place = f"{found['width']} pixels, {found['density']}"
        assert found["wrong"] == [], place
        assert sorted(found["drawn"]) == every_cpu(answer), place
        assert sorted(found["devices"]) == sorted(device["address"] for device in answer["devices"]), place


@pytest.mark.parametrize("name", machines.MACHINES)
def test_every_cpu_has_one_place_and_nothing_overlaps(alone, name):
    check_layouts(alone, machines.MACHINES[name]())


@pytest.mark.skipif(not RECORDINGS, reason="ZUN_RECORDED_MACHINES does not name a folder of recordings")
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name[:-7])
def test_recorded_machines_are_laid_out(alone, path, tmp_path):
    answer = recorded(path, tmp_path)
    check_layouts(alone, answer)
    alone.show("zun-machine", answer)
    assert drawn(alone) == every_cpu(answer)


def drawn(alone):
    return sorted(alone.inside('[...root.querySelectorAll("[data-cpu]")].map((each) => Number(each.dataset.cpu))'))


@pytest.mark.parametrize("name", machines.MACHINES)
@pytest.mark.parametrize("window", [WIDE, NARROW], ids=["wide", "narrow"])
def test_every_machine_fits_its_window_without_fault(alone, name, window):
    answer = machines.MACHINES[name]()
    alone.size(*window)
    alone.show("zun-machine", answer)
    assert drawn(alone) == every_cpu(answer)
    assert alone.overflow() <= 0
    sizes = alone.inside('[...root.querySelectorAll(".map text")].map((each) => each.getAttribute("font-size"))')
    assert min(map(float, sizes)) >= 9
    assert alone.log() == []
    alone.picture(f"machine-{name}-{window[0]}")


def state_of(alone, cpu):
    """Return the state, the mark and the fill of a CPU."""
    return alone.inside(
        """(() => {
            const box = root.querySelector(`[data-cpu="${arguments[0]}"]`);
            const texts = [];
            for (let at = box.nextElementSibling; at?.tagName === "text"; at = at.nextElementSibling) {
                texts.push(at.textContent);
            }
            return [box.dataset.state, texts[1] ?? "", box.getAttribute("fill")];
        })()""",
        cpu,
    )


@pytest.mark.parametrize(("name", "cpu", "expected"), [
    pytest.param("small", 1, ["held", "A", "url(#claim-0)"], id="held"),
    pytest.param("small", 20, ["withheld", "-", "url(#withheld-1)"], id="withheld-sibling"),
    pytest.param("small", 9, ["pool", "~", "url(#state-pool)"], id="shared-pool"),
    pytest.param("small", 16, ["reserved", "#", "url(#state-reserved)"], id="reserved"),
    pytest.param("no-smt", 30, ["isolated", "i", "url(#state-isolated)"], id="isolated"),
    pytest.param("no-smt", 16, ["foreign", "◊", "url(#state-foreign)"], id="other-services"),
    pytest.param("no-smt", 32, ["offline", "×", "url(#state-offline)"], id="offline"),
    pytest.param("no-smt", 8, ["free", "", "url(#state-free)"], id="free"),
    pytest.param("hybrid", 12, ["pool", "~", "url(#state-pool)"], id="core-of-one-thread"),
])  # fmt: skip
def test_state_of_a_cpu_is_shown_by_colour_and_mark(alone, name, cpu, expected):
    alone.show("zun-machine", machines.MACHINES[name]())
    assert state_of(alone, cpu) == expected


def test_a_cpu_that_two_claims_hold_is_told(alone):
    answer = machines.small()
    answer["claims"].append({**answer["claims"][0], "container": "other", "name": "other"})
    alone.show("zun-machine", answer)
    assert state_of(alone, 1)[:2] == ["twice", "A!B"]
    assert "held twice, by" in alone.inside("""root.querySelector('[data-key="core:1"]').getAttribute("aria-label")""")


def test_text_has_contrast_on_every_colour_and_pattern(alone):
    assert {name: each for name, each in alone.module(CONTRASTS).items() if each < 4.5} == {}


def test_the_first_56_claims_differ_in_colour_or_pattern(alone):
    paints = alone.module(
        """const {claimPaint} = await import("/words.js");
        return Array.from({length: 56}, (_, at) => claimPaint(at)).map((each) => each.fill + each.pattern);"""
    )
    assert len(set(paints)) == 56


def test_others_claims_are_shown_as_held(alone):
    answer = machines.small()
    for claim in answer["claims"][:2]:
        claim.update(container=None, name="")
    alone.show("zun-machine", answer)
    assert state_of(alone, 1)[:2] == ["held", "h"]
    assert "database" not in alone.text() and alone.every("tr[data-row]", "held")
    alone.inside("""root.querySelector('tr[data-row^="claim:held"] button').click()""")
    alone.shows("whose it is, is not shown to you")


def hover(alone, selector):
    event = "new PointerEvent('pointerover', {bubbles: true})"
    alone.inside(f"root.querySelector(arguments[0]).dispatchEvent({event})", selector)


def marked(alone):
    """Return the number of boxes that are marked."""
    return alone.inside('root.querySelector(".ring").getAttribute("d").split("M").length - 1')


def test_pointing_at_a_cpu_marks_all_that_its_holder_has(alone):
    alone.show("zun-machine", machines.with_devices())
    hover(alone, '[data-cpu="9"]')
    # 16 CPUs, memory of two cells, two GPUs, and the entry below the map
    assert marked(alone) == 16 + 2 + 2 + 1
    assert (alone.find(".about h3").text, alone.find(".about h4").text) == ("Core 9,41", "A training")
    assert alone.every("tr.on", "training")
    hover(alone, '[data-key="device:0000:81:00.0"]')
    assert alone.inside('root.querySelector(".link").getAttribute("d").split("M").length - 1') == 3
    assert alone.find(".about h3").text == "GPU 0000:81:00.0"


def press(alone, *keys):
    ActionChains(alone.driver).send_keys(*keys).perform()


def focused_key(alone):
    return alone.inside("root.activeElement?.dataset.key ?? null")


def test_arrow_keys_lead_through_the_map(alone):
    alone.show("zun-machine", machines.with_devices())
    alone.find("button", "Save as SVG").send_keys(Keys.TAB)
    assert focused_key(alone) == "cell:0"
    press(alone, Keys.ARROW_RIGHT)
    assert focused_key(alone) == "cell:1"
    press(alone, Keys.ARROW_LEFT, Keys.ARROW_DOWN)
    assert focused_key(alone) == "core:0"
    press(alone, Keys.ARROW_RIGHT * 8)
    assert focused_key(alone) == "memory:0"
    press(alone, Keys.ARROW_RIGHT * 2)
    assert focused_key(alone).startswith("device:")
    press(alone, Keys.ARROW_DOWN)
    assert focused_key(alone).startswith("claim:")
    assert alone.focused().get_attribute("aria-label") == "claim: B firewall, dedicated"
    press(alone, Keys.ARROW_UP, Keys.ARROW_UP)
    assert focused_key(alone) == "cell:0"
    press(alone, Keys.END)
    assert focused_key(alone) == "cell:unknown"
    assert alone.inside('[...root.querySelectorAll(".map [tabindex=\\"0\\"]")].length') == 1


def test_enter_keeps_a_claim_marked_and_escape_lets_it_go(alone):
    alone.show("zun-machine", machines.small())
    alone.find("button", "Save as SVG").send_keys(Keys.TAB)
    press(alone, Keys.ARROW_DOWN, Keys.ARROW_RIGHT, Keys.ARROW_DOWN, Keys.ENTER)
    alone.find("button", "Let go")
    assert alone.every('button[aria-pressed="true"]', "database")
    before = marked(alone)
    hover(alone, '[data-cpu="4"]')
    assert marked(alone) == before
    press(alone, Keys.ESCAPE)
    assert not alone.every("button", "Let go") and not alone.every('button[aria-pressed="true"]')


def test_what_is_kept_marked_is_told_in_sight_on_a_phone(alone):
    alone.size(*NARROW)
    alone.show("zun-machine", machines.with_devices())
    alone.click('[data-key="core:0"]')
    assert "A training" in alone.find(".about").text
    place = alone.inside('(({top, bottom}) => [top, bottom])(root.querySelector(".about").getBoundingClientRect())')
    assert 0 <= place[0] < place[1] <= NARROW[1]
    assert alone.faults() == []


@pytest.mark.parametrize(("name", "scheme", "window"), [
    pytest.param("devices", "light", WIDE, id="devices"),
    pytest.param("small", "dark", WIDE, id="dark"),
    pytest.param("no-smt", "dark", NARROW, id="every-state-dark-narrow"),
    pytest.param("far-memory", "light", NARROW, id="far-memory-narrow"),
])  # fmt: skip
def test_axe_finds_no_serious_fault(alone, name, scheme, window):
    alone.size(*window)
    alone.scheme(scheme)
    alone.show("zun-machine", machines.MACHINES[name]())
    alone.click("summary")
    assert alone.faults() == []


def test_dark_and_light_have_their_colours(alone):
    found = []
    for scheme in ("light", "dark"):
        alone.scheme(scheme)
        alone.show("zun-machine", machines.small())
        found.append(alone.inside('getComputedStyle(root.querySelector("rect.cell")).fill'))
    assert found == ["rgb(246, 247, 249)", "rgb(27, 33, 39)"]


def test_on_paper_there_are_no_buttons_and_light_colours(alone):
    alone.show("zun-machine", machines.small())
    alone.paper("dark")
    assert not alone.every(".about") and not alone.every("button", "Save as SVG")
    assert alone.every("svg.map") and alone.every("td", "dedicated")
    assert alone.inside('getComputedStyle(root.querySelector("rect.cell")).fill') == "rgb(246, 247, 249)"


def test_the_file_is_one_picture_with_nothing_that_runs(alone):
    evil = "</text><script>alert(1)</script><img src=x onerror=alert(2)>&"
    answer = machines.with_devices()
    answer["host"] = evil
    for claim in answer["claims"]:
        claim["name"] = evil
    alone.show("zun-machine", answer)
    root = ElementTree.fromstring(alone.inside("element.svg").encode())
    names = {each.tag.removeprefix(SVG) for each in root.iter()}
    assert names <= {"svg", "title", "style", "defs", "pattern", "rect", "path", "g", "text"}
    attributes = {name for each in root.iter() for name in each.attrib}
    assert not {name for name in attributes if name.startswith("on") or "href" in name or name in ("style", "tabindex")}
    style = root.find(f"{SVG}style").text
    assert "url(" not in style and "light-dark" not in style and "@import" not in style
    assert root.find(f"{SVG}title").text.startswith(f"Host {evil}")
    cpus = sorted(int(each.get("data-cpu")) for each in root.iter(f"{SVG}rect") if each.get("data-cpu"))
    assert cpus == every_cpu(answer)
    ids = {each.get("id") for each in root.iter(f"{SVG}pattern")}
    used = {each.get("fill")[5:-1] for each in root.iter(f"{SVG}rect") if (each.get("fill") or "").startswith("url(#")}
    assert used and used <= ids


def test_names_with_markup_are_text(alone):
    evil = "<img src=x onerror='window.broken = 1'><b>bold</b>"
    answer = machines.with_devices()
    for claim in answer["claims"]:
        claim["name"] = evil
    answer["devices"][0] |= {"interfaces": [evil], "resource_class": evil, "switch": evil, "physical_network": evil}
    alone.show("zun-machine", answer)
    hover(alone, '[data-cpu="9"]')
    alone.click("summary")
    alone.shows(f"A {evil}")
    assert alone.inside('root.querySelectorAll("img, b").length') == 0
    assert alone.script("return window.broken ?? null") is None


def test_a_change_is_drawn_in_place_and_keeps_the_focus(alone):
    answer = machines.small()
    alone.show("zun-machine", None)
    alone.inside("element.setAttribute('host', 'node/1')")
    alone.script(CLIENT, answer)
    alone.shows("database")
    assert alone.script("return asked[0]") == "/v1/hosts/node%2F1/topology"
    alone.inside("""root.querySelector('[data-key="core:8"]').focus()""")
    alone.script('window.kept = element.shadowRoot.querySelector(`[data-cpu="10"]`)')
    changed = json.loads(json.dumps(answer))
    new = {**changed["claims"][0], "container": "new", "name": "newcomer", "cpuset_cpus": "10,26", "withheld": ""}
    changed["claims"].insert(0, new)
    alone.script("window.answer = {etag: '\"2\"', body: arguments[0]}", changed)
    alone.shows("newcomer")
    assert state_of(alone, 10)[0] == "held"
    named = alone.inside("""[...root.querySelectorAll('.map [data-key^="claim:"]')].map((each) => each.ariaLabel)""")
    assert {"claim: A database, dedicated", "claim: E web, shared", "claim: G newcomer, dedicated"} <= set(named)
    assert alone.script('return window.kept === element.shadowRoot.querySelector(`[data-cpu="10"]`)')
    assert focused_key(alone) == "core:8"


def test_a_failing_api_is_told_and_the_map_stays(alone):
    alone.show("zun-machine", None)
    alone.inside("element.setAttribute('host', 'node-1')")
    alone.script(CLIENT, machines.small())
    alone.shows("database")
    alone.script("element.client.get = async () => { throw {detail: 'the API is away'}; }")
    alone.shows("The map cannot be read: the API is away")
    assert alone.every("svg.map") and "database" in alone.text()


def test_disturbed_cpus_are_marked_when_the_host_is_asked(alone):
    answer = machines.small()
    cpu = min(CpuSet(answer["claims"][0]["cpuset_cpus"]))
    alone.show("zun-machine", None)
    alone.inside("element.setAttribute('host', 'node-1')")
    alone.script(CLIENT, answer)
    alone.shows("database")
    for isolation, words in (
        ([{"last_minute": None}], "no earlier audit to compare with"),
        ([{"last_minute": {"interrupts_by_cpu": {}}}], "No device interrupt came to a CPU"),
        ([{"last_minute": {"interrupts_by_cpu": {str(cpu): 3}}}], f"Device interrupts came to CPUs {cpu} of"),
    ):
        alone.script("element.client.post = async (path) => ({body: {isolation: arguments[0]}, path})", isolation)
        alone.click(".tools button", "Mark disturbed CPUs")
        alone.shows(words)
    assert state_of(alone, cpu)[1].endswith("*")
    alone.script("element.client.post = async () => { throw {detail: 'not for you'}; }")
    alone.click(".tools button", "Mark disturbed CPUs")
    alone.shows("The host could not be audited: not for you")


def test_the_size_can_be_chosen(alone):
    alone.show("zun-machine", machines.small())
    height = alone.inside('root.querySelector(".map").getAttribute("height")')
    alone.choose(".tools select", "dense")
    assert int(alone.inside('root.querySelector(".map").getAttribute("height")')) < int(height)


def test_the_map_follows_its_host_without_a_reload(page, running):
    first = running.run("root", name="first", cpu=2, cpu_policy="dedicated")
    page.login("root")
    page.go(f"#/hosts/{first['host']}")
    page.find("tr[data-row]", "first")
    page.script("window.same = true")
    running.run("root", name="second", cpu=2, cpu_policy="dedicated", hints={"same_host": first["uuid"]})
    page.find("tr[data-row]", "second")
    assert len(page.every('[data-state="held"][data-cpu]')) == 4
    running.ask("root", "DELETE", f"/v1/containers/{first['uuid']}?stop=true")
    page.gone("tr[data-row]", "first")
    assert page.script("return window.same")
