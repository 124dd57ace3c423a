# SPDX-License-Identifier: Apache-2.0
import pytest

from zun.common import exceptions

# Family and HTTP status -> its failures: the class, fields that fill its text, and the text.
FAMILIES = {
    ("ZunError", 500): [
        ("ZunError", {}, "An unknown error occurred."),
        ("ImageServiceFailed", {}, "An unknown error occurred."),
        ("PortUnusable", {"reason": "Port p1 was not bound"}, "Port p1 was not bound"),
        ("DockerError", {"error": "boom"}, "Docker error: boom"),
        ("VolumeError", {"mount": "/d", "reason": "mkfs.ext4: no space"}, "Mount /d: mkfs.ext4: no space"),
        ("PinningMismatch", {"reason": "CPU 3"}, "The kernel does not agree with the plan: CPU 3"),
        ("Misconfigured", {}, "An unknown error occurred."),
        (
            "IllegalTransition",
            {"uuid": "c1", "old": "Deleted", "new": "Running"},
            "Container c1 cannot go from Deleted to Running.",
        ),
    ],
    ("ZunError", 404): [
        ("NotFound", {}, "Resource could not be found."),
    ],
    ("NotFound", 404): [
        ("ResourceNotFound", {"name": "action", "id": "req-1"}, "The action resource req-1 could not be found."),
        (
            "ContainerNotFound",
            {"container": "web"},
            "Container web could not be found. List them with 'openstack appcontainer list'.",
        ),
        (
            "ExplanationNotFound",
            {"container": "web"},
            "No explanation is kept for container web: it was not refused for want of a host. Its status and "
            "status_reason say what became of it.",
        ),
        (
            "ComputeNodeNotFound",
            {"compute_node": "h1"},
            "Compute node h1 could not be found. List them with 'openstack appcontainer host list'.",
        ),
        (
            "ZunServiceNotFound",
            {"binary": "zun-compute", "host": "h1"},
            "Zun service zun-compute on host h1 could not be found. List them with 'openstack appcontainer service "
            "list'.",
        ),
        (
            "RequestedHostNotFound",
            {"host": "h9"},
            "Host h9 is not a compute host of this cloud. List them with 'openstack appcontainer host list'.",
        ),
        (
            "AggregateNotFound",
            {"aggregate": "ssd"},
            "Host aggregate ssd could not be found. List them with 'openstack appcontainer aggregate list'.",
        ),
        ("AggregateHostNotFound", {"aggregate": "ssd", "host": "h1"}, "Host aggregate ssd has no host h1."),
        (
            "GroupNotFound",
            {"group": "web"},
            "Container group web could not be found. List them with 'openstack appcontainer group list'.",
        ),
        (
            "ContainerSetNotFound",
            {"set": "web"},
            "Container set web could not be found. List them with 'openstack appcontainer set list'.",
        ),
        (
            "RegistryNotFound",
            {"registry": "r"},
            "Registry r could not be found. List them with 'openstack appcontainer registry list'.",
        ),
        (
            "NetworkNotFound",
            {"network": "n"},
            "Network n could not be found. List them with GET /v1/networks, or with 'openstack appcontainer network "
            "list' where the client has the commands of this service.",
        ),
        (
            "VolumeNotFound",
            {"volume": "v"},
            "Volume v could not be found. List them with 'openstack appcontainer volume list'.",
        ),
        ("PortNotFound", {"port": "p"}, "Port p could not be found."),
    ],
    ("Invalid", 400): [
        (
            "PortInUse",
            {"port": "p", "container": "c"},
            "Port p belongs to container c. Name its network instead: then a port is made.",
        ),
        ("Base64Exception", {"reason": "its end is missing"}, "The data is not base64: its end is missing."),
        ("InvalidValue", {"name": "limit", "value": "-1"}, "Received value '-1' is invalid for limit."),
        ("InvalidParameterValue", {"err": "No."}, "No."),
        (
            "InvalidParamInVersion",
            {"param": "host", "req_version": "1.1", "min_version": "1.39"},
            "Invalid param host because current request version is 1.1. host is only supported from version 1.39",
        ),
        ("SchemaValidationError", {"detail": "too long"}, "too long"),
        ("ValidationError", {"detail": "wrong"}, "wrong"),
        (
            "NoInteractiveFlag",
            {"container": "c1"},
            "Container c1 was created without the interactive flag, so it cannot be attached to.",
        ),
        (
            "ImageNotFound",
            {"image": "web:1"},
            "Image web:1 could not be found. List them with 'openstack appcontainer image list'.",
        ),
        ("ImageUnusable", {}, "The request is invalid."),
        (
            "VolumeNotUsable",
            {"volume": "v", "reason": "it is error, and must be available."},
            "Volume v cannot be mounted: it is error, and must be available.",
        ),
        (
            "VolumeInUse",
            {"volume": "v", "reason": "it is in-use, and its type is not multiattach."},
            "Volume v is in use, and cannot be attached more than once: it is in-use, and its type is not multiattach.",
        ),
        (
            "CapsuleFailed",
            {"container": "c", "code": 3, "told": ", and its log with: no"},
            "Init container c ended with exit code 3, and its log with: no. The containers after it were not started.",
        ),
    ],
    ("ZunError", 409): [
        ("Conflict", {}, "Conflict."),
    ],
    ("Conflict", 409): [
        (
            "InvalidStateException",
            {"action": "stop container web (c1)", "status": "Paused", "allowed": "Running"},
            "Cannot stop container web (c1) in Paused state; it is possible in Running.",
        ),
        (
            "ContainerBusy",
            {"container": "c1", "reason": "its task_state is container_stopping; try again when it has none"},
            "Container c1 is busy: its task_state is container_stopping; try again when it has none. Nothing was "
            "changed.",
        ),
        (
            "ContainerVanished",
            {"container": "web"},
            "Container web does not exist at the runtime any more. Rebuild it, or delete it here as well.",
        ),
        ("ContainerAlreadyExists", {"field": "name", "value": "web"}, "A container with name web already exists."),
        (
            "ImageAlreadyExists",
            {"host": "h1", "repo": "busybox", "tag": "1"},
            "Host h1 has an image busybox with tag 1 already.",
        ),
        (
            "RowUnreadable",
            {
                "table": "networks",
                "column": "subnets",
                "key": "uuid",
                "ident": "n1",
                "reason": "x",
                "remedy": "Do this.",
            },
            "networks.subnets of n1 in the database cannot be read (x): it was not written by a Zun service. "
            "Tell the operator: SELECT subnets FROM networks WHERE uuid = 'n1' shows it. Do this.",
        ),
        ("ClaimRefused", {"host": "h1", "reason": "full"}, "The host refused the claim: full"),
        ("ImageCorrupt", {}, "Conflict."),
        (
            "DeviceUnusable",
            {"reason": "device 0000:81:00.0 has no driver"},
            "The container cannot get its devices: device 0000:81:00.0 has no driver.",
        ),
    ],
    ("ClaimRefused", 409): [
        ("GroupRuleBroken", {"host": "h1", "reason": "one is there"}, "The host refused the claim: one is there"),
        ("RuntimeAway", {}, "The host refused the claim: its container runtime does not answer"),
        (
            "VolumeElsewhere",
            {"host": "h1", "volume": "data"},
            "The host refused the claim: volume data of the project is on another host",
        ),
        (
            "VolumeLeaving",
            {"volume": "v"},
            "The host refused the claim: volume v of the project is being deleted; try again when it is gone",
        ),
        ("ClaimOverQuota", {"reason": "cpu: limit 1"}, "cpu: limit 1"),
    ],
    ("ZunError", 400): [
        ("Invalid", {}, "The request is invalid."),
    ],
    ("Invalid", 415): [
        (
            "UnsupportedMediaType",
            {"content_type": "text/plain"},
            "Content type text/plain is not supported: send application/json.",
        ),
    ],
    ("ZunError", 403): [
        ("Forbidden", {}, "Forbidden."),
    ],
    ("Forbidden", 403): [
        (
            "PolicyNotAuthorized",
            {"action": "container:create"},
            "Policy doesn't allow container:create to be performed. Ask the operator of the cloud if you need it.",
        ),
        (
            "OverQuota",
            {"project": "demo", "over": "cpu: limit 1, in use 1, asked for 1 more"},
            "Quota exceeded for project demo: cpu: limit 1, in use 1, asked for 1 more. Delete what you no longer "
            "need, or ask an administrator for a larger quota.",
        ),
        (
            "ExternalNetworkAttachForbidden",
            {"network": "public"},
            "Network public is external: your project may not put containers into it. Name a network behind it.",
        ),
    ],
    ("ZunError", 503): [
        ("Unavailable", {}, "The service is temporarily unavailable."),
    ],
    ("Unavailable", 503): [
        ("PlacementUnavailable", {"reason": "Connection refused"}, "Placement does not answer: Connection refused"),
        (
            "GlanceUnavailable",
            {"reason": "Connection refused"},
            "Glance does not answer: Connection refused. Try again; tell the operator if it stays so.",
        ),
        ("NeutronUnavailable", {"reason": "Connection refused"}, "Neutron does not answer: Connection refused"),
        ("CinderUnavailable", {"reason": "Connection refused"}, "Cinder does not answer: Connection refused"),
        (
            "HostUnavailable",
            {"host": "h1"},
            "The compute service on the host does not answer. Try again once it is up, as an administrator sees with "
            "'openstack appcontainer service list'.",
        ),
        (
            "SchedulerUnavailable",
            {"seconds": 60.0},
            "No scheduler answered within 60 s. Check that zun-scheduler runs, then try again.",
        ),
        ("DatabaseUnavailable", {"reason": "gone"}, "The database does not answer: gone"),
    ],
    ("VolumeError", 500): [
        ("VolumeRefused", {"mount": "/d", "reason": "mkfs.ext4: no space"}, "Mount /d: mkfs.ext4: no space"),
    ],
    ("IllegalTransition", 500): [
        (
            "StatusChanged",
            {"uuid": "c1", "old": "Rebuilding", "new": "Stopped"},
            "Container c1 has become Rebuilding meanwhile.",
        ),
    ],
}
TREE = [(*key, *row) for key, rows in FAMILIES.items() for row in rows]
# What clients know the classes by, in order.
SLUGS = """
aggregate-host-not-found aggregate-not-found base-64-exception capsule-failed cinder-unavailable claim-over-quota
claim-refused compute-node-not-found conflict container-already-exists container-busy container-not-found
container-set-not-found container-vanished database-unavailable device-unusable docker-error explanation-not-found
external-network-attach-forbidden forbidden glance-unavailable group-not-found group-rule-broken host-unavailable
illegal-transition image-already-exists image-corrupt image-not-found image-service-failed image-unusable invalid
invalid-param-in-version invalid-parameter-value invalid-state-exception invalid-value misconfigured
network-not-found neutron-unavailable no-interactive-flag not-found over-quota pinning-mismatch
placement-unavailable policy-not-authorized port-in-use port-not-found port-unusable registry-not-found
requested-host-not-found resource-not-found row-unreadable runtime-away scheduler-unavailable
schema-validation-error status-changed unavailable unsupported-media-type validation-error volume-elsewhere
volume-error volume-in-use volume-leaving volume-not-found volume-not-usable volume-refused zun-error
zun-service-not-found
"""


def test_the_table_has_the_whole_tree():
    classes = [each for each in vars(exceptions).values() if isinstance(each, type) and issubclass(each, Exception)]
    assert {each.__name__ for each in classes} == {row[2] for row in TREE}
    assert sorted(each.slug() for each in classes) == SLUGS.split()


@pytest.mark.parametrize(("family", "code", "name", "fields", "text"), TREE, ids=[row[2] for row in TREE])
def test_a_failure_knows_its_status_family_and_words(family, code, name, fields, text):
    found = exceptions.by_name(name)
    assert found is not None
    error = found(**fields)
    assert (found.__name__, error.code, str(error)) == (name, code, text)
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
