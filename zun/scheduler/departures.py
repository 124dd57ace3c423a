# SPDX-License-Identifier: Apache-2.0
"""Bring containers that have left one host to another one, or back; and carry out drains.

Each look reads the rows and decides; nothing is remembered. So any scheduler may look at any time, and whatever was
killed, the next look goes on.
"""

import contextlib
import logging
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from oslo_utils import timeutils

from zun.common import exceptions, metrics, outages
from zun.common.context import RequestContext
from zun.common.departures import LEFT_BY, departed
from zun.common.states import Status, awaits_reboot
from zun.db import container_actions as db_actions
from zun.db import containers as db
from zun.db import departures as db_departures
from zun.db import drains
from zun.messaging.compute_api import ComputeAPI
from zun.objects import Container

LOG = logging.getLogger(__name__)

Row = Mapping[str, Any]


class Next(Enum):
    """The next step of a scheduler for a container that was stopped at its host to move to another one."""

    WAIT = "wait"
    SEND = "send it to a host"
    END = "let its old host delete what it left"
    BACK = "give it back what it left"


def decide(row: Row | None, last_action: str | None) -> tuple[Next, str]:
    """Return what is next for a container with this row, None if it is gone, and the reason if it comes back.

    ``last_action`` is the newest action of the container, except accesses. It counts for one in Stopped alone.
    """
    way = None if row is None else departed(row["request"])
    if row is None or way is None or row["status"] in (Status.DELETING, Status.DELETED):
        return Next.END, ""
    run = row["request"].get("run")
    match row["status"]:
        case Status.CREATING:
            return (Next.SEND if row["host"] is None and not way["sent"] else Next.WAIT), ""
        case Status.ERROR | Status.DEAD:
            return Next.BACK, row["status_reason"] or f"it is {row['status']} there"
        case Status.CREATED if run:
            return Next.BACK, "it was not started there"
        case Status.STOPPED if run and row["exit_code"] and last_action == "create":
            return Next.BACK, f"it ended there at once, with exit code {row['exit_code']}"
        case Status.REBUILDING | Status.UNKNOWN:
            return Next.WAIT, ""
        case Status.RESTARTING if awaits_reboot(row):
            return Next.WAIT, ""
    return Next.END, ""


class Departures:
    """``place`` finds a host for a container."""

    def __init__(self, compute_api: ComputeAPI, place: Callable[[RequestContext, Container], None]) -> None:
        self._compute_api = compute_api
        self._place = place

    def look(self) -> None:
        """Do what is next for each container that has left its host, and let the next ones of drains leave."""
        for left, row in db_departures.under_way():
            with self._separately(left["request"][LEFT_BY]["uuid"]):
                self._go_on(left, row)
        for host, wish in drains.wishes().items():
            with self._separately(host):
                for row in db.of_uuids(drains.accept_next(host, wish["request_id"])):
                    self._tell(_context(wish, row), row)

    def _go_on(self, left: Row, row: Row | None) -> None:
        last = _last_action(row["uuid"]) if row is not None and row["status"] == Status.STOPPED else None
        step, reason = decide(row, last)
        context = _context(left["request"][LEFT_BY], left)
        if step is Next.SEND:
            assert row is not None  # only one that exists waits for a host
            if db_departures.send(row):
                self._place(context, Container.from_row(context, db.get(row["uuid"])))
        elif step is Next.END:
            if db_departures.end(left, row):
                self._observe(left, "moved")
                self._tell(context, left)
        elif step is Next.BACK:
            assert row is not None  # only one that exists comes back
            if db_departures.come_back(left, row, reason):
                LOG.warning("Container %s comes back to %s: %s", row["uuid"], left["host"], reason)
                self._observe(left, "back")
                self._tell(context, {**row, "host": left["host"]})
                if row["host"] is not None:
                    self._tell(context, row)

    @staticmethod
    def _observe(left: Row, outcome: str) -> None:
        metrics.DEPARTURE_SECONDS.labels(outcome).observe((timeutils.utcnow() - left["created_at"]).total_seconds())

    def _tell(self, context: RequestContext, row: Row) -> None:
        """Have the host look at the container of this row. If the message is lost, its next comparison does."""
        with contextlib.suppress(exceptions.HostUnavailable):
            self._compute_api.look(context, row["host"], row["uuid"])

    @staticmethod
    @contextlib.contextmanager
    def _separately(name: str) -> Any:
        """Log an error of the block, which must not keep the others waiting. An outage would meet them too."""
        try:
            yield
        except outages.OUTAGES:
            raise
        except Exception:
            LOG.exception("The move of %s between hosts could not go on; the next look tries again", name)


def _last_action(uuid: str) -> str | None:
    """Return the newest action of the container, except accesses, or None."""
    actions = (each["action"] for each in db_actions.of_container(uuid))
    return next((action for action in actions if action not in db_actions.ACCESSES), None)


def _context(asked: Mapping[str, Any], row: Row) -> RequestContext:
    """Return the context of whoever had the container of this row moved."""
    who = {"user_id": asked["user_id"], "project_id": row["project_id"], "request_id": asked["request_id"]}
    return RequestContext(**who, overwrite=False)
