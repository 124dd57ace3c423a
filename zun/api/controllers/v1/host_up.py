# SPDX-License-Identifier: Apache-2.0
"""Find out whether a compute host can answer, so that no request waits for a host that is down."""

import random

from oslo_utils import timeutils

from zun.api.settings import Settings
from zun.common import exceptions
from zun.db import services as db
from zun.objects import service
from zun.objects.service import COMPUTE_BINARY


def is_up(host: str, settings: Settings) -> bool:
    """Return whether the compute service of ``host`` exists and is not known to be down."""
    try:
        row = db.get(host, COMPUTE_BINARY)
    except exceptions.ZunServiceNotFound:
        return False
    return service.is_up(row, timeutils.utcnow(), settings.service_down_time)


def is_given_up(host: str) -> bool:
    """Return whether an administrator has removed the compute service of ``host`` for good."""
    return not db.all_services(COMPUTE_BINARY, [host])


def require(host: str, settings: Settings) -> None:
    """Raise HostUnavailable if the compute service of ``host`` is known to be down."""
    if not is_up(host, settings):
        raise exceptions.HostUnavailable(host=host)


def any_of_all(settings: Settings, choose: random.Random) -> str | None:
    """Return a random host that is up, for questions that every host answers alike, or None."""
    now, limit = timeutils.utcnow(), settings.service_down_time
    hosts = [str(row["host"]) for row in db.all_services(COMPUTE_BINARY) if service.is_up(row, now, limit)]
    return choose.choice(hosts) if hosts else None
