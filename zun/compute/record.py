# SPDX-License-Identifier: Apache-2.0
"""Notes what this host does for a container, where users look for it: the events of its actions."""

import contextlib
import traceback
from collections.abc import Iterator

from zun.common.context import RequestContext
from zun.objects import ContainerActionEvent
from zun.objects.container_action import ERROR, SUCCESS


class Step:
    """``failed`` says that it did not work, where no exception does."""

    def __init__(self) -> None:
        self.error: str | None = None

    def failed(self, error: BaseException | str) -> None:
        self.error = error if isinstance(error, str) else "".join(traceback.format_exception(error))


@contextlib.contextmanager
def recorded(
    context: RequestContext, uuid: str, action: str, event: str | None = None, *, last: bool = True
) -> Iterator[Step]:
    """The block is the step ``event`` (named like the action, unless said) of ``action`` on the container ``uuid``.

    Clients know the steps by their names; those of networks have no "container" in theirs.

    ``last``: the action ends with it. An exception is noted and goes on.
    """
    done = event or action
    name = f"compute__do_{done}" if done.startswith("network_") else f"compute__do_container_{done}"
    event_id = ContainerActionEvent.start(context, uuid, action, name)
    step = Step()
    try:
        yield step
    except BaseException as exc:
        step.failed(exc)
        raise
    finally:
        if event_id is not None:
            result = SUCCESS if step.error is None else ERROR
            ContainerActionEvent.finish(context, event_id, result, step.error, last)
