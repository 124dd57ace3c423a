# SPDX-License-Identifier: Apache-2.0
"""A container, and a capsule, which is stored as one."""

import datetime
from typing import Annotated, Any

from zun.nouns import (
    BIG,
    KEY,
    LINKS,
    OPTIONAL,
    PROSE,
    SERVER_DEFAULT,
    UNIQUE,
    UNSTORED,
    UUID,
    WRITTEN,
    Asked,
    In,
    Instead,
    Noun,
    Range,
    Readable,
    Sent,
    Shown,
    Text,
)
from zun.topology import CPUPolicy, Plan
from zun.topology.device_request import DeviceSame
from zun.topology.ranges import AMOUNT, CPUS, Whole

_NAME, _ID = Text(255), Text(36)
_TEXT = Shown(str | None)
_WANTED, _HELD = In("placement"), In("cpuset")
_PLACED, _TRAITS, _DEVICES, _MIXED = Shown(since=41), Shown(since=44), Shown(since=45), Shown(since=46)
_QUIET = Shown(since=51)
_PLACE, _TRAIT, _DEVICE, _MIX = Asked(since=41), Asked(since=44), Asked(since=45), Asked(since=46)

MEMORY = Range(Whole("memory in MiB", AMOUNT.most))
DISK = Range(Whole("disk in GiB", 2**31 - 1))

# Members of containers and of capsules.
_CpuThreadPolicy = Annotated[str | None, "The use of sibling threads.", _WANTED, _PLACE, _PLACED]
_CpuIsolation = Annotated[str | None, "What nobody else may run on.", _WANTED, _PLACE, _PLACED]
_NumaNodes = Annotated[int | None, "The number of cells.", _WANTED, _PLACE, _PLACED]
_NumaAffinity = Annotated[str | None, "How strict the number of cells is.", _WANTED, _PLACE, _PLACED]
_NumaCpus = Annotated[list[int] | None, "CPUs of each cell.", _WANTED, _PLACE, _PLACED]
_NumaMem = Annotated[list[int] | None, "MiB of each cell.", _WANTED, _PLACE, _PLACED]
_NumaMempolicy = Annotated[str | None, "Whether memory may be of other cells.", _WANTED, _PLACE, _PLACED]
_MemPageSize = Annotated[str | int | None, "The size of memory pages.", _WANTED, _PLACE, _PLACED]
_RequiredTraits = Annotated[list[str] | None, "Traits that its host must have.", _WANTED, _TRAIT, _TRAITS]
_ForbiddenTraits = Annotated[list[str] | None, "Traits that its host must not have.", _WANTED, _TRAIT, _TRAITS]
_AnyTraits = Annotated[list[list[str]] | None, "Lists of traits; the host has one of each.", _WANTED, _TRAIT, _TRAITS]
_MemberOf = Annotated[
    list[list[str]] | None, "Lists of aggregates; the host is in one of each.", _WANTED, _TRAIT, _TRAITS
]
_CpusetCpus = Annotated[str | None, "CPUs that it holds.", _HELD, _PLACED]
_CpusetMems = Annotated[str | None, "Memory nodes that it holds.", _HELD, _PLACED]
_CpusetIsolation = Annotated[str | None, "How isolated the CPUs that it holds are.", _HELD, _PLACED]


class Container(Noun):
    """A container. The members are in the order of the answers."""

    id: Annotated[int, "The place of the row in lists.", KEY]
    uuid: Annotated[str, "The id, which the service gives.", UUID, UNIQUE, Shown()]
    name: Annotated[str, "The name; two containers may have the same.", _NAME, Asked(), _TEXT]
    image: Annotated[str, "The image.", _NAME, Asked(), _TEXT]
    project_id: Annotated[str, "The project that it belongs to.", _NAME, _TEXT]
    user_id: Annotated[str | None, "The user who created it.", _NAME, Shown()]
    cpu: Annotated[float, "CPUs that it may use.", Range(CPUS), Asked(), Shown(float | None)]
    cpu_policy: Annotated[
        str,
        "Whether the CPUs are its own (dedicated), those of the shared pool (shared), or both (mixed).",
        Text(32),
        Asked(values={CPUPolicy.MIXED: 46}),
        _TEXT,
    ] = str(CPUPolicy.SHARED)
    memory: Annotated[int, "MiB that it may use, as text.", BIG, MEMORY, Asked(), _TEXT]
    disk: Annotated[int, "GiB of its writable layer; 0 without a limit.", DISK, Asked(), Shown()] = 0
    command: Annotated[list[str] | None, "The command, in words.", Asked(), Shown()]
    entrypoint: Annotated[list[str] | None, "What runs the command, in words.", Asked(), Shown()]
    environment: Annotated[dict[str, str] | None, "Variables of its environment.", Asked(), Shown()]
    labels: Annotated[dict[str, str] | None, "Labels that its user gave.", Asked(), Shown()]
    addresses: Annotated[dict[str, Any] | None, "Addresses by network.", Shown()]
    ports: Annotated[list[int] | None, "The exposed ports.", Shown()]
    security_groups: Annotated[list[str] | None, "Names of its security groups.", Shown()]
    restart_policy: Annotated[dict[str, str] | None, "When the engine starts it again.", Asked(), Shown()]
    healthcheck: Annotated[dict[str, Any] | None, "The test of its health.", Asked(since=22, if_empty=False), Shown()]
    status: Annotated[str, "The state of the container.", Text(20), _TEXT] = "Creating"
    task_state: Annotated[str | None, "What is being done with it.", Text(32), Shown()]
    status_reason: Annotated[str | None, "Why it has this status.", PROSE, Shown()]
    status_detail: Annotated[str | None, "For how long it has had the status.", _NAME, Shown()]
    workdir: Annotated[str | None, "The folder in which the command runs.", _NAME, Asked(), Shown()]
    hostname: Annotated[str | None, "The name of the host that the command sees.", _NAME, Asked(since=9), Shown()]
    interactive: Annotated[bool, "Whether its standard input stays open.", Asked(), Shown()] = False
    tty: Annotated[bool, "Whether it has a terminal.", Asked(), Shown()] = False
    auto_remove: Annotated[bool, "Whether it is deleted when it ends.", Asked(since=3), Shown()] = False
    auto_heal: Annotated[bool, "Whether it is made anew if the engine loses it.", Asked(), Shown()] = False
    image_driver: Annotated[str | None, "Where the image comes from.", _NAME, Asked(), Shown()]
    registry_id: Annotated[str | None, "The uuid of the registry whose account pulls the image.", _ID, Shown()]
    created_at: Annotated[datetime.datetime | None, "When it was created.", WRITTEN, _TEXT]
    updated_at: Annotated[datetime.datetime | None, "When it was changed last.", _TEXT]
    host: Annotated[str | None, "The host that it is on.", _NAME, Shown(restricted=True)]
    runtime: Annotated[str | None, "The runtime that it asked for.", _NAME, Asked(since=5), Shown(restricted=True)]
    image_pull_policy: Annotated[str | None, "When the image is pulled.", Text(32), Asked(), Shown(restricted=True)]
    privileged: Annotated[bool, "Whether it has all rights of its host.", Asked(since=21), Shown(restricted=True)] = (
        False
    )

    cpu_thread_policy: _CpuThreadPolicy
    cpu_isolation: _CpuIsolation
    numa_nodes: _NumaNodes
    numa_affinity: _NumaAffinity
    numa_cpus: _NumaCpus
    numa_mem: _NumaMem
    numa_mempolicy: _NumaMempolicy
    mem_page_size: _MemPageSize
    required_traits: _RequiredTraits
    forbidden_traits: _ForbiddenTraits
    any_traits: _AnyTraits
    member_of: _MemberOf
    cpuset_cpus: _CpusetCpus
    cpuset_mems: _CpusetMems
    cpuset_isolation: _CpusetIsolation
    devices: Annotated[
        list[dict[str, Any]] | None, "Devices that it asked for, and those it was given.", UNSTORED, _DEVICE, _DEVICES
    ]
    device_numa_policy: Annotated[str | None, "How near the devices must be.", _WANTED, _DEVICE, _DEVICES]
    device_same: Annotated[
        str | None, "What the devices have in common.", _WANTED, Asked(45, values={DeviceSame.LINK: 47}), _DEVICES
    ]
    dedicated_cpus: Annotated[int | None, "How many CPUs of a mixed container are its own.", _WANTED, _MIX, _MIXED]
    cpuset_dedicated: Annotated[str | None, "CPUs that a mixed container has for itself.", _HELD, _MIXED]
    group_uuid: Annotated[str | None, "The group that it is a member of.", _ID, Shown(since=42)]
    published_ports: Annotated[
        dict[str, dict[str, Any]], "Where the exposed ports are reached.", UNSTORED, Shown(since=42)
    ]
    capabilities: Annotated[
        list[str] | None,
        "Linux capabilities beside the default ones.",
        Asked(since=46),
        Shown(list[str], since=46),
        Sent("1.2"),
    ]
    movable: Annotated[
        bool | None,
        "Whether it may be moved to other CPUs or another host; null leaves that to the operator.",
        _WANTED,
        Asked(since=49),
        Shown(since=49),
    ]
    cpu_partition: Annotated[
        str | None, "The cpuset partition that its own CPUs are.", _WANTED, Asked(since=51), _QUIET
    ]
    interrupts: Annotated[
        str | None, "Which device interrupts come to its own CPUs; null leaves that to the host.", _WANTED,
        Asked(since=51), _QUIET,
    ]
    power_profile: Annotated[str | None, "The power profile of its own CPUs.", _WANTED, Asked(since=51), _QUIET]
    cpuset_signal: Annotated[
        str | None, "The signal to its first process after a change of its CPUs.", _WANTED, Asked(since=51), _QUIET
    ]
    cache_ways: Annotated[
        int | None, "The ways that it has for itself of each L3 of its own CPUs.", _WANTED, Asked(since=51), _QUIET
    ]
    cache_mib: Annotated[int | None, "The same, in MiB.", _WANTED, Asked(since=51), _QUIET]
    memory_bandwidth: Annotated[
        int | None, "Percent of the memory bandwidth that it has of each such cache.", _WANTED, Asked(since=51), _QUIET
    ]
    set_uuid: Annotated[str | None, "The set that it is a member of.", _ID, Shown(since=50), Sent("1.7")]
    links: Annotated[list[dict[str, str]], "Where the API has it.", LINKS, OPTIONAL, Shown()]

    kind: Annotated[str, "Whether it is a container, a capsule or a member of one.", Text(16), SERVER_DEFAULT] = (
        "container"
    )
    capsule_uuid: Annotated[str | None, "The capsule of a member.", _ID]
    volume_disk: Annotated[int, "GiB of its mounts of type local.", DISK, SERVER_DEFAULT] = 0
    placement: Annotated[dict[str, Any], "What it asks of CPUs, cells, devices and traits."] = {}
    request: Annotated[dict[str, Any], "How to schedule it: run, hints, availability_zone, host."] = {}
    annotations: Annotated[dict[str, Any] | None, "Annotations of a capsule."]
    exposed_ports: Annotated[dict[str, Any] | None, "The exposed ports, and where each is published.", Asked(since=24)]
    mounts: Annotated[  # malformed: an invalid mount, so that the creation fails
        list[Any] | None, "What is mounted.", Instead([{}]), Asked(since=11, if_empty=False)
    ]
    container_id: Annotated[str | None, "The id of the engine.", Text(64)]
    started_at: Annotated[datetime.datetime | None, "When its command started."]
    finished_at: Annotated[datetime.datetime | None, "When its command ended."]
    exit_code: Annotated[int | None, "How its command ended."]
    cpuset: Annotated[
        dict[str, Any] | None, "The claim: a plan with its CPUs and memory nodes.", Readable(Plan.from_dict)
    ]


class Capsule(Noun):
    """The answers about a capsule. It is stored and sent as a container."""

    uuid: Annotated[str, "The id, which the service gives.", Shown()]
    links: Annotated[list[dict[str, str]], "Where the API has it.", LINKS, Shown()]
    user_id: Annotated[str | None, "The user who created it.", Shown()]
    project_id: Annotated[str | None, "The project that it belongs to.", Shown()]
    created_at: Annotated[datetime.datetime | None, "When it was created.", Shown()]
    updated_at: Annotated[datetime.datetime | None, "When it was changed last.", Shown()]
    addresses: Annotated[dict[str, Any], "Addresses by network, which its containers share.", Shown()]
    status: Annotated[str | None, "The state of the capsule.", Shown()]
    status_reason: Annotated[str | None, "Why it has this status.", Shown()]
    annotations: Annotated[dict[str, Any], "Annotations of its template.", Shown()]
    cpu: Annotated[float | None, "CPUs that its containers may use together.", Shown()]
    memory: Annotated[str, "MiB that its containers may use together.", Shown()]
    containers: Annotated[list[dict[str, Any]], "Its containers.", UNSTORED, Shown()]
    init_containers: Annotated[list[dict[str, Any]], "Those that run before the others start.", UNSTORED, Shown()]
    restart_policy: Annotated[
        str | dict[str, str] | None, "When the engine starts its containers again; below 1.32 the name.", Shown()
    ]
    host: Annotated[str | None, "The host that it is on.", OPTIONAL, Shown()]
    meta_name: Annotated[str | None, "The name, below 1.32.", UNSTORED, OPTIONAL, Shown()]
    meta_labels: Annotated[dict[str, str], "The labels, below 1.32.", UNSTORED, OPTIONAL, Shown()]
    volumes_info: Annotated[dict[str, Any], "Empty, below 1.32.", UNSTORED, OPTIONAL, Shown()]
    capsule_version: Annotated[str, "Empty, below 1.32.", UNSTORED, OPTIONAL, Shown()]
    containers_uuids: Annotated[list[str], "Empty, below 1.32.", UNSTORED, OPTIONAL, Shown()]
    init_containers_uuids: Annotated[list[str], "Empty, below 1.32.", UNSTORED, OPTIONAL, Shown()]
    name: Annotated[str | None, "The name.", Shown(since=32)]
    labels: Annotated[dict[str, str], "Labels of its template.", Shown(since=32)]
    cpu_policy: Annotated[str | None, "The CPU policy of its containers together.", Shown(since=41)]
    cpu_thread_policy: _CpuThreadPolicy
    cpu_isolation: _CpuIsolation
    numa_nodes: _NumaNodes
    numa_affinity: _NumaAffinity
    numa_cpus: _NumaCpus
    numa_mem: _NumaMem
    numa_mempolicy: _NumaMempolicy
    mem_page_size: _MemPageSize
    cpuset_cpus: _CpusetCpus
    cpuset_mems: _CpusetMems
    cpuset_isolation: _CpusetIsolation
    required_traits: _RequiredTraits
    forbidden_traits: _ForbiddenTraits
    any_traits: _AnyTraits
    member_of: _MemberOf
    published_ports: Annotated[
        dict[str, dict[str, Any]], "Where the exposed ports are reached.", UNSTORED, Shown(since=42)
    ]
