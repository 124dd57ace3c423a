# SPDX-License-Identifier: Apache-2.0
"""Requests about collections that python-zunclient does not know, at microversion 1.42."""

import argparse
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from osc_lib.command import command

from zun.osc import each, versions


class Collection:
    """``/v1/<noun>`` as a command reaches it. ``feature`` is what the user wrote, for the message to older servers."""

    def __init__(self, app: Any, noun: str, feature: str) -> None:
        self._http = versions.http_at(app.client_manager.container, feature, versions.GROUPS_VERSION)
        self._noun = noun

    def all(self, **query: str) -> Iterator[Mapping[str, Any]]:
        """Every item, page by page."""
        path = f"/v1/{self._noun}" + (f"?{urllib.parse.urlencode(query)}" if query else "")
        while path:
            _, page = self._http.json_request("GET", path)
            yield from page[self._noun]
            parts = urllib.parse.urlsplit(page["next"] or "")
            path = f"{parts.path}?{parts.query}" if parts.path else ""

    def create(self, body: Mapping[str, Any]) -> Any:
        return self._request("POST", "", body)

    def get(self, ident: str) -> Any:
        return self._request("GET", f"/{versions.segment(ident)}")

    def update(self, ident: str, body: Mapping[str, Any]) -> Any:
        return self._request("PATCH", f"/{versions.segment(ident)}", body)

    def delete(self, ident: str) -> None:
        self._request("DELETE", f"/{versions.segment(ident)}")

    def act(self, ident: str, action: str, body: Mapping[str, Any]) -> Any:
        return self._request("POST", f"/{versions.segment(ident)}/{action}", body)

    def _request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        more = {} if body is None else {"body": body}
        _, answer = self._http.json_request(method, f"/v1/{self._noun}{path}", **more)
        return answer


class DeleteEach(command.Command):
    """What each ``delete`` of ours does: one that fails is told of, and the next ones have their turn."""

    noun: ClassVar[str]

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("idents", metavar=f"<{self.noun}>", nargs="+", help=f"Name or uuid of the {self.noun}.")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        collection = Collection(self.app, f"{self.noun}s", f"appcontainer {self.noun} delete")
        return each.one_by_one(parsed_args.idents, f"delete {self.noun} {{}}", collection.delete)


def row(item: Mapping[str, Any], names: Sequence[str]) -> tuple[Any, ...]:
    """The members ``names`` of an item as a table shows them."""
    return tuple(_told(item.get(name)) for name in names)


def _told(value: Any) -> Any:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={value[name]}" for name in sorted(value))
    return ", ".join(value) if isinstance(value, list) else value
