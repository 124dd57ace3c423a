# SPDX-License-Identifier: Apache-2.0
"""Complete and filtered lists.

Without ``--limit`` python-zunclient shows only the service's first page; with ``--limit`` it drops the filters.
"""

import argparse
import urllib.parse
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from osc_lib.command import command
from zunclient.common import utils

from zun.osc import tables, versions


def pages(client: Any, noun: str) -> AbstractContextManager[None]:
    """Return a context in which ``client.<noun>.list`` reads all pages and applies its filters."""
    stock = getattr(client, noun)
    manager: Any = type(stock)

    class Filtered(manager):  # type: ignore[misc]  # known only now
        def list(
            self,
            marker: str | None = None,
            limit: int | None = None,
            sort_key: str | None = None,
            sort_dir: str | None = None,
            all_projects: bool = False,
            **filters: Any,
        ) -> Any:
            parts = utils.common_filters(marker, limit, sort_key, sort_dir, all_projects)
            query = "&".join([*parts, *([urllib.parse.urlencode(filters)] if filters else [])])
            return self._list_pagination(self._path("") + (f"?{query}" if query else ""), noun, limit=limit)

    return versions.managed(client, noun, Filtered(stock.api))


class Whole(tables.List, command.Lister):
    """Mixin for a list of python-zunclient: keeps its options and shows all pages."""

    noun: ClassVar[str]

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        manager: Any = self.app.client_manager
        with pages(manager.container, self.noun):
            return super().take_action(parsed_args)  # type: ignore[safe-super]
