# SPDX-License-Identifier: Apache-2.0
"""The list of containers, and one of them in detail."""

import pytest

from zun.common import exceptions
from zun.tests.fixtures import wait_for


@pytest.fixture
def opened(page, running):
    """Give a function that logs a user in at the detail of a container with the given fields."""

    def open(user="alice", **fields):
        made = running.run(user, **fields)
        page.login(user)
        page.go(f"#/containers/{made['uuid']}")
        page.find(".head h2", made["name"])
        return made

    return open


def row(page, name):
    return page.find("tbody tr", name)


def test_the_list_follows_states_without_a_reload(page, running):
    made = running.run("alice", name="followed")
    page.login("alice")
    page.patiently(lambda: "Running" in row(page, "followed").text)
    running.ask("alice", "POST", f"/v1/containers/{made['uuid']}/stop")
    page.patiently(lambda: "Stopped" in row(page, "followed").text)
    assert "followed is Stopped" in page.script("""
        return document.querySelector("zun-containers").shadowRoot.querySelector("[role=status]").textContent""")


def test_a_row_starts_and_stops_its_container(page, running):
    running.run("alice", name="switched")
    page.login("alice")
    page.click("button[aria-label='Stop switched']")
    page.patiently(lambda: "Stopped" in row(page, "switched").text)
    page.click("button[aria-label='Start switched']")
    page.patiently(lambda: "Running" in row(page, "switched").text)


def test_a_filter_narrows_the_list(page, running):
    for name in ("apple", "pear"):
        running.run("alice", name=name)
    page.login("alice")
    row(page, "pear")
    page.type("input[type=search]", "APP run")
    page.gone("tbody tr", "pear")
    row(page, "apple")


@pytest.mark.parametrize(
    ("buttons", "status"),
    [(["Pause"], "Paused"), (["Pause", "Unpause"], "Running"), (["Restart"], "Running"), (["Kill"], "Stopped")],
)
def test_a_button_leads_to_its_status(page, running, opened, buttons, status):
    opened()
    for label in buttons:
        page.click(".tools button:enabled", label)
    page.find(".badge", status)


def test_a_delete_asks_first_and_stops_what_runs(page, running, opened):
    made = opened(name="doomed")
    page.click("button", "Delete…")
    page.shows("Delete doomed?")
    page.click("dialog button", "Cancel")
    page.gone("dialog")
    page.click("button", "Delete…")
    page.click("dialog button", "Stop and delete")
    page.shows("doomed is gone")
    listed = running.ask("alice", "GET", "/v1/containers")["containers"]
    assert made["uuid"] not in [each["uuid"] for each in listed]


def test_the_log_is_plain_text_and_grows(page, running, opened):
    made = opened(user="root")
    driver = running.cloud.drivers[made["host"]]
    driver.write_log(made["uuid"], "first <b>line</b>")
    page.click("button", "Show the log")
    page.shows("first <b>line</b>")
    driver.write_log(made["uuid"], "second line")
    page.shows("second line")


def test_a_terminal_gives_back_what_is_typed(page, running, opened):
    """The process in memory repeats its input, as cat does. The proxy of these tests serves the first host."""
    opened(user="root", host="node-a", name="typed")
    page.click("button", "Run")
    page.driver.switch_to.frame(page.find("iframe"))
    try:
        field = page.patiently(lambda: page.driver.find_element("css selector", ".xterm-helper-textarea"))
        page.patiently(lambda: page.script("return document.activeElement === arguments[0]", field))
        field.send_keys("hello-there")
        page.patiently(lambda: "hello-there" in page.driver.find_element("css selector", "body").text)
    finally:
        page.driver.switch_to.default_content()
    page.picture("terminal")
    page.click("button", "Close")
    page.gone("iframe")


def test_the_place_is_shown_in_the_machine_to_administrators(page, opened):
    made = opened(user="root", cpu_policy="dedicated", cpu=2, name="placed")
    page.find("zun-machine")
    page.find(".stage svg")
    page.shows(f"Place on {made['host']}")
    page.picture("container")


def test_a_member_sees_own_cpus_and_no_host(page, opened):
    opened(cpu_policy="dedicated", cpu=2, memory=256, name="modest")
    assert len(page.every(".cpus li")) == 2
    assert "node-" not in page.text() and not page.every("zun-machine")


def test_an_error_is_explained_and_leads_to_the_form(page, running, opened):
    opened(cpu_policy="dedicated", cpu=20, memory=256, name="too-large")
    page.find(".badge.bad", "Error")
    page.shows("no cell has 20 CPUs free")
    page.click(".changes button", "Use this")
    page.find(".number")
    assert page.find("#image").get_property("value") == "busybox"


def test_a_refused_action_says_why(page, running, opened):
    made = opened(user="root", name="stubborn")
    running.cloud.drivers[made["host"]].fail("stop", exceptions.Conflict("The engine is stubborn today."))
    page.click(".tools button", "Stop")
    wait_for(lambda: running.ask("root", "GET", f"/v1/containers/{made['uuid']}")["status_reason"])
    page.shows("stubborn today")


def test_names_of_another_project_are_nowhere(page, running):
    running.run("bob", name="secret-of-bob", cpu_policy="dedicated", cpu=2)
    running.run("alice", name="own-of-alice")
    page.login("alice")
    row(page, "own-of-alice")
    assert "secret-of-bob" not in page.text()
    page.go("#/why")
    page.click("form button.primary", "See what fits")
    page.find(".number")
    assert "secret-of-bob" not in page.text()
