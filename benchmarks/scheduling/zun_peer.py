# SPDX-License-Identifier: Apache-2.0
"""The FilterScheduler of the Zun on PyPI on the same cloud: run by the Python that has it, not by this project's.

    python zun_peer.py FILE

FILE is as for ``nova_peer.py``. Its reads of the database are replaced by lists that are there already, and Placement
grants everything. Its own default filters decide.
"""

import json
import logging
import sys

import peer_times


def main() -> int:
    with open(sys.argv[1], encoding="utf-8") as source:
        cloud = json.load(source)
    from oslo_utils import timeutils, uuidutils

    import zun.conf
    from zun import objects
    from zun.common import context as contexts
    from zun.objects import numa
    from zun.scheduler import filter_scheduler
    from zun.scheduler.client import report

    logging.disable(logging.CRITICAL)
    zun.conf.CONF([], project="zun", default_config_files=[])
    context = contexts.RequestContext(is_admin=True)
    now = timeutils.utcnow(with_timezone=True)
    nodes, services = [], []
    for number in range(cloud["hosts"]):
        name, held = f"host-{number:05}", cloud["kinds"][number % len(cloud["kinds"])]
        cells = [
            numa.NUMANode(
                id=str(cell["id"]),
                cpuset=set(cell["cpus"]),
                pinned_cpus=set(taken["cpus"]),
                mem_total=cell["memory_mib"],
                mem_available=cell["memory_mib"] - taken["memory_mib"],
            )
            for cell, taken in zip(cloud["machine"], held, strict=True)
        ]
        memory = sum(cell["memory_mib"] for cell in cloud["machine"])
        used = sum(taken["memory_mib"] for taken in held)
        nodes.append(
            objects.ComputeNode(
                context,
                uuid=uuidutils.generate_uuid(),
                rp_uuid=uuidutils.generate_uuid(),
                hostname=name,
                numa_topology=numa.NUMATopology(nodes=cells),
                mem_total=memory,
                mem_free=memory - used,
                mem_available=memory - used,
                mem_used=used,
                cpus=sum(len(cell["cpus"]) for cell in cloud["machine"]),
                cpu_used=float(sum(len(taken["cpus"]) + taken["shared"] for taken in held)),
                disk_total=10000,
                disk_used=10,
                disk_quota_supported=False,
                enable_cpu_pinning=True,
                labels={},
                runtimes=["runc"],
                architecture="x86_64",
                os_type="linux",
                os="linux",
                kernel_version="6.1",
                total_containers=5,
                running_containers=5,
                paused_containers=0,
                stopped_containers=0,
                pci_device_pools=None,
                created_at=now,
                updated_at=now,
            )
        )
        services.append(
            objects.ZunService(
                context,
                id=number,
                host=name,
                binary="zun-compute",
                disabled=False,
                disabled_reason=None,
                forced_down=False,
                last_seen_up=now,
                report_count=1,
                created_at=now,
                updated_at=now,
                availability_zone="nova",
            )
        )
    for cls, found in ((objects.ComputeNode, nodes), (objects.ZunService, services)):
        for method in ("list", "list_by_binary"):
            if hasattr(cls, method):
                setattr(cls, method, staticmethod(lambda *args, found=found, **kwargs: found))

    class Placement:
        """A Placement client that grants every claim at once, so that Placement's time is left out."""

        def __getattr__(self, name):
            return lambda *args, **kwargs: True

    report.SchedulerReportClient = Placement
    scheduler = filter_scheduler.FilterScheduler()
    summaries = {node.rp_uuid: {} for node in nodes}
    requests = {node.rp_uuid: [{}] for node in nodes}

    def container(wanted):
        return objects.Container(
            context,
            uuid=uuidutils.generate_uuid(),
            cpu=float(wanted["cpus"]),
            cpu_policy="dedicated" if wanted["dedicated"] else "shared",
            memory=str(wanted["memory_mib"]),
            disk=1,
            runtime=None,
            host=None,
            project_id="demo",
            user_id="alice",
        )

    def decide(wanted):
        return scheduler.select_destinations(context, [wanted], {}, requests, summaries, "1.36")

    peer_times.tell(cloud, container, decide)
    return 0


if __name__ == "__main__":
    sys.exit(main())
