# SPDX-License-Identifier: Apache-2.0
"""Arguments of the requests about containers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from zun import nouns
from zun.api import limits, microversion
from zun.api.microversion import Version, v1
from zun.api.schemas import Field, Schema, devices, numa, scalars, traits
from zun.api.settings import Settings
from zun.common import processes, subnets
from zun.common.sets import MOST_MEMBERS
from zun.nouns import Member
from zun.nouns.container import Container
from zun.policies.containers import CAPABILITIES
from zun.topology import CPUPolicy

NONE = Schema({}, others=True)  # actions without arguments take whatever comes

# Queries.
CREATE_QUERY = Schema({"run": scalars.BX})
DELETE_QUERY = Schema({"force": scalars.BX, "stop": scalars.BX, "all_projects": scalars.ANYTHING})
LOGS = Schema(
    {
        "stdout": scalars.BX,
        "stderr": scalars.BX,
        "timestamps": scalars.BX,
        "tail": scalars.TAIL,
        "since": scalars.SINCE,
    }
)


def _ps_args(value: str | None) -> str | None:
    """Return the text if it selects processes and columns of ours; the text ``None`` selects nothing."""
    given = None if value in ("None", "") else value
    processes.selection(given)
    return given


TOP = Schema(
    {
        "ps_args": Field(
            {
                "type": ["string", "null"],
                "maxLength": 255,
                "description": "process ids, -ef, aux, or -o and a list of columns",
            },
            _ps_args,
        )
    }
)

GET_ARCHIVE = Schema({"path": scalars.PATH}, required=("path",))
# The query and the body, which is read as it comes.
PUT_ARCHIVE = Schema({"path": scalars.PATH})
PUT_ARCHIVE_BODY = Schema({"path": scalars.PATH, "data": Field({"type": "string"})}, required=("data",))

# Query or body.
TIMEOUT = Schema({"timeout": scalars.STOP_SECONDS})
_HOST = Field({"type": "string", "minLength": 1, "maxLength": 255, "description": "name or uuid of the new host"})
MOVE = Schema({"host": _HOST, "discard_layer": scalars.B3})
KILL = Schema({"signal": scalars.SIGNAL})
_COMMAND = scalars.bounded("command", Field({"type": "string", "minLength": 1}))
EXECUTE = Schema({"command": _COMMAND, "run": scalars.B3, "interactive": scalars.B3}, required=("command",))
# Empty text is nothing asked: a form of the dashboard sends it.
REBUILD = Schema({"image": scalars.OPTIONAL_TEXT, "image_driver": scalars.OPTIONAL_TEXT}, others=True)
RESIZE = Schema({"w": scalars.CHARACTERS, "h": scalars.CHARACTERS}, required=("w", "h"))
EXECUTE_RESIZE = Schema(
    {"exec_id": scalars.EXEC_ID, "w": scalars.CHARACTERS, "h": scalars.CHARACTERS}, required=("exec_id", "w", "h")
)
COMMIT = Schema({"repository": scalars.TEXT, "tag": scalars.TEXT}, required=("repository",))
SECURITY_GROUP = Schema({"name": scalars.LABEL}, required=("name",))
ATTACH = Schema(
    {"network": scalars.LABEL, "port": scalars.LABEL, "fixed_ip": Field(scalars.ADDRESS.schema, subnets.any_address)}
)
DETACH = Schema({"network": scalars.LABEL, "port": scalars.LABEL})
RENAME = Schema({"name": scalars.NAME}, required=("name",))


UPDATE_SINCE = {
    "cpu_policy": microversion.PLACEMENT,
    "keep_cpus": microversion.PLACEMENT,
    "movable": microversion.MOVES,
    **dict.fromkeys(devices.FIELDS, microversion.DEVICE_CHANGES),
}


def update(settings: Settings) -> Schema:
    """Return the schema of PATCH and of resize_container."""
    return Schema(
        {
            "cpu": scalars.cpus(settings.cpu),
            "memory": scalars.amount(settings.memory, "MiB"),
            "cpu_policy": scalars.one_of(*CPUPolicy),
            "keep_cpus": numa.CPU_LIST,
            "name": scalars.NAME,
            "auto_heal": scalars.B3,
            "movable": scalars.B3,
            **devices.FIELDS,
        },
        since=UPDATE_SINCE,
    )


# Create.

#: The members that create takes under their own names.
ASKED = tuple(each for each in nouns.members(Container) if each.mark(nouns.Asked))
_FIXED_IPS = {"v4-fixed-ip": 4, "v6-fixed-ip": 6}


def _nets(value: list[dict[str, str]] | None) -> list[dict[str, str]] | None:
    """Return the networks with addresses in their standard spelling."""
    for each in value or ():
        for name, version in _FIXED_IPS.items():
            if name in each:
                each[name] = subnets.address(each[name], version)
    return value


# The limit goes before the items, which are then not looked at one by one.
_NETS = Field(
    {
        "type": ["array", "null"],
        "maxItems": limits.PARTS,
        "items": {
            "type": "object",
            "properties": {
                "network": scalars.LABEL.schema,
                "port": scalars.LABEL.schema,
                "v4-fixed-ip": scalars.ADDRESS.schema,
                "v6-fixed-ip": scalars.ADDRESS.schema,
            },
            "additionalProperties": False,
            "oneOf": [{"required": ["network"]}, {"required": ["port"]}],
        },
    },
    _nets,
)
_MOUNTS = Field(
    {
        "type": ["array", "null"],
        "maxItems": limits.PARTS,
        "items": {
            "type": "object",
            "properties": {
                "type": {"type": "string", "maxLength": limits.COLUMN},
                "source": {"type": "string", "maxLength": 2 * limits.FILES_BYTES},  # of a file in base64
                "destination": scalars.PATH.schema,
                "size": scalars.SIZE.schema,
                "read_only": scalars.B3.schema,
            },
            "additionalProperties": False,
            "required": ["destination"],
            "anyOf": [{"required": ["source"]}, {"required": ["size"]}],
        },
    }
)
_RESTART_POLICY = Field(
    {
        "type": ["object", "null"],
        "properties": {
            "Name": {"enum": ["no", "always", "on-failure", "unless-stopped"]},
            "MaximumRetryCount": {
                "type": ["integer", "string", "null"],
                "minimum": 0,
                "maximum": 10**9 - 1,  # the largest that fits the pattern
                "maxLength": 9,
                "pattern": r"^[0-9]{1,9}\Z",
                "description": "a whole number",
            },
        },
        "additionalProperties": False,
        "required": ["Name"],
    }
)
_SECURITY_GROUPS = Field({"type": ["array", "null"], "maxItems": limits.PARTS, "items": scalars.LABEL.schema})
_REGISTRY = Field({**scalars.NAME.schema, "type": "string", "description": "the name or uuid of a registry"})
_CAPABILITIES = Field(
    {
        "type": ["array", "null"],
        "maxItems": len(CAPABILITIES),
        "items": {"type": "string", "enum": sorted(CAPABILITIES)},
        "description": "names of Linux capabilities without CAP_, for example NET_RAW",
    },
    lambda value: None if value is None else sorted(set(value)),
)
_BOOLEAN = Field({"type": ["boolean", "null"]})
_DOMAIN = {"type": "string", "minLength": 1, "maxLength": 255}
_SET = Field(
    {
        "type": ["object", "null"],
        "properties": {
            "min_count": {"type": "integer", "minimum": 1, "maximum": MOST_MEMBERS},
            "spread": {**_DOMAIN, "description": "none, cell, host, or a property of aggregates, for example rack"},
            "pack": {**_DOMAIN, "description": "none, host, or a property of aggregates, for example rack"},
            "max_per_host": {"type": "integer", "minimum": 1, "maximum": MOST_MEMBERS},
        },
        "additionalProperties": False,
        "description": "rules of the set that count makes",
    }
)


@dataclass(frozen=True, slots=True)
class _Row:
    """A field of create and the versions in which it has this form. Other versions do not know the field."""

    name: str
    field: Field
    since: Version = microversion.MIN
    until: Version = microversion.MAX


def _create_rows(settings: Settings) -> list[_Row]:
    """Return the fields of create: first those that need a form or a version of their own, then those of the noun."""
    rows = [
        _Row("image", scalars.IMAGE),
        _Row("name", scalars.NAME),
        _Row("command", scalars.bounded("command", Field({"type": ["string", "null"]})), until=v1(19)),
        _Row("command", scalars.bounded("command", scalars.TEXT_LIST), since=v1(20)),
        _Row("entrypoint", scalars.bounded("entrypoint", scalars.TEXT_LIST), since=v1(40)),
        _Row("cpu", scalars.cpus(settings.cpu)),
        _Row("memory", scalars.amount(settings.memory, "MiB")),
        _Row("disk", scalars.amount(settings.disk, "GiB")),
        _Row("cpu_policy", scalars.one_of(*CPUPolicy)),
        *(_Row(name, field) for name, field in (numa.FIELDS | numa.MIXED_FIELDS | numa.QUIET_FIELDS).items()),
        *(_Row(name, field) for name, field in (traits.FIELDS | devices.FIELDS).items()),
        _Row("environment", scalars.ENVIRONMENT),
        _Row("labels", scalars.LABELS),
        _Row("hints", scalars.bounded("hints", scalars.OBJECT)),
        _Row("image_pull_policy", scalars.PULL),
        _Row("image_driver", scalars.driver(settings.image_drivers)),
        _Row("restart_policy", _RESTART_POLICY),
        _Row("auto_remove", _BOOLEAN),
        _Row("capabilities", _CAPABILITIES),
        _Row("hostname", scalars.HOST),
        _Row("host", scalars.HOST, since=v1(39)),
        _Row("availability_zone", scalars.OPTIONAL_LABEL),
        _Row("security_groups", _SECURITY_GROUPS),
        _Row("exposed_ports", scalars.bounded("exposed_ports", scalars.OBJECT)),
        _Row("nets", _NETS),
        _Row("mounts", _MOUNTS),
        _Row("healthcheck", scalars.bounded("healthcheck", scalars.OBJECT)),
        _Row("registry", _REGISTRY),
        _Row("count", scalars.whole(1, MOST_MEMBERS), since=microversion.SETS),
        _Row("set", _SET, since=microversion.SETS),
    ]
    known = {row.name for row in rows}
    return [*rows, *(_Row(each.name, _form(each)) for each in ASKED if each.name not in known)]


def _form(member: Member) -> Field:
    """Return the form of a field for which its declaration says enough. Raises TypeError for another type."""
    if member.kind is bool:
        return scalars.B3
    longest = member.mark(nouns.Text)
    if member.kind is str and longest:
        return Field({**scalars.OPTIONAL_TEXT.schema, "maxLength": longest.characters}, scalars.OPTIONAL_TEXT.convert)
    if member.kind == list[str] and member.name in limits.FIELD_BYTES:
        return scalars.bounded(member.name, scalars.TEXT_LIST)
    raise TypeError(f"{member.name}: values of {member.kind} have no usual form; give the field a row in _create_rows")


_DEVICES = (
    "For devices of the host send 'devices', from version "
    f'{microversion.DEVICE_REQUESTS} on, for example {{"devices": [{{"alias": "gpu", "count": 1}}]}}'
)
#: Fields by which other services, and forks of Zun above 1.40, ask for what has another field here.
FOREIGN: Mapping[str, str] = {
    "device_profiles": _DEVICES,
    "accelerators": _DEVICES,
    "gpus": _DEVICES,
    "cap_add": f"For Linux capabilities send 'capabilities', from version {microversion.CAPABILITIES} on",
    "cpuset_cpus": "The service chooses the CPUs. For CPUs of its own send 'cpu_policy': 'dedicated' with 'cpu'",
}


def create(settings: Settings) -> Mapping[Version, Schema]:
    """Return the body of create for each version. Versions with the same fields share a schema."""
    rows = _create_rows(settings)
    gates = {gate.field: gate.since for gate in CREATE_GATES if gate.value is None}
    since = {row.name: row.since for row in rows} | gates
    made: dict[tuple[int, ...], Schema] = {}
    found: dict[Version, Schema] = {}
    for version in microversion.EVERY:
        chosen = [row for row in rows if row.since <= version <= row.until]
        key = tuple(map(id, chosen))
        if key not in made:
            made[key] = Schema(
                {row.name: row.field for row in chosen}, required=("image",), since=since, foreign=FOREIGN
            )
        found[version] = made[key]
    return found


# Questions about containers that do not exist.

COUNT = scalars.whole(1, 100)
LIMIT = scalars.whole(1, 100_000)
DRY_RUN = NEAR = scalars.B3
_SHAPE = frozenset(
    {
        *("cpu", "memory", "disk", "cpu_policy", *numa.FIELDS, "hints", "runtime", "availability_zone", "host"),
        *numa.MIXED_FIELDS,
        *numa.QUIET_FIELDS,
        *traits.FIELDS,
        *devices.FIELDS,
        *("image", "mounts"),  # one that a project made, and its volumes, are where they are
    }
)


def shape(settings: Settings, **others: Field) -> Schema:
    """Return the schema of the fields of create that decide the host, in their newest form, and of ``others``."""
    rows = [row for row in _create_rows(settings) if row.name in _SHAPE and row.until == microversion.MAX]
    return Schema({**{row.name: row.field for row in rows}, **others}, foreign=FOREIGN)


@dataclass(frozen=True, slots=True)
class Gate:
    """A field of create that needs version ``since``. With ``if_empty`` an empty or false value needs it too.

    With ``value`` the field is older, and only this value needs the version.
    """

    field: str
    since: Version
    if_empty: bool = True
    value: str | None = None

    def asked(self, value: Any) -> bool:
        """Return whether ``value`` asks for something."""
        if self.value is not None:
            return bool(value == self.value)
        return value is not None if self.if_empty else bool(value)


def _gates() -> Iterator[Gate]:
    """Yield what the noun says about versions."""
    for member in ASKED:
        asked = member.mark(nouns.Asked)
        if asked.since > 1:
            yield Gate(member.name, v1(asked.since), asked.if_empty)
        yield from (Gate(member.name, v1(since), value=value) for value, since in asked.values.items())


CREATE_GATES = tuple(sorted([*_gates(), Gate("registry", v1(31), if_empty=False)], key=lambda gate: gate.since))
