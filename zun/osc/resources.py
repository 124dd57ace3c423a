# SPDX-License-Identifier: Apache-2.0
"""Requests about collections that python-zunclient does not know, at the microversion that introduced them."""

import argparse
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from osc_lib.command import command

from zun.osc import each, tables, versions

_SINCE = {"volumes": versions.VOLUMES_VERSION, "sets": versions.SETS_VERSION}  # other nouns: GROUPS_VERSION


class Collection:
    """The collection ``/v1/<noun>``. ``feature`` is the command that the user wrote, for errors of older servers."""

    def __init__(self, app: Any, noun: str, feature: str) -> None:
        since = _SINCE.get(noun, versions.GROUPS_VERSION)
        self._http = versions.http_at(app.client_manager.container, feature, since)
        self._noun = noun

    def all(self, **query: str) -> Iterator[Mapping[str, Any]]:
        """Yield every item, page by page."""
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
    """Base of each ``delete``: prints a failure and goes on with the next name."""

    noun: ClassVar[str]

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("idents", metavar=f"<{self.noun}>", nargs="+", help=f"Name or uuid of the {self.noun}.")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        collection = Collection(self.app, f"{self.noun}s", f"appcontainer {self.noun} delete")
        return each.one_by_one(parsed_args.idents, f"delete {self.noun} {{}}", collection.delete)


class ListAll(tables.List, command.Lister):
    """Base of each ``list`` with ``--all-projects``: shows the members ``listed`` of every item, page by page."""

    noun: ClassVar[str]
    listed: ClassVar[Sequence[str]]

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--all-projects", action="store_true", help="Of every project (administrators).")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        query = {"all_projects": "true"} if parsed_args.all_projects else {}
        collection = Collection(self.app, f"{self.noun}s", f"appcontainer {self.noun} list")
        return self.listed, [self._row(item) for item in collection.all(**query)]

    def _row(self, item: Mapping[str, Any]) -> tuple[Any, ...]:
        return row(item, self.listed)


class ShowNamed(tables.One, command.ShowOne):
    """Base of each ``show``: shows the members ``columns`` of the item with this name or uuid."""

    noun: ClassVar[str]
    columns: ClassVar[Sequence[str]]

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(self.noun, metavar=f"<{self.noun}>", help=f"Name or uuid of the {self.noun}.")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        collection = Collection(self.app, f"{self.noun}s", f"appcontainer {self.noun} show")
        return self.columns, self._row(collection.get(getattr(parsed_args, self.noun)))

    def _row(self, item: Mapping[str, Any]) -> tuple[Any, ...]:
        return row(item, self.columns)


def row(item: Mapping[str, Any], names: Sequence[str]) -> tuple[Any, ...]:
    """Return the members ``names`` of an item in the form of a table row."""
    return tuple(_told(item.get(name)) for name in names)


def _told(value: Any) -> Any:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={value[name]}" for name in sorted(value))
    return ", ".join(value) if isinstance(value, list) else value
