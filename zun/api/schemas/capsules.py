# SPDX-License-Identifier: Apache-2.0
"""The template of a capsule. Its names are those of the template language, which follows Kubernetes."""

from typing import Any

from zun.api import limits, paging, parsing
from zun.api.schemas import Field, Schema, devices, numa, scalars, traits
from zun.common import probes
from zun.topology import CPUPolicy
from zun.topology.request import MemberSame

RESTART_POLICIES = {"Always": "always", "OnFailure": "on-failure", "Never": "no"}

_WORD = {"type": ["string", "null"], "maxLength": limits.FIELD_BYTES["command"]}
_TEXTS = scalars.bounded("command", Field({"type": ["array", "null"], "items": _WORD})).schema
_VOLUME_NAME = {**scalars.NAME.schema, "type": "string"}

_PORT_NUMBER = {"type": "integer", "minimum": 1, "maximum": 65535}
_HOST = {"type": ["string", "null"], "maxLength": 64}


def _seconds(lowest: int, highest: int) -> dict[str, Any]:
    return {"type": ["integer", "null"], "minimum": lowest, "maximum": highest}


#: A probe, by the names of Kubernetes. ``zun.common.probes`` checks its members together.
_PROBE = {
    "type": ["object", "null"],
    "properties": {
        "exec": {
            "type": ["object", "null"],
            "properties": {
                "command": {
                    "type": "array",
                    "items": {"type": "string", "maxLength": limits.COLUMN},
                    "minItems": 1,
                    "maxItems": limits.PARTS,
                }
            },
            "required": ["command"],
            "additionalProperties": False,
        },
        "httpGet": {
            "type": ["object", "null"],
            "properties": {
                "path": {"type": ["string", "null"], "maxLength": limits.COLUMN, "pattern": r"^[!-~]*\Z",
                         "description": "a path of ASCII characters without spaces"},
                "port": _PORT_NUMBER,
                "host": _HOST,
                "scheme": {"enum": ["HTTP", "HTTPS", None]},
                "httpHeaders": {
                    "type": ["array", "null"],
                    "maxItems": 16,
                    "items": {
                        "type": "object",
                        "properties": {
                            "name": {"type": "string", "maxLength": 64, "pattern": r"^[A-Za-z0-9-]+\Z",
                                     "description": "the name of a header"},
                            "value": {"type": "string", "maxLength": limits.COLUMN, "pattern": r"^[ -~]*\Z",
                                      "description": "a text of ASCII characters on one line"},
                        },
                        "required": ["name", "value"],
                        "additionalProperties": False,
                    },
                },
            },
            "required": ["port"],
            "additionalProperties": False,
        },
        "tcpSocket": {
            "type": ["object", "null"],
            "properties": {"port": _PORT_NUMBER, "host": _HOST},
            "required": ["port"],
            "additionalProperties": False,
        },
        "initialDelaySeconds": _seconds(0, 86400),
        "periodSeconds": _seconds(1, 86400),
        "timeoutSeconds": _seconds(1, 60),
        "successThreshold": _seconds(1, 100),
        "failureThreshold": _seconds(1, 10000),
    },
    "additionalProperties": False,
}
_RESTART_POLICY = {"enum": [*RESTART_POLICIES]}

_CONTAINER = {
    "type": "object",
    "properties": {
        "image": scalars.IMAGE.schema,
        "name": scalars.NAME.schema,
        "command": _TEXTS,
        "args": _TEXTS,
        "env": scalars.ENVIRONMENT.schema,
        "workDir": scalars.OPTIONAL_TEXT.schema,
        "imagePullPolicy": scalars.PULL.schema,
        "resources": {
            "type": "object",
            "properties": {
                "requests": {
                    "type": "object",
                    "properties": {
                        "cpu": {"type": ["number", "string"], "maxLength": limits.COLUMN},
                        "memory": {"type": ["number", "string"], "maxLength": limits.COLUMN},
                    },
                    "additionalProperties": False,
                }
            },
            "additionalProperties": False,
        },
        "ports": {
            "type": ["array", "null"],
            "maxItems": limits.FIELD_BYTES["exposed_ports"] // limits.MEMBER_BYTES,
            "items": {
                "type": "object",
                "properties": {
                    "containerPort": {
                        "type": ["integer", "string"],
                        "maxLength": 5,
                        "pattern": r"^[0-9]{1,5}\Z",
                        "description": "the number of a port",
                    },
                    "hostPort": {},
                    "name": {},
                    "protocol": {"enum": [name.upper() for name in scalars.PROTOCOLS]},
                },
                "required": ["containerPort"],
                "additionalProperties": False,
            },
        },
        "volumeMounts": {
            "type": ["array", "null"],
            "maxItems": limits.PARTS,
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "maxLength": limits.COLUMN},
                    "mountPath": scalars.PATH.schema,
                    "readOnly": scalars.B3.schema,
                },
                "required": ["name", "mountPath"],
                "additionalProperties": False,
            },
        },
        "stdin": scalars.B3.schema,
        "tty": scalars.B3.schema,
        "devices": devices.FIELDS["devices"].schema,
        "placement": {"type": ["object", "null"], "maxProperties": limits.PARTS},
        "restartPolicy": {"enum": [*RESTART_POLICIES, None]},
        **dict.fromkeys(probes.MEMBERS, _PROBE),
    },
    "required": ["image"],
    "additionalProperties": False,
}
_VOLUME = {
    "type": "object",
    "properties": {
        "name": _VOLUME_NAME,
        "cinder": {
            "type": "object",
            "properties": {
                "volumeID": {"type": "string", "minLength": 36, "maxLength": 36},
                "size": {"type": "number", "maximum": 2**30},
                "autoRemove": scalars.B3.schema,
            },
            "additionalProperties": False,
        },
        "local": {
            "type": "object",
            "properties": {"size": scalars.SIZE.schema},
            "required": ["size"],
            "additionalProperties": False,
        },
        "emptyDir": {
            "type": ["object", "null"],
            "properties": {"medium": {"enum": ["", "Memory", None]}, "sizeLimit": scalars.SIZE.schema},
            "additionalProperties": False,
        },
        "volume": {
            "type": "object",
            "properties": {"name": {**_VOLUME_NAME, "maxLength": 128}},  # as in mounts: a runtime adds to it
            "required": ["name"],
            "additionalProperties": False,
        },
    },
    "required": ["name"],
    "maxProperties": limits.PARTS,
}
_SPEC = {
    "type": "object",
    "properties": {
        "restartPolicy": _RESTART_POLICY,
        "terminationGracePeriodSeconds": _seconds(0, 3600),
        "containers": {"type": "array", "items": _CONTAINER, "minItems": 1, "maxItems": limits.PARTS},
        "initContainers": {"type": ["array", "null"], "items": _CONTAINER, "maxItems": limits.PARTS},
        "volumes": {"type": ["array", "null"], "items": _VOLUME, "maxItems": limits.PARTS},
        "placement": {"type": ["object", "null"], "maxProperties": limits.PARTS},
    },
    "required": ["containers"],
    "maxProperties": limits.PARTS,
}
_METADATA = {
    "type": "object",
    "maxProperties": limits.PARTS,
    "properties": {
        "name": scalars.NAME.schema,
        "labels": scalars.LABELS.schema,
        "annotations": scalars.bounded("annotations", scalars.OBJECT).schema,
    },
}

_TEMPLATE = Schema(
    {
        "kind": scalars.one_of("capsule", "Capsule"),
        "capsuleVersion": scalars.one_of("beta", "Beta"),
        "metadata": Field(_METADATA),
        "availabilityZone": scalars.OPTIONAL_LABEL,
        "restartPolicy": Field(_RESTART_POLICY),  # accepted and without a meaning, as in the reference
        "spec": Field(_SPEC),
    },
    required=("kind", "metadata", "spec"),
)


_OF_KUBERNETES = (
    "it is a manifest of Kubernetes. A capsule has 'kind: capsule' and no apiVersion; 'resources: {requests: {cpu: 1, "
    "memory: 512}}' in MiB, without limits; 'env' as an object; volumes that are local, emptyDir, volume or "
    "cinder; and no security contexts"
)


def _template(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        try:
            value = parsing.json_value(value)
        except ValueError as exc:
            raise ValueError(f"it is a text and {exc}") from None
        if not isinstance(value, dict):
            raise ValueError("it is not an object")
    if "apiVersion" in value or value.get("kind") in ("Pod", "Deployment", "StatefulSet", "DaemonSet", "Job", "List"):
        raise ValueError(_OF_KUBERNETES)
    return _TEMPLATE(value)


_AS_TEXT = {"type": ["object", "string"], "maxLength": limits.BODY_BYTES, "maxProperties": limits.PARTS}
#: ``force``: do not wait for the containers to end. Below 1.51 it is ignored, as any other parameter.
DELETE_QUERY = Schema({"all_projects": paging.FLAG, "force": paging.FLAG})
CREATE = Schema({"template": Field(_AS_TEXT, _template, _TEMPLATE)}, required=("template",))

#: The NUMA fields of ``spec.placement``.
PLACED = {name: field for name, field in numa.FIELDS.items() if name != "mem_page_size"}
#: ``spec.placement``: for all containers together, by the names that create of one container has.
PLACEMENT = Schema(
    {
        "cpu_policy": scalars.one_of(CPUPolicy.DEDICATED, CPUPolicy.SHARED),
        **PLACED,
        **traits.FIELDS,
        "same": scalars.optional_one_of(*MemberSame),
    }
)

#: ``placement`` of one container of ``spec.containers``: it is on one cell, beside the others.
MEMBER_FIELDS = {
    "cpu_policy": scalars.one_of(*CPUPolicy),
    **numa.MIXED_FIELDS,
    **{name: numa.FIELDS[name] for name in ("cpu_thread_policy", "cpu_isolation", "mem_page_size")},
}
MEMBER_PLACEMENT = Schema(MEMBER_FIELDS)
