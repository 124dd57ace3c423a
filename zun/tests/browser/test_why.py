# SPDX-License-Identifier: Apache-2.0
"""The form of a request: what fits, why not, and a container that is made with it."""

import pytest

from zun.tests.browser.page import NARROW


def ask(page, **values):
    """Fill fields of the form and ask."""
    for name, value in values.items():
        if page.find(f"#{name}").tag_name == "select":
            page.choose(f"#{name}", value)
        else:
            page.type(f"#{name}", value)
    page.click("form button.primary", "See what fits")


@pytest.fixture
def why(page):
    """Give a function that logs a user in and opens the form."""

    def open(user):
        page.login(user)
        page.go("#/why")
        page.find("zun-why")
        return page

    return open


def test_an_administrator_sees_number_places_and_hosts(why):
    page = why("root")
    ask(page, cpu="4", memory="1024")
    page.shows("containers like this fit now")
    assert int(page.find(".number").text) >= 12
    page.find("td.place")
    page.shows("node-b")
    page.shows("no cell has 4 CPUs free")


def test_a_member_sees_number_and_cells_only(why):
    page = why("alice")
    ask(page, cpu="4", memory="1024")
    page.shows("4 CPUs, 1 GiB")
    assert not any(name in page.text() for name in ("node-a", "node-b", "node-pci"))


def test_a_refusal_is_explained_and_the_nearest_request_fits(why):
    page = why("alice")
    ask(page, cpu="20", memory="1024")
    page.shows("no cell has 20 CPUs free")
    assert page.find(".number").text == "0"
    page.shows("It would fit with")
    page.picture("why-not")
    page.click("button", "Use this")
    page.gone(".notice.warn")
    page.shows("like this fit")
    assert page.find("#cpu").get_property("value") != "20" or page.find("#numa_nodes").get_property("value")


def held_threads(page):
    """Return the names of the threads that the map on the page draws as held."""
    return page.script("""
        const found = [];
        (function look(root) {
            for (const each of root.querySelectorAll("*")) {
                if (each.matches('[data-cpu][data-state="held"]')) found.push(each.dataset.cpu);
                if (each.shadowRoot) look(each.shadowRoot);
            }
        })(document);
        return found""")


def test_a_pinned_container_changes_the_colour_of_its_cores(why):
    page = why("root")
    ask(page, cpu="4", memory="1024", image="busybox", name="painted")
    page.find("zun-machine")
    page.find(".stage svg")
    before = held_threads(page)
    page.click("form button", "Create")
    page.shows("Running on CPUs")
    page.find(".name", "painted")
    page.patiently(lambda: len(held_threads(page)) == len(before) + 4)
    page.picture("why")


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("cpu", "0.5", "whole"),
        ("memory", "lots", "lots"),
        ("devices", "nothing-like-it", "nothing-like-it"),
        ("numa_cpus", "1, 1", "add up"),
        ("mem_page_size", "3", "a whole number from 4 to"),
        ("required_traits", "NO_SUCH", "NO_SUCH"),
        ("hints", "group=no-group", "no-group"),
    ],
)
def test_an_error_is_told_at_its_field(why, field, value, told):
    page = why("alice")
    page.script("""
        (function look(root) {
            for (const each of root.querySelectorAll("*")) {
                if (each.matches("details")) each.open = true;
                if (each.shadowRoot) look(each.shadowRoot);
            }
        })(document)""")
    ask(page, **{field: value})
    page.find(f"#{field}[aria-invalid=true]")
    assert told in page.find(f"#{field}-error").text
    assert page.focused().get_attribute("id") == field


def test_a_create_without_an_image_asks_for_it(why):
    page = why("alice")
    page.click("form button", "Create")
    page.find("#image[aria-invalid=true]")
    assert "image" in page.find("#image-error").text


def test_the_answer_comes_into_sight_in_a_narrow_window(why):
    page = why("alice")
    page.size(*NARROW)
    page.click("form button.primary", "See what fits")
    number = page.find(".number")
    page.patiently(lambda: 0 <= page.script("return arguments[0].getBoundingClientRect().top", number) < NARROW[1] - 80)


def test_several_containers_are_made_with_numbered_names(why):
    page = why("alice")
    ask(page, cpu_policy="shared", cpu="0.1", memory="64", image="busybox", name="many", count="2")
    page.find(".number")
    page.click("form button", "Create")
    page.find(".made button", "many-1")
    page.find(".made button", "many-2")
    page.patiently(lambda: len(page.every(".made li", "Running")) == 2)
