# SPDX-License-Identifier: Apache-2.0
"""Accept moves of containers within their host."""

from collections.abc import Mapping, Sequence
from typing import Any

from zun.common import exceptions
from zun.common.states import ALLOWED
from zun.db import containers


def accept(moves: Sequence[Mapping[str, Any]], **who: Any) -> tuple[list[str], str | None]:
    """Accept ``moves``, which are records of the scheduler, and return the uuids of those accepted.

    Ends at the first move that cannot be accepted, which the second value explains: its container is gone or its status
    allows no move, or it has to move a second time. The moves before it are good without it. ``who`` is as for
    ``containers.accept``.
    """
    accepted: list[str] = []
    for each in moves:
        uuid = each["uuid"]
        if uuid in accepted:
            return accepted, f"container {uuid} moves twice: ask again when it has moved"
        arguments = {"cpuset": each["cpuset"], "after": each["after"]}
        try:
            containers.accept(uuid, "move", allowed=ALLOWED["move"], values={}, arguments=arguments, **who)
        except exceptions.ZunError as exc:
            return accepted, str(exc)
        accepted.append(uuid)
    return accepted, None
