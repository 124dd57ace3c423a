# SPDX-License-Identifier: Apache-2.0
"""The HTTP API of Cinder, as far as this service uses it. Records are Cinder's own JSON."""

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from keystoneauth1 import adapter as ks_adapter
from keystoneauth1 import exceptions as ks_exc
from oslo_config import cfg

from zun.common import exceptions, keystoneauth
from zun.common.context import RequestContext

GROUP = "cinder"

#: Microversion of every request: the first in which an attachment is made with a mode.
VERSION = {"OpenStack-API-Version": "volume 3.54"}
#: Metadata of volumes that are deleted with their container, which ``zun_container`` names.
OWNED = {"zun": "container"}
OWNER = "zun_container"
#: Metadata with the volume's own id, NEW until the id is known. Cinder gives a volume that is restored from a backup
#: the metadata of the first one, so the container's uuid alone does not tell the two apart.
ITSELF = "zun_volume"
NEW = "new"
#: States of a volume while somebody attaches it.
ATTACHING = ("reserved", "attaching")

Record = Mapping[str, Any]

_MOST_PAGES = 100  # of a list


class CinderClient:
    """Raises CinderUnavailable when no usable answer comes, and for a refusal the exception of ``refusal``."""

    def __init__(self, adapter: ks_adapter.Adapter, context: RequestContext | None = None) -> None:
        """Cinder sees the user of ``context``, and without one, or without its token, the adapter's service user."""
        self._adapter = adapter
        self._user = context if context is not None and context.auth_token else None

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> "CinderClient":
        """Return the client of group ``[cinder]``. Raises Misconfigured."""
        return cls(keystoneauth.adapter(conf, GROUP, "[cinder] enabled"))

    def of_user(self, context: RequestContext) -> "CinderClient":
        """Return a client with the rights of the context's user. Without a token, of the service user."""
        return CinderClient(self._adapter, context)

    # Volumes.

    def volume(self, uuid: str) -> Record:
        """Return a volume. Raises VolumeNotFound."""
        return self._one("GET", f"volumes/{uuid}", "volume")

    def volumes(self, **query: str) -> Sequence[Record]:
        return self._list("volumes/detail", "volumes", query)

    def owned_volumes(self) -> Sequence[Record]:
        """Return the volumes of all projects that are deleted with their containers."""
        return self.volumes(all_tenants="1", metadata=json.dumps(OWNED).replace('"', "'"))

    def create_volume(self, **fields: Any) -> Record:
        return self._one("POST", "volumes", "volume", {"volume": fields})

    def mark_volume(self, uuid: str, marks: Mapping[str, str]) -> None:
        """Add metadata to a volume."""
        self._send("POST", f"volumes/{uuid}/metadata", {"metadata": dict(marks)})

    def delete_volume(self, uuid: str) -> None:
        """Delete a volume. A volume that does not exist is no error."""
        with contextlib.suppress(exceptions.NotFound):
            self._send("DELETE", f"volumes/{uuid}")

    # Attachments: reserve, connect, complete, delete.

    def attachments(self, volume: str, instance: str) -> Sequence[str]:
        """Return the ids of the attachments of a volume to a container."""
        query = {"all_tenants": "1", "volume_id": volume, "instance_id": instance}
        found = self._list("attachments", "attachments", query)
        return [each["id"] for each in found if (each.get("volume_id"), each.get("instance")) == (volume, instance)]

    def attachment(self, uuid: str) -> Record:
        return self._one("GET", f"attachments/{uuid}", "attachment")

    def reserve(self, volume: str, instance: str, mode: str) -> str:
        """Reserve a volume for a container and return the attachment's id. ``mode`` is rw or ro."""
        fields = {"volume_uuid": volume, "instance_uuid": instance, "connector": None, "mode": mode}
        return str(self._one("POST", "attachments", "attachment", {"attachment": fields})["id"])

    def connect(self, attachment: str, connector: Record) -> Record:
        """Let the host of the connector reach the volume, and return how. The answer holds secrets."""
        body = {"attachment": {"connector": dict(connector)}}
        found = self._one("PUT", f"attachments/{attachment}", "attachment", body).get("connection_info")
        if not isinstance(found, dict) or not found.get("driver_volume_type"):
            raise exceptions.CinderUnavailable(reason="its answer does not say how to connect the volume")
        return found

    def complete(self, attachment: str) -> None:
        self._send("POST", f"attachments/{attachment}/action", {"os-complete": None})

    def delete_attachment(self, uuid: str) -> None:
        """Give a volume back. An attachment that does not exist is no error."""
        with contextlib.suppress(exceptions.NotFound):
            self._send("DELETE", f"attachments/{uuid}")

    # The wire.

    def _list(self, path: str, member: str, query: Mapping[str, str]) -> Sequence[Record]:
        found: list[Record] = []
        for _ in range(_MOST_PAGES):
            marker = {"marker": found[-1]["id"]} if found else {}
            answer = self._send("GET", path, params={**query, **marker})
            page = answer.get(member)
            if not isinstance(page, list) or not all(isinstance(each, dict) and each.get("id") for each in page):
                raise exceptions.CinderUnavailable(reason=f"its answer to GET {path} has no {member}")
            found += page
            if not (page and answer.get(f"{member}_links")):  # Cinder links the next page, at an address of its own
                break
        return found

    def _one(self, method: str, path: str, member: str, body: Any = None) -> Record:
        found = self._send(method, path, body).get(member)
        if not isinstance(found, dict) or not found.get("id"):
            raise exceptions.CinderUnavailable(reason=f"its answer to {method} {path} has no {member}")
        return found

    def _send(self, method: str, path: str, body: Any = None, **more: Any) -> dict[str, Any]:
        """Return the body of the answer, empty if it has none. keystoneauth logs none of it, for the secrets in it."""
        try:
            base, project, service = self._place()
        except ks_exc.ClientException as exc:
            raise exceptions.CinderUnavailable(reason=exceptions.first_line(exc)) from exc
        token = None if self._user is None else self._user.auth_token
        url = f"{base}/v3/{project}/{path}"
        headers = {**VERSION, **service, "Accept": "application/json"}
        return keystoneauth.answer(
            self._adapter,
            method,
            url,
            body,
            group=GROUP,
            request=f"{method} {path}",
            unavailable=exceptions.CinderUnavailable,
            refusal=refusal,
            token=token,
            headers=headers,
            log=False,
            **more,
        )

    def _place(self) -> tuple[str, str, dict[str, str]]:
        """Return Cinder's address, the project of the requests, and the header that says that a service asks.

        Cinder lets only a service delete the attachment of a server or container.
        """
        endpoint = self._adapter.get_endpoint()
        if not endpoint:
            raise exceptions.CinderUnavailable(
                reason="keystone's catalogue has no endpoint of it; see [cinder] service_type, valid_interfaces and "
                "region_name"
            )
        base = re.sub(r"/v3(/[^/]*)?$", "", str(endpoint).rstrip("/"))
        if self._user is not None:
            return base, str(self._user.project_id), {}
        token = (self._adapter.session.get_auth_headers(self._adapter.auth) or {}).get("X-Auth-Token")
        return base, str(self._adapter.get_project_id() or "-"), {"X-Service-Token": token} if token else {}


def refusal(status: int, body: Any, request: str) -> exceptions.ZunError:
    """Return the exception for an answer of Cinder that is no success. ``body`` is its JSON, or None."""
    faults = [each for each in body.values() if isinstance(each, dict)] if isinstance(body, dict) else []
    told = " ".join(str(faults[0].get("message") or "").split())[:400] if faults else ""
    text = f"Cinder refuses the request: {told or f'{request} is answered with {status}'}"
    path = request.partition(" ")[2]
    match status:
        case 400:
            return exceptions.InvalidValue(text)
        case 403:
            return exceptions.Forbidden(text)
        case 404 if path.startswith("volumes/"):
            return exceptions.VolumeNotFound(text)
        case 404:
            return exceptions.ResourceNotFound(text)
        case 409:
            return exceptions.Conflict(text)
        case 413:
            return exceptions.OverQuota(text)
    return exceptions.CinderUnavailable(reason=f"{request} is answered with {status}{': ' * bool(told)}{told}")
