# SPDX-License-Identifier: Apache-2.0
"""Who may see the page, and what happens when a token ends."""

from selenium.webdriver.common.keys import Keys

from zun.tests.browser.keystone import PASSWORD


def sign_in_again(page, user, project):
    page.shows("Your session ended")
    page.login(user, project)


def test_a_login_shows_user_project_and_views(page):
    page.login("alice")
    page.shows("Containers")
    assert [each.text for each in page.every("nav a")] == ["Containers", "What fits"]
    assert [each.text for each in page.every(".who .name")] == ["alice", "demo"]


def test_an_administrator_sees_the_hosts_as_well(page):
    page.login("root")
    assert [each.text for each in page.every("nav a")] == ["Hosts", "Containers", "What fits"]


def test_a_wrong_password_is_told_and_the_name_is_kept(page):
    page.type("#user", "alice")
    page.type("#password", "wrong")
    page.type("#project", "demo")
    page.click("button.primary", "Sign in")
    page.shows("The login was refused")
    assert page.find("#user").get_property("value") == "alice"


def test_a_token_logs_in(page, running):
    page.click("button", "Use a token")
    page.type("#token", running.keystone.issue("alice", "demo"))
    page.click("button.primary", "Sign in")
    page.find("nav a", "Containers")


def test_a_user_of_two_projects_chooses_one_and_changes_it(page, running):
    running.run("alice", name="in-demo")
    page.type("#user", "alice")
    page.type("#password", PASSWORD)
    page.click("button.primary", "Sign in")
    page.choose("#project_id", "research")
    page.click("button.primary", "Sign in")
    page.shows("No containers yet")
    page.choose("select[aria-label=Project]", "demo")
    page.find("td.name", "in-demo")
    page.choose("select[aria-label=Project]", "research")
    page.gone("td.name", "in-demo")


def test_the_login_works_with_the_keyboard_alone(page):
    page.find("#user")
    keys = page.driver.switch_to.active_element.send_keys
    keys("alice", Keys.TAB)
    for text in (PASSWORD + Keys.TAB, "demo" + Keys.ENTER):
        page.focused().send_keys(text)
    page.patiently(lambda: page.focused().text == "Containers")


def test_nothing_of_a_login_outlives_a_reload(page):
    page.login("alice")
    stored = page.script("return [Object.keys(localStorage), Object.keys(sessionStorage), document.cookie]")
    page.driver.refresh()
    page.shows("Sign in")
    assert stored == [[], [], ""]


def test_an_ended_token_leads_to_the_login_and_back(page, running):
    page.login("alice")
    page.go("#/why")
    page.type("#cpu", "3")
    page.type("#image", "kept")
    running.keystone.revoke()
    page.click("form button.primary", "See what fits")
    sign_in_again(page, "alice", "demo")
    page.find("zun-why")
    values = [page.find(field).get_property("value") for field in ("#cpu", "#image")]
    page.click("form button.primary", "See what fits")
    page.find(".number")
    assert values == ["3", "kept"]


def test_a_list_notices_an_ended_token_by_itself(page, running):
    page.login("alice")
    page.find("zun-containers")
    running.keystone.revoke()
    page.shows("Your session ended")


def test_another_user_finds_nothing_of_the_one_before(page, running):
    page.login("alice")
    page.go("#/why")
    page.type("#image", "of-alice")
    running.keystone.revoke()
    page.click("form button.primary", "See what fits")
    sign_in_again(page, "bob", "others")
    assert page.find("#image").get_property("value") == ""


def test_a_sign_out_forgets_the_token(page):
    page.login("alice")
    page.click("button", "Sign out")
    page.shows("See who holds which core")
    assert not page.every("nav a") and not page.every("zun-containers")
