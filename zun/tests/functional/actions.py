# SPDX-License-Identifier: Apache-2.0
"""Accept actions on containers as the API does, and wait for their end."""

from zun.common.context import RequestContext
from zun.db import container_actions as db_actions
from zun.db import containers as db
from zun.tests.fixtures import wait_for

HOUR = 3600

# Action -> the message and the events of one that ends well.
WELL = {action: (None, [(f"compute__do_container_{action}", "Success")]) for action in ("stop", "kill")}


def asked(action, container, number=1):
    """Note the action as the API does before it sends the message; return the context of the request."""
    context = RequestContext(
        user_id="alice", project_id="demo", roles=["member"], request_id=f"req-{number}", overwrite=False
    )
    db_actions.start(container.uuid, action, request_id=context.request_id, user_id="alice", project_id="demo")
    return context


def wanted(action, container, number=1, **arguments):
    """Accept the action as the API does, and send no message."""
    context = asked(action, container, number)
    who = {"request_id": context.request_id, "user_id": "alice", "project_id": "demo"}
    db_actions.note_arguments(container.uuid, action, arguments, **who)


def ended(container, request_id="req-1"):
    """Wait for the end of an action; return its message and its (event, result) pairs."""

    def look():
        action, events = db_actions.find(container.uuid, request_id)
        return action["finish_time"] and (action["message"], [(each["event"], each["result"]) for each in events])

    return wait_for(look)


def accept_delete(container):
    """Write the row as the API does before it sends the message of a deletion."""
    db.update(container.uuid, {"status": "Deleting"})


def accepted(container, *, run=True, image=None):
    """Write the row as the API does before it sends the message of a rebuild."""
    request = {"run": run}
    if image is not None:
        request["rebuild"] = {"image": image, "image_driver": "docker"}
    db.update(container.uuid, {"status": "Rebuilding", "request": request})


def rebuild(cloud, context, container, **asked):
    """Rebuild the container as the API does, and wait for the end."""
    accepted(container, **asked)
    cloud.compute_api.rebuild(context, container)
    return wait_for(lambda: cloud.settled(container))
