# SPDX-License-Identifier: Apache-2.0
"""The page in Chromium, with a real keystone behind it. zun/tests/browser has everything else about the page."""

import os
import pathlib

import pytest

from zun.cmd import api
from zun.db import containers as db
from zun.tests.browser.page import Page, chromium
from zun.tests.fixtures import new_container, wait_for, written_conf
from zun.tests.functional.api.messages import ComputeMessages, SchedulerMessages
from zun.tests.integration.programs import free_port

pytestmark = pytest.mark.skipif(
    not pathlib.Path("/usr/bin/chromedriver").exists() and not os.environ.get("ZUN_REQUIRE_BROWSER"),
    reason="there is no /usr/bin/chromedriver (Debian: chromium-driver)",
)


@pytest.fixture
def page(keystone, database, tmp_path):
    settings = "".join(f"{name} = {value}\n" for name, value in keystone.settings().items())
    text = f"[api]\nport = {free_port()}\n[keystone_authtoken]\ntoken_cache_time = -1\n{settings}[ui]\nenabled = true\n"
    conf = written_conf(tmp_path, text)
    server = api.Server(conf, api.app.build(conf, scheduler_api=SchedulerMessages(), compute_api=ComputeMessages()))
    server.start()
    driver = chromium()
    made = Page(driver, f"http://127.0.0.1:{conf.api.port}/ui/")
    made.open()
    yield made
    driver.quit()
    server.stop()


def test_login_and_end_of_a_token_at_keystone(page, keystone, context):
    name = keystone.named("member")
    row = new_container(context, name="of-demo", status="Stopped")
    db.update(row.uuid, {"project_id": keystone.projects["demo"].id})
    page.login(name, project=keystone.named("demo"), password=name)
    page.find("td.name", "of-demo")
    user = keystone.admin.users.find(name=name)
    keystone.admin.users.update(user, enabled=False)  # which ends the tokens of the user
    try:
        page.shows("Your session ended")
    finally:
        keystone.admin.users.update(user, enabled=True)
    page.login(name, project=keystone.named("demo"), password=name)
    wait_for(lambda: page.every("td.name", "of-demo"))
