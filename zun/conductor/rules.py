# SPDX-License-Identifier: Apache-2.0
"""The rules of what a host may ask of the database. A call without a rule is refused.

A rule is a pure function of the calling host, the call, and facts about rows. It returns the reason of a refusal, or
None.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from zun import nouns
from zun.common.departures import uuid_of_left
from zun.common.states import ImageStatus, Status
from zun.conductor.facts import Facts
from zun.db import bounds, models
from zun.db.conductor import Owner
from zun.nouns.cloud import Host
from zun.objects.image import COMMITTED, OF_GLANCE, REBUILD
from zun.objects.service import COMPUTE_BINARY, PROXY_BINARY


@dataclass(frozen=True, slots=True)
class Call:
    """One call: object's class and method, arguments by name, key of the object, its new values, id of the request.

    ``row`` is the object's row as it is, if one was read.
    """

    name: str
    method: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    key: Any = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    row: Mapping[str, Any] | None = None
    request_id: str = ""


Rule = Callable[[str, Call, Facts], str | None]

WRITABLE: Mapping[str, frozenset[str]] = {
    "Container": frozenset(
        [
            "task_state",
            "status",
            "status_reason",
            "status_detail",
            "container_id",
            "started_at",
            "finished_at",
            "exit_code",
            "addresses",
            "ports",
            "exposed_ports",
            "cpuset",
            "cpu",
            "cpu_policy",
            "memory",
            "disk",
            "host",
            "hostname",
            "image",
            "image_driver",
            "request",
            "entrypoint",
            "command",
            "placement",
            "updated_at",
        ]
    ),
    "Image": frozenset(["image_id", "size", "status", "status_detail", "updated_at"]),
    "NetworkPort": frozenset({"leaving"}),
}
"""The fields that a host writes. Project, user, privileges, mounts and whatever else was asked for are the API's."""

STATUSES: Mapping[str, Collection[str]] = {"Container": frozenset(Status), "Image": frozenset(ImageStatus)}
"""MariaDB takes "Rebuilding " for Rebuilding."""


def _foreign(owner: Owner | None, host: str, what: str) -> str | None:
    if owner is None or owner.host == host:
        return None
    return f"{what} is on no host" if owner.host is None else f"{what} is on host {owner.host}"


def own_name(argument: str) -> Rule:
    """Return the rule that ``argument`` is the calling host's name."""

    def rule(host: str, call: Call, facts: Facts) -> str | None:
        named = call.arguments.get(argument)
        return None if named == host else f"{argument} is {named}"

    return rule


INVENTORY = frozenset(each.name for each in nouns.members(Host) if nouns.INVENTORY in each.marks)
"""The columns of a compute node that its host writes. Its name, ids and added traits are not."""


def inventory(host: str, call: Call, facts: Facts) -> str | None:
    values = call.arguments["values"]
    strange = sorted(values.keys() - INVENTORY)
    if strange:
        return f"it wrote {', '.join(strange)}"
    return _beyond(models.compute_nodes, values)


def _beyond(table: sa.Table, values: Mapping[str, Any]) -> str | None:
    """Return which of ``values``, by column, is of another type than its column, or beyond the column's range."""
    for name in sorted(values.keys() & table.c.keys()):
        wrong = bounds.problem(table.c[name], values[name])
        if wrong is not None:
            return f"it wrote {name}: {wrong}"
    return None


TABLES: Mapping[str, sa.Table] = {
    "Container": models.containers,
    "Image": models.images,
    "NetworkPort": models.network_ports,
}
"""The tables of the objects whose fields a host writes."""


def in_range(host: str, call: Call, facts: Facts) -> str | None:
    """Refuse values beyond the ranges of their columns."""
    ports = call.arguments.get("ports", ()) if call.method == "restore" else ()
    networks = call.arguments.get("networks", ()) if call.method == "restore" else ()
    rows = [(TABLES[call.name], call.changes)]
    rows += [(models.network_ports, row) for row in ports]
    rows += [(models.networks, row) for row in networks]
    return next(filter(None, (_beyond(table, row) for table, row in rows)), None)


def own_container(argument: str | None = None) -> Rule:
    """Return the rule that a container, the object itself or ``argument``, is on the host."""

    def rule(host: str, call: Call, facts: Facts) -> str | None:
        uuid = call.key if argument is None else call.arguments[argument]
        return _foreign(facts.container(uuid), host, f"container {uuid}")

    return rule


def claimable(host: str, call: Call, facts: Facts) -> str | None:
    """Refuse unless the container is on the host already, or waits for one and a scheduler sent it to this host."""
    owner = facts.container(call.key)
    if owner is None or owner.host is not None:
        return _foreign(owner, host, f"container {call.key}")
    if not owner.waiting:
        return f"container {call.key} does not wait for a host"
    sent = facts.permitted(call.arguments.get("permit"), host, call.key)
    return None if sent else f"no scheduler sent container {call.key} there"


def own_values(host: str, call: Call, facts: Facts) -> str | None:
    """Refuse values of fields that hosts do not write, another host's name, and an unknown status.

    A host gives a container up in Error only: in Creating, schedulers would send it to another host as it is then.
    A host begins a rebuild, and with it a pull, only of what its user lets heal by itself (``auto_heal``).
    """
    strange = sorted(call.changes.keys() - WRITABLE[call.name])
    if strange:
        return f"it wrote {', '.join(strange)}"
    named = call.changes.get("host")
    if named not in (None, host):
        return f"it wrote host {named}"
    if "host" in call.changes and named is None and call.changes.get("status") != Status.ERROR:
        return "it gave the container up without an error"
    if "status" not in call.changes:
        return None
    status, row = call.changes["status"], call.row or {}
    if status not in STATUSES[call.name]:
        return f"it wrote status {status!r:.80}"
    asked = status != Status.REBUILDING or row.get("status") == Status.REBUILDING or row.get("auto_heal")
    return None if asked else "nobody asked for the rebuild"


def as_asked(host: str, call: Call, facts: Facts) -> str | None:
    """Refuse values that differ from what was asked for, as far as agents do not change them for a user."""
    if call.row is None:
        return None
    rebuild = (call.row["request"] or {}).get(REBUILD) or {}
    for name, new in call.changes.items():
        old = call.row[name]
        if new != old and not _is_asked(call.method, name, old, new, rebuild):
            return f"it wrote {name} {new!r:.80}, where {old!r:.80} was asked for"
    return None


def _is_asked(method: str, name: str, old: Any, new: Any, rebuild: Mapping[str, Any]) -> bool:
    """Return whether a host may change a field to ``new``. ``rebuild`` is what was asked for with the rebuild."""
    match name:
        case "command" | "entrypoint" | "hostname":  # the image's or the runtime's, if the user left them open
            return not old
        case "disk":  # the host's default
            return not old and method == "save_claim"
        case "cpu" | "cpu_policy" | "memory":  # a resize
            return method == "save_changed_claim"
        case "placement":  # virtual functions of former ports
            left = new.get("devices")
            kept = [each for each in old.get("devices") or () if isinstance(left, list) and each in left]
            return method == "save_changed_claim" and new == {**old, "devices": kept}
        case "image" | "image_driver":
            return name in rebuild and new == rebuild[name]
        case "request":
            return all(_follows(each, old or {}, new or {}, rebuild) for each in {*(old or ()), *(new or ())})
    return True


def _follows(name: str, old: Mapping[str, Any], new: Mapping[str, Any], rebuild: Mapping[str, Any]) -> bool:
    """Return whether a host may change the member ``name`` of ``request``: at the begin and end of a rebuild."""
    if old.get(name) == new.get(name) or name == "run":
        return True
    return name not in new if name == REBUILD else name in (COMMITTED, OF_GLANCE) and new.get(name) == rebuild.get(name)


def own_service(host: str, call: Call, facts: Facts) -> str | None:
    binary = call.arguments["binary"]
    return None if binary in (COMPUTE_BINARY, PROXY_BINARY) else f"binary is {binary}"


def own_image(host: str, call: Call, facts: Facts) -> str | None:
    uuid = call.key or call.arguments["uuid"]
    found = facts.image_host(uuid)
    return None if found in (None, host) else f"image {uuid} is on host {found}"


def own_port(host: str, call: Call, facts: Facts) -> str | None:
    return _foreign(facts.port(call.key), host, f"the container of port {call.key}")


def _given_up(owner: Owner) -> bool:
    return owner.host is None and not owner.waiting


def asked_step(host: str, call: Call, facts: Facts) -> str | None:
    """Refuse steps of containers of other hosts. Of a container that was given up, a host begins what it was asked.

    Nobody else knows the id of the request.
    """
    uuid = call.arguments["container_uuid"]
    owner = facts.container(uuid)
    if owner is not None and _given_up(owner) and facts.asked(uuid, call.request_id, call.arguments["action"]):
        return None
    return _foreign(owner, host, f"container {uuid}")


def own_event(host: str, call: Call, facts: Facts) -> str | None:
    ident = call.arguments["event_id"]
    return _foreign(facts.event(ident), host, f"the container of event {ident}")


def asked_event(host: str, call: Call, facts: Facts) -> str | None:
    """Refuse events of other hosts. Of a container that was given up, a host ends what it was asked."""
    ident = call.arguments["event_id"]
    owner = facts.event(ident)
    if owner is not None and _given_up(owner) and owner.request_id == call.request_id:
        return None
    return _foreign(owner, host, f"the container of event {ident}")


def asked_to_leave(host: str, call: Call, facts: Facts) -> str | None:
    """Refuse that a container leaves its host unless the step is of an open action that wants this.

    A call that is sent again finds what the container left there.
    """
    left = facts.container(uuid_of_left(call.key, host))
    if left is not None and left.host == host:
        return None
    if facts.leaving(call.arguments["step"]) != call.key:
        return "nobody asked that it leaves"
    return _foreign(facts.container(call.key), host, f"container {call.key}")


def own_token(host: str, call: Call, facts: Facts) -> str | None:
    return _foreign(facts.token(call.key), host, "the container of the token")


def own_tokens(host: str, call: Call, facts: Facts) -> str | None:
    owners = (facts.token(each) for each in call.arguments["token_hashes"])
    return next(filter(None, (_foreign(each, host, "the container of a token") for each in owners)), None)


def own_project(host: str, call: Call, facts: Facts) -> str | None:
    project = call.arguments["project_id"]
    return None if facts.has_project(host, project) else f"project {project} has no container there"


def own_charge(host: str, call: Call, facts: Facts) -> str | None:
    charged = call.arguments.get("charged")
    if charged is None or facts.has_project(host, charged[0]):
        return None
    return f"project {charged[0]} has no container there"


def own_volume(host: str, call: Call, facts: Facts) -> str | None:
    found = facts.volume_host(call.key)
    return None if found in (None, host) else f"volume {call.key} is on host {found}"


def pull_under_way(host: str, call: Call, facts: Facts) -> str | None:
    uuid = call.arguments["uuid"]
    return None if facts.pulls_with(host, uuid) else f"no pull with registry {uuid} is under way there"


def restored(host: str, call: Call, facts: Facts) -> str | None:
    """Refuse unless the operator restores rows now, and the row with its ports is the host's."""
    if not facts.restoring:
        return "[conductor] accept_restored is off"
    if call.changes.get("uuid") != call.key:
        return "the row has another uuid"
    if call.changes.get("host") != host:
        return f"the row names host {call.changes.get('host')}"
    others = [port for port in call.arguments.get("ports", ()) if port.get("container_uuid") != call.key]
    return "a port is of another container" if others else None


def anybody(host: str, call: Call, facts: Facts) -> str | None:
    return None


#: (object, method) -> the rules that all must allow a call.
RULES: Mapping[tuple[str, str], tuple[Rule, ...]] = {
    ("ZunService", "heartbeat"): (own_name("host"), own_service),
    ("ComputeNode", "put"): (own_name("hostname"), inventory),
    ("ComputeNode", "topology"): (own_name("hostname"),),
    ("ComputeNode", "aggregates"): (own_name("hostname"),),
    ("ComputeNode", "allocation_ratios"): (own_name("hostname"),),
    ("ComputeNode", "disk_pool"): (own_name("hostname"),),
    ("ComputeNode", "pool_use"): (own_name("hostname"),),
    ("Container", "get_by_uuid"): (own_container("uuid"),),
    ("Container", "list_by_host"): (own_name("hostname"),),
    ("Container", "list_by_uuids"): (anybody,),  # see OWN_ONLY
    ("Container", "evacuated"): (own_name("hostname"),),
    ("Container", "list_by_capsule"): (own_container("uuid"),),
    ("Container", "save_claim"): (own_name("hostname"), own_values, in_range, as_asked, claimable),
    ("Container", "save_changed_claim"): (own_name("hostname"), own_values, in_range, as_asked, own_container()),
    ("Container", "save"): (own_values, in_range, as_asked, own_container()),
    ("Container", "save_healing"): (own_values, in_range, as_asked, own_container()),
    ("Container", "save_step"): (own_values, in_range, as_asked, own_container(), own_event),
    ("Container", "end_members"): (own_container(),),
    ("Container", "destroy"): (own_container(),),
    ("Container", "abandon"): (own_container(),),
    ("Container", "layer"): (own_container(),),
    ("Container", "depart"): (own_name("hostname"), asked_to_leave),
    ("Container", "restore"): (restored, in_range),
    ("ContainerActionEvent", "ask"): (own_container("container_uuid"),),
    ("ContainerActionEvent", "wanted"): (own_container("container_uuid"),),
    ("ContainerActionEvent", "wanted_on"): (own_name("hostname"),),
    ("ContainerActionEvent", "note_arguments"): (own_container("container_uuid"),),
    ("ContainerActionEvent", "end"): (own_container("container_uuid"),),
    ("ContainerActionEvent", "start"): (asked_step,),
    ("ContainerActionEvent", "finish"): (asked_event,),
    ("ContainerActionEvent", "go_on"): (own_event,),
    ("ContainerActionEvent", "prune"): (own_name("hostname"),),
    ("ContainerActionEvent", "end_lost"): (own_name("hostname"),),
    ("Image", "get_by_uuid"): (own_image,),
    ("Image", "save"): (own_values, in_range, own_image),
    ("Image", "destroy"): (own_image,),
    ("Image", "fail_unfinished"): (own_name("host"),),
    ("Image", "grant"): (own_name("host"),),
    ("Image", "granted_to"): (own_name("host"),),
    ("Image", "granted_before"): (own_name("host"),),
    ("Image", "end_grants"): (own_name("host"),),
    ("NetworkPort", "save"): (own_values, in_range, own_port),
    ("NetworkPort", "destroy"): (own_port,),
    ("NetworkPort", "list_by_container"): (own_container("container_uuid"),),
    ("NetworkPort", "list_by_host"): (own_name("hostname"),),
    ("NetworkPort", "recorded"): (own_container("container_uuid"),),
    ("NetworkPort", "known"): (anybody,),  # says only which uuids of ports exist, to who knows them
    ("NetworkPort", "networks_of_host"): (own_name("hostname"),),
    ("Registry", "get_by_uuid"): (pull_under_way,),
    ("Volume", "list_to_delete"): (own_name("hostname"),),
    ("Volume", "destroy"): (own_volume,),
    ("ConsoleToken", "check_quota"): (own_project,),
    ("ConsoleToken", "issue"): (own_container("container_uuid"), own_charge),
    ("ConsoleToken", "use"): (own_token,),
    ("ConsoleToken", "forget"): (own_token,),
    ("ConsoleToken", "keep"): (own_tokens,),
    ("ConsoleToken", "find"): (anybody,),  # see OWN_TOKEN_ONLY: a token is found by itself, which nobody else knows
}


def writes(name: str, method: str) -> bool:
    """Return whether a call changes fields of the object. The changes of other calls are ignored."""
    found = RULES.get((name, method), ())
    return own_values in found or restored in found


OWN_ONLY = ("Container", "list_by_uuids")
"""Leave containers of other hosts out of the answer, and tell of those without a host that they exist.

A host asks for uuids that Placement, its records or its volumes have.
"""
OWN_TOKEN_ONLY = ("ConsoleToken", "find")
"""Answer None for a token of a container of another host."""

DECRYPTED = ("Registry", "get_by_uuid")
"""Answer with the password that the host needs for its pull."""

NOT_CALLED: Mapping[tuple[str, str], str] = {
    ("Container", "create"): "zun-api adds containers",
    ("Container", "rename"): "zun-api renames containers",
    ("Container", "get_by_ident"): "zun-api finds containers by what users say",
}
"""Remotable methods that no host calls."""


def refusal(host: str | None, call: Call, facts: Facts) -> str | None:
    """Return why ``host`` must not make ``call``, or None."""
    if not host:
        return "the message does not say from which host it is"
    rules = RULES.get((call.name, call.method))
    if rules is None:
        return "no rule allows it"
    return next(filter(None, (rule(host, call, facts) for rule in rules)), None)
