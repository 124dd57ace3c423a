# SPDX-License-Identifier: Apache-2.0
"""Names and texts that hold markup and script are shown as they are, in every view, and nothing of them runs.

Most names have a strict form in the API. What stands in rows of an earlier release has none, so some rows are written
past the API.
"""

import dataclasses

import pytest

from zun.common import exceptions
from zun.common.context import RequestContext
from zun.db import aggregates
from zun.tests.browser.service import machines, service
from zun.tests.fixtures import new_container, wait_for
from zun.tests.functional.cloud import machine
from zun.topology.devices import Device, DeviceType

SCRIPT = "<img src=x onerror=window.ran=1><script>window.ran=2</script>"
QUOTED = "\"'><svg onload=window.ran=3>"
PATH = "/dev/gpu<b onclick=window.ran=4>0"


@pytest.fixture(scope="module")
def running(lasting_database, tmp_path_factory):
    """A service with a host and a device of such names."""
    device = Device(PATH, type=DeviceType.PATH, nodes=(PATH,))
    hosts = {
        **machines(tmp_path_factory.mktemp("machines")),
        "<i onclick=window.ran=5>host": dataclasses.replace(machine(), devices=(device,)),
    }
    spec = '{"path": "/dev/gpu*", "resource_class": "CUSTOM_ODD"}'
    with lasting_database.empty(), service(hosts, specs=[spec]) as made:
        yield made


def nothing_ran(page):
    """Nothing of a name became an element or ran, nor did the page's policy have to stop it."""
    injected = """
        const odd = [];
        (function look(root) {
            for (const each of root.querySelectorAll("*")) {
                const attributes = [...each.attributes].map(({name}) => name);
                if (attributes.some((name) => name.startsWith("on"))) odd.push(each.outerHTML);
                if (each.shadowRoot) look(each.shadowRoot);
            }
        })(document);
        return [window.ran ?? null, odd]"""
    assert page.script(injected) == [None, []]
    assert not [line for line in page.log() if "Content Security Policy" in line]


def row_of_an_earlier_release(**fields):
    context = RequestContext(user_id="root-id", project_id="admin")
    return new_container(context, status="Stopped", host="node-a", **fields)


def test_the_browser_takes_no_text_as_markup(page):
    """Should the page ever do so by mistake: its policy lets only the library's templates become markup."""
    page.login("alice")
    tried = """
        try { document.createElement("div").innerHTML = "<b>bold</b>"; return "done"; }
        catch (error) { return error.name; }"""
    assert page.script(tried) == "TypeError"
    assert "TrustedHTML" in " ".join(page.log())


def test_names_of_a_container_are_shown_as_text(page):
    made = row_of_an_earlier_release(
        name=SCRIPT,
        image=QUOTED,
        hostname=SCRIPT,
        labels={SCRIPT: QUOTED},
        command=["sh", SCRIPT],
        status_reason=f"It ended: {SCRIPT}",
        addresses={SCRIPT: [{"addr": QUOTED, "version": 4, "port": "p", "subnet_id": "s"}]},
    )
    page.login("root")
    page.go("#/containers")
    page.find("td.name", SCRIPT)
    nothing_ran(page)
    page.click("td.name button", SCRIPT)
    page.find(".head h2", SCRIPT)
    page.shows(f"{SCRIPT}={QUOTED}")
    page.shows(f"It ended: {SCRIPT}")
    page.click("button", "Delete…")
    page.shows(f"Delete {SCRIPT}?")
    nothing_ran(page)
    assert made.uuid in page.text()


def test_what_the_api_accepts_is_shown_as_text(page, running):
    made = running.run(
        "root", image=f"busybox{QUOTED}"[:60], labels={SCRIPT: SCRIPT}, command=["echo", SCRIPT], workdir=SCRIPT,
        environment={SCRIPT.replace("=", ""): QUOTED},
    )  # fmt: skip
    running.cloud.drivers[made["host"]].write_log(made["uuid"], SCRIPT)
    page.login("root")
    page.go(f"#/containers/{made['uuid']}")
    page.shows(f"{SCRIPT}={SCRIPT}")
    page.click("button", "Show the log")
    page.find("pre", SCRIPT)
    nothing_ran(page)


def test_an_error_of_the_engine_is_shown_as_text(page, running):
    made = running.run("root")
    running.cloud.drivers[made["host"]].fail("stop", exceptions.Conflict(SCRIPT))
    running.ask("root", "POST", f"/v1/containers/{made['uuid']}/stop")
    wait_for(lambda: running.ask("root", "GET", f"/v1/containers/{made['uuid']}")["status_reason"])
    page.login("root")
    page.go(f"#/containers/{made['uuid']}")
    page.find(".notice", SCRIPT)
    nothing_ran(page)


def test_texts_of_a_refusal_and_of_an_error_are_text(page):
    page.login("root")
    page.go("#/why")
    for summary in ("Where", "Traits and aggregates"):
        page.click("summary", summary)
    page.type("#hints", "label:rack=<img/src=x/onerror=window.ran=6>")
    page.click("form button.primary", "See what fits")
    page.shows("<img/src=x/onerror=window.ran=6>")
    nothing_ran(page)
    page.type("#required_traits", "<script>window.ran=7</script>")
    page.click("form button.primary", "See what fits")
    page.find("#required_traits-error", "<script>window.ran=7</script>")
    nothing_ran(page)


def test_names_of_hosts_devices_and_aggregates_are_text(page, running):
    aggregates.add_host(aggregates.insert(SCRIPT, {"availability_zone": QUOTED})["uuid"], "node-a")
    name = "<i onclick=window.ran=5>host"
    page.login("root")
    page.go("#/why")
    page.click("summary", "Where")
    page.click("form button.primary", "See what fits")
    page.find("td", name)
    nothing_ran(page)
    page.go("#/hosts/" + page.script("return encodeURIComponent(arguments[0])", name))
    page.find("h1", name)
    page.find(".stage svg")
    page.shows(PATH[:18])
    nothing_ran(page)
    page.go("#/cloud")
    page.find("h1", "Hosts")
    nothing_ran(page)
