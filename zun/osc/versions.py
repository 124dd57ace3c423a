# SPDX-License-Identifier: Apache-2.0
"""Requests at a microversion that python-zunclient does not know.

python-zunclient's maximum is 1.40. It overwrites the version header of each request, and refuses members of a
container that it does not know.
"""

import contextlib
import copy
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

from osc_lib import exceptions
from zunclient import api_versions
from zunclient.v1 import client as zun_client
from zunclient.v1 import containers


def of(minor: int) -> api_versions.APIVersion:
    return api_versions.APIVersion(f"1.{minor}")


KNOWN = 40
"""The newest version of python-zunclient."""
AUTO_REMOVE_VERSION, TTY_VERSION = of(3), of(36)
PLACEMENT_VERSION = of(41)
GROUPS_VERSION = MOUNTS_VERSION = NETWORKS_VERSION = QUESTIONS_VERSION = PULL_STATUS_VERSION = CLIENTS_VERSION = of(42)
VOLUMES_VERSION = of(43)
TRAITS_VERSION = DEVICES_VERSION = of(44)
DEVICE_REQUESTS_VERSION = of(45)
DEVICE_QUOTAS_VERSION = CAPSULE_DEVICES_VERSION = CINDER_VERSION = MIXED_VERSION = of(46)
ENGINES_VERSION = LINKS_VERSION = of(47)
MOVES_VERSION = of(49)
SETS_VERSION = of(50)
QUIET_VERSION = POD_MEMBERS_VERSION = MEMBER_PLACEMENT_VERSION = of(51)


def http_at(client: zun_client.Client, feature: str, version: api_versions.APIVersion = PLACEMENT_VERSION) -> Any:
    """Return a copy of the client's HTTP client that speaks microversion ``version``. The original stays unchanged.

    Raises CommandError if the server's maximum is lower. ``feature`` is the option or command for the error. The
    maximum is read first, because a server that does not know the version may just answer "internal error".
    """
    newest = _newest(client)
    if newest < version:
        raise exceptions.CommandError(
            f"{feature} needs a container service with API microversion "
            f"{version.get_string()} or later, and this one ends at {newest.get_string()}. "
            "Upgrade the service, or leave the option out."
        )
    http = copy.copy(client.http_client)
    http.api_version = version
    return http


def newest_offered(client: zun_client.Client, *known: api_versions.APIVersion) -> api_versions.APIVersion:
    """Return the first of the versions ``known``, newest first, that the server speaks, or else PLACEMENT_VERSION."""
    return next((each for each in known if offers(client, each)), PLACEMENT_VERSION)


def offers(client: zun_client.Client, version: api_versions.APIVersion) -> bool:
    """Return whether the server speaks ``version``."""
    return bool(version <= _newest(client))


def _newest(client: zun_client.Client) -> api_versions.APIVersion:
    return api_versions.APIVersion(getattr(client.versions.get_current(), "max_version", None) or "1.1")


def segment(ident: str) -> str:
    """Return a name or uuid as one segment of a path: ``a%2Fb`` for ``a/b``. Raises CommandError for empty text."""
    if not ident:
        raise exceptions.CommandError("An empty text names nothing. Give the name or the uuid.")
    return urllib.parse.quote(ident, safe="")


def containers_at_most(client: zun_client.Client, version: str) -> containers.ContainerManager:
    """Return the containers' manager of ``client`` at microversion ``version``, or at the client's if it is lower."""
    http = copy.copy(client.http_client)
    http.api_version = min(http.api_version, api_versions.APIVersion(version))
    return containers.ContainerManager(http)


class ContainerManager(containers.ContainerManager):
    """A containers' manager at the microversion of ``api`` that adds ``fields`` to every container that it creates."""

    def __init__(self, api: Any, fields: Mapping[str, Any]) -> None:
        super().__init__(api)
        self._fields = dict(fields)

    def _create(self, url: str, body: Mapping[str, Any]) -> Any:
        # python-zunclient calls _create after its filter on member names and before the request.
        whole = {**body, **self._fields}
        if self.api_version < AUTO_REMOVE_VERSION and whole.get("auto_remove") is False:
            del whole["auto_remove"]  # python-zunclient always sends it; older versions refuse it
        return super()._create(url, whole)

    def update(self, id: str, **patch: Any) -> Any:
        return super().update(id, **{**patch, **self._fields})


@contextlib.contextmanager
def managed(client: zun_client.Client, noun: str, manager: Any) -> Iterator[None]:
    """Replace ``client.<noun>`` by ``manager`` within the block."""
    stock = getattr(client, noun)
    setattr(client, noun, manager)
    try:
        yield
    finally:
        setattr(client, noun, stock)


def creating(client: zun_client.Client, fields: Mapping[str, Any]) -> AbstractContextManager[None]:
    """Return a context in which ``client.containers`` creates containers with ``fields``."""
    return managed(client, "containers", ContainerManager(client.http_client, fields))


def placed(
    client: zun_client.Client,
    fields: Mapping[str, Any],
    feature: str,
    version: api_versions.APIVersion = PLACEMENT_VERSION,
) -> AbstractContextManager[None]:
    """Return a context in which ``client.containers`` speaks ``version`` and creates containers with ``fields``."""
    return managed(client, "containers", ContainerManager(http_at(client, feature, version), fields))
