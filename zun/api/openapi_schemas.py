# SPDX-License-Identifier: Apache-2.0
"""Derive JSON schemas of responses from the types of the views.

A view's type is a TypedDict, which mypy checks against the code that fills it, or an ``Answer``: schema and response
then come from the same declarations of a noun. A member ``Annotated`` with a version is absent below that version.
"""

import types
import typing
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NotRequired, Required

from zun.api.microversion import Version
from zun.api.views.members import Answer

JsonSchema = dict[str, Any]

_SIMPLE: Mapping[Any, str] = {str: "string", bool: "boolean", int: "integer", float: "number", types.NoneType: "null"}


class Shapes:
    """Schemas for one version. ``components`` collects each TypedDict under its own name."""

    def __init__(self, version: Version) -> None:
        self._version = version
        self._kinds: dict[str, Any] = {}
        self.components: dict[str, JsonSchema] = {}

    def schema(self, kind: Any) -> JsonSchema:
        """Return the JSON schema of a type. Raises TypeError for a type that JSON cannot express."""
        if kind is None:
            kind = types.NoneType
        if kind in _SIMPLE:
            return {"type": _SIMPLE[kind]}
        if kind is Any:
            return {}
        if typing.is_typeddict(kind):
            return self._component(kind)
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        answer = next((each for each in arguments[1:] if isinstance(each, Answer)), None)
        if answer is not None:
            return self._component(answer.shape)
        if origin in (Annotated, NotRequired, Required):
            return self.schema(arguments[0])
        if origin is Literal:
            return {"enum": list(arguments)}
        if origin is list:
            return {"type": "array", "items": self.schema(arguments[0])}
        if origin is dict and arguments[0] is str:
            return {"type": "object", "additionalProperties": self.schema(arguments[1])}
        if origin in (types.UnionType, typing.Union):
            return _either([self.schema(argument) for argument in arguments])
        raise TypeError(f"{kind} has no JSON schema: use TypedDict, list, dict[str, ...], Literal, unions and scalars")

    def _component(self, kind: Any) -> JsonSchema:
        name = kind.__name__
        if self._kinds.setdefault(name, kind) is not kind:
            raise TypeError(f"two shapes are called {name}: {kind.__module__} and {self._kinds[name].__module__}")
        if name not in self.components:
            self.components[name] = {}  # a shape may hold itself
            self.components[name] = self._members(kind)
        return {"$ref": f"#/components/schemas/{name}"}

    def _members(self, kind: Any) -> JsonSchema:
        properties, required = {}, []
        for name, hint in typing.get_type_hints(kind, include_extras=True).items():
            since = _since(hint)
            if since is not None and self._version < since:
                continue
            properties[name] = self.schema(hint)
            if since is not None:
                properties[name] = {**properties[name], "x-openstack": {"min-ver": str(since)}}
            if name in kind.__required_keys__ or since is not None:  # from its version on it is always there
                required.append(name)
        return {"type": "object", "properties": properties, "required": required}


def _since(hint: Any) -> Version | None:
    """Return the version that a member is ``Annotated`` with, or None."""
    found = [note for note in getattr(hint, "__metadata__", ()) if isinstance(note, Version)]
    inside = [_since(argument) for argument in typing.get_args(hint) if typing.get_origin(hint) is NotRequired]
    return next(iter([*found, *(since for since in inside if since is not None)]), None)


def _either(schemas: list[JsonSchema]) -> JsonSchema:
    if all(schema.keys() == {"type"} for schema in schemas):
        return {"type": [schema["type"] for schema in schemas]}
    return {"anyOf": schemas}
