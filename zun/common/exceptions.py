# SPDX-License-Identifier: Apache-2.0
"""The tree of failures.

Five families, each knowing its HTTP status. A class's name, split at capitals and joined with dashes, is the slug that
clients see (``ContainerNotFound`` becomes ``container-not-found``), so class names are part of the API.
An outcome that is expected, such as a host that is full, is a value (``Refusal``) and not an exception.
"""

import re
from typing import Any, ClassVar


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


class RegistryNotFound(NotFound):
    msg_fmt = "Registry {registry} could not be found. List them with 'openstack appcontainer registry list'."


class NetworkNotFound(NotFound):
    msg_fmt = "Network {network} could not be found. List them with 'openstack appcontainer network list'."


class PortNotFound(NotFound):
    msg_fmt = "Port {port} could not be found."


class Conflict(ZunError):
    code = 409
    msg_fmt = "Conflict."


class InvalidStateException(Conflict):
    msg_fmt = "Cannot {action} container {uuid} in {status} state; it is possible in {allowed}."


class ContainerBusy(Conflict):
    msg_fmt = "Container {uuid} is busy: {reason}. Nothing was changed."


class ContainerVanished(Conflict):
    """Its row is there, and its runtime has nothing of it: somebody removed that on the host."""

    msg_fmt = "Container {container} does not exist at the runtime any more. Rebuild it, or delete it here as well."


class ContainerAlreadyExists(Conflict):
    msg_fmt = "A container with {field} {value} already exists."


class ImageAlreadyExists(Conflict):
    msg_fmt = "Host {host} has an image {repo} with tag {tag} already."


class RowUnreadable(Conflict):
    """Somebody wrote into the database what none of the services writes."""

    msg_fmt = (
        "{table}.{column} of {ident} in the database cannot be read ({reason}): no service writes such. Tell the "
        "operator: SELECT {column} FROM {table} WHERE {key} = '{ident}' shows it. {remedy}"
    )


class ClaimRefused(Conflict):
    """A host cannot hold what was asked. The text is the allocator's reason; users see it, and not which host it is."""

    msg_fmt = "The host refused the claim: {reason}"


class GroupRuleBroken(ClaimRefused):
    """One more container of its group on this host would break the group's rule."""


class RuntimeAway(ClaimRefused):
    """Whatever was asked for, this host would have refused it."""

    msg_fmt = "The host refused the claim: its container runtime does not answer"


class VolumeElsewhere(ClaimRefused):
    msg_fmt = "The host refused the claim: volume {volume} of the project is on another host"


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
    # 400, not 404: the image is a member of the request, not its target (contract: rest-api.md section 3).
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
        "Quota exceeded for project {project}: {over}. Delete containers you no longer need, or ask an administrator "
        "for a larger quota."
    )


class Unavailable(ZunError):
    code = 503
    msg_fmt = "The service is temporarily unavailable."


class HostUnavailable(Unavailable):
    """Its text is for users, who are not told which host it is."""

    msg_fmt = (
        "The compute service on the host does not answer. Try again once it is up, as an administrator sees with "
        "'openstack appcontainer service list'."
    )


class SchedulerUnavailable(Unavailable):
    msg_fmt = "No scheduler answered within {seconds:g} s. Check that zun-scheduler runs, then try again."


class VolumeError(ZunError):
    msg_fmt = "Mount {mount}: {reason}"


class CapsuleFailed(Invalid):
    msg_fmt = "Init container {container} ended with exit code {code}, so the containers after it were not started."


class DockerError(ZunError):
    msg_fmt = "Docker error: {error}"


class PinningMismatch(ZunError):
    """The kernel runs a container elsewhere than its plan says."""

    msg_fmt = "The kernel does not agree with the plan: {reason}"


class Misconfigured(ZunError):
    """A service cannot start with what its configuration says. The text names the option."""


class IllegalTransition(ZunError):
    """A status change that the lifecycle table does not know: a defect of the caller."""

    msg_fmt = "Container {uuid} cannot go from {old} to {new}."


class StatusChanged(IllegalTransition):
    """A status change whose ground is gone: somebody else was quicker since the row was read."""

    msg_fmt = "Container {uuid} has become {old} meanwhile."


def by_name(name: str) -> type[ZunError] | None:
    """The class of this tree called ``name``, for errors that arrive as text over RPC."""
    found = globals().get(name)
    return found if isinstance(found, type) and issubclass(found, ZunError) else None


def first_line(error: Exception) -> str:
    """What an error says. In the lines after the first, those of a database have the statement that met it."""
    return str(error).partition("\n")[0]
