# SPDX-License-Identifier: Apache-2.0
"""The requests of this service to the HTTP API of Placement."""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from keystoneauth1 import adapter as ks_adapter
from keystoneauth1 import exceptions as ks_exc
from oslo_config import cfg

from zun.common import exceptions, keystoneauth
from zun.placement.allocations import CONSUMER_TYPE, Allocations, Holding
from zun.placement.tree import SHARING, Inventory, Provider

GROUP = "placement"
MICROVERSION = "1.39"
ATTEMPTS = 10  # to write beside others who write to the same provider or consumer


class GenerationConflict(exceptions.Conflict):
    """The object was written since the last reading: read again."""


class CapacityExceeded(exceptions.Conflict):
    """Placement lacks resources that an allocation asks for."""


class InUse(exceptions.Conflict):
    """An inventory or a provider with allocations cannot be removed."""


class Refused(exceptions.ZunError):
    """Placement does not take the request, and would not the next time either."""


REFUSALS = (CapacityExceeded, GenerationConflict, Refused)

_CONFLICTS = {
    "placement.concurrent_update": GenerationConflict,
    "placement.inventory.inuse": InUse,
    "placement.resource_provider.inuse": InUse,
    "placement.resource_provider.cannot_delete_parent": InUse,
    "placement.duplicate_name": GenerationConflict,
    "placement.undefined_code": CapacityExceeded,
}


@dataclass(frozen=True, slots=True)
class Node:
    """A provider in a list of them: enough to see whether it must be read again."""

    uuid: str
    name: str
    parent: str | None
    generation: int


@dataclass(frozen=True, slots=True)
class Consumer:
    """Allocations of one consumer. ``generation`` is None if Placement does not know the consumer."""

    allocations: Allocations
    generation: int | None = None
    kind: str | None = None
    project_id: str = ""
    user_id: str = ""


class PlacementClient:
    """Raises PlacementUnavailable when no answer comes, and the classes above for answers."""

    def __init__(self, adapter: ks_adapter.Adapter) -> None:
        self._adapter = adapter
        self._known: set[str] = set()
        """Traits and classes of our own making, by path, that the server has."""

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> "PlacementClient":
        """Return the client of group ``[placement]``. Raises Misconfigured."""
        return cls(keystoneauth.adapter(conf, GROUP, f"[placement] mode = {conf.placement.mode}"))

    def named(self, name: str) -> Node | None:
        """Return the provider of this name; a name is unique in the whole cloud."""
        found = self._get("/resource_providers", name=name)["resource_providers"]
        return _node(found[0]) if found else None

    def nodes(self, uuid: str) -> list[Node]:
        """Return the tree that the provider belongs to, empty if there is no such provider."""
        found = self._get("/resource_providers", in_tree=uuid)["resource_providers"]
        return [_node(each) for each in found]

    def sharing(self) -> list[Node]:
        """Return the providers that share their inventory with the providers in their aggregates."""
        found = self._get("/resource_providers", required=SHARING)["resource_providers"]
        return [_node(each) for each in found]

    def provider(self, node: Node) -> Provider:
        """Return the inventories, traits and aggregates of a provider."""
        path = f"/resource_providers/{node.uuid}"
        inventories = {
            name: Inventory(each["total"], each["reserved"], each["allocation_ratio"])
            for name, each in self._get(f"{path}/inventories")["inventories"].items()
        }
        traits = frozenset(self._get(f"{path}/traits")["traits"])
        aggregates = frozenset(self._get(f"{path}/aggregates")["aggregates"])
        return Provider(node.uuid, node.name, node.parent, inventories, traits, aggregates)

    def create(self, provider: Provider) -> int:
        """Add a provider without anything and return its generation."""
        body = {"uuid": provider.uuid, "name": provider.name}
        if provider.parent is not None:
            body["parent_provider_uuid"] = provider.parent
        return int(self._send("POST", "/resource_providers", body)["generation"])

    def set_inventories(self, uuid: str, generation: int, inventories: Mapping[str, Inventory]) -> int:
        """Replace every inventory of a provider and return its new generation."""
        self._make("/resource_classes", inventories)
        records = {name: asdict(each) for name, each in inventories.items()}
        return self._replace(uuid, "inventories", generation, records)

    def set_traits(self, uuid: str, generation: int, traits: Collection[str]) -> int:
        """Replace the traits of a provider and return its new generation. Traits the server knows not are left out."""
        self._make("/traits", traits)
        standard = [name for name in traits if not name.startswith("CUSTOM_")]
        known = self._get("/traits", name="in:" + ",".join(sorted(standard)))["traits"] if standard else []
        return self._replace(uuid, "traits", generation, sorted({*traits} - {*standard} | {*known}))

    def set_aggregates(self, uuid: str, generation: int, aggregates: Collection[str]) -> int:
        """Replace the aggregates of a provider and return its new generation."""
        return self._replace(uuid, "aggregates", generation, sorted(aggregates))

    def remove(self, uuid: str) -> None:
        """Remove a provider; one that is not there is no error. Raises InUse."""
        self._send("DELETE", f"/resource_providers/{uuid}", missing=True)

    def allocated(self, uuid: str) -> dict[str, dict[str, int]]:
        """Return the allocations at a provider by consumer, empty for an unknown provider."""
        answer = self._get(f"/resource_providers/{uuid}/allocations", missing=True)
        return {consumer: each["resources"] for consumer, each in answer.get("allocations", {}).items()}

    def consumer(self, uuid: str) -> Consumer:
        """Return the allocations of a consumer at all providers."""
        answer = self._get(f"/allocations/{uuid}")
        allocations = {provider: each["resources"] for provider, each in answer["allocations"].items()}
        owner = {name: answer[name] for name in ("project_id", "user_id") if name in answer}
        return Consumer(allocations, answer.get("consumer_generation"), answer.get("consumer_type"), **owner)

    def allocate(self, uuid: str, holding: Holding, generation: int | None) -> int | None:
        """Replace all that a consumer has; ``generation`` is None for a new one. Returns the next generation.

        Without allocations the consumer is removed. Raises GenerationConflict, CapacityExceeded.
        """
        self._send("PUT", f"/allocations/{uuid}", _allocation(holding, generation))
        return _next(holding, generation)

    def allocate_together(self, changes: Mapping[str, tuple[Holding, int | None]]) -> dict[str, int | None]:
        """Do as ``allocate`` for several consumers in one request, and return their next generations.

        All of them change, or none if this raises.
        """
        self._send("POST", "/allocations", {uuid: _allocation(*change) for uuid, change in changes.items()})
        return {uuid: _next(*change) for uuid, change in changes.items()}

    def _make(self, path: str, names: Collection[str]) -> None:
        """Make classes or traits of our own, which the server has to know before they are used."""
        for name in names:
            if name.startswith("CUSTOM_") and (place := f"{path}/{name}") not in self._known:
                self._send("PUT", place)
                self._known.add(place)

    def _replace(self, uuid: str, what: str, generation: int, value: Any) -> int:
        body = {"resource_provider_generation": generation, what: value}
        answer = self._send("PUT", f"/resource_providers/{uuid}/{what}", body)
        return int(answer["resource_provider_generation"])

    def _get(self, path: str, *, missing: bool = False, **query: str) -> dict[str, Any]:
        return self._send("GET", path, missing=missing, params=query)

    def _send(self, method: str, path: str, body: Any = None, *, missing: bool = False, **more: Any) -> dict[str, Any]:
        """Return the body of the answer. An answer without a body, or with ``missing`` a 404, gives an empty one."""
        if body is not None:
            more["json"] = body
        try:
            answer = self._adapter.request(path, method, raise_exc=False, microversion=MICROVERSION, **more)
        except ks_exc.ClientException as exc:
            raise exceptions.PlacementUnavailable(reason=exceptions.first_line(exc)) from exc
        if answer.ok or (missing and answer.status_code == 404):
            return answer.json() if answer.ok and answer.content else {}
        raise _error(answer.status_code, _failure(answer), f"{method} {path}")


def _allocation(holding: Holding, generation: int | None) -> dict[str, Any]:
    return {
        "allocations": {provider: {"resources": taken} for provider, taken in holding.allocations.items()},
        "consumer_generation": generation,
        "project_id": holding.project_id,
        "user_id": holding.user_id,
        "consumer_type": CONSUMER_TYPE,
    }


def _next(holding: Holding, generation: int | None) -> int | None:
    """Return the generation of a consumer after ``holding`` was written. One without allocations is removed."""
    return (generation or 0) + 1 if holding.allocations else None


def _node(record: Mapping[str, Any]) -> Node:
    return Node(record["uuid"], record["name"], record["parent_provider_uuid"], record["generation"])


def _failure(answer: Any) -> dict[str, Any]:
    """The first error of an answer of Placement, or of a proxy before Placement."""
    try:
        first: dict[str, Any] = answer.json()["errors"][0]
    except (ValueError, LookupError, TypeError):
        return {"detail": answer.text[:200]}
    return first


def _error(status: int, failure: Mapping[str, Any], request: str) -> exceptions.ZunError:
    detail = " ".join(str(failure.get("detail", "")).split())
    if status >= 500 or status in (401, 403, 406):
        return exceptions.PlacementUnavailable(reason=f"{request} is answered with {status}: {detail}")
    conflict = _CONFLICTS.get(str(failure.get("code"))) if status == 409 else None
    return (conflict or Refused)(f"Placement refuses {request} with {status}: {detail}")
