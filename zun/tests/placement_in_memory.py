# SPDX-License-Identifier: Apache-2.0
"""A Placement in memory, as far as ``PlacementClient`` asks one: for tests that need no server.

``zun/tests/integration/test_placement_client.py`` holds the real one to the same answers.
"""

import json
import threading
import types
import uuid as uuids
from collections.abc import Callable, Iterator
from typing import Any

from zun.placement.client import PlacementClient


class _No(Exception):
    """An answer other than 2xx: its status, and the code of the error."""


class PlacementInMemory:
    """Stands for a keystoneauth adapter. ``requests`` lists the method and path of every request.

    ``before`` is called with both before each request, outside of the lock: a test may wait there, or raise.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[str, str]] = []
        self.before: Callable[[str, str], object] = lambda method, path: None
        self.providers: dict[str, dict[str, Any]] = {}
        self.consumers: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()

    def client(self) -> PlacementClient:
        return PlacementClient(self)  # type: ignore[arg-type]

    def take(self, provider: str, kind: str = "INSTANCE", **amounts: int) -> str:
        """Let a new consumer of another service have ``amounts`` of a provider. Returns its uuid."""
        consumer = str(uuids.uuid4())
        owner = {"project_id": "p", "user_id": "u", "consumer_type": kind, "consumer_generation": None}
        self._allocate({consumer: {"allocations": {provider: {"resources": amounts}}, **owner}})
        return consumer

    def allocated(self, provider: str) -> dict[str, dict[str, int]]:
        """Return what each consumer has of a provider."""
        return {
            uuid: each["allocations"][provider]["resources"]
            for uuid, each in self.consumers.items()
            if provider in each["allocations"]
        }

    def request(self, path: str, method: str, **given: Any) -> Any:
        self.before(method, path)
        with self._lock:
            self.requests.append((method, path))
            try:
                status, body = 200, self._answer(method, path.strip("/").split("/"), given)
            except _No as exc:
                status, code = exc.args
                body = {"errors": [{"code": code, "detail": f"no: {method} {path}"}]}
        text = json.dumps(body)
        return types.SimpleNamespace(
            ok=status < 400, status_code=status, content=text, text=text, json=lambda: json.loads(text)
        )

    def _answer(self, method: str, path: list[str], given: Any) -> Any:
        body, query = given.get("json"), given.get("params") or {}
        match method, path:
            case "GET", ["resource_providers"]:
                return {"resource_providers": list(self._found(query))}
            case "POST", ["resource_providers"]:
                return self._create(body)
            case "DELETE", ["resource_providers", uuid]:
                self._remove(uuid)
                return {}
            case "GET", ["resource_providers", uuid, "allocations"]:
                if uuid not in self.providers:
                    raise _No(404, "")
                return {"allocations": {each: {"resources": had} for each, had in self.allocated(uuid).items()}}
            case "GET", ["resource_providers", uuid, what]:
                return {what: self.providers[uuid][what]}
            case "PUT", ["resource_providers", uuid, what]:
                return self._replace(uuid, what, body)
            case "GET", ["traits"]:
                return {"traits": query["name"].removeprefix("in:").split(",")}
            case "PUT", ["traits" | "resource_classes", _]:
                return {}
            case "GET", ["allocations", uuid]:
                return self._consumer(uuid)
            case "PUT", ["allocations", uuid]:
                self._allocate({uuid: body})
                return {}
            case "POST", ["allocations"]:
                self._allocate(body)
                return {}
        raise AssertionError(f"unknown request {method} {'/'.join(path)}")

    def _found(self, query: dict[str, str]) -> Iterator[dict[str, Any]]:
        tree = self.providers.get(query.get("in_tree", ""), {}).get("root")
        for each in self.providers.values():
            right = query.get("name") in (None, each["name"]) and query.get("required") in (None, *each["traits"])
            if right and ("in_tree" not in query or each["root"] == tree):
                yield {name: each[name] for name in ("uuid", "name", "parent_provider_uuid", "generation")}

    def _create(self, body: Any) -> Any:
        if any(body["name"] == each["name"] or body["uuid"] == each["uuid"] for each in self.providers.values()):
            raise _No(409, "placement.duplicate_name")
        parent = body.get("parent_provider_uuid")
        made = {"uuid": body["uuid"], "name": body["name"], "parent_provider_uuid": parent, "generation": 0}
        made |= {"root": self.providers[parent]["root"] if parent else body["uuid"]}
        made |= {"inventories": {}, "traits": [], "aggregates": []}
        self.providers[body["uuid"]] = made
        return {"generation": 0}

    def _remove(self, uuid: str) -> None:
        if uuid not in self.providers:
            raise _No(404, "")
        if any(each["parent_provider_uuid"] == uuid for each in self.providers.values()):
            raise _No(409, "placement.resource_provider.cannot_delete_parent")
        if self.allocated(uuid):
            raise _No(409, "placement.resource_provider.inuse")
        del self.providers[uuid]

    def _replace(self, uuid: str, what: str, body: Any) -> Any:
        provider = self.providers.get(uuid)
        if provider is None:
            raise _No(404, "")
        if body["resource_provider_generation"] != provider["generation"]:
            raise _No(409, "placement.concurrent_update")
        used = {name for taken in self.allocated(uuid).values() for name in taken}
        if what == "inventories" and not used <= body[what].keys():
            raise _No(409, "placement.inventory.inuse")
        provider[what] = body[what]
        provider["generation"] += 1
        return {"resource_provider_generation": provider["generation"]}

    def _consumer(self, uuid: str) -> Any:
        known = self.consumers.get(uuid)
        if known is None:
            return {"allocations": {}}
        names = ("allocations", "consumer_generation", "consumer_type", "project_id", "user_id")
        return {name: known[name] for name in names}

    def _allocate(self, changes: dict[str, Any]) -> None:
        """Change all consumers, or none."""
        before = dict(self.consumers)
        try:
            for uuid, change in changes.items():
                known = self.consumers.pop(uuid, None)
                if change["consumer_generation"] != (known["consumer_generation"] if known else None):
                    raise _No(409, "placement.concurrent_update")
                if change["allocations"]:
                    generation = (change["consumer_generation"] or 0) + 1
                    self.consumers[uuid] = {**change, "consumer_generation": generation}
            for change in changes.values():
                for provider, wanted in change["allocations"].items():
                    self._check(provider, wanted["resources"])
        except _No:
            self.consumers = before
            raise
        both = [*changes.values(), *(before[uuid] for uuid in changes if uuid in before)]
        for provider in {provider for each in both for provider in each["allocations"]}:
            self.providers[provider]["generation"] += 1

    def _check(self, provider: str, wanted: dict[str, int]) -> None:
        if provider not in self.providers:
            raise _No(400, "placement.undefined_code")
        for name in wanted:
            has = self.providers[provider]["inventories"].get(name)
            used = sum(taken.get(name, 0) for taken in self.allocated(provider).values())
            if has is None or used > int((has["total"] - has["reserved"]) * has["allocation_ratio"]):
                raise _No(409, "placement.undefined_code")
