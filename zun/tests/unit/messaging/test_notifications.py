# SPDX-License-Identifier: Apache-2.0
import json
import logging

import pytest

from zun.messaging import rpc
from zun.messaging.notifications import Notifier
from zun.objects import Container
from zun.tests.fixtures import own_conf

TOLD = {"project_id": "demo", "host": "h1", "status": "Error", "status_reason": "no such image"}
TOLD["uuid"] = "6f2f36d6-0e5c-4a25-9d3b-6f5a1c2d3e4f"


@pytest.mark.parametrize("drivers", [[], ["log"]])
def test_what_is_told_of_a_container(context, caplog, drivers):
    conf = own_conf()
    rpc.register_opts(conf)
    conf.set_override("driver", drivers, group="oslo_messaging_notifications")
    caplog.set_level(logging.INFO, "oslo.messaging.notification.container.error")
    Notifier(conf, "zun-compute.h1").status_changed(context, Container(context, **TOLD, cpu=2.0))
    sent = [json.loads(each.getMessage()) for each in caplog.records if "notification" in each.name]
    assert [(each["event_type"], each["payload"]) for each in sent] == [("container.error", TOLD)] * len(drivers)
