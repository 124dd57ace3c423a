# SPDX-License-Identifier: Apache-2.0
"""Capsules: each container on its own part of the claim, and volumes in memory where the capsule claims them."""

import base64
import io
import os
import pathlib
import tarfile

import pytest

from zun.tests.fixtures import wait_for
from zun.tests.machines import kernel, probes
from zun.tests.machines.containers import IMAGE, PATIENCE, one_more_refused, when_touched
from zun.topology import CpuSet

MIB = 1 << 20


@pytest.fixture(autouse=True)
def _capsules(api, containers, monkeypatch):
    monkeypatch.setitem(api._session.headers, "OpenStack-API-Version", "container 1.51")
    yield
    containers.delete_capsules()


def box(cpu, memory=64, command=probes.IDLE, volume=None, **placement):
    """Return a container of a template, with a volume at /cache and a placement of its own if these are given."""
    asked = {"image": IMAGE, "command": command, "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    mounts = {"volumeMounts": [{"name": volume, "mountPath": "/cache"}]} if volume else {}
    return {**asked, **mounts, **({"placement": placement} if placement else {})}


def dedicated(cpu, memory=64, command=probes.IDLE, **fields):
    return box(cpu, memory, command, cpu_policy="dedicated", **fields)


def in_memory(name, size):
    return {"name": name, "emptyDir": {"medium": "Memory", "sizeLimit": size}}


def run(containers, *boxes, **spec):
    return containers.capsule(containers.ask_capsule(*boxes, **spec))


def mounted(uuid):
    """Return where the host has the only volume in memory of a capsule, and with which options."""
    lines = pathlib.Path("/proc/mounts").read_text().splitlines()
    ((_, place, kind, options, *_),) = (line.split() for line in lines if uuid in line)
    assert kind == "tmpfs"
    return pathlib.Path(place), options.split(",")


def limit(placed):
    return int((placed.group / "memory.max").read_text()) // MIB


def test_each_container_is_on_its_part(containers, machine, nodes_of, record_property):
    """A dedicated one that fills a node, a mixed one and one of the pool on others."""
    whole = max(len(cell.cpus) for cell in machine.cells)
    capsule = run(
        containers,
        dedicated(whole, 160, probes.touching_on_each_cpu(16)),
        box(2.5, 96, probes.touching(48), cpu_policy="mixed", dedicated_cpus=2),
        box(0.5, 96, probes.touching(48)),
    )
    own, mixed, shared = capsule.members
    (home,) = nodes_of(own.cpus)
    assert own.cpus == machine.cell(home).cpus and own.mems == CpuSet([home])
    (near,) = nodes_of(mixed.cpus)
    assert near != home and mixed.mems == CpuSet([near])
    topology = containers.topology()
    (claim,) = topology["claims"]
    pool, apart = CpuSet(topology["shared"]), CpuSet(claim["cpuset_dedicated"]) - own.cpus
    assert len(apart) == 2 and not pool & (own.cpus | apart)
    assert mixed.cpus == apart | (pool & machine.cell(near).cpus)
    assert shared.cpus == pool & CpuSet(cpu for node in shared.mems for cpu in machine.cell(node).cpus)
    assert home not in shared.mems
    assert capsule.sandbox.cpus == own.cpus | mixed.cpus | shared.cpus
    assert sum(capsule.sandbox.memory_mib.values()) == 160 + 96 + 96 and capsule.sandbox.memory_mib[home] == 160
    assert [limit(each) for each in capsule.members] == [160, 96, 96]
    pages = [when_touched(each.pid) for each in capsule.members]
    assert [CpuSet(each) <= placed.mems for each, placed in zip(pages, capsule.members, strict=True)] == [True] * 3
    assert pages[0][home] > 16 * whole
    for name, each, found in zip(("dedicated", "mixed", "shared"), capsule.members, pages, strict=True):
        touched = {node: round(mib, 1) for node, mib in found.items()}
        record_property(f"{name}: CPUs, memory nodes, MiB by node", f"{each.cpus}, {each.mems}, {touched}")
    record_property("the mixed one's own CPUs; MiB claimed by node", f"{apart}; {capsule.sandbox.memory_mib}")


@pytest.fixture
def engine_on():
    """A function that lets the engine run on some CPUs only, until the test ends."""
    pids = [int(each) for each in kernel.program("pidof", "dockerd").split()]
    tasks = [int(task.rpartition("/")[2]) for pid in pids for task in kernel.threads(pid)]
    before = {task: os.sched_getaffinity(task) for task in tasks}

    def put(cpus):
        for pid in pids:
            kernel.program("taskset", "-a", "-p", "-c", str(cpus), str(pid))

    yield put
    every = set().union(*before.values())
    put(CpuSet(every))


def copy_in(containers, uuid, name, mib):
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        entry = tarfile.TarInfo(name)
        entry.size = mib * MIB
        tar.addfile(entry, io.BytesIO(bytes(entry.size)))
    data = base64.b64encode(archive.getvalue()).decode()
    answer = containers.api.request("POST", f"/containers/{uuid}/put_archive?path=/cache", json={"data": data})
    assert answer.status_code == 200, answer.text


def test_volume_in_memory_is_on_the_node_of_its_claim(containers, machine, nodes_of, engine_on, record_property):
    """The claim is that of the container that mounts the volume. Files that the engine copies are on its node, too."""
    whole = max(len(cell.cpus) for cell in machine.cells)
    writer = probes.writing("/cache/big", 24, 16)
    capsule = run(
        containers, dedicated(whole, 160, writer, volume="fast"), box(0.5), volumes=[in_memory("fast", "32M")]
    )
    own, shared = capsule.members
    (home,) = nodes_of(own.cpus)
    assert home not in shared.mems
    assert capsule.sandbox.memory_mib[home] == 160 + 32 and sum(capsule.sandbox.memory_mib.values()) == 160 + 32 + 64
    wait_for(lambda: kernel.status(own.pid)["Name"] in (probes.REFUSED, probes.TOUCHED), PATIENCE)
    assert kernel.status(own.pid)["Name"] == probes.REFUSED  # 24 MiB fit, 16 more do not
    place, options = mounted(capsule.sandbox.uuid)
    assert "size=32768k" in options and f"mpol=prefer:{home}" in options
    written = kernel.file_mib(place / "data" / "big")
    assert written == {home: 24}
    (far,) = (cell for cell in machine.cells if cell.id == max(shared.mems))
    engine_on(far.cpus)
    copy_in(containers, own.uuid, "copied", 4)
    copied = kernel.file_mib(place / "data" / "copied")
    assert copied == {home: 4}
    record_property("node of the claim; MiB claimed by node", f"{home}; {capsule.sandbox.memory_mib}")
    record_property("MiB by node: written by the container, copied by the engine on another", f"{written}, {copied}")
    record_property("24 + 16 MiB in a volume of 32 MiB", kernel.status(own.pid)["Name"])


def test_pages_of_a_volume_follow_a_writer_elsewhere(containers, machine, nodes_of, record_property):
    """The kernel gives no page of a node that the writer may not use. It is within the limit of the writer."""
    whole = max(len(cell.cpus) for cell in machine.cells)
    capsule = run(
        containers,
        dedicated(whole, 64, volume="fast"),
        dedicated(1, 96, probes.writing("/cache/big", 8, 1), volume="fast"),
        volumes=[in_memory("fast", "16M")],
    )
    first, second = capsule.members
    (home,), (other,) = nodes_of(first.cpus), nodes_of(second.cpus)
    assert home != other and capsule.sandbox.memory_mib == {home: 64 + 16, other: 96}
    wait_for(lambda: kernel.status(second.pid)["Name"] == probes.TOUCHED, PATIENCE)
    place, options = mounted(capsule.sandbox.uuid)
    assert f"mpol=prefer:{home}" in options
    found = kernel.file_mib(place / "data" / "big")
    assert found == {other: 8}
    used = int((second.group / "memory.current").read_text()) // MIB
    assert 8 < used <= 96
    record_property("node of the claim, node of the writer, MiB by node", f"{home}, {other}, {found}")


def test_volume_of_a_dedicated_capsule_is_on_its_node(containers, machine, nodes_of, record_property):
    """Containers that are alike. With a volume that no node has room for, the capsule is refused."""
    spec = {"placement": {"cpu_policy": "dedicated"}}
    most = max(cell.memory_mib for cell in machine.cells)
    uuid = containers.ask_capsule(box(1, 64, volume="fast"), volumes=[in_memory("fast", f"{most}M")], **spec)
    refused = containers.settled_capsule(uuid)
    assert refused["status"] == "Error" and "No valid host" in refused["status_reason"]
    capsule = run(
        containers,
        box(2, 96, probes.writing("/cache/one", 8, 1), volume="fast"),
        box(1, 96, probes.writing("/cache/two", 8, 1), volume="fast"),
        volumes=[in_memory("fast", "32M")],
        **spec,
    )
    (home,) = nodes_of(capsule.sandbox.cpus)
    assert capsule.sandbox.memory_mib == {home: 96 + 96 + 32}
    for each in capsule.members:
        wait_for(lambda pid=each.pid: kernel.status(pid)["Name"] == probes.TOUCHED, PATIENCE)
    place, _ = mounted(capsule.sandbox.uuid)
    assert [kernel.file_mib(place / "data" / name) for name in ("one", "two")] == [{home: 8}, {home: 8}]
    record_property("MiB claimed by node; refused", f"{capsule.sandbox.memory_mib}; {refused['status_reason']}")


def test_huge_pages_are_of_one_container(containers, huge_pages, nodes_of, record_property):
    wait_for(lambda: kernel.free_huge_pages() == huge_pages, PATIENCE)  # the test before has given them back
    capsule = run(
        containers,
        dedicated(1, 16, probes.taking_pages(8), mem_page_size=2048),
        dedicated(1, 64, probes.taking_pages(0)),
    )
    paged, plain = capsule.members
    (home,) = nodes_of(paged.cpus)
    bounds = [
        (each.group / f"hugetlb.2MB.{kind}").read_text().strip()
        for each in (paged, plain, capsule.sandbox)
        for kind in ("max", "rsvd.max")
    ]
    assert bounds == [str(16 * MIB)] * 2 + ["0"] * 4
    assert one_more_refused(plain.pid) and kernel.free_huge_pages() == huge_pages
    assert one_more_refused(paged.pid)
    free = kernel.free_huge_pages()
    assert free == {**huge_pages, home: huge_pages[home] - 8}
    record_property("node; free pages by node; limits in MiB", f"{home}; {free}; 16 and 0, of the sandbox 0")


def test_same_cell_puts_all_on_one_node_or_refuses(containers, nodes_of, record_property):
    three = [dedicated(3), dedicated(3)]
    uuid = containers.ask_capsule(*three, placement={"same": "cell"})
    refused = containers.settled_capsule(uuid)
    assert refused["status"] == "Error", "two containers of 3 CPUs do not fit on one node of 4"
    assert "not with all dedicated CPUs in one cell" in refused["status_reason"]
    loose = run(containers, *three, placement={"same": "none"})
    nodes = [set(nodes_of(each.cpus)) for each in loose.members]
    assert [len(each) for each in nodes] == [1, 1] and nodes[0] != nodes[1]
    together = run(containers, dedicated(2), dedicated(2), placement={"same": "cell"})
    (home,) = nodes_of(CpuSet(cpu for each in together.members for cpu in each.cpus))
    assert [str(each.mems) for each in together.members] == [str(home)] * 2
    record_property("refused", refused["status_reason"])
    record_property("the same with none", ", ".join(f"CPUs {each.cpus}" for each in loose.members))
    record_property("2 and 2 CPUs with cell", ", ".join(f"CPUs {each.cpus}" for each in together.members))


def test_pool_of_a_container_narrows_while_it_runs(containers, machine, record_property):
    capsule = run(containers, dedicated(1), box(0.5, 64, probes.several(3)))
    own, shared = capsule.members
    before = kernel.effective(shared.group)[0]
    assert not before & own.cpus
    other = containers.dedicated(2, memory=32)
    assert other.mems == shared.mems  # the shared one has something to leave
    now = containers.capsule(capsule.sandbox.uuid)
    assert now.members[0] == own
    assert (now.members[1].pid, now.members[1].cpus) == (shared.pid, before - other.cpus)
    assert now.sandbox.cpus == capsule.sandbox.cpus - other.cpus
    containers.delete(other.uuid)
    wait_for(lambda: kernel.effective(shared.group)[0] == before, PATIENCE)  # soon after the answer
    wait_for(lambda: containers.capsule(capsule.sandbox.uuid) == capsule, PATIENCE)
    record_property("CPUs of the shared one: before, beside a dedicated one, after", f"{before}, "
                    f"{now.members[1].cpus}, {before}")


def resize(containers, placed, **change):
    return containers.api.request("PATCH", f"/containers/{placed.uuid}", json=change)


def test_container_is_resized_within_its_own_amounts(containers, nodes_of, record_property):
    """Its volume in memory stays claimed: no container gets the MiB of it."""
    capsule = run(
        containers, dedicated(3, 128, probes.touching(32), volume="fast"), box(0.5, 64),
        volumes=[in_memory("fast", "32M")],
    )
    own, shared = capsule.members
    (home,) = nodes_of(own.cpus)
    seen = [own.cpus]
    for cpu in (1, 2, 3):
        assert (answer := resize(containers, own, cpu=cpu)).status_code == 200, answer.text
        now, beside = containers.capsule(capsule.sandbox.uuid).members  # API, Docker and kernel agree
        assert (len(now.cpus), now.pid, now.mems) == (cpu, own.pid, own.mems)
        assert now.cpus <= own.cpus and beside == shared  # what it left is still the capsule's
        seen.append(now.cpus)
    for change in ({"cpu": 4}, {"memory": 129}):
        refused = resize(containers, own, **change)
        assert refused.status_code == 409, refused.text
        assert "can have 3 CPUs and 128 MiB at most" in refused.json()["errors"][0]["detail"]
    assert resize(containers, own, memory=96).status_code == 200
    now = containers.capsule(capsule.sandbox.uuid)
    assert (now.members[0], limit(now.members[0]), now.sandbox.memory_mib) == (own, 96, capsule.sandbox.memory_mib)
    assert set(when_touched(own.pid)) == {home}
    record_property("CPUs with 3, 1, 2 and 3; pid", f"{', '.join(map(str, seen))}; always {own.pid}")


def test_containers_of_a_dedicated_capsule_share_it_out_anew(containers, nodes_of, record_property):
    capsule = run(containers, box(2, 64), box(2, 64), placement={"cpu_policy": "dedicated"})
    one, two = capsule.members
    assert resize(containers, two, cpu=3).status_code == 409
    for each, cpu in ((one, 1), (two, 3)):
        assert (answer := resize(containers, each, cpu=cpu)).status_code == 200, answer.text
    now = containers.capsule(capsule.sandbox.uuid)
    assert now.sandbox == capsule.sandbox
    assert [each.pid for each in now.members] == [one.pid, two.pid]
    assert now.members[0].cpus <= one.cpus and two.cpus <= now.members[1].cpus
    assert now.members[0].cpus | now.members[1].cpus == capsule.sandbox.cpus
    assert not now.members[0].cpus & now.members[1].cpus and len(nodes_of(now.sandbox.cpus)) == 1
    record_property("CPUs before; after", f"{one.cpus}, {two.cpus}; {now.members[0].cpus}, {now.members[1].cpus}")
