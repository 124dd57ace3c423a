# SPDX-License-Identifier: Apache-2.0
"""The panels of this project in Horizon, beside zun-ui, with a real keystone and a cloud in memory."""

import os
import pathlib

import pytest

from zun.tests.browser.page import NARROW, WIDE, Page, chromium
from zun.tests.fixtures import wait_for
from zun.tests.http_servers import Handler, Server, serving
from zun.tests.integration.foreign import dashboard
from zun.tests.integration.foreign.dashboard import Dashboard
from zun.tests.integration.programs import Program, TokenApi, free_port

pytestmark = [pytest.mark.slow, pytest.mark.foreign, pytest.mark.timeout(1500)]

HOST = "machine-1"
LATEST = {"OpenStack-API-Version": "container latest"}
PLACEMENT, MACHINES = "project/zun_placement/api", "admin/zun_machines/api"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory, keystone):
    """The API with one host: its URL."""
    folder, port = tmp_path_factory.mktemp("cloud"), free_port()
    settings = {
        "DEFAULT": {"state_path": folder / "state", "host": HOST},
        "api": {"port": port, "auth_strategy": "keystone"},
        "keystone_authtoken": keystone.settings() | {"token_cache_time": "300"},
        "compute": {"reserved_host_memory_mb": 0},
        "websocket_proxy": {"wsproxy_port": free_port()},
    }
    program = Program(folder, "zun.tests.integration.cloud_of_cells", "cloud", (), settings)
    program.start()
    try:
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        program.stop()
        print(program.log.read_text()[-6000:])


@pytest.fixture(scope="module")
def horizon(tmp_path_factory, keystone):
    """Horizon, running: its URL."""
    with dashboard.running(tmp_path_factory.mktemp("horizon"), keystone.url) as url:
        yield url


@pytest.fixture
def catalogued(keystone, cloud):
    """The cloud is in the catalog, and has no container after the test."""
    keystone.publish(cloud)
    yield
    member = TokenApi(cloud, keystone.token("member"))
    for left in member.get("/containers")["containers"]:
        member.request("DELETE", f"/containers/{left['uuid']}?stop=true")
    wait_for(lambda: not member.get("/containers")["containers"])


def test_panels_stand_beside_those_of_zun_ui(horizon, keystone, catalogued):
    member, admin = (Dashboard(horizon, keystone.named(name)) for name in ("member", "admin"))
    assert member.title("project/zun_placement/") == "Placement - OpenStack Dashboard"
    assert member.title("project/container/containers/") == "Containers - OpenStack Dashboard"
    assert member.ask("GET", "containers/") == (200, {"items": []})
    assert admin.title("admin/zun_machines/") == "Machines - OpenStack Dashboard"
    page = admin.page("admin/zun_machines/")
    group = page.index('id="sidebar-accordion-admin-container"')
    there = [page.index(f'href="/admin/{path}/"', group) for path in ("container/hosts", "zun_machines")]
    assert there == sorted(there) and page.count('id="sidebar-accordion-admin-container"') == 1
    assert member.send("GET", "admin/zun_machines/").status_code == 403


def test_the_elements_are_among_the_static_files(horizon, keystone):
    """There is one copy, in the package of the service."""
    member = Dashboard(horizon, keystone.named("member"))
    served = member.send("GET", "static/horizon/lib/zun/api.js")
    assert served.content == (dashboard.ROOT / "zun/ui/static/api.js").read_bytes()
    assert served.headers["Content-Type"].startswith("text/javascript")


def test_what_a_member_asks_for(horizon, keystone, catalogued):
    member = Dashboard(horizon, keystone.named("member"))
    answer = member.send("GET", f"{PLACEMENT}/v1/containers", {"OpenStack-API-Version": "container 1.40"})
    assert (answer.status_code, answer.json()["containers"]) == (200, [])
    assert answer.headers["OpenStack-API-Version"] == "container 1.40"
    assert answer.headers["Cache-Control"] == "no-store" and answer.headers["X-Openstack-Request-Id"]
    known = {"If-None-Match": answer.headers["ETag"]}
    again = member.send("GET", f"{PLACEMENT}/v1/containers", {"OpenStack-API-Version": "container 1.40"} | known)
    assert (again.status_code, again.content) == (304, b"")
    asked = {"image": "zun-demo", "name": "by-hand", "cpu": 2, "memory": 64, "cpu_policy": "dedicated"}
    made = member.send("POST", f"{PLACEMENT}/v1/containers?run=true", json=asked)
    assert made.status_code == 202, made.text
    path = f"{PLACEMENT}/v1/containers/{made.json()['uuid']}"
    wait_for(lambda: member.send("GET", path).json()["status"] == "Running")
    assert member.send("GET", f"{MACHINES}/v1/hosts").status_code == 403
    refused = member.send("GET", f"{PLACEMENT}/v1/hosts", LATEST)
    assert refused.status_code == 403 and "host:get_all" in refused.json()["errors"][0]["detail"]
    assert member.send("DELETE", f"{path}?stop=true", LATEST).status_code == 204
    wait_for(lambda: member.send("GET", path).status_code == 404)


def test_what_does_not_reach_the_service(horizon, keystone, catalogued):
    member = Dashboard(horizon, keystone.named("member"))
    assert member.send("GET", f"{PLACEMENT}/v2/containers").status_code == 404
    assert member.send("GET", f"{PLACEMENT}/v1/%2e%2e/healthcheck").status_code == 404
    assert member.send("PATCH", f"{PLACEMENT}/v1/containers/any").status_code == 405
    forged = {"X-CSRFToken": "a" * 64}
    asked = {"image": "zun-demo", "name": "forged"}
    assert member.send("POST", f"{PLACEMENT}/v1/containers", forged, json=asked).status_code == 401
    assert member.send("GET", f"{PLACEMENT}/v1/containers").json()["containers"] == []
    nobody = {"Cookie": "sessionid=none"}
    assert member.send("GET", f"{PLACEMENT}/v1/containers", nobody).status_code == 401


def test_the_token_is_in_no_page(horizon, keystone, catalogued):
    """keystone's tokens of this kind begin so. Horizon keeps them in its cache."""
    member = Dashboard(horizon, keystone.named("member"))
    assert keystone.token("member").startswith("gAAAA")
    assert "gAAAA" not in member.page("project/zun_placement/")
    assert "gAAAA" not in str(member.send("GET", f"{PLACEMENT}/v1/containers").headers)


class Elsewhere:
    """A service that sends everybody to another place, and hears who comes there."""

    def __init__(self):
        self.heard = []
        outer = self

        class Requests(Handler):
            def do_GET(self):
                outer.heard.append((self.path, "X-Auth-Token" in self.headers, "Cookie" in self.headers))
                self.send_response(302)
                self.send_header("Location", "/elsewhere")
                self.end_headers()

        self.server = Server(Requests)


def test_a_redirect_is_not_followed(horizon, keystone):
    """The first place is the service of the catalog, so it gets the token, but no cookie of Horizon."""
    service = Elsewhere()
    keystone.publish(f"{service.server.url}/v1")
    member = Dashboard(horizon, keystone.named("member"))
    with serving(service.server):
        answer = member.send("GET", f"{PLACEMENT}/v1/containers?a=b")
    assert answer.status_code == 502 and "redirect (302)" in answer.json()["errors"][0]["detail"]
    assert service.heard == [("/v1/containers?a=b", True, False)]


def test_a_service_that_is_away(horizon, keystone):
    keystone.publish(f"http://127.0.0.1:{free_port()}/v1")
    member = Dashboard(horizon, keystone.named("member"))
    answer = member.send("GET", f"{PLACEMENT}/v1/containers")
    assert answer.status_code == 503
    assert "cannot be reached" in answer.json()["errors"][0]["detail"] and "127.0.0.1" not in answer.text


def test_a_catalog_without_the_service(horizon, keystone):
    keystone.retract()
    member = Dashboard(horizon, keystone.named("member"))
    assert member.send("GET", "project/zun_placement/").status_code == 403
    assert 'href="/project/zun_placement/"' not in member.page("project/container/containers/")


@pytest.fixture(scope="module")
def chrome():
    if not pathlib.Path("/usr/bin/chromedriver").exists() and not os.environ.get("ZUN_REQUIRE_BROWSER"):
        pytest.skip("there is no /usr/bin/chromedriver (Debian: chromium-driver)")
    driver = chromium()
    yield driver
    driver.quit()


class Visitor(Page):
    """Somebody in Horizon. The password is the user's name."""

    def login(self, user, path):
        self.driver.delete_all_cookies()
        self.driver.get(f"{self.url}/auth/login/?next=/{path}")
        self.type("#id_username", user)
        self.type("#id_password", user)
        self.click("#loginBtn")
        self.find("#zun-panel")

    def errors(self):
        """Return the errors of scripts, and each use of ours that a strict Content-Security-Policy would forbid.

        Answers of the API with an error are handled by the elements. Horizon's own scripts need a lax policy.
        """
        told = self.driver.get_log("browser")
        policy = [each["message"] for each in told if "report-only" in each["message"]]
        assert policy, "Horizon sends no policy"
        forbidden = [text for text in policy if "/horizon/lib/zun/" in text or "/static/zun_dashboard/" in text]
        failed = [each["message"] for each in told if each["level"] == "SEVERE" and each["message"] not in policy]
        return forbidden + [text for text in failed if "the server responded with a status of" not in text]


@pytest.fixture
def visitor(chrome, horizon, catalogued):
    made = Visitor(chrome, horizon)
    made.size(*WIDE)
    made.scheme("dark")  # Horizon is light whatever the system prefers, and so are the elements in its pages
    yield made
    made.driver.get("about:blank")


def light(page, selector):
    """Return whether the text of an element is dark."""
    red, green, blue = page.script(
        "return getComputedStyle(arguments[0]).color.match(/[0-9.]+/g).slice(0, 3).map(Number)", page.find(selector)
    )
    return red + green + blue < 3 * 128


def type_in_the_terminal(page, text):
    """Type into the terminal's frame, and wait until the process, which repeats its input, has sent it back."""
    page.driver.switch_to.frame(page.find("iframe"))
    field = page.patiently(lambda: page.driver.find_element("css selector", ".xterm-helper-textarea"))
    page.patiently(lambda: page.script("return document.activeElement === arguments[0]", field))
    field.send_keys(text)
    page.patiently(lambda: text in page.driver.find_element("css selector", "body").text)
    page.picture("horizon-terminal")
    page.driver.switch_to.default_content()


def test_a_member_creates_a_container_and_an_administrator_sees_it(visitor, keystone):
    visitor.login(keystone.named("member"), "project/zun_placement/")
    visitor.shows("No containers yet")
    assert light(visitor, "zun-why")
    visitor.type("#name", "from-the-panel")
    visitor.type("#image", "zun-demo")
    visitor.click("button", "Create")
    visitor.shows("Running on CPUs 0-3")
    visitor.shows("1 of 1")
    visitor.picture("horizon-placement")
    visitor.size(*NARROW)
    assert visitor.overflow() <= 0
    visitor.picture("horizon-placement-narrow")
    visitor.size(*WIDE)
    visitor.click(".made button", "from-the-panel")
    visitor.find("zun-container")
    visitor.shows("0-3")
    visitor.picture("horizon-container")
    visitor.click("button", "Run")
    type_in_the_terminal(visitor, "hello-there")
    assert visitor.errors() == []

    visitor.login(keystone.named("admin"), "admin/zun_machines/")
    visitor.shows("1 host")
    visitor.picture("horizon-machines")
    visitor.click('[role="gridcell"]')
    visitor.shows("from-the-panel")
    assert visitor.driver.current_url.endswith(f"?host={HOST}")
    visitor.shows("12 free; 1 claim")
    visitor.picture("horizon-machine")
    visitor.size(*NARROW)
    assert visitor.overflow() <= 0
    visitor.size(*WIDE)
    assert visitor.errors() == []


def test_a_name_is_no_expression_of_angularjs(visitor, keystone):
    visitor.login(keystone.named("admin"), "admin/zun_machines/")
    visitor.driver.get(f"{visitor.url}/admin/zun_machines/?host=%7B%24%207*7%20%24%7D%3Cb%3E")
    assert visitor.find("#zun-panel h2").text == "{$ 7*7 $}<b>"
    visitor.shows("The map cannot be read")
    assert visitor.find("#zun-panel h2").text == "{$ 7*7 $}<b>"


def test_a_session_that_ends_leaves_the_form(visitor, keystone):
    """The user logs in again in another tab, comes back, and goes on with the new session."""
    driver, name = visitor.driver, keystone.named("member")
    visitor.login(name, "project/zun_placement/")
    visitor.type("#name", "kept")
    visitor.type("#image", "zun-demo")
    # An answer that was under way brings the cookie of the session back.
    visitor.patiently(lambda: driver.delete_all_cookies() or "Your session has ended" in visitor.text())
    first, link = driver.current_window_handle, visitor.find("#zun-signed-out a").get_attribute("href")
    assert "next=%2Fproject%2Fzun_placement%2F" in link
    driver.switch_to.new_window("tab")
    visitor.login(name, "project/zun_placement/")
    driver.close()
    driver.switch_to.window(first)
    visitor.gone("#zun-signed-out")
    assert visitor.find("#name").get_attribute("value") == "kept"
    visitor.click("button", "Create")
    visitor.shows("kept Running on CPUs")
