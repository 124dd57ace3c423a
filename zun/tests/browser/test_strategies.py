# SPDX-License-Identifier: Apache-2.0
"""The page of a service without keystone."""

import bcrypt
import pytest

from zun.tests.browser.page import Page
from zun.tests.browser.service import service
from zun.tests.functional.cloud import machine


@pytest.fixture
def opened(lasting_database, browser):
    """Give a function that starts a service and opens its page."""
    with lasting_database.empty():
        started = []

        def open(**options):
            made = service({"alone": machine()}, **options)
            started.append(made)
            page = Page(browser, made.__enter__().page)
            page.open()
            return page

        yield open
        for each in started:
            each.__exit__(None, None, None)


def test_without_authentication_nobody_is_asked(opened):
    page = opened(api__auth_strategy="noauth")
    page.find("nav a", "Hosts")
    assert not page.every("button", "Sign out")


def test_a_name_of_the_file_logs_in_and_works(opened, tmp_path):
    word = bcrypt.hashpw("wönderland: 1".encode(), bcrypt.gensalt(4)).decode()
    (tmp_path / "users").write_text(f"alice:{word}\n")
    page = opened(api__auth_strategy="http_basic", api__http_basic_user_file=str(tmp_path / "users"))
    page.type("#user", "alice")
    page.type("#password", "wrong")
    page.click("button.primary", "Sign in")
    page.find("[role=alert] .notice")
    page.type("#password", "wönderland: 1")
    page.click("button.primary", "Sign in")
    page.shows("No containers yet")
    page.go("#/why")
    page.click("form button.primary", "See what fits")
    page.find(".number")
