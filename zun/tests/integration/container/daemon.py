# SPDX-License-Identifier: Apache-2.0
"""A Docker daemon for tests, and the image they run."""

import io
import os
import pathlib
import subprocess
import tarfile

import docker
import pytest
import requests.exceptions

IMAGE = "zun-demo"
BUSYBOX = pathlib.Path("/usr/bin/busybox")
DEFAULT_URL = "unix:///var/run/docker.sock"


@pytest.fixture(scope="session")
def docker_url() -> str:
    """URL of a daemon that answers and has the image.

    Without one, tests are skipped; with ZUN_REQUIRE_DOCKER=1 they fail, so that a run cannot pass by leaving them out.
    """
    url = os.environ.get("DOCKER_HOST", DEFAULT_URL)
    try:
        client = docker.APIClient(url, version="auto")
    except (docker.errors.DockerException, requests.exceptions.RequestException) as exc:
        reason = f"no Docker daemon answers at {url}: {exc}"
        if os.environ.get("ZUN_REQUIRE_DOCKER") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    if not client.images(IMAGE):
        client.import_image_from_data(root_of_busybox(), IMAGE, "latest", changes=["ENV PATH=/bin"])
    client.close()
    return url


def root_of_busybox() -> bytes:
    """Return a root file system, as a tar, whose /bin holds every command of a static busybox."""
    if not BUSYBOX.exists():
        pytest.fail(f"{BUSYBOX} is missing, which the test image is made from: apt-get install busybox-static")
    applets = subprocess.run([BUSYBOX, "--list"], check=True, capture_output=True, text=True).stdout.split()
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as tar:
        for name in ("bin", "dev", "etc", "proc", "root", "sys", "tmp"):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            tar.addfile(folder)
        program = tar.gettarinfo(BUSYBOX, "bin/busybox")
        program.mode = 0o755
        with BUSYBOX.open("rb") as content:
            tar.addfile(program, content)
        for applet in applets:
            if applet != "busybox":
                link = tarfile.TarInfo(f"bin/{applet}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                tar.addfile(link)
    return target.getvalue()
