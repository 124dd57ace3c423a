# SPDX-License-Identifier: Apache-2.0
import pytest

from zun.common import exceptions

# Class, the slug clients know it by, its HTTP status, the family it is caught as, fields that fill its text, the text.
TREE = [
    ("ZunError", "zun-error", 500, "ZunError", {}, "An unknown error occurred."),
    ("NotFound", "not-found", 404, "ZunError", {}, "Resource could not be found."),
    (
        "ResourceNotFound",
        "resource-not-found",
        404,
        "NotFound",
        {"name": "action", "id": "req-1"},
        "The action resource req-1 could not be found.",
    ),
    (
        "ContainerNotFound",
        "container-not-found",
        404,
        "NotFound",
        {"container": "web"},
        "Container web could not be found. List them with 'openstack appcontainer list'.",
    ),
    (
        "ExplanationNotFound",
        "explanation-not-found",
        404,
        "NotFound",
        {"container": "web"},
        "No explanation is kept for container web: it was not refused for want of a host. Its status and "
        "status_reason say what became of it.",
    ),
    (
        "ComputeNodeNotFound",
        "compute-node-not-found",
        404,
        "NotFound",
        {"compute_node": "h1"},
        "Compute node h1 could not be found. List them with 'openstack appcontainer host list'.",
    ),
    (
        "ZunServiceNotFound",
        "zun-service-not-found",
        404,
        "NotFound",
        {"binary": "zun-compute", "host": "h1"},
        "Zun service zun-compute on host h1 could not be found. List them with 'openstack appcontainer service list'.",
    ),
    (
        "RequestedHostNotFound",
        "requested-host-not-found",
        404,
        "NotFound",
        {"host": "h9"},
        "Host h9 is not a compute host of this cloud. List them with 'openstack appcontainer host list'.",
    ),
    (
        "AggregateNotFound",
        "aggregate-not-found",
        404,
        "NotFound",
        {"aggregate": "ssd"},
        "Host aggregate ssd could not be found. List them with 'openstack appcontainer aggregate list'.",
    ),
    (
        "AggregateHostNotFound",
        "aggregate-host-not-found",
        404,
        "NotFound",
        {"aggregate": "ssd", "host": "h1"},
        "Host aggregate ssd has no host h1.",
    ),
    (
        "GroupNotFound",
        "group-not-found",
        404,
        "NotFound",
        {"group": "web"},
        "Container group web could not be found. List them with 'openstack appcontainer group list'.",
    ),
    (
        "RegistryNotFound",
        "registry-not-found",
        404,
        "NotFound",
        {"registry": "r"},
        "Registry r could not be found. List them with 'openstack appcontainer registry list'.",
    ),
    (
        "NetworkNotFound",
        "network-not-found",
        404,
        "NotFound",
        {"network": "n"},
        "Network n could not be found. List them with GET /v1/networks, or with 'openstack appcontainer network list' "
        "where the client has the commands of this service.",
    ),
    (
        "VolumeNotFound",
        "volume-not-found",
        404,
        "NotFound",
        {"volume": "v"},
        "Volume v could not be found. List them with 'openstack appcontainer volume list'.",
    ),
    ("PortNotFound", "port-not-found", 404, "NotFound", {"port": "p"}, "Port p could not be found."),
    (
        "PortInUse",
        "port-in-use",
        400,
        "Invalid",
        {"port": "p", "container": "c"},
        "Port p belongs to container c. Name its network instead: then a port is made.",
    ),
    ("Conflict", "conflict", 409, "ZunError", {}, "Conflict."),
    (
        "InvalidStateException",
        "invalid-state-exception",
        409,
        "Conflict",
        {"action": "stop container web (c1)", "status": "Paused", "allowed": "Running"},
        "Cannot stop container web (c1) in Paused state; it is possible in Running.",
    ),
    (
        "ContainerBusy",
        "container-busy",
        409,
        "Conflict",
        {"container": "c1", "reason": "its task_state is container_stopping; try again when it has none"},
        "Container c1 is busy: its task_state is container_stopping; try again when it has none. Nothing was changed.",
    ),
    (
        "ContainerVanished",
        "container-vanished",
        409,
        "Conflict",
        {"container": "web"},
        "Container web does not exist at the runtime any more. Rebuild it, or delete it here as well.",
    ),
    (
        "ContainerAlreadyExists",
        "container-already-exists",
        409,
        "Conflict",
        {"field": "name", "value": "web"},
        "A container with name web already exists.",
    ),
    (
        "Base64Exception",
        "base-64-exception",
        400,
        "Invalid",
        {"reason": "its end is missing"},
        "The data is not base64: its end is missing.",
    ),
    (
        "ImageAlreadyExists",
        "image-already-exists",
        409,
        "Conflict",
        {"host": "h1", "repo": "busybox", "tag": "1"},
        "Host h1 has an image busybox with tag 1 already.",
    ),
    (
        "RowUnreadable",
        "row-unreadable",
        409,
        "Conflict",
        {"table": "networks", "column": "subnets", "key": "uuid", "ident": "n1", "reason": "x", "remedy": "Do this."},
        "networks.subnets of n1 in the database cannot be read (x): it was not written by a Zun service. "
        "Tell the operator: SELECT subnets FROM networks WHERE uuid = 'n1' shows it. Do this.",
    ),
    (
        "ClaimRefused",
        "claim-refused",
        409,
        "Conflict",
        {"host": "h1", "reason": "full"},
        "The host refused the claim: full",
    ),
    (
        "GroupRuleBroken",
        "group-rule-broken",
        409,
        "ClaimRefused",
        {"host": "h1", "reason": "one is there"},
        "The host refused the claim: one is there",
    ),
    (
        "RuntimeAway",
        "runtime-away",
        409,
        "ClaimRefused",
        {},
        "The host refused the claim: its container runtime does not answer",
    ),
    (
        "VolumeElsewhere",
        "volume-elsewhere",
        409,
        "ClaimRefused",
        {"host": "h1", "volume": "data"},
        "The host refused the claim: volume data of the project is on another host",
    ),
    ("Invalid", "invalid", 400, "ZunError", {}, "The request is invalid."),
    (
        "InvalidValue",
        "invalid-value",
        400,
        "Invalid",
        {"name": "limit", "value": "-1"},
        "Received value '-1' is invalid for limit.",
    ),
    ("InvalidParameterValue", "invalid-parameter-value", 400, "Invalid", {"err": "No."}, "No."),
    (
        "InvalidParamInVersion",
        "invalid-param-in-version",
        400,
        "Invalid",
        {"param": "host", "req_version": "1.1", "min_version": "1.39"},
        "Invalid param host because current request version is 1.1. host is only supported from version 1.39",
    ),
    ("SchemaValidationError", "schema-validation-error", 400, "Invalid", {"detail": "too long"}, "too long"),
    ("ValidationError", "validation-error", 400, "Invalid", {"detail": "wrong"}, "wrong"),
    (
        "NoInteractiveFlag",
        "no-interactive-flag",
        400,
        "Invalid",
        {"container": "c1"},
        "Container c1 was created without the interactive flag, so it cannot be attached to.",
    ),
    (
        "ImageNotFound",
        "image-not-found",
        400,
        "Invalid",
        {"image": "web:1"},
        "Image web:1 could not be found. List them with 'openstack appcontainer image list'.",
    ),
    (
        "UnsupportedMediaType",
        "unsupported-media-type",
        415,
        "Invalid",
        {"content_type": "text/plain"},
        "Content type text/plain is not supported: send application/json.",
    ),
    ("Forbidden", "forbidden", 403, "ZunError", {}, "Forbidden."),
    (
        "PolicyNotAuthorized",
        "policy-not-authorized",
        403,
        "Forbidden",
        {"action": "container:create"},
        "Policy doesn't allow container:create to be performed. Ask the operator of the cloud if you need it.",
    ),
    (
        "VolumeLeaving",
        "volume-leaving",
        409,
        "ClaimRefused",
        {"volume": "v"},
        "The host refused the claim: volume v of the project is being deleted; try again when it is gone",
    ),
    ("ClaimOverQuota", "claim-over-quota", 409, "ClaimRefused", {"reason": "cpu: limit 1"}, "cpu: limit 1"),
    (
        "OverQuota",
        "over-quota",
        403,
        "Forbidden",
        {"project": "demo", "over": "cpu: limit 1, in use 1, asked for 1 more"},
        "Quota exceeded for project demo: cpu: limit 1, in use 1, asked for 1 more. Delete what you no longer "
        "need, or ask an administrator for a larger quota.",
    ),
    ("Unavailable", "unavailable", 503, "ZunError", {}, "The service is temporarily unavailable."),
    (
        "PlacementUnavailable",
        "placement-unavailable",
        503,
        "Unavailable",
        {"reason": "Connection refused"},
        "Placement does not answer: Connection refused",
    ),
    (
        "GlanceUnavailable",
        "glance-unavailable",
        503,
        "Unavailable",
        {"reason": "Connection refused"},
        "Glance does not answer: Connection refused. Try again; tell the operator if it stays so.",
    ),
    (
        "ImageCorrupt",
        "image-corrupt",
        409,
        "Conflict",
        {},
        "Conflict.",
    ),
    (
        "ImageUnusable",
        "image-unusable",
        400,
        "Invalid",
        {},
        "The request is invalid.",
    ),
    (
        "ImageServiceFailed",
        "image-service-failed",
        500,
        "ZunError",
        {},
        "An unknown error occurred.",
    ),
    (
        "NeutronUnavailable",
        "neutron-unavailable",
        503,
        "Unavailable",
        {"reason": "Connection refused"},
        "Neutron does not answer: Connection refused",
    ),
    (
        "CinderUnavailable",
        "cinder-unavailable",
        503,
        "Unavailable",
        {"reason": "Connection refused"},
        "Cinder does not answer: Connection refused",
    ),
    (
        "VolumeNotUsable",
        "volume-not-usable",
        400,
        "Invalid",
        {"volume": "v", "reason": "it is error, and must be available."},
        "Volume v cannot be mounted: it is error, and must be available.",
    ),
    (
        "VolumeInUse",
        "volume-in-use",
        400,
        "Invalid",
        {"volume": "v", "reason": "it is in-use, and its type is not multiattach."},
        "Volume v is in use, and cannot be attached more than once: it is in-use, and its type is not multiattach.",
    ),
    (
        "PortUnusable",
        "port-unusable",
        500,
        "ZunError",
        {"reason": "Port p1 was not bound"},
        "Port p1 was not bound",
    ),
    (
        "ExternalNetworkAttachForbidden",
        "external-network-attach-forbidden",
        403,
        "Forbidden",
        {"network": "public"},
        "Network public is external: your project may not put containers into it. Name a network behind it.",
    ),
    (
        "HostUnavailable",
        "host-unavailable",
        503,
        "Unavailable",
        {"host": "h1"},
        "The compute service on the host does not answer. Try again once it is up, as an administrator sees with "
        "'openstack appcontainer service list'.",
    ),
    (
        "SchedulerUnavailable",
        "scheduler-unavailable",
        503,
        "Unavailable",
        {"seconds": 60.0},
        "No scheduler answered within 60 s. Check that zun-scheduler runs, then try again.",
    ),
    (
        "DatabaseUnavailable",
        "database-unavailable",
        503,
        "Unavailable",
        {"reason": "gone"},
        "The database does not answer: gone",
    ),
    (
        "CapsuleFailed",
        "capsule-failed",
        400,
        "Invalid",
        {"container": "c", "code": 3},
        "Init container c ended with exit code 3, so the containers after it were not started.",
    ),
    ("DockerError", "docker-error", 500, "ZunError", {"error": "boom"}, "Docker error: boom"),
    (
        "VolumeError",
        "volume-error",
        500,
        "ZunError",
        {"mount": "/d", "reason": "mkfs.ext4: no space"},
        "Mount /d: mkfs.ext4: no space",
    ),
    (
        "VolumeRefused",
        "volume-refused",
        500,
        "VolumeError",
        {"mount": "/d", "reason": "mkfs.ext4: no space"},
        "Mount /d: mkfs.ext4: no space",
    ),
    (
        "PinningMismatch",
        "pinning-mismatch",
        500,
        "ZunError",
        {"reason": "CPU 3"},
        "The kernel does not agree with the plan: CPU 3",
    ),
    ("Misconfigured", "misconfigured", 500, "ZunError", {}, "An unknown error occurred."),
    (
        "IllegalTransition",
        "illegal-transition",
        500,
        "ZunError",
        {"uuid": "c1", "old": "Deleted", "new": "Running"},
        "Container c1 cannot go from Deleted to Running.",
    ),
    (
        "DeviceUnusable",
        "device-unusable",
        409,
        "Conflict",
        {"reason": "device 0000:81:00.0 has no driver"},
        "The container cannot get its devices: device 0000:81:00.0 has no driver.",
    ),
    (
        "StatusChanged",
        "status-changed",
        500,
        "IllegalTransition",
        {"uuid": "c1", "old": "Rebuilding", "new": "Stopped"},
        "Container c1 has become Rebuilding meanwhile.",
    ),
]


def test_the_table_has_the_whole_tree():
    classes = [each for each in vars(exceptions).values() if isinstance(each, type) and issubclass(each, Exception)]
    assert {each.__name__ for each in classes} == {row[0] for row in TREE}


@pytest.mark.parametrize(("name", "slug", "code", "family", "fields", "text"), TREE, ids=[row[0] for row in TREE])
def test_a_failure_knows_its_slug_status_family_and_words(name, slug, code, family, fields, text):
    found = exceptions.by_name(name)
    assert found is not None
    error = found(**fields)
    assert (found.__name__, found.slug(), error.code, str(error)) == (name, slug, code, text)
    assert isinstance(error, exceptions.by_name(family))
    assert error.fields == fields


@pytest.mark.parametrize(
    "name", ["", "Any", "ClassVar", "re", "by_name", "Exception", "ValueError", "ContainerNotFound_Remote", "__name__"]
)
def test_other_names_are_no_failures_of_ours(name):
    assert exceptions.by_name(name) is None


@pytest.mark.parametrize("message", ["", "its own words", "a {brace} stays as it is"])
def test_a_message_replaces_the_text(message):
    assert str(exceptions.ContainerNotFound(message, container="c1")) == message
    assert str(exceptions.ContainerNotFound(message)) == message


def test_braces_in_a_field_are_only_text():
    assert str(exceptions.DockerError(error="{'a': {}}")) == "Docker error: {'a': {}}"
