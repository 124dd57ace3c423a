# SPDX-License-Identifier: Apache-2.0
"""The operator's settings that requests are checked against."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from oslo_config import cfg

from zun.api import microversion
from zun.api.device_aliases import Aliases, parse_aliases
from zun.api.schemas.quotas import update
from zun.common import exceptions, secrets
from zun.common.image_reference import Reference
from zun.common.secrets import Cipher
from zun.common.subnets import Pool
from zun.db import quotas
from zun.db.containers import Scope
from zun.image.driver import DOCKER, GLANCE
from zun.topology import amounts


@dataclass(frozen=True, slots=True)
class Range:
    """A range with both ends included."""

    lowest: float
    highest: float


def _range(conf: cfg.ConfigOpts, lowest: str, highest: str, *, default: str | None = None) -> Range:
    """Return the range between two options. Raises Misconfigured if it is empty or does not contain the option
    ``default``.
    """
    found = Range(conf[lowest], conf[highest])
    between = f"{lowest} = {amounts.text(found.lowest)} and {highest} = {amounts.text(found.highest)}"
    if not found.lowest <= found.highest:
        raise exceptions.Misconfigured(f"[DEFAULT] there is nothing between {between}: no request could be right")
    if default is not None and not found.lowest <= conf[default] <= found.highest:
        raise exceptions.Misconfigured(
            f"[DEFAULT] {default} = {amounts.text(conf[default])} is not between {between}, so no request could name it"
        )
    return found


def _image(conf: cfg.ConfigOpts) -> str:
    """Return the image of every capsule's sandbox. Raises Misconfigured for a malformed name."""
    image = str(conf.capsule.sandbox_image)
    try:
        Reference.parse(image)
    except ValueError as exc:
        raise exceptions.Misconfigured(f"[capsule] sandbox_image: {exc}") from None
    return image


def _image_drivers(conf: cfg.ConfigOpts) -> tuple[str, ...]:
    """Return the image drivers that a request may name. Raises Misconfigured for one that does not exist."""
    missing = [name for name in conf.image_driver_list if name not in IMAGE_DRIVERS]
    if missing:
        raise exceptions.Misconfigured(
            f"[DEFAULT] image_driver_list: there is no image driver {', '.join(missing)}. Set it to "
            f"{', '.join(IMAGE_DRIVERS)}: images of registries, and images of Glance."
        )
    return tuple(conf.image_driver_list)


def _image_driver(conf: cfg.ConfigOpts) -> str:
    """Return the default image driver. Raises Misconfigured if requests may not name that driver."""
    driver = str(conf.default_image_driver)
    if driver not in conf.image_driver_list:
        raise exceptions.Misconfigured(
            f"[DEFAULT] default_image_driver = {driver} is none of image_driver_list = "
            f"{','.join(conf.image_driver_list)}"
        )
    return driver


#: For images of registries, and for images of Glance.
IMAGE_DRIVERS = (DOCKER, GLANCE)


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings. ``cpu`` is in CPUs, ``memory`` in MiB, ``disk`` in GiB, ``service_down_time`` in seconds.

    ``quota`` has the default limits of a project by resource. ``cipher`` encrypts the passwords of registries. Networks
    get their subnets from ``subnet_pool``. ``sandbox_*`` describe the sandbox of a capsule. ``unique_names`` is the
    scope in which a container's name must be unique. ``archive_transfers`` is the number of archives of one project
    that this process transfers at the same time, and ``waiting_requests`` of its requests that wait for hosts.
    ``device_aliases`` are the names by which containers ask for devices.
    ``neutron``: containers join the networks of Neutron. ``cinder``: they mount volumes of Cinder.
    """

    cpu: Range
    memory: Range
    disk: Range
    default_cpu: float
    default_memory: int
    image_drivers: tuple[str, ...]
    default_image_driver: str
    default_schedule_zone: str | None
    default_availability_zone: str
    service_down_time: int
    max_limit: int
    quota: Mapping[str, int]
    cipher: Cipher
    subnet_pool: Pool
    sandbox_image: str
    sandbox_command: tuple[str, ...]
    unique_names: Scope | None
    archive_transfers: int
    waiting_requests: int
    device_aliases: Aliases
    neutron: bool = False
    cinder: bool = False

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        aliases = parse_aliases(conf.devices.alias)
        return cls(
            cpu=_range(conf, "minimum_cpus", "maximum_cpus", default="default_cpu"),
            memory=_range(conf, "minimum_memory", "maximum_memory", default="default_memory"),
            disk=_range(conf, "minimum_disk", "maximum_disk"),
            default_cpu=conf.default_cpu,
            default_memory=conf.default_memory,
            image_drivers=_image_drivers(conf),
            default_image_driver=_image_driver(conf),
            default_schedule_zone=conf.default_schedule_zone,
            default_availability_zone=conf.default_availability_zone,
            service_down_time=conf.service_down_time,
            max_limit=conf.api.max_limit,
            subnet_pool=Pool(conf.network.subnet_pool, conf.network.subnet_prefix),
            cipher=Cipher(secrets.keys(conf)),
            sandbox_image=_image(conf),
            sandbox_command=tuple(conf.capsule.sandbox_command),
            unique_names=Scope(scope) if (scope := conf.compute.unique_container_name_scope) else None,
            archive_transfers=conf.api.archive_transfers,
            waiting_requests=conf.api.waiting_requests,
            neutron=conf.network.driver == "neutron",
            cinder=conf.cinder.enabled,
            device_aliases=aliases,
            quota={**{name: conf.quota[name] for name in quotas.RESOURCES}, **_of_devices(conf, aliases)},
        )


def _of_devices(conf: cfg.ConfigOpts, aliases: Aliases) -> dict[str, int]:
    """Return the default limits of devices by resource: of every alias, and of what ``[quota] devices`` names.

    Raises Misconfigured for a name that is neither an alias nor a resource class, and for a limit that is none.
    """
    found = {f"{quotas.DEVICE}{name}": quotas.UNLIMITED for name in aliases}
    for name, text in conf.quota.devices.items():
        resource = f"{quotas.DEVICE}{name}"
        try:
            found |= update({resource: text}, microversion.MAX, aliases)
        except exceptions.Invalid as exc:
            raise exceptions.Misconfigured(f"[quota] devices = {name}:{text}: {exc}") from None
    return found
