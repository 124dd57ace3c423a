# SPDX-License-Identifier: Apache-2.0
"""The base of all versioned objects: their registry, dict access, and the mapping to rows.

Methods that reach the database are ``remotable``: with ``ZunObject.indirection_api`` set they run in another process,
so a compute host can work without database credentials.
"""

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from oslo_utils import versionutils
from oslo_versionedobjects import base as ovo
from oslo_versionedobjects import fields as ovo_fields

from zun import nouns

C = TypeVar("C", bound=type)


class Registry(ovo.VersionedObjectRegistry):
    """The classes of objects by name, by which an arriving object is decoded."""


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

    def register(cls: C) -> C:
        """Register a class of objects. Its fields are the members of its noun, and its own annotations."""
        found = [each for each in nouns.members(cls) if each.is_sent]
        cls.fields = {each.name: _field(each) for each in found}
        cls.ADDED = {each.name: sent.since for each in found if (sent := each.mark(nouns.Sent))}
        return Registry.register(cls)


class Json(ovo_fields.FieldType):
    """A value of JSON types, sent unchanged. Replace the whole value; never change it in place."""

    def coerce(self, obj: Any, attr: str, value: Any) -> Any:
        return value

    def to_primitive(self, obj: Any, attr: str, value: Any) -> Any:
        return value

    def from_primitive(self, obj: Any, attr: str, value: Any) -> Any:
        return value


class JsonField(ovo_fields.AutoTypedField):
    AUTO_TYPE = Json()


class Time(ovo_fields.DateTime):
    """A UTC time with microseconds, which the library's own field would drop in a message."""

    def to_primitive(self, obj: Any, attr: str, value: datetime.datetime) -> str:
        return value.isoformat()

    def from_primitive(self, obj: Any, attr: str, value: Any) -> datetime.datetime:
        return self.coerce(obj, attr, datetime.datetime.fromisoformat(value))


class TimeField(ovo_fields.AutoTypedField):
    AUTO_TYPE = Time()


_FIELDS: Mapping[type, type[ovo_fields.Field]] = {
    str: ovo_fields.StringField,
    int: ovo_fields.IntegerField,
    float: ovo_fields.FloatField,
    bool: ovo_fields.BooleanField,
    datetime.datetime: TimeField,
}


def _field(member: nouns.Member) -> ovo_fields.Field:
    """Return the field of a member. A type that is not in _FIELDS is JSON."""
    default = {} if member.default is ... else {"default": member.default}
    kind = ovo_fields.UUIDField if nouns.UUID in member.marks else _FIELDS.get(member.kind, JsonField)
    return kind(nullable=member.nullable, **default)


class ZunObject(nouns.Noun, _DictAccess, ovo.VersionedObject):
    """The base class of all objects.

    Its noun (``zun.nouns``), which a class inherits from as well, says which fields an object has.

    A new field or a changed remotable method raises the minor number of ``VERSION``. A new field has a default or is
    nullable, and its noun has the version that brought it (``Sent``). A reader of another minor version then
    understands the object: ``obj_from_primitive`` says how. A field that is removed or changed raises the major number;
    readers of another major number refuse the object.
    """

    OBJ_PROJECT_NAMESPACE = "zun"
    OBJ_SERIAL_NAMESPACE = "zun_object"
    ADDED = MappingProxyType[str, str]({})
    """Field -> the version that brought it, for example ``{"colour": "1.1"}``. Other fields came with 1.0."""

    @property
    def obj_fields(self) -> Mapping[str, ovo_fields.Field]:  # type: ignore[override]  # looked up and iterated only
        """Return the fields by name. The library makes a list of the names, and searches it for each field it visits.
        """
        fields: Mapping[str, ovo_fields.Field] = self.fields
        return fields

    def obj_what_changed(self) -> set[str]:
        """Return the names of the changed fields. The library also looks into fields that are objects; none is here."""
        return {name for name in self._changed_fields if name in self.fields}

    @classmethod
    def obj_from_primitive(cls, primitive: dict[str, Any], context: Any = None) -> Self:
        """Return the object of a message. A field that the message lacks has its default, or None if it is nullable.

        Services of two releases work side by side during an upgrade. So a message of a newer minor version is read
        too; the library leaves out the fields that only the newer sender knows.
        """
        known = cls._known(primitive)
        if known is not None:
            primitive = {**primitive, cls._obj_primitive_key("version"): known}
        made: Self = super().obj_from_primitive(primitive, context)
        made.VERSION = type(made).VERSION  # else the object would be sent on as of the sender's version
        sent = primitive[cls._obj_primitive_key("data")]
        missing = [name for name in made.fields if name not in sent]
        for name in missing:
            field = made.fields[name]
            if field.default is not ovo_fields.UnspecifiedDefault:
                setattr(made, name, field.default)
            elif field.nullable:
                setattr(made, name, None)
        if missing:  # an empty list would reset every change
            made.obj_reset_changes(missing)
        return made

    @classmethod
    def _known(cls, primitive: Mapping[str, Any]) -> str | None:
        """Return this release's version of the object if the message has a newer one that differs in the minor."""
        classes = Registry.obj_classes().get(primitive[cls._obj_primitive_key("name")])
        sent = versionutils.convert_version_to_tuple(primitive[cls._obj_primitive_key("version")])
        if not classes:
            return None
        ours = versionutils.convert_version_to_tuple(classes[0].VERSION)
        return str(classes[0].VERSION) if sent[0] == ours[0] and sent > ours else None

    def obj_make_compatible(self, primitive: dict[str, Any], target_version: str) -> None:
        """Remove the fields from ``primitive`` that ``target_version`` does not have."""
        super().obj_make_compatible(primitive, target_version)
        target = versionutils.convert_version_to_tuple(target_version)
        for name, version in self.ADDED.items():
            if versionutils.convert_version_to_tuple(version) > target:
                primitive.pop(name, None)

    @classmethod
    def from_row(cls, context: Any, row: Mapping[str, Any]) -> Self:
        """Return an unchanged object with the values of ``row``. Times of rows are UTC without a zone."""
        made = cls(context)
        made.refresh_from(row)
        return made

    def columns(self, names: Iterable[str] | None = None) -> dict[str, Any]:
        """Return the values of the set fields for a row, all or only ``names``."""
        wanted = self.fields if names is None else names
        return {name: naive(getattr(self, name)) for name in wanted if self.obj_attr_is_set(name)}

    def refresh_from(self, row: Mapping[str, Any]) -> None:
        for name in self.fields:
            setattr(self, name, row[name])
        self.obj_reset_changes()


def naive(value: Any) -> Any:
    """Return a time without its zone, as rows store it; return other values unchanged."""
    return value.replace(tzinfo=None) if isinstance(value, datetime.datetime) else value
