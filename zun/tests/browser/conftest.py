# SPDX-License-Identifier: Apache-2.0
"""A service and a browser for the tests of a file. Each test loads the page afresh."""

import os
import pathlib
from collections.abc import Iterator

import pytest
from selenium.webdriver import Chrome

from zun.tests.browser.elements import Elements, serving
from zun.tests.browser.page import WIDE, Page, chromium
from zun.tests.browser.service import Service, machines, service
from zun.tests.fixtures import LastingDatabase


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests of the page where no Chromium is installed, unless ZUN_REQUIRE_BROWSER is set."""
    if pathlib.Path("/usr/bin/chromedriver").exists() or os.environ.get("ZUN_REQUIRE_BROWSER"):
        return
    folder = pathlib.Path(__file__).parent
    for item in items:
        if folder in item.path.parents:
            item.add_marker(pytest.mark.skip(reason="there is no /usr/bin/chromedriver (Debian: chromium-driver)"))


@pytest.fixture(scope="session")
def browser() -> Iterator[Chrome]:
    driver = chromium()
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def running(lasting_database: LastingDatabase, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with the hosts node-a, node-b and node-pci."""
    with lasting_database.empty(), service(machines(tmp_path_factory.mktemp("machines"))) as made:
        yield made


@pytest.fixture
def page(browser: Chrome, running: Service) -> Page:
    """The page at its login, in a wide light window."""
    made = Page(browser, running.page)
    made.size(*WIDE)
    made.scheme("light")
    made.open()
    return made


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """The URL of a server that has the elements and no API."""
    with serving() as url:
        yield url


@pytest.fixture
def alone(browser: Chrome, site: str) -> Elements:
    """A page for one element, in a wide light window."""
    page = Elements(browser, site)
    page.size(*WIDE)
    page.scheme("light")
    page.open()
    return page
