# SPDX-License-Identifier: Apache-2.0
"""What is sent is what doc/source/reference/notifications has for each event.

``python -m zun.tests.unit.messaging.test_notifications`` writes the samples anew.
"""

import datetime
import json
import logging
import pathlib

import pytest

import zun
from zun.common.context import RequestContext
from zun.common.states import Status
from zun.compute.audit.audit_rules import Finding, Layer, Verdict
from zun.messaging import rpc
from zun.messaging.notifications import Notifier
from zun.objects import Container
from zun.tests.fixtures import notifications, own_conf

SAMPLES = pathlib.Path(zun.__file__).parents[1] / "doc/source/reference/notifications"
CONTEXT = RequestContext(user_id="alice", project_id="demo", roles=["member"])
UUID = "6f2f36d6-0e5c-4a25-9d3b-6f5a1c2d3e4f"
NOON = datetime.datetime(2026, 3, 4, 12, 0, 0, tzinfo=datetime.UTC)
CONTAINER = {
    "uuid": UUID,
    "name": "web",
    "kind": "container",
    "capsule_uuid": None,
    "project_id": "demo",
    "user_id": "alice",
    "image": "registry.example.com/web:1.2",
    "cpu": 4.0,
    "cpu_policy": "dedicated",
    "memory": 2048,
    "disk": 10,
    "created_at": NOON,
}
CLAIM = {"host": "host-1", "cpuset": {"cpuset_cpus": "2-5", "cpuset_mems": "0"}}
STARTED = {"started_at": NOON + datetime.timedelta(seconds=2)}
ENDED = STARTED | {"finished_at": NOON + datetime.timedelta(hours=1), "exit_code": 0}
EVENTS = {
    Status.CREATED: CLAIM,
    Status.RUNNING: CLAIM | STARTED,
    Status.PAUSED: CLAIM | STARTED,
    Status.STOPPED: CLAIM | ENDED,
    Status.RESTARTING: CLAIM | ENDED | {"exit_code": 137},
    Status.ERROR: {"host": "host-1", "status_reason": "Image registry.example.com/web:1.2 could not be found."},
    Status.UNKNOWN: CLAIM | STARTED | {"status_reason": "The runtime of the host does not answer."},
    Status.DEAD: CLAIM | ENDED | {"exit_code": 137},
    Status.DELETED: CLAIM | ENDED,
}
AUDIT = {
    "host": "host-1",
    "findings": [
        Finding(
            Verdict.DRIFTED, UUID, "web", Layer.CGROUP, "runs on CPUs 0-5, its claim is 2-5", "set to 2-5",
            repairable=True, repaired=True,
        ).to_dict()
    ],
    "containers": {"ok": 11, "drifted": 1},
    "totals": {"audits": 7, "repaired": 1, "drifted": 1},
    "isolation": [],
}


def notifier(drivers):
    conf = own_conf()
    rpc.register_opts(conf)
    conf.set_override("driver", drivers, group="oslo_messaging_notifications")
    return Notifier(conf, "zun-compute.host-1")


def sent():
    """Return every event as a program gets it, by event type."""
    with notifications() as heard:
        made = notifier(["log"])
        for status, more in EVENTS.items():
            made.status_changed(CONTEXT, Container(None, **CONTAINER, **more, status=str(status)))
        made.moved(CONTEXT, Container(None, **CONTAINER, **CLAIM, **STARTED, status="Running"))
        made.audited(CONTEXT, AUDIT)
    return {each["event_type"]: {name: each[name] for name in ENVELOPE} for each in heard}


ENVELOPE = ("event_type", "publisher_id", "priority", "payload")


@pytest.mark.parametrize(
    "event", [*(f"container.{status.lower()}" for status in EVENTS), "container.moved", "host.audit"]
)
def test_each_sample_is_what_is_sent(event):
    found = json.loads((SAMPLES / f"{event}.json").read_text())
    assert sent()[event] == found, "write the samples anew: python -m zun.tests.unit.messaging.test_notifications"


def test_each_event_has_a_sample_on_the_page():
    page = SAMPLES.with_suffix(".rst").read_text()
    assert {path.stem for path in SAMPLES.glob("*.json")} == sent().keys()
    assert all(f"notifications/{event}.json" in page for event in sent())


def test_nothing_is_sent_without_a_driver(context, caplog):
    caplog.set_level(logging.INFO, "oslo.messaging.notification")
    notifier([]).status_changed(context, Container(context, **CONTAINER, status="Running"))
    assert caplog.records == []


if __name__ == "__main__":
    SAMPLES.mkdir(exist_ok=True)
    for event, message in sent().items():
        (SAMPLES / f"{event}.json").write_text(json.dumps(message, indent=2) + "\n")
