# SPDX-License-Identifier: Apache-2.0
"""nginx as the web server in front of a program."""

import contextlib
import os
import shutil
import subprocess

import pytest

from zun.tests.fixtures import wait_for

NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
needed = pytest.mark.skipif(
    NGINX is None and os.environ.get("ZUN_REQUIRE_NGINX") != "1", reason="nginx is not installed"
)


@contextlib.contextmanager
def process(log, *command, **environment):
    """Run ``command`` and terminate it at the end. Its output goes to the file ``log``."""
    with log.open("wb") as output:
        made = subprocess.Popen(
            [str(word) for word in command],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        try:
            yield made
        finally:
            made.terminate()
            try:
                made.wait(60)
            finally:
                made.kill()
                made.wait()


@contextlib.contextmanager
def serving(folder, sites):
    """Run nginx with the files ``sites``, which may be a pattern. It reads them again at SIGHUP.

    Its other files, and the one with its process id (``nginx.pid``), are in ``folder``.
    """
    assert NGINX is not None, "nginx is not installed: run tools/services.sh install"
    paths = "".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    main = (
        f"daemon off; user root; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/nginx-error.log;"
        f"events {{ worker_connections 768; }} http {{ access_log off; {paths} include {sites}; }}"
    )
    (folder / "nginx.conf").write_text(main)
    log = folder / "nginx.log"
    with process(log, NGINX, "-e", folder / "nginx-error.log", "-c", folder / "nginx.conf") as made:
        wait_for(lambda: made.poll() is not None or (folder / "nginx.pid").exists(), 60)
        assert made.poll() is None, log.read_text()
        yield
