# SPDX-License-Identifier: Apache-2.0
"""Every failure has one shape, and says no more than its reader may know."""

import logging
import re

import oslo_messaging
import pytest
from oslo_db import exception as db_exc

from zun.common import exceptions

UUID = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"


def test_a_failure_has_the_shape_that_clients_read(api):
    reply = api.get("/v1/containers/nobody")
    text = "Container nobody could not be found. List them with 'openstack appcontainer list'."
    assert reply.status == 404
    assert reply.headers["content-type"] == "application/json"
    assert reply.json == {
        "errors": [
            {
                "request_id": "",
                "code": "container.container-not-found",
                "status": 404,
                "title": text,
                "detail": text,
                "links": [],
            }
        ]
    }


@pytest.mark.parametrize(
    ("failure", "refusal", "said"),
    [
        (exceptions.HostUnavailable(host="host-1"), (503, "host-unavailable"), "service list"),
        (exceptions.Conflict("it is not running"), (409, "conflict"), "it is not running"),
        (exceptions.ContainerNotFound(container="x"), (404, "container-not-found"), "x"),
        (oslo_messaging.MessagingTimeout(), (503, "unavailable"), "Try again"),
        (oslo_messaging.MessageDeliveryFailure("amqp://user:secret@queue"), (503, "unavailable"), "Try again"),
        (db_exc.DBConnectionError("mysql://user:secret@db"), (503, "unavailable"), "Try again"),
    ],
)
def test_failures_that_clients_are_told(api, placed, host_up, compute, failure, refusal, said):
    compute.failure = failure
    reply = api.get(f"/v1/containers/{placed().uuid}/logs")
    assert reply.refusal == refusal
    assert said in reply.error["detail"]
    assert "secret" not in reply.body.decode()


@pytest.mark.parametrize(
    "failure",
    [
        RuntimeError("the secret of the house"),
        exceptions.DockerError(error="the secret of the house"),
        exceptions.ZunError("the secret of the house"),
        KeyError("the secret of the house"),
        db_exc.DBError("the secret of the house"),
    ],
)
def test_failures_that_are_the_operators_business(api, placed, host_up, compute, caplog, failure):
    compute.failure = failure
    with caplog.at_level(logging.ERROR, logger="zun.api.errors"):
        reply = api.get(f"/v1/containers/{placed().uuid}/stats")
    assert (reply.refusal, reply.error["title"]) == ((500, ""), "Internal Server Error")
    assert "secret" not in reply.body.decode()
    incident = re.search(UUID, reply.error["detail"])[0]
    (record,) = caplog.records
    assert incident in record.getMessage()
    assert record.exc_info[1] is failure
    assert reply.headers["openstack-api-version"] == "container 1.40"


def test_nobody_waits_for_a_host_that_is_down(api, placed, compute):
    """No sign of life at all: 503 without a message being sent."""
    container = placed()
    for verb, action in (("GET", "logs"), ("GET", "top"), ("GET", "stats"), ("POST", "execute?command=ls")):
        reply = api.send(verb, f"/v1/containers/{container.uuid}/{action}")
        assert reply.refusal == (503, "host-unavailable")
        assert "host-1" not in reply.body.decode()  # which host it is, is an administrator's business
    assert compute.sent == []


def test_a_host_forced_down_is_down(api, admin_api, placed, host_up, compute):
    container = placed()
    admin_api.put("/v1/services/force_down?host=host-1&binary=zun-compute&forced_down=True")
    assert api.patch(f"/v1/containers/{container.uuid}", {"cpu": 2}).refusal == (503, "host-unavailable")
    assert api.get(f"/v1/containers/{container.uuid}").json["cpu"] == 1.0
    assert api.patch(f"/v1/containers/{container.uuid}", {"name": "still-possible"}).status == 200


def test_a_container_that_the_scheduler_never_heard_of(api, scheduler):
    scheduler.failure = oslo_messaging.MessageDeliveryFailure("down")
    reply = api.post("/v1/containers", {"image": "demo", "name": "unlucky"})
    assert reply.refusal == (503, "unavailable")
    shown = api.get("/v1/containers/unlucky").json
    assert (shown["status"], shown["status_reason"]) == (
        "Error",
        "The scheduler could not be reached. Delete it and try again.",
    )
    assert api.delete("/v1/containers/unlucky").status == 204
