# SPDX-License-Identifier: Apache-2.0
"""Horizon with zun-ui and the panels of this project, set up as the documentation of each has it."""

import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import requests

from zun.tests.fixtures import wait_for
from zun.tests.integration import foreign
from zun.tests.integration.programs import SETTLED, free_port

ROOT = pathlib.Path(__file__).parents[4]
SETTINGS = """
import os
ALLOWED_HOSTS = ["127.0.0.1"]
SECRET_KEY = os.environ.get("HORIZON_SECRET", "none")
OPENSTACK_KEYSTONE_URL = os.environ.get("HORIZON_KEYSTONE", "none")
SESSION_ENGINE = "django.contrib.sessions.backends.cache"
CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
COMPRESS_OFFLINE = True
X_FRAME_OPTIONS = "SAMEORIGIN"  # the console of zun-ui is a frame

def with_policy(get_response):
    def answer(request):
        response = get_response(request)
        response["Content-Security-Policy-Report-Only"] = "default-src 'self'; connect-src 'self' ws:"
        return response
    return answer
"""
SNIPPET = 'MIDDLEWARE = ("local.local_settings.with_policy", *MIDDLEWARE)\n'
ENVIRONMENT = {**os.environ, "DJANGO_SETTINGS_MODULE": "openstack_dashboard.settings", "PYTHONWARNINGS": "ignore"}


def _run(*words: object, **named: str) -> None:
    environment = {**ENVIRONMENT, **named}
    subprocess.run([str(word) for word in words], env=environment, stdin=subprocess.DEVNULL, check=True, timeout=600)


def installed(folder: pathlib.Path) -> pathlib.Path:
    """Return Horizon's environment with the wheel of this checkout, its panels enabled, and what browsers load.

    The wheel is made in ``folder``, and installed without the libraries of the service.
    """
    environment = foreign.installed("horizon")
    pip = ("-m", "pip", "--disable-pip-version-check")
    _run(sys.executable, *pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, ROOT)
    (wheel,) = folder.glob("zun-*.whl")
    _run(environment / "bin/python", *pip, "install", "-q", "--no-deps", "--force-reinstall", wheel)
    packages = foreign.packages(environment)
    local = packages / "openstack_dashboard/local"
    for old in (local / "enabled").glob("_[0-9]*.py"):
        old.unlink()
    for plugin in ("zun_ui", "zun_dashboard"):
        for panel in (packages / plugin / "enabled").glob("_[0-9]*.py"):
            shutil.copy(panel, local / "enabled")
    (local / "local_settings.py").write_text(f"{SETTINGS}STATIC_ROOT = {str(environment / 'static')!r}\n")
    (local / "local_settings.d").mkdir(exist_ok=True)
    (local / "local_settings.d/_10_policy.py").write_text(SNIPPET)
    for words in (["collectstatic", "--noinput", "--clear"], ["compress", "--force"]):
        _run(environment / "bin/django-admin", *words, "-v", "0")
    return environment


@contextlib.contextmanager
def running(folder: pathlib.Path, keystone_url: str) -> Iterator[str]:
    """Run Horizon in the block: its URL. The log is in ``folder``."""
    environment, where = installed(folder), f"127.0.0.1:{free_port()}"
    with (folder / "horizon.log").open("wb") as log:
        server = subprocess.Popen(
            [environment / "bin/django-admin", "runserver", "--insecure", "--noreload", where],
            env={**ENVIRONMENT, "HORIZON_KEYSTONE": keystone_url, "HORIZON_SECRET": os.urandom(20).hex()},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        wait_for(lambda: server.poll() is not None or _answers(f"http://{where}/auth/login/"), 120)
        assert server.poll() is None
        yield f"http://{where}"
    finally:
        server.terminate()
        server.wait(60)
        print((folder / "horizon.log").read_text()[-6000:])


def _answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=60).ok
    except requests.ConnectionError:
        return False


class Dashboard:
    """The session of somebody who logged in, as a browser has it. The password is the name."""

    def __init__(self, url: str, name: str) -> None:
        self._url, self._session = url, requests.Session()
        page = self._session.get(f"{url}/auth/login/", timeout=60).text
        fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page))
        form = {**fields, "username": name, "password": name}
        answer = self._session.post(f"{url}/auth/login/", form, headers={"Referer": url}, timeout=60)
        assert "sessionid" in self._session.cookies, answer.text

    def title(self, path: str) -> str:
        return re.search(r"<title>\s*(.*?)\s*</title>", self.page(path), re.DOTALL)[1]

    def page(self, path: str) -> str:
        answer = self._session.get(f"{self._url}/{path}", timeout=60)
        assert answer.status_code == 200, answer.text
        return answer.text

    def send(self, method: str, path: str, headers: dict[str, str] | None = None, **more: Any) -> requests.Response:
        """Send what a script of a page sends, and return the answer. A header None is left out."""
        usual = {
            "Referer": self._url,
            "X-CSRFToken": self._session.cookies["csrftoken"],
            "X-Requested-With": "XMLHttpRequest",
        }
        url = f"{self._url}/{path}"
        return self._session.request(method, url, headers={**usual, **(headers or {})}, timeout=120, **more)

    def ask(self, method: str, path: str, body: Any = None, service: str = "zun") -> tuple[int, Any]:
        """Status and content of what zun-ui's own JavaScript asks for."""
        answer = self.send(method, f"api/{service}/{path}", json=body)
        return answer.status_code, answer.json() if answer.content else None

    def container(self, ident: str, seconds: float = 120) -> dict[str, Any]:
        """The container once nothing works on it any more."""

        def look() -> dict[str, Any] | None:
            status, shown = self.ask("GET", f"containers/{ident}")
            assert status == 200, shown
            return shown if shown["status"] in SETTLED and not shown["task_state"] else None

        return wait_for(look, seconds)
