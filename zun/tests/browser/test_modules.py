# SPDX-License-Identifier: Apache-2.0
"""Pure functions of the page's modules, called in the browser."""

import pytest

from zun.tests.browser.page import Page

CALL = """
const [module, name, given, done] = arguments;
import(new URL(module, document.baseURI)).then(
    (found) => done(JSON.parse(JSON.stringify(found[name](...given) ?? null))), (error) => done(String(error)));
"""


@pytest.fixture(scope="module")
def opened(browser, running):
    """The page, loaded once: these tests leave nothing on it."""
    page = Page(browser, running.page)
    page.open()
    return page


@pytest.fixture
def call(opened):
    return lambda module, name, *given: opened.driver.execute_async_script(CALL, module, name, given)


@pytest.mark.parametrize(("failures", "milliseconds"), [(0, 2000), (1, 4000), (3, 16000), (9, 60000)])
def test_pause_grows_with_failures(call, failures, milliseconds):
    assert call("live.js", "pause", 2000, failures) == milliseconds


@pytest.mark.parametrize(
    ("values", "body"),
    [
        ({"cpu": " 4 ", "memory": "1024"}, {"cpu": 4, "memory": 1024}),
        ({"cpu": "four"}, {"cpu": "four"}),
        ({"cpu_policy": "shared", "cpu": "0.5", "numa_nodes": "2"}, {"cpu_policy": "shared", "cpu": 0.5}),
        ({"cpu_policy": "mixed", "dedicated_cpus": "2"}, {"cpu_policy": "mixed", "dedicated_cpus": 2}),
        ({"cpu_policy": "dedicated", "numa_cpus": "2, 3 3"}, {"cpu_policy": "dedicated", "numa_cpus": [2, 3, 3]}),
        ({"mem_page_size": "2048", "cpu_policy": "dedicated"}, {"mem_page_size": 2048, "cpu_policy": "dedicated"}),
        (
            {"devices": "gpu=2 class:CUSTOM_NIC,CUSTOM_FAST"},
            {
                "devices": [
                    {"alias": "gpu", "count": 2},
                    {"resource_class": "CUSTOM_NIC", "count": 1, "traits": ["CUSTOM_FAST"]},
                ]
            },
        ),
        ({"any_traits": "A|B C"}, {"any_traits": [["A", "B"], ["C"]]}),
        ({"hints": "group=web label:rack=a=b"}, {"hints": {"group": "web", "label:rack": "a=b"}}),
        (
            {"command": """sh -c "sleep 10" 'a "b"' ''""", "name": "web", "count": "3"},
            {"command": ["sh", "-c", "sleep 10", 'a "b"', ""], "name": "web"},
        ),
    ],
)
def test_what_is_typed_becomes_a_request_and_back(call, values, body):
    made = call("request.js", "bodyOf", values, "create")
    again = call("request.js", "bodyOf", {**values, **call("request.js", "valuesOf", made)}, "create")
    assert made == again == body


@pytest.mark.parametrize(
    ("use", "names"), [("dry_run", {"cpu", "count"}), ("capacity", {"cpu"}), ("create", {"cpu", "name"})]
)
def test_a_question_has_only_its_own_fields(call, use, names):
    assert set(call("request.js", "bodyOf", {"cpu": "1", "count": "2", "name": "web"}, use)) == names


@pytest.mark.parametrize(
    ("name", "count", "names"),
    [("web", 1, ["web"]), ("web", 3, ["web-1", "web-2", "web-3"]), (None, 2, [None, None])],
)
def test_containers_are_numbered(call, name, count, names):
    assert call("request.js", "namesOf", name, count) == names


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"cpu": 4}, "CPUs 4"),
        ({"numa_nodes": 2, "numa_cpus": None, "numa_mem": None},
         "Number of cells 2, without CPUs of each cell and MiB of each cell"),
        ({"numa_cpus": [2, 1]}, "CPUs of each cell 2, 1"),
        ({"devices": [{"alias": "gpu", "count": 1}]}, "Devices gpu"),
    ],
)  # fmt: skip
def test_a_change_has_the_words_of_the_form(call, change, words):
    assert call("refusal.js", "changeText", change) == words


@pytest.mark.parametrize(
    ("fragment", "found"),
    [
        ("#/why", {"view": "why", "argument": ""}),
        ("#/hosts/node%201", {"view": "hosts", "argument": "node 1"}),
        ("#/hosts/%E0%A4%A", {"view": "hosts", "argument": "%E0%A4%A"}),
        ("#/hosts", {"view": "", "argument": ""}),
        ("#/constructor", {"view": "", "argument": ""}),
        ("", {"view": "", "argument": ""}),
    ],
)
def test_an_address_names_a_view(call, fragment, found):
    assert call("app.js", "route", fragment) == found


@pytest.mark.parametrize(
    ("body", "field", "message"),
    [
        ({"errors": [{"detail": "cpu: 0 is too small"}]}, "cpu", "cpu: 0 is too small"),
        ({"errors": [{"detail": "devices[0].count: 'x' is none"}]}, "devices", "devices[0].count: 'x' is none"),
        ({"errors": [{"detail": "'image' is a required property"}]}, "image", "'image' is a required property"),
        ({"errors": [{"detail": "No such thing: web"}]}, "", "No such thing: web"),
        ({"error": {"message": "The request needs authentication."}}, "", "The request needs authentication."),
        ("<html>", "", "The service answered with status 502."),
        (None, "", "The service answered with status 502."),
    ],
)
def test_an_error_names_its_field(opened, body, field, message):
    read = """
        const done = arguments[1];
        import(new URL("api.js", document.baseURI)).then(({errorOf}) => {
            const error = errorOf(502, arguments[0]);
            done([error.field, error.message]);
        })"""
    assert opened.driver.execute_async_script(read, body) == [field, message]


def test_an_unchanged_list_costs_a_304(page, running):
    running.run("alice", name="steady")
    page.login("alice")
    page.find("td.name", "steady")
    statuses = """
        return performance.getEntriesByType("resource").filter(({name}) => name.includes("/v1/containers?"))
            .map(({responseStatus}) => responseStatus)"""
    page.patiently(lambda: 304 in page.script(statuses))
