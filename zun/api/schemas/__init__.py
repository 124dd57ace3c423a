# SPDX-License-Identifier: Apache-2.0
"""Schemas of a request's arguments. The schemas of a noun are in the file of that name.

A ``Field`` is a JSON schema for the form, and a function that converts the form to a value for handlers. Clients send
numbers and booleans in several spellings (``"512"``, ``"True"``); handlers see one.
"""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import jsonschema

from zun.api.microversion import Version
from zun.common import exceptions

# Among so many the one to tell is looked for. A list in a body has room for thousands.
_MOST_ERRORS = 1000
_LONG = {"maxLength": "characters", "maxItems": "items", "maxProperties": "members"}
# What these refuse is told in the words of the schema's description, which can be read after "is not".
_FORMS = ("type", "pattern", "minLength", "anyOf", "enum")


def _long(value: Any, schema: Mapping[str, Any]) -> bool:
    """Return whether ``value`` has more characters, items or members than ``schema`` allows."""
    for kind, most in ((str, "maxLength"), (list, "maxItems"), (dict, "maxProperties")):
        if isinstance(value, kind):
            return most in schema and len(value) > schema[most]
    return False


def _after_length(check: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``check``, a keyword of jsonschema, for values that are not too long. The length alone refuses others."""

    def checked(validator: Any, wanted: Any, value: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
        if not _long(value, schema):
            yield from check(validator, wanted, value, schema) or ()

    return checked


# jsonschema looks at every keyword, whatever the others say. These cost time for each character, item or member.
_COSTLY = (
    *("pattern", "allOf", "anyOf", "oneOf", "items"),
    *("properties", "patternProperties", "additionalProperties", "propertyNames"),
)
_Validator = jsonschema.validators.extend(
    jsonschema.Draft202012Validator,
    {name: _after_length(jsonschema.Draft202012Validator.VALIDATORS[name]) for name in _COSTLY},
)


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class Field:
    """One argument. ``convert`` gets a value that fits ``schema`` and may raise ValueError with a text for the client.
    ``inner`` is the schema by which ``convert`` checks an object, if it does.
    """

    schema: Mapping[str, Any]
    convert: Callable[[Any], Any] = _same
    inner: "Schema | None" = None


class Schema:
    """Check and convert the arguments of one request. The validator is compiled once.

    ``since`` names the first version of a field, for the document and for errors. The handler checks it. ``patterns``
    are the fields of every name that fits a regular expression; ``since`` names them by the expression. ``foreign``
    are fields of other services, with what to send here for the same wish.
    """

    def __init__(
        self,
        fields: Mapping[str, Field],
        *,
        required: tuple[str, ...] = (),
        others: bool = False,
        since: Mapping[str, Version] = MappingProxyType({}),
        patterns: Mapping[str, Field] = MappingProxyType({}),
        foreign: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._fields = dict(fields)
        self._patterns = {re.compile(pattern): field for pattern, field in patterns.items()}
        self._required = required
        self._others = others
        self._since = since
        self._foreign = foreign
        self._later = since.keys() - fields.keys() - patterns.keys()
        by_pattern = {pattern: field.schema for pattern, field in patterns.items()}
        self._validator = _Validator(
            {
                "type": "object",
                "properties": {name: field.schema for name, field in fields.items()},
                **({"patternProperties": by_pattern} if by_pattern else {}),
                "required": list(required),
                "additionalProperties": others,
            }
        )

    def __call__(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the converted values of the arguments that have a field. Raises SchemaValidationError, naming the
        field.
        """
        if foreign := self._foreign.keys() & arguments.keys():
            arguments = self._without(foreign, arguments)
        if not self._validator.is_valid(arguments):
            self._refuse(arguments)
        found = {}
        for name, value in arguments.items():
            field = self._field(name)
            if field is not None:
                try:
                    found[name] = field.convert(value)
                except ValueError as exc:
                    raise exceptions.SchemaValidationError(detail=_cut(f"{name}: {exc}")) from None
        return found

    def _without(self, foreign: Set[str], arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments without foreign ones that ask for nothing. Raises SchemaValidationError for another."""
        for name in sorted(foreign):
            if arguments[name]:
                raise exceptions.SchemaValidationError(
                    detail=f"{name}: this field of another service is not known here. {self._foreign[name]}."
                )
        return {name: value for name, value in arguments.items() if name not in foreign}

    def _field(self, name: str) -> Field | None:
        fitting = (field for pattern, field in self._patterns.items() if pattern.search(name))
        return self._fields.get(name) or next(fitting, None)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._fields)

    def described(self, version: Version) -> dict[str, Any]:
        """Return the JSON schema of the arguments that ``version`` has, for programs in any language."""
        properties: dict[str, Any] = {}
        for name, field in self._fields.items():
            since = self._since.get(name, version)
            if since > version:
                continue
            properties[name] = _portable(field.schema) if field.inner is None else field.inner.described(version)
            if name in self._since:
                properties[name]["x-openstack"] = {"min-ver": str(since)}
        patterns = {
            _portable_pattern(pattern.pattern): _portable(field.schema)
            for pattern, field in self._patterns.items()
            if self._since.get(pattern.pattern, version) <= version
        }
        return {
            "type": "object",
            "properties": properties,
            **({"patternProperties": patterns} if patterns else {}),
            "required": list(self._required),
            "additionalProperties": self._others,
        }

    def _refuse(self, arguments: Mapping[str, Any]) -> None:
        found = itertools.islice(self._validator.iter_errors(arguments), _MOST_ERRORS)
        error = jsonschema.exceptions.best_match(found)
        where = ".".join(str(part) for part in error.absolute_path)
        text = _cut(_told(error))
        if error.validator == "additionalProperties" and where:
            text += f"; possible are {', '.join(sorted(error.schema.get('properties', ()))) or 'none'}"
        elif error.validator == "additionalProperties":
            later = [f"{name} exists from version {self._since[name]}" for name in arguments if name in self._later]
            text += f"; {', '.join(later)}" if later else f"; possible are {', '.join(sorted(self._fields)) or 'none'}"
        raise exceptions.SchemaValidationError(detail=f"{where}: {text}" if where else text)


def _told(error: jsonschema.ValidationError) -> str:
    """Return the text of an error for the client."""
    schema, given = error.schema, error.instance
    if error.validator in _FORMS and "description" in schema:
        return f"{given!r} is not {schema['description']}"
    if error.validator in ("type", "minimum", "maximum") and not schema.keys().isdisjoint(("minimum", "maximum")):
        return f"it must be {_range(schema)}, got {given!r}"
    if error.validator == "enum":
        return f"{given!r} is not one of {', '.join(each for each in schema['enum'] if isinstance(each, str))}"
    if error.validator == "additionalProperties" and "patternProperties" in schema:  # its own text is the expressions
        patterns, known = list(map(re.compile, schema["patternProperties"])), schema["properties"]
        other = next(name for name in given if name not in known and not any(each.search(name) for each in patterns))
        return f"Additional properties are not allowed ({other!r} was unexpected)"
    if error.validator in _LONG:
        things = _LONG[error.validator]
        return f"it is too long: it has {len(given)} {things} and may have {error.validator_value}"
    return str(error.message)


def _range(schema: Mapping[str, Any]) -> str:
    """Return in words which numbers a schema allows. Example: ``a whole number from 1 to 60``."""
    kind = "a whole number" if "integer" in schema["type"] else "a number"
    match schema:
        case {"minimum": lowest, "maximum": highest}:
            return f"{kind} from {lowest} to {highest}"
        case {"minimum": lowest}:
            return f"{kind} of at least {lowest}"
    return f"{kind} of at most {schema['maximum']}"


def _cut(text: str) -> str:
    """Return ``text`` without its middle if it is long: it may quote the client's value."""
    return text if len(text) <= 300 else f"{text[:140]} ... {text[-140:]}"


def _portable(schema: Any) -> Any:
    """Return ``schema`` with patterns of ECMAScript, as OpenAPI requires: its ``$`` is Python's ``\\Z``."""
    if isinstance(schema, Mapping):
        return {
            name: _portable_pattern(value) if name == "pattern" and isinstance(value, str) else _portable(value)
            for name, value in schema.items()
        }
    return [_portable(item) for item in schema] if isinstance(schema, list | tuple) else schema


def _portable_pattern(pattern: str) -> str:
    return pattern.replace(r"\Z", "$")
