# SPDX-License-Identifier: Apache-2.0
"""The HTTP API of Neutron, as far as this service uses it. Records are Neutron's own JSON."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from keystoneauth1 import adapter as ks_adapter
from oslo_config import cfg

from zun.common import exceptions, keystoneauth
from zun.neutron.ports import GROUP_DESCRIPTION, own_name

GROUP = "neutron"

Record = Mapping[str, Any]


class StaleRevision(exceptions.Conflict):
    """Another request changed the record since it was read."""


class NeutronClient:
    """Raises NeutronUnavailable when no usable answer comes, and for a refusal the exception of ``refusal``."""

    def __init__(self, adapter: ks_adapter.Adapter, token: str | None = None) -> None:
        """With ``token``, Neutron sees the user of this token, and otherwise the adapter's service user."""
        self._adapter = adapter
        self._token = token

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> "NeutronClient":
        """Return the client of group ``[neutron]``. Raises Misconfigured."""
        return cls(keystoneauth.adapter(conf, GROUP, "[network] driver = neutron"))

    def of_user(self, token: str | None) -> "NeutronClient":
        """Return a client with the rights of the token's user. Without a token, of the service user."""
        return NeutronClient(self._adapter, token)

    def networks(self, **query: str) -> Sequence[Record]:
        return self._list("networks", query)

    def subnets(self, network_id: str) -> Sequence[Record]:
        return self._list("subnets", {"network_id": network_id})

    def ports(self, **query: Any) -> Sequence[Record]:
        return self._list("ports", query)

    def security_groups(self, **query: Any) -> Sequence[Record]:
        return self._list("security-groups", query)

    def network(self, uuid: str) -> Record:
        """Return a network. Raises NetworkNotFound."""
        return self._one(f"networks/{uuid}", "network")

    def port(self, uuid: str) -> Record:
        """Return a port. Raises PortNotFound."""
        return self._one(f"ports/{uuid}", "port")

    def create_port(self, **fields: Any) -> Record:
        return self._one("ports", "port", "POST", {"port": fields})

    def update_port(self, uuid: str, fields: Record, *, revision: int | None = None) -> Record:
        """Change a port. With ``revision``, raises StaleRevision if somebody changed the port since."""
        match = {} if revision is None else {"If-Match": f"revision_number={revision}"}
        return self._one(f"ports/{uuid}", "port", "PUT", {"port": dict(fields)}, match)

    def delete_port(self, uuid: str) -> None:
        """Delete a port. A port that does not exist is no error."""
        with contextlib.suppress(exceptions.NotFound):
            self._send("DELETE", f"ports/{uuid}")

    def create_security_group(self, **fields: Any) -> Record:
        return self._one("security-groups", "security_group", "POST", {"security_group": fields})

    def create_rules(self, rules: Sequence[Record]) -> None:
        """Add rules to security groups, all of them or none."""
        self._send("POST", "security-group-rules", {"security_group_rules": [dict(rule) for rule in rules]})

    def delete_security_group(self, uuid: str) -> None:
        """Delete a security group. One that does not exist is no error. Raises Conflict while a port has it."""
        with contextlib.suppress(exceptions.NotFound):
            self._send("DELETE", f"security-groups/{uuid}")

    def remove_group_of(self, container_uuid: str) -> None:
        """Delete the security group of the container's exposed ports, if there is one and no port has it any more."""
        # Users may give a group of theirs any name.
        for group in self.security_groups(name=own_name(container_uuid), description=GROUP_DESCRIPTION, fields="id"):
            with contextlib.suppress(exceptions.Conflict):
                self.delete_security_group(group["id"])

    def _list(self, collection: str, query: Mapping[str, Any]) -> Sequence[Record]:
        name = collection.replace("-", "_")
        found = self._send("GET", collection, params=query).get(name)
        if not isinstance(found, list):
            raise exceptions.NeutronUnavailable(reason=f"its answer to GET {collection} has no {name}")
        return found

    def _one(
        self, path: str, member: str, method: str = "GET", body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Record:
        found = self._send(method, path, body, headers=headers).get(member)
        if not isinstance(found, dict):
            raise exceptions.NeutronUnavailable(reason=f"its answer to {method} {path} has no {member}")
        return found

    def _send(
        self, method: str, path: str, body: Any = None, *, headers: Mapping[str, str] | None = None, **more: Any
    ) -> dict[str, Any]:
        """Return the body of the answer, empty if it has none."""
        return keystoneauth.answer(
            self._adapter,
            method,
            f"/v2.0/{path}",
            body,
            group=GROUP,
            request=f"{method} {path}",
            unavailable=exceptions.NeutronUnavailable,
            refusal=refusal,
            token=self._token,
            headers=headers,
            **more,
        )


def refusal(status: int, body: Any, request: str) -> exceptions.ZunError:
    """Return the exception for an answer of Neutron that is no success. ``body`` is its JSON, or None.

    OverQuota stays a 403 as everywhere in this service, although Neutron answers 409.
    """
    error = body.get("NeutronError") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        error = {"message": error if isinstance(error, str) else ""}
    kind, told = str(error.get("type") or ""), " ".join(str(error.get("message") or "").split())[:400]
    text = f"Neutron refuses the request: {told or f'{request} is answered with {status}'}"
    missing = path.removeprefix("ports/") if (path := request.partition(" ")[2]).startswith("ports/") else None
    match status:
        case _ if kind == "OverQuota":
            return exceptions.OverQuota(text)
        case 403:
            return exceptions.Forbidden(text)
        case 404 if missing and kind in ("PortNotFound", ""):
            return exceptions.PortNotFound(port=missing)
        case 404 if kind == "NetworkNotFound" or path.startswith("networks/"):
            return exceptions.NetworkNotFound(text)
        case 404:
            return exceptions.ResourceNotFound(text)
        case 409:
            return exceptions.Conflict(text)
        case 412:
            return StaleRevision(text)
        case 400:
            return exceptions.InvalidValue(text)
    return exceptions.NeutronUnavailable(reason=f"{request} is answered with {status}{': ' * bool(told)}{told}")
