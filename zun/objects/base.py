# SPDX-License-Identifier: Apache-2.0
"""What every versioned object has: a registry of its own, dict access, and a way from and to a row.

Methods that reach the database are ``remotable``: with ``ZunObject.indirection_api`` set they run in another process,
so a compute host can work without database credentials.
"""

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self, TypeVar

from oslo_versionedobjects import base as ovo
from oslo_versionedobjects import fields as ovo_fields

C = TypeVar("C", bound=type)


class Registry(ovo.VersionedObjectRegistry):
    """Finds the class of an object that arrives by its name."""


if TYPE_CHECKING:  # the library is not typed: these say what its decorators leave as it is
    _F = TypeVar("_F", bound=Callable[..., Any])

    def remotable(method: _F) -> _F: ...
    def register(cls: C) -> C: ...

    class _DictAccess(Mapping[str, Any]):
        def __getitem__(self, name: str) -> Any: ...
        def __iter__(self) -> Iterator[str]: ...
        def __len__(self) -> int: ...
else:
    _DictAccess = ovo.VersionedObjectDictCompat
    remotable = ovo.remotable
    register = Registry.register


class Json(ovo_fields.FieldType):
    """A value of JSON's own types, carried as it is. It is replaced whole, never changed in place."""

    def coerce(self, obj: Any, attr: str, value: Any) -> Any:
        return value

    def to_primitive(self, obj: Any, attr: str, value: Any) -> Any:
        return value

    def from_primitive(self, obj: Any, attr: str, value: Any) -> Any:
        return value


class JsonField(ovo_fields.AutoTypedField):
    AUTO_TYPE = Json()


class Time(ovo_fields.DateTime):
    """UTC with its microseconds, which the library's own field drops on the way."""

    def to_primitive(self, obj: Any, attr: str, value: datetime.datetime) -> str:
        return value.isoformat()

    def from_primitive(self, obj: Any, attr: str, value: Any) -> datetime.datetime:
        return self.coerce(obj, attr, datetime.datetime.fromisoformat(value))


class TimeField(ovo_fields.AutoTypedField):
    AUTO_TYPE = Time()


class ZunObject(_DictAccess, ovo.VersionedObject):
    """Root of the objects. ``fields`` name the columns of their table."""

    OBJ_PROJECT_NAMESPACE = "zun"
    OBJ_SERIAL_NAMESPACE = "zun_object"

    @classmethod
    def _obj_from_primitive(cls, context: Any, objver: str, primitive: dict[str, Any]) -> Self:
        """As the library has it, for fields whose values JSON carries as they are: those are stored, not coerced.

        Whoever sent them had coerced them when they were set. Services of two releases work side by side during an
        upgrade, so fields are added with a default and without a new version: what an older service does not send has
        its default, and what a newer one sends more is left aside.
        """
        made = cls(context)
        made.VERSION = objver
        data = cls._obj_primitive_field(primitive, "data")
        kept = made.__dict__
        for name, field in cls.fields.items():
            if name in data:
                value = data[name]
                if value is not None and isinstance(field, TimeField):
                    value = field.from_primitive(made, name, value)
                kept[f"_obj_{name}"] = value
            elif field.default is not ovo_fields.UnspecifiedDefault:
                kept[f"_obj_{name}"] = field.default
            elif field.nullable:
                kept[f"_obj_{name}"] = None
        changes = cls._obj_primitive_field(primitive, "changes", ())
        made._changed_fields = {name for name in changes if name in cls.fields}
        return made

    def obj_to_primitive(
        self, target_version: str | None = None, version_manifest: dict[str, str] | None = None
    ) -> dict[str, Any]:
        """As the library has it, likewise."""
        if target_version is not None or version_manifest is not None:
            return super().obj_to_primitive(target_version, version_manifest)
        kept, data = self.__dict__, {}
        for name, field in self.fields.items():
            if (attribute := f"_obj_{name}") in kept:
                value = kept[attribute]
                if value is not None and isinstance(field, TimeField):
                    value = field.to_primitive(self, name, value)
                data[name] = value
        key = self._obj_primitive_key
        made = {
            key("name"): self.obj_name(),
            key("namespace"): self.OBJ_PROJECT_NAMESPACE,
            key("version"): self.VERSION,
            key("data"): data,
        }
        if changes := [name for name in self._changed_fields if name in data]:
            made[key("changes")] = changes
        return made

    def obj_attr_is_set(self, attrname: str) -> bool:
        """As the library has it, which makes a list of all fields at each of some hundred questions a message."""
        return f"_obj_{attrname}" in self.__dict__ or super().obj_attr_is_set(attrname)

    def obj_what_changed(self) -> set[str]:
        """No field of ours is an object that could have changed by itself, so none is looked into."""
        return set(self._changed_fields)

    @classmethod
    def from_row(cls, context: Any, row: Mapping[str, Any]) -> Self:
        """An object without changes that holds what the row says. Rows carry UTC without a zone."""
        made = cls(context)
        for name in cls.fields:
            setattr(made, name, row[name])
        made.obj_reset_changes()
        return made

    def columns(self, names: Iterable[str] | None = None) -> dict[str, Any]:
        """The set fields as a row wants them, all or only ``names``."""
        wanted = self.fields if names is None else names
        return {name: naive(getattr(self, name)) for name in wanted if self.obj_attr_is_set(name)}

    def refresh_from(self, row: Mapping[str, Any]) -> None:
        for name in self.fields:
            setattr(self, name, row[name])
        self.obj_reset_changes()


def naive(value: Any) -> Any:
    """A time without its zone, as rows have it; anything else as it is."""
    return value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value
