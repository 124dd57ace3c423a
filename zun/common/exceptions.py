# SPDX-License-Identifier: Apache-2.0
"""The tree of errors.

Five families, each with its HTTP status. A class's name, split at capitals and joined with dashes, is the slug that
clients see (``ContainerNotFound`` becomes ``container-not-found``), so class names are part of the API. An expected
outcome, such as a full host, is a value (``Refusal``) and not an exception.
"""

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, ParamSpec

P = ParamSpec("P")


class ZunError(Exception):
    """Root of the tree. ``fields`` fill ``msg_fmt``; an explicit ``message`` replaces it."""

    code: ClassVar[int] = 500
    msg_fmt: ClassVar[str] = "An unknown error occurred."

    def __init__(self, message: str | None = None, **fields: Any) -> None:
        self.fields = fields
        super().__init__(message if message is not None else self.msg_fmt.format(**fields))

    @classmethod
    def slug(cls) -> str:
        return "-".join(re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z][a-z]*|[0-9]+", cls.__name__)).lower()


class NotFound(ZunError):
    code = 404
    msg_fmt = "Resource could not be found."


class ResourceNotFound(NotFound):
    msg_fmt = "The {name} resource {id} could not be found."


class ContainerNotFound(NotFound):
    msg_fmt = "Container {container} could not be found. List them with 'openstack appcontainer list'."


class ExplanationNotFound(NotFound):
    msg_fmt = (
        "No explanation is kept for container {container}: it was not refused for want of a host. Its status and "
        "status_reason say what became of it."
    )


class ComputeNodeNotFound(NotFound):
    msg_fmt = "Compute node {compute_node} could not be found. List them with 'openstack appcontainer host list'."


class ZunServiceNotFound(NotFound):
    msg_fmt = (
        "Zun service {binary} on host {host} could not be found. List them with 'openstack appcontainer service list'."
    )


class RequestedHostNotFound(NotFound):
    msg_fmt = "Host {host} is not a compute host of this cloud. List them with 'openstack appcontainer host list'."


class AggregateNotFound(NotFound):
    msg_fmt = "Host aggregate {aggregate} could not be found. List them with 'openstack appcontainer aggregate list'."


class AggregateHostNotFound(NotFound):
    msg_fmt = "Host aggregate {aggregate} has no host {host}."


class GroupNotFound(NotFound):
    msg_fmt = "Container group {group} could not be found. List them with 'openstack appcontainer group list'."


class ContainerSetNotFound(NotFound):
    msg_fmt = "Container set {set} could not be found. List them with 'openstack appcontainer set list'."


class RegistryNotFound(NotFound):
    msg_fmt = "Registry {registry} could not be found. List them with 'openstack appcontainer registry list'."


class VolumeNotFound(NotFound):
    msg_fmt = "Volume {volume} could not be found. List them with 'openstack appcontainer volume list'."


class NetworkNotFound(NotFound):
    # python-zunclient's own command of this name lists the networks of one container.
    msg_fmt = (
        "Network {network} could not be found. List them with GET /v1/networks, or with 'openstack appcontainer "
        "network list' where the client has the commands of this service."
    )


class PortNotFound(NotFound):
    msg_fmt = "Port {port} could not be found."


class Conflict(ZunError):
    code = 409
    msg_fmt = "Conflict."


class InvalidStateException(Conflict):
    msg_fmt = "Cannot {action} in {status} state; it is possible in {allowed}."


class ContainerBusy(Conflict):
    msg_fmt = "Container {container} is busy: {reason}. Nothing was changed."


class ContainerVanished(Conflict):
    """The container has a row but no object at the runtime: somebody removed the object on the host."""

    msg_fmt = "Container {container} does not exist at the runtime any more. Rebuild it, or delete it here as well."


class ContainerAlreadyExists(Conflict):
    msg_fmt = "A container with {field} {value} already exists."


class ImageAlreadyExists(Conflict):
    msg_fmt = "Host {host} has an image {repo} with tag {tag} already."


class RowUnreadable(Conflict):
    """A row holds a value that no service writes: somebody wrote it by hand."""

    msg_fmt = (
        "{table}.{column} of {ident} in the database cannot be read ({reason}): it was not written by a Zun service. "
        "Tell the operator: SELECT {column} FROM {table} WHERE {key} = '{ident}' shows it. {remedy}"
    )


class DeviceUnusable(Conflict):
    """``reason`` names the device."""

    msg_fmt = "The container cannot get its devices: {reason}."


class ClaimRefused(Conflict):
    """A host cannot hold the request. The text is the allocator's reason; users read it, so it does not name the host.
    """

    msg_fmt = "The host refused the claim: {reason}"


class GroupRuleBroken(ClaimRefused):
    """One more container of its group on this host would break the group's rule."""


class RuntimeAway(ClaimRefused):
    """The host's runtime does not answer, so the host refuses every claim."""

    msg_fmt = "The host refused the claim: its container runtime does not answer"


class VolumeElsewhere(ClaimRefused):
    msg_fmt = "The host refused the claim: volume {volume} of the project is on another host"


class VolumeLeaving(ClaimRefused):
    msg_fmt = "The host refused the claim: volume {volume} of the project is being deleted; try again when it is gone"


class ClaimOverQuota(ClaimRefused):
    """The project's quota forbids the CPUs that the claim keeps idle, or the volumes that it makes."""

    msg_fmt = "{reason}"


class Invalid(ZunError):
    code = 400
    msg_fmt = "The request is invalid."


class InvalidValue(Invalid):
    msg_fmt = "Received value '{value}' is invalid for {name}."


class InvalidParameterValue(Invalid):
    msg_fmt = "{err}"


class InvalidParamInVersion(Invalid):
    msg_fmt = (
        "Invalid param {param} because current request version is {req_version}. {param} is only supported "
        "from version {min_version}"
    )


class SchemaValidationError(Invalid):
    msg_fmt = "{detail}"


class ValidationError(Invalid):
    msg_fmt = "{detail}"


class NoInteractiveFlag(Invalid):
    msg_fmt = "Container {container} was created without the interactive flag, so it cannot be attached to."


class ImageNotFound(Invalid):
    # 400, not 404: the image is a member of the request, not its target (as in Zun's API v1).
    msg_fmt = "Image {image} could not be found. List them with 'openstack appcontainer image list'."


class PortInUse(Invalid):
    msg_fmt = "Port {port} belongs to container {container}. Name its network instead: then a port is made."


class Base64Exception(Invalid):
    msg_fmt = "The data is not base64: {reason}."


class UnsupportedMediaType(Invalid):
    code = 415
    msg_fmt = "Content type {content_type} is not supported: send application/json."


class Forbidden(ZunError):
    code = 403
    msg_fmt = "Forbidden."


class PolicyNotAuthorized(Forbidden):
    msg_fmt = "Policy doesn't allow {action} to be performed. Ask the operator of the cloud if you need it."


class OverQuota(Forbidden):
    msg_fmt = (
        "Quota exceeded for project {project}: {over}. Delete what you no longer need, or ask an administrator for a "
        "larger quota."
    )


class Unavailable(ZunError):
    code = 503
    msg_fmt = "The service is temporarily unavailable."


class HostUnavailable(Unavailable):
    """The host's compute service is down. Users read the text, so it does not name the host."""

    msg_fmt = (
        "The compute service on the host does not answer. Try again once it is up, as an administrator sees with "
        "'openstack appcontainer service list'."
    )


class SchedulerUnavailable(Unavailable):
    msg_fmt = "No scheduler answered within {seconds:g} s. Check that zun-scheduler runs, then try again."


class DatabaseUnavailable(Unavailable):
    msg_fmt = "The database does not answer: {reason}"


class PlacementUnavailable(Unavailable):
    msg_fmt = "Placement does not answer: {reason}"


class GlanceUnavailable(Unavailable):
    msg_fmt = "Glance does not answer: {reason}. Try again; tell the operator if it stays so."


class CinderUnavailable(Unavailable):
    msg_fmt = "Cinder does not answer: {reason}"


class VolumeNotUsable(Invalid):
    msg_fmt = "Volume {volume} cannot be mounted: {reason}"


class VolumeInUse(Invalid):
    msg_fmt = "Volume {volume} is in use, and cannot be attached more than once: {reason}"


class ImageCorrupt(Conflict):
    """The data of an image is not what the image service says."""


class ImageUnusable(Invalid):
    """The image service has the image, and no host can use it."""


class ImageServiceFailed(ZunError):
    """A host could not bring an image from the image service, or give it one: another host may be able to."""


class NeutronUnavailable(Unavailable):
    msg_fmt = "Neutron does not answer: {reason}"


class PortUnusable(ZunError):
    """A port that Neutron did not bind to the host, or that did not become active there."""

    msg_fmt = "{reason}"


class ExternalNetworkAttachForbidden(Forbidden):
    msg_fmt = "Network {network} is external: your project may not put containers into it. Name a network behind it."


class VolumeError(ZunError):
    msg_fmt = "Mount {mount}: {reason}"


class VolumeRefused(VolumeError):
    """A volume that Cinder gives to no host, or not in its present state. No host is to blame."""


class CapsuleFailed(Invalid):
    msg_fmt = "Init container {container} ended with exit code {code}{told}. The containers after it were not started."


class DockerError(ZunError):
    msg_fmt = "Docker error: {error}"


class PinningMismatch(ZunError):
    """The kernel runs a container on other CPUs or memory nodes than planned."""

    msg_fmt = "The kernel does not agree with the plan: {reason}"


class Misconfigured(ZunError):
    """The configuration keeps a service from starting. The text names the option."""


class IllegalTransition(ZunError):
    """A status change that the table of transitions does not allow: a defect of the caller."""

    msg_fmt = "Container {uuid} cannot go from {old} to {new}."


class StatusChanged(IllegalTransition):
    """Another request changed the status after the row was read."""

    msg_fmt = "Container {uuid} has become {old} meanwhile."


def by_name(name: str) -> type[ZunError] | None:
    """Return the class of this tree called ``name``, for errors that arrive as text over RPC."""
    found = globals().get(name)
    return found if isinstance(found, type) and issubclass(found, ZunError) else None


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text. The other lines of a database's error hold the statement."""
    return str(error).partition("\n")[0]


@contextlib.contextmanager
def on_failure(undo: Callable[P, object], *arguments: P.args, **named: P.kwargs) -> Iterator[None]:
    """Call ``undo`` if the block raises an error, then raise the error again."""
    try:
        yield
    except Exception:
        undo(*arguments, **named)
        raise
