# SPDX-License-Identifier: Apache-2.0
"""A Podman service for tests, which ``tools/engine.sh SUITE-podman`` starts."""

from zun.container.docker.client import ask
from zun.container.podman.client import Libpod, connect
from zun.container.podman.create import full_name
from zun.tests.integration.container.daemon import IMAGE, root_of_busybox


class Importer(Libpod):
    """A client that makes images of archives, which the service never does."""

    def import_image_from_data(self, data: bytes, repository: str, tag: str, changes: list[str]) -> None:
        asked = {"reference": full_name(f"{repository}:{tag}"), "changes": changes}
        tar = {"Content-Type": "application/x-tar"}
        ask(self, "POST", "/images/import", params=asked, data=data, headers=tar)


def podman_with_image(url: str) -> Importer:
    """Return a client of the Podman at ``url``, which then has the image of the tests."""
    client = connect(url, 60, 1, Importer)
    if not client.images(IMAGE):
        client.import_image_from_data(root_of_busybox(), IMAGE, "latest", changes=["ENV PATH=/bin"])
    return client
