# SPDX-License-Identifier: Apache-2.0
"""Real containers with stand-ins for devices while their agent is killed: no device twice, none missing.

The life is that of ``device_life``: random creates, deletes and kills of containers and of the agent. The machine is
this one with further PCI devices (``standins``): cards with virtual functions, a group of VFIO, one without an IOMMU,
network cards, and files.

``ZUN_DEVICE_STEPS`` is the number of steps, ``ZUN_DEVICE_SEED`` says which.
"""

import json
import os
import uuid

import docker
import pytest

from zun.tests.integration.device_life import VERSION, Life, Part
from zun.tests.integration.programs import Api, free_port
from zun.tests.integration.standins import StandIns
from zun.tests.machines.kernel import status as kernel_facts

STEPS = int(os.environ.get("ZUN_DEVICE_STEPS", "40"))
SEED = int(os.environ.get("ZUN_DEVICE_SEED", "20261124"))
pytestmark = [pytest.mark.slow, pytest.mark.docker, pytest.mark.distributed, pytest.mark.timeout(240 + 10 * STEPS)]

PF, VFS = "0000:a1:00.0", ("0000:a1:00.1", "0000:a1:00.2", "0000:a1:00.3")
NIC, NIC_VFS = "0000:a2:00.0", ("0000:a2:10.0", "0000:a2:10.1")
VFIO, NATIVE, ALONE = ("0000:a3:00.0", "0000:a3:00.1"), "0000:a3:00.2", "0000:a4:00.0"
GROUP, NO_IOMMU = 99000001, 99000002
#: Containers with files of VFIO have no limit on locked memory, which the kernel grants with CAP_SYS_RESOURCE alone.
MAY_RAISE_LIMITS = bool(int(kernel_facts("self")["CapEff"], 16) >> 24 & 1)
SPECS = (
    {"address": {"bus": "a1", "function": "[1-3]"}, "resource_class": "CUSTOM_VF"},
    {"address": PF, "resource_class": "CUSTOM_PF"},
    {"address": "0000:a2:10.*", "resource_class": "CUSTOM_NIC_VF"},
    {"address": NIC, "resource_class": "CUSTOM_NIC"},
    {"address": NATIVE, "resource_class": "CUSTOM_NATIVE"},
    {"address": "0000:a3:00.*", "resource_class": "CUSTOM_VFIO"},
    {"address": ALONE, "resource_class": "CUSTOM_VFIO"},
)
ONE = ("CUSTOM_VF", "CUSTOM_PF", "CUSTOM_NIC_VF", "CUSTOM_NIC", "CUSTOM_NATIVE", "CUSTOM_VFIO", "CUSTOM_FILE")
WANTED = (
    *(({"resource_class": each},) for each in ONE),
    ({"resource_class": "CUSTOM_VF", "count": 2},),
    ({"resource_class": "CUSTOM_NIC_VF"}, {"resource_class": "CUSTOM_VF"}),
    ({"resource_class": "CUSTOM_VFIO", "count": 2}, {"resource_class": "CUSTOM_FILE"}),
)


@pytest.fixture
def tag():
    return f"z{uuid.uuid4().hex[:6]}"


@pytest.fixture
def standins(tmp_path, tag):
    made = StandIns(tmp_path / "root", tag)
    yield made
    made.remove()


@pytest.fixture
def parts(standins, tag):
    """The devices as the test knows them."""
    found = []

    def card(kind, address, *words, rules_out=(), **facts):
        files = standins.card(address, *words, **facts)
        found.append(Part(address, kind, files, facts.get("interface"), frozenset(rules_out)))

    card("CUSTOM_PF", PF, "1da3", "1020", "120000", "habanalabs", files=("accel0",), rules_out=VFS)
    for number, each in enumerate(VFS, 1):
        files = (f"accel{number}", f"accel_controlD{number}")
        card("CUSTOM_VF", each, "1da3", "1021", "120000", "habanalabs", files=files, physical=PF, rules_out=(PF,))
    card("CUSTOM_NIC", NIC, "8086", "10c9", "020000", "igb", interface=f"{tag}p", rules_out=NIC_VFS)
    for number, each in enumerate(NIC_VFS):
        names = {"interface": f"{tag}v{number}", "physical": NIC}
        card("CUSTOM_NIC_VF", each, "8086", "10ca", "020000", "igbvf", **names, rules_out=(NIC,))
    vfio = VFIO if MAY_RAISE_LIMITS else ()
    for each in vfio:
        others = {*vfio, NATIVE} - {each}
        card("CUSTOM_VFIO", each, "10de", "2684", "030000", "vfio-pci", group=GROUP, rules_out=others)
    card("CUSTOM_NATIVE", NATIVE, "1d94", "1111", "108000", "ccp", files=("ccp",), group=GROUP, rules_out=vfio)
    if MAY_RAISE_LIMITS:
        card("CUSTOM_VFIO", ALONE, "10de", "2684", "030000", "vfio-pci", group=NO_IOMMU, protected=False)
    for number in range(3):
        path = standins.device(f"/dev/{tag}/file{number}")
        found.append(Part(path, "CUSTOM_FILE", frozenset({path})))
    return {each.address: each for each in found}


@pytest.fixture
def life(program, docker_url, rabbit_url, database_url, standins, tag, parts):
    name, port = f"test-{tag}", free_port()
    common = {
        "DEFAULT": {"host": name, "transport_url": rabbit_url, "control_exchange": name},
        "database": {"connection": database_url},
        "oslo_messaging_rabbit": {"rabbit_quorum_queue": "true"},
    }
    code, said = program("db_manage", words=("upgrade",), **common).run_to_end()
    assert code == 0, said
    specs = (*SPECS, {"path": f"/dev/{tag}/file?", "resource_class": "CUSTOM_FILE"})
    agent = program(
        "zun.tests.integration.agent_of_tree",
        docker={"api_url": docker_url},
        compute={"reserved_host_memory_mb": 128, "sync_container_state_interval": 2, "audit_host_processes": "none"},
        devices={"device_spec": "\ndevice_spec = ".join(map(json.dumps, specs))},
        **common,
    )
    agent.environment = {**os.environ, "ZUN_TEST_ROOT": str(standins.root)}
    again = {"sweep_interval": 1, "lost_after": 3, "booking_deadline": 5}
    scheduler = program("scheduler", scheduler=again, **common)
    server = program("api", api={"port": port, "auth_strategy": "noauth"}, **common)
    for each in (agent, scheduler, server):
        each.start()
    engine = docker.APIClient(docker_url, version="auto")
    yield Life(Api(f"http://127.0.0.1:{port}/v1", version=VERSION), agent, name, engine, parts, WANTED)
    for each in (agent, scheduler, server):
        each.kill()
    for each in engine.containers(all=True, filters={"label": f"zun.host={name}"}):
        engine.remove_container(each["Id"], force=True)
    engine.close()


def test_no_device_twice_and_none_missing(life):
    life.live(STEPS, SEED)
    assert life.done["one more, placed"] and life.done["one more, refused"]
