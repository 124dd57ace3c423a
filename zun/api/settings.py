# SPDX-License-Identifier: Apache-2.0
"""The operator's settings that requests are checked against."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from oslo_config import cfg

from zun.common import secrets
from zun.common.secrets import Cipher
from zun.common.subnets import Pool
from zun.db import quotas
from zun.db.containers import Scope


@dataclass(frozen=True, slots=True)
class Range:
    """Inclusive."""

    lowest: float
    highest: float


@dataclass(frozen=True, slots=True)
class Settings:
    """``cpu`` in CPUs, ``memory`` in MiB, ``disk`` in GiB, ``service_down_time`` in seconds.

    ``quota`` has the default limits of a project by resource, ``cipher`` is for the passwords of registries.
    ``subnet_pool`` is where networks get their subnets from.
    ``sandbox_*`` say what keeps the network of a capsule. ``unique_names`` is where containers' names are there once.
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

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        return cls(
            cpu=Range(conf.minimum_cpus, conf.maximum_cpus),
            memory=Range(conf.minimum_memory, conf.maximum_memory),
            disk=Range(conf.minimum_disk, conf.maximum_disk),
            default_cpu=conf.default_cpu,
            default_memory=conf.default_memory,
            image_drivers=tuple(conf.image_driver_list),
            default_image_driver=conf.default_image_driver,
            default_schedule_zone=conf.default_schedule_zone,
            default_availability_zone=conf.default_availability_zone,
            service_down_time=conf.service_down_time,
            max_limit=conf.api.max_limit,
            subnet_pool=Pool(conf.network.subnet_pool, conf.network.subnet_prefix),
            cipher=Cipher(secrets.keys(conf)),
            sandbox_image=conf.capsule.sandbox_image,
            sandbox_command=tuple(conf.capsule.sandbox_command),
            unique_names=Scope(scope) if (scope := conf.compute.unique_container_name_scope) else None,
            quota={name: conf.quota[name] for name in quotas.RESOURCES},
        )
