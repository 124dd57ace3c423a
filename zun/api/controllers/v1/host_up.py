# SPDX-License-Identifier: Apache-2.0
"""Whether a compute host can be asked, so that nobody waits for one that cannot."""

import random

from oslo_utils import timeutils

from zun.api.settings import Settings
from zun.common import exceptions
from zun.db import services as db
from zun.objects import service
from zun.objects.service import COMPUTE_BINARY


def is_up(host: str, settings: Settings) -> bool:
    """Whether the compute service of ``host`` is not known to be down."""
    try:
        row = db.get(host, COMPUTE_BINARY)
    except exceptions.ZunServiceNotFound:
        return False
    return service.is_up(row, timeutils.utcnow(), settings.service_down_time)


def is_given_up(host: str) -> bool:
    """Whether an administrator has removed the compute service of ``host``, as it does not come back."""
    return not db.all_services(COMPUTE_BINARY, [host])


def require(host: str, settings: Settings) -> None:
    """Raise HostUnavailable when the compute service of ``host`` is known to be down."""
    if not is_up(host, settings):
        raise exceptions.HostUnavailable(host=host)


def any_of_all(settings: Settings, choose: random.Random) -> str | None:
    """A host that can be asked, for what each would answer alike; None when there is none."""
    now, limit = timeutils.utcnow(), settings.service_down_time
    hosts = [str(row["host"]) for row in db.all_services(COMPUTE_BINARY) if service.is_up(row, now, limit)]
    return choose.choice(hosts) if hosts else None
