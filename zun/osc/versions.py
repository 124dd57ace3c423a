# SPDX-License-Identifier: Apache-2.0
"""Requests at a microversion that python-zunclient does not know.

Its own maximum is 1.40: no option of it goes further, it overwrites the version header of each request, and
it refuses members of a container that it has never heard of.
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

AUTO_REMOVE_VERSION = api_versions.APIVersion("1.3")
TTY_VERSION = api_versions.APIVersion("1.36")
PLACEMENT_VERSION = api_versions.APIVersion("1.41")
GROUPS_VERSION = api_versions.APIVersion("1.42")
MOUNTS_VERSION = api_versions.APIVersion("1.42")
NETWORKS_VERSION = api_versions.APIVersion("1.42")
QUESTIONS_VERSION = api_versions.APIVersion("1.42")
PULL_STATUS_VERSION = api_versions.APIVersion("1.42")


def http_at(client: zun_client.Client, feature: str, version: api_versions.APIVersion = PLACEMENT_VERSION) -> Any:
    """The HTTP client of ``client``, made to speak microversion ``version``: a copy, others keep the negotiated one.

    Raises CommandError, with ``feature`` as the user wrote it, where the server's maximum is lower. That is asked
    first, because a server that does not know the version may answer with no more than "internal error".
    """
    current = client.versions.get_current()
    newest = getattr(current, "max_version", None) or "1.1"
    if api_versions.APIVersion(newest) < version:
        raise exceptions.CommandError(
            f"{feature} needs a container service with API microversion "
            f"{version.get_string()} or later, and this one ends at {newest}. "
            "Upgrade the service, or leave the option out."
        )
    http = copy.copy(client.http_client)
    http.api_version = version
    return http


def segment(ident: str) -> str:
    """A name or uuid as one part of a path. Raises CommandError for an empty one: it would be another path without."""
    if not ident:
        raise exceptions.CommandError("An empty text names nothing. Give the name or the uuid.")
    return urllib.parse.quote(ident, safe="")


def containers_at_most(client: zun_client.Client, version: str) -> containers.ContainerManager:
    """The containers of ``client`` at microversion ``version``, or below it where that is what was asked for."""
    http = copy.copy(client.http_client)
    http.api_version = min(http.api_version, api_versions.APIVersion(version))
    return containers.ContainerManager(http)


class ContainerManager(containers.ContainerManager):
    """Containers at the microversion of ``api``; the given fields go with every container it creates."""

    def __init__(self, api: Any, fields: Mapping[str, Any]) -> None:
        super().__init__(api)
        self._fields = dict(fields)

    def _create(self, url: str, body: Mapping[str, Any]) -> Any:
        # The only place after the library's filter on member names and before the request.
        whole = {**body, **self._fields}
        if self.api_version < AUTO_REMOVE_VERSION and whole.get("auto_remove") is False:
            del whole["auto_remove"]  # always sent, and refused there
        return super()._create(url, whole)

    def update(self, id: str, **patch: Any) -> Any:
        return super().update(id, **{**patch, **self._fields})


@contextlib.contextmanager
def managed(client: zun_client.Client, noun: str, manager: Any) -> Iterator[None]:
    """Within the block, ``manager`` is ``client.<noun>``."""
    stock = getattr(client, noun)
    setattr(client, noun, manager)
    try:
        yield
    finally:
        setattr(client, noun, stock)


def creating(client: zun_client.Client, fields: Mapping[str, Any]) -> AbstractContextManager[None]:
    """Within the block, ``client.containers`` creates with ``fields``."""
    return managed(client, "containers", ContainerManager(client.http_client, fields))


def placed(
    client: zun_client.Client,
    fields: Mapping[str, Any],
    feature: str,
    version: api_versions.APIVersion = PLACEMENT_VERSION,
) -> AbstractContextManager[None]:
    """Within the block, ``client.containers`` speaks microversion ``version`` and creates with ``fields``."""
    return managed(client, "containers", ContainerManager(http_at(client, feature, version), fields))
