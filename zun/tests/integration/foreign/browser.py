# SPDX-License-Identifier: Apache-2.0
"""Use zun-ui like a person, in a headless Chromium. Run it with the Python of Horizon's environment::

    python browser.py URL USER FOLDER

The password is the user name, whose project has the networks ``first`` and ``second``, ``port`` in the latter, the
security group ``web`` and the volume ``data``. Makes a container with every tab of the form and looks at it. Prints as
JSON what was seen, and leaves pictures in FOLDER.
"""

import json
import sys

from selenium import webdriver
from selenium.common.exceptions import TimeoutException
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

SECONDS = 120
FLAGS = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--window-size=1400,1000")


class Browser:
    def __init__(self, folder):
        options = webdriver.ChromeOptions()
        for flag in FLAGS:
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))
        self._folder = folder

    def seen(self, path, seconds=SECONDS):
        """The first visible element of an XPath, waited for."""

        def look(driver):
            return next((each for each in driver.find_elements(By.XPATH, path) if each.is_displayed()), None)

        return WebDriverWait(self.driver, seconds).until(look, f"{path} is not seen")

    def seen_when_loaded_again(self, path, times=10):
        for _ in range(times - 1):
            self.driver.refresh()
            try:
                return self.seen(path, SECONDS // times)
            except TimeoutException:
                pass
        self.driver.refresh()
        return self.seen(path)

    def logged(self, text):
        """Wait until a script of the page complained so."""

        def look(driver):
            return any(text in each["message"] for each in driver.get_log("browser"))

        WebDriverWait(self.driver, SECONDS).until(look, f"{text} is not in the browser's log")

    def click(self, path):
        """Past what may lie over it for a moment, a notice for example."""
        self.driver.execute_script("arguments[0].click()", self.seen(path))

    def fill(self, name, text):
        field = self.seen(f"//input[@name='{name}']")
        field.clear()
        field.send_keys(text)

    def choose(self, name, text):
        """In a list, where the text may come a moment later than the list."""
        self.seen(f"//select[@name='{name}']/option[normalize-space()='{text}']")
        Select(self.seen(f"//select[@name='{name}']")).select_by_visible_text(text)

    def tab(self, title):
        self.click(f"//*[contains(@class, 'hz-tabs')]//li/a[normalize-space()='{title}']")

    def allocate(self, title, name):
        """Take ``name`` from what the tab offers, and wait until the row has moved up."""
        self.tab(title)
        row = f"tr[not(contains(@class, 'detail-row')) and td[normalize-space()='{name}']]"
        self.click(f"//available//{row}//button")
        self.seen(f"//allocated//{row}")
        self.picture(title.lower().replace(" ", "-"))

    def picture(self, name):
        self.driver.save_screenshot(f"{self._folder}/{name}.png")


def fill_the_form(browser):
    browser.fill("name", "from-the-form")
    browser.fill("image", "zun-demo")
    browser.fill("command", "sh")
    browser.picture("form")
    browser.tab("Spec")
    browser.fill("hostname", "formed")
    browser.fill("cpu", "0.5")
    browser.fill("memory", "128")
    browser.choose("exit_policy", "Restart on failure")
    browser.fill("restart_policy_max_retry", "2")
    browser.tab("Volumes")
    browser.choose("source", "data")
    browser.fill("destination", "/data")
    browser.click("//button[contains(., 'Add Volume')]")
    browser.choose("type", "New Cinder Volume")
    browser.fill("size", "1")
    browser.fill("destination", "/new")
    browser.click("//button[contains(., 'Add Volume')]")
    browser.seen("//td[normalize-space()='/new']")
    browser.picture("volumes")
    browser.allocate("Networks", "first")
    browser.allocate("Ports", "port")
    browser.allocate("Security Groups", "web")
    browser.tab("Miscellaneous")
    browser.fill("workdir", "/tmp")
    browser.fill("environment", "A=1,B=2")
    browser.tab("Labels")
    browser.fill("labels", "tier=front")
    browser.tab("Scheduler Hints")
    browser.fill("customItem", "note")
    browser.click("//input[@name='customItem']/following::button[1]")
    browser.fill("property", "any")
    browser.picture("hints")


def look_around(browser, url, user):
    driver = browser.driver
    driver.get(f"{url}/auth/login/?next=/project/container/containers/")
    browser.fill("username", user)
    browser.fill("password", user)
    browser.click("//*[@id='loginBtn']")
    browser.click("//button[contains(., 'Create Container')]")
    fill_the_form(browser)
    seen = {"errors": [each.text for each in driver.find_elements(By.CLASS_NAME, "alert-danger")]}
    browser.click("//button[contains(., 'Create') and contains(@class, 'btn-primary')]")
    # zun-ui 18 does not get to showing it again: its call of what Angular 1.7 removed ends its handler.
    browser.logged("error is not a function")
    row = browser.seen_when_loaded_again("//tr[contains(., 'from-the-form') and contains(., 'Running')]")
    seen["row"] = row.text.split("\n")
    browser.picture("list")
    browser.click("//a[contains(., 'from-the-form')]")
    browser.seen("//*[contains(@class, 'detail')]//dd[normalize-space()='zun-demo']")
    names, values = ([each.text for each in driver.find_elements(By.TAG_NAME, tag)] for tag in ("dt", "dd"))
    seen["details"] = dict(zip(names, values, strict=False))
    browser.picture("details")
    browser.click("//a[normalize-space()='Console']")
    frame = browser.seen("//iframe")
    driver.switch_to.frame(frame)
    browser.seen("//*[contains(., 'Status: Open')]")
    terminal = browser.seen("//*[contains(@class, 'terminal')]")
    ActionChains(driver).click(terminal).send_keys("expr 6 + 36", Keys.ENTER).perform()
    browser.seen("//*[contains(@class, 'terminal')]/div[starts-with(., '42')]")
    browser.picture("console")
    return seen


def main():
    url, user, folder = sys.argv[1:]
    browser = Browser(folder)
    try:
        print(json.dumps(look_around(browser, url, user)))
    except Exception:
        browser.picture("failed")
        raise
    finally:
        browser.driver.quit()


if __name__ == "__main__":
    main()
