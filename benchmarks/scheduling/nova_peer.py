# SPDX-License-Identifier: Apache-2.0
"""Nova's HostManager on the same cloud: run by the Python that has nova, not by this project's.

    python nova_peer.py FILE

FILE holds machine, hosts and requests in JSON (``peers.py`` writes it); the figures are printed in JSON. Measured are
the filters, NUMATopologyFilter among them, and the weighers. Reading the database, asking Placement and taking the
resources of the chosen host are not part of it.
"""

import json
import logging
import sys

import peer_times


def main() -> int:
    with open(sys.argv[1], encoding="utf-8") as source:
        cloud = json.load(source)
    logging.disable(logging.CRITICAL)
    from nova import conf, objects
    from nova.objects import fields
    from nova.scheduler import host_manager
    from oslo_utils import timeutils, uuidutils

    conf.CONF([], project="nova", default_config_files=[])
    conf.CONF.set_override("track_instance_changes", False, "filter_scheduler")
    filters = [*conf.CONF.filter_scheduler.enabled_filters, "NUMATopologyFilter"]
    conf.CONF.set_override("enabled_filters", filters, "filter_scheduler")
    objects.register_all()

    class WithoutDatabase(host_manager.HostManager):
        def refresh_cells_caches(self):
            self.cells = {}

        def _init_aggregates(self):
            """Do nothing: the cloud has no aggregates."""

    manager = WithoutDatabase()
    up = objects.Service(
        host="h", topic="compute", binary="nova-compute", disabled=False, forced_down=False, report_count=1
    )
    up.last_seen_up = timeutils.utcnow(with_timezone=True)

    def topology(held):
        cells = []
        for cell, taken in zip(cloud["machine"], held, strict=True):
            cells.append(
                objects.NUMACell(
                    id=cell["id"],
                    socket=0,
                    cpuset=set(cell["cpus"]),
                    pcpuset=set(cell["cpus"]),
                    pinned_cpus=set(taken["cpus"]),
                    siblings=[set(core) for core in cell["siblings"]],
                    cpu_usage=taken["shared"],
                    memory=cell["memory_mib"],
                    memory_usage=taken["memory_mib"],
                    mempages=[
                        objects.NUMAPagesTopology(size_kb=4, total=cell["memory_mib"] * 256, used=0, reserved=0)
                    ],
                    network_metadata=objects.NetworkMetadata(physnets=set(), tunneled=False),
                )
            )
        return objects.NUMATopology(cells=cells)

    cpus = sum(len(cell["cpus"]) for cell in cloud["machine"])
    memory = sum(cell["memory_mib"] for cell in cloud["machine"])
    topologies = [topology(held) for held in cloud["kinds"]]
    states = []
    for number in range(cloud["hosts"]):
        name, held = f"host-{number:05}", cloud["kinds"][number % len(cloud["kinds"])]
        state = host_manager.HostState(name, name, uuidutils.generate_uuid())
        state.uuid = uuidutils.generate_uuid()
        state.total_usable_ram_mb = memory
        state.free_ram_mb = memory - sum(each["memory_mib"] for each in held)
        state.total_usable_disk_gb, state.free_disk_mb, state.disk_mb_used = 10000, 10000 * 1024, 0
        state.vcpus_total, state.vcpus_used = cpus, sum(len(each["cpus"]) for each in held)
        state.cpu_allocation_ratio, state.ram_allocation_ratio, state.disk_allocation_ratio = 4.0, 1.0, 1.0
        state.hypervisor_type, state.hypervisor_version, state.supported_instances = "QEMU", 8000000, []
        state.numa_topology = topologies[number % len(topologies)]
        state.service = up
        state.updated = timeutils.utcnow()
        state.allocation_candidates = [{"mappings": {}}]
        states.append(state)

    def spec(request):
        wanted = None
        if request["dedicated"]:
            cells, first = [], 0
            for number, (count, mib) in enumerate(request["parts"]):
                cells.append(
                    objects.InstanceNUMACell(
                        id=number,
                        cpuset=set(),
                        pcpuset=set(range(first, first + count)),
                        memory=mib,
                        cpu_policy=fields.CPUAllocationPolicy.DEDICATED,
                        cpu_thread_policy=request["threads"],
                    )
                )
                first += count
            wanted = objects.InstanceNUMATopology(cells=cells)
        flavor = objects.Flavor(
            vcpus=max(1, int(request["cpus"])), memory_mb=request["memory_mib"], root_gb=1, ephemeral_gb=0, swap=0,
            extra_specs={},
        )
        return objects.RequestSpec(
            flavor=flavor,
            image=objects.ImageMeta(properties=objects.ImageMetaProps()),
            numa_topology=wanted,
            pci_requests=objects.InstancePCIRequests(requests=[]),
            project_id="demo",
            instance_uuid=uuidutils.generate_uuid(),
            num_instances=1,
            availability_zone=None,
            ignore_hosts=None,
            force_hosts=None,
            force_nodes=None,
            requested_destination=None,
            retry=None,
            limits=objects.SchedulerLimits(),
            instance_group=None,
            scheduler_hints={},
            security_groups=objects.SecurityGroupList(objects=[]),
            request_level_params=objects.RequestLevelParams(),
        )

    def decide(wanted):
        fit = list(manager.get_filtered_hosts(states, wanted))
        return manager.get_weighed_hosts(fit, wanted) if fit else []

    peer_times.tell(cloud, spec, decide)
    return 0


if __name__ == "__main__":
    sys.exit(main())
