# SPDX-License-Identifier: Apache-2.0
"""Hand out the URLs that open terminals at this host's websocket proxy."""

import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass

from zun.common.context import RequestContext
from zun.container.driver.terminals import Terminals
from zun.objects import ConsoleToken, Container


@dataclass(frozen=True, slots=True)
class TerminalDesk:
    """``base_url`` is how clients reach this host's proxy, ``token_ttl`` is in seconds.

    ``limit`` is how many of its addresses one project may have that are valid, where nobody set it a quota.
    """

    _driver: Terminals
    _base_url: str
    _token_ttl: int
    _limit: int

    def attach(self, context: RequestContext, container: Container) -> str:
        """The URL of the container's own terminal."""
        return self._url(context, container)

    def prepare_exec(
        self, context: RequestContext, container: Container, command: Sequence[str], *, interactive: bool
    ) -> tuple[str, str]:
        """The id of the command and the URL that starts it."""
        # Before, as the runtime keeps a command that nobody starts.
        ConsoleToken.check_quota(context, container.project_id, {"terminals": self._limit})
        exec_id = self._driver.create_exec(container, command, interactive=interactive)
        return exec_id, self._url(context, container, exec_id)

    def resize(self, container: Container, exec_id: str | None, *, width: int, height: int) -> None:
        if exec_id is None:
            self._driver.resize(container, width=width, height=height)
        else:
            self._driver.resize_exec(container, exec_id, width=width, height=height)

    def _url(self, context: RequestContext, container: Container, exec_id: str | None = None) -> str:
        quota = (container.project_id, {"terminals": self._limit})
        token = ConsoleToken.issue(context, container.uuid, exec_id, self._token_ttl, quota)
        query = {"token": token, "uuid": container.uuid} | ({} if exec_id is None else {"exec_id": exec_id})
        return f"{self._base_url}?{urllib.parse.urlencode(query)}"
