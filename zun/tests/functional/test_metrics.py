# SPDX-License-Identifier: Apache-2.0
"""Metrics of a cloud that runs in this process."""

import datetime

from oslo_utils import timeutils
from prometheus_client import REGISTRY

from zun.common import exceptions
from zun.db import services
from zun.tests.fixtures import wait_for
from zun.tests.functional.cloud import Cloud, machine


def value(name, **labels):
    return REGISTRY.get_sample_value(name, labels)


def counts():
    return {
        "placed": value("zun_scheduler_decisions_total", outcome="placed") or 0,
        "refused": value("zun_scheduler_decisions_total", outcome="refused") or 0,
        "rejected": value("zun_scheduler_rejected_hosts_total", filter="CPUFilter") or 0,
        "kept": value("zun_compute_claim_seconds_count", outcome="kept") or 0,
        "running": value("zun_compute_create_seconds_count", status="Running") or 0,
    }


def test_a_life(database, context):
    cpus = {"host": "host-1", "cell": "0"}
    before = counts()
    with Cloud({"host-1": machine(cells=1)}) as cloud:
        container = cloud.run(context, cpu=2, cpu_policy="dedicated")
        assert container.status == "Running"
        assert value("zun_compute_cell_cpus", state="held", **cpus) == 2
        assert value("zun_compute_cell_cpus", state="free", **cpus) == 2
        assert cloud.run(context, cpu=3, cpu_policy="dedicated").status == "Error"
        after = counts()
    assert {name: after[name] - before[name] for name in before} == dict.fromkeys(before, 1)
    assert value("zun_compute_cell_cpus", state="held", **cpus) is None, "a service that has ended shows nothing"


def test_a_runtime_that_hangs_and_recovers(database):
    with Cloud({"host-1": machine(cells=1)}, compute__heartbeat_interval=1) as cloud:
        assert value("zun_compute_runtime_up", host="host-1") == 1
        cloud.drivers["host-1"].fail("ping", exceptions.Unavailable("no answer"), times=1_000_000)
        wait_for(lambda: value("zun_compute_runtime_up", host="host-1") == 0)
        cloud.drivers["host-1"].end_failures("ping")
        wait_for(lambda: value("zun_compute_runtime_up", host="host-1") == 1)


def test_heartbeats(database):
    labels = {"host": "host-1", "binary": "zun-compute"}

    def age():
        return value("zun_service_heartbeat_age_seconds", **labels)

    with Cloud({"host-1": machine(cells=1)}) as cloud:
        wait_for(lambda: age() is not None)
        assert 0 <= age() < 60
        silent = timeutils.utcnow() - datetime.timedelta(seconds=1000)
        services.update(labels["host"], labels["binary"], {"last_seen_up": silent})
        cloud.scheduler._heartbeat()
        assert age() >= 1000
    assert age() is None
