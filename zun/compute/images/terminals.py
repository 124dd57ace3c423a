# SPDX-License-Identifier: Apache-2.0
"""Hand out the URLs that open terminals at this host's websocket proxy."""

import urllib.parse
from collections.abc import Sequence

from zun.common.context import RequestContext
from zun.container.driver.terminals import Terminals
from zun.objects import ConsoleToken, Container


class TerminalDesk:
    """``base_url`` is how clients reach this host's proxy, ``token_ttl`` is in seconds.

    ``limit`` is how many of its addresses one project may have that are valid, where nobody set it a quota.
    """

    def __init__(self, driver: Terminals, base_url: str, token_ttl: int, limit: int = -1) -> None:
        self._quota = {"terminals": limit}
        self._driver = driver
        self._base_url = base_url
        self._token_ttl = token_ttl

    def attach(self, context: RequestContext, container: Container) -> str:
        """The URL of the container's own terminal."""
        return self._url(context, container)

    def prepare_exec(
        self, context: RequestContext, container: Container, command: Sequence[str], *, interactive: bool
    ) -> tuple[str, str]:
        """The id of the command and the URL that starts it."""
        # Before, as the runtime keeps a command that nobody starts.
        ConsoleToken.check_quota(context, container.project_id, self._quota)
        exec_id = self._driver.create_exec(container, command, interactive=interactive)
        return exec_id, self._url(context, container, exec_id)

    def resize(self, container: Container, exec_id: str | None, *, width: int, height: int) -> None:
        if exec_id is None:
            self._driver.resize(container, width=width, height=height)
        else:
            self._driver.resize_exec(container, exec_id, width=width, height=height)

    def _url(self, context: RequestContext, container: Container, exec_id: str | None = None) -> str:
        query = {
            "token": ConsoleToken.issue(
                context, container.uuid, exec_id, self._token_ttl, (container.project_id, self._quota)
            ),
            "uuid": container.uuid,
        }
        if exec_id is not None:
            query["exec_id"] = exec_id
        return f"{self._base_url}?{urllib.parse.urlencode(query)}"
