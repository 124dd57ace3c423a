# SPDX-License-Identifier: Apache-2.0
"""The page in Chromium, as a person uses it. Selectors reach through the shadow roots of the elements."""

import os
import pathlib
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from selenium.common.exceptions import WebDriverException
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service as Driver
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.select import Select

from zun.tests.browser.keystone import PASSWORD, USERS
from zun.tests.fixtures import wait_for

T = TypeVar("T")

AXE = pathlib.Path(__file__).parent / "vendor/axe.min.js"
SCREENSHOTS = pathlib.Path(os.environ.get("ZUN_RUN_DIR", ".run")) / "screenshots"
WIDE, NARROW = (1280, 900), (400, 800)
GRAVE = ("serious", "critical")  # impacts of axe-core

# Every element that fits a selector, in the document and in each open shadow root, in the order of the page.
_EVERY = """
const found = [];
(function look(root) {
    for (const each of root.querySelectorAll("*")) {
        if (each.matches(arguments_[0])) found.push(each);
        if (each.shadowRoot) look(each.shadowRoot);
    }
})(document);
"""
_FIND = f"const arguments_ = arguments;{_EVERY}" + (
    "const text = arguments[1];"
    "return found.filter((each) => each.checkVisibility() && (text === null || each.textContent.includes(text)));"
)
_TEXT = """
function shown(node) {
    if (node.nodeType === Node.TEXT_NODE) return node.textContent;
    if (node.nodeType !== Node.ELEMENT_NODE || !node.checkVisibility()) return "";
    return ` ${[...(node.shadowRoot ?? node).childNodes].map(shown).join("")} `;
}
return shown(document.body);
"""
_AXE = """
const done = arguments[arguments.length - 1];
axe.run(document, {resultTypes: ["violations"]}).then(
    (answer) => done(answer.violations.map(({id, impact, help, nodes}) => ({
        id, impact, help,
        nodes: nodes.map(({target, failureSummary}) => target.flat().join(" ") + ": " + failureSummary),
    }))),
    (error) => done([{id: "axe", impact: "critical", help: String(error), nodes: []}]));
"""


def chromium() -> Chrome:
    """Start the distribution's Chromium without a window."""
    options = ChromeOptions()
    switches = ("no-sandbox", "disable-dev-shm-usage", "disable-gpu", "hide-scrollbars", "no-proxy-server")
    for each in ("headless=new", f"window-size={WIDE[0]},{WIDE[1]}", *switches):
        options.add_argument(f"--{each}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return Chrome(options=options, service=Driver("/usr/bin/chromedriver"))


class Page:
    """One tab. Methods that look for something wait until it is there."""

    def __init__(self, driver: Chrome, url: str) -> None:
        self.driver = driver
        self.url = url
        self.driver.get("about:blank")
        self.log()  # of the tests before

    # What people do.

    def open(self, fragment: str = "") -> None:
        """Load the page afresh: nobody is logged in then."""
        self.driver.get("about:blank")
        self.log()  # the browser keeps what the tests before have caused
        self.driver.get(self.url + fragment)

    def go(self, fragment: str) -> None:
        """Follow a link within the page."""
        self.script("location.hash = arguments[0]", fragment)

    def login(self, user: str, project: str | None = None, password: str = PASSWORD) -> None:
        """Log ``user`` in, in the first of the user's projects unless told otherwise, and wait for the first view."""
        self.type("#user", user)
        self.type("#password", password)
        self.type("#project", next(iter(USERS[user])) if project is None else project)
        self.click("button.primary", "Sign in")
        self.find("#view h1")

    def click(self, selector: str, text: str | None = None) -> None:
        self.patiently(lambda: self.find(selector, text).click() or True)

    def type(self, selector: str, text: str) -> None:
        """Replace what is in a field. Keys go to the end of a field in a shadow root, so nothing can be selected."""
        field = self.find(selector)
        self.script("arguments[0].value = ''; arguments[0].dispatchEvent(new Event('input', {bubbles: true}))", field)
        field.send_keys(text)

    def choose(self, selector: str, text: str) -> None:
        self.patiently(lambda: Select(self.find(selector)).select_by_visible_text(text) or True)

    # What people see.

    def find(self, selector: str, text: str | None = None) -> WebElement:
        """Return the first visible element that fits ``selector``, and has ``text`` in it."""
        return self.patiently(lambda: next(iter(self.every(selector, text)), None))

    def every(self, selector: str, text: str | None = None) -> Sequence[WebElement]:
        """Return the visible elements of this moment."""
        return list(self.script(_FIND, selector, text))

    def gone(self, selector: str, text: str | None = None) -> None:
        self.patiently(lambda: not self.every(selector, text))

    def text(self) -> str:
        """Return the visible text of the page with those of its elements, words parted by one space."""
        return re.sub(r"\s+", " ", self.script(_TEXT)).strip()

    def shows(self, text: str) -> None:
        """Wait until the page has ``text``."""
        self.patiently(lambda: text in self.text())

    def focused(self) -> WebElement:
        """Return the element that has the keyboard."""
        element: WebElement = self.script(
            "let at = document.activeElement; while (at.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;"
            "return at"
        )
        return element

    # Checks.

    def patiently(self, what: Callable[[], T]) -> T:
        """Return the first true answer of ``what``; an element that was drawn anew meanwhile is looked for again."""

        def answer() -> T | None:
            try:
                return what()
            except WebDriverException as exc:
                seen.append(exc)
                return None

        seen: list[WebDriverException] = []
        try:
            return wait_for(answer, 30)
        except AssertionError as exc:
            raise AssertionError(f"{exc}; the page shows: {self.text()[:2000]} {seen[-1:]} {self.log()}") from None

    def script(self, text: str, *arguments: Any) -> Any:
        return self.driver.execute_script(text, *arguments)

    def log(self) -> list[str]:
        """Return what the console of the browser got since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def faults(self) -> list[str]:
        """Return what axe-core finds serious or critical on the page as it is."""
        if not self.script("return 'axe' in window"):
            self.driver.execute_cdp_cmd("Runtime.evaluate", {"expression": AXE.read_text()})  # past the page's policy
        self.driver.set_script_timeout(60)
        found = self.driver.execute_async_script(_AXE)
        return [f"{each['id']}: {each['help']}: {each['nodes']}" for each in found if each["impact"] in GRAVE]

    def size(self, width: int, height: int) -> None:
        """Give the page a window of this size. A window of Chromium is at least 500 pixels wide."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def scheme(self, scheme: str) -> None:
        """Have the browser prefer ``light`` or ``dark``, and nothing that moves."""
        wanted = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
        features = [{"name": name, "value": value} for name, value in wanted.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def overflow(self) -> int:
        """Return by how many pixels the page is wider than its window."""
        return int(self.script("return document.documentElement.scrollWidth - window.innerWidth"))

    def picture(self, name: str) -> pathlib.Path:
        """Keep a screenshot of the top of the page as NAME.png."""
        self.script("window.scrollTo(0, 0)")
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        path = SCREENSHOTS / f"{name}.png"
        self.driver.save_screenshot(str(path))
        return path
