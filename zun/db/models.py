# SPDX-License-Identifier: Apache-2.0
"""The tables of the database. Times are UTC without a zone. No query searches inside JSON columns."""

import contextlib
import copy
import datetime
import functools
import logging
import secrets
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.dialects import mysql, sqlite

from zun import nouns
from zun.common import exceptions
from zun.db import column_types
from zun.db.column_types import Id, text
from zun.nouns.cloud import Action, Aggregate, Event, Host, Service
from zun.nouns.container import Container
from zun.nouns.owned import ContainerSet, Group, Image, Network, NetworkPort, Registry, Volume
from zun.topology.ranges import MALFORMED

LOG = logging.getLogger(__name__)

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
    }
)


# Text from outside, for example a failure's reason. Without the character set, a MariaDB whose default is not utf8mb4
# refuses emoji.
Prose = sa.Text().with_variant(mysql.MEDIUMTEXT(charset="utf8mb4"), "mysql", "mariadb")


class _SqliteTime(sqlite.DATETIME):
    """A time of SQLite, which stores any text. A malformed one counts as 1970, so that it hides no other row."""

    def result_processor(self, dialect: sa.Dialect, coltype: object) -> Callable[[Any], Any]:
        read = super().result_processor(dialect, coltype)
        assert read is not None

        def read_or_tell(value: Any) -> Any:
            try:
                return read(value)
            except (TypeError, ValueError):
                return _malformed_time(str(value)[:80])

        return read_or_tell


@functools.lru_cache(maxsize=100)
def _malformed_time(text: str) -> datetime.datetime:
    """Log each malformed time once, and return the time that it counts as."""
    LOG.error("A time in the database is malformed and counts as 1970-01-01: %r. Find its row, and write it anew", text)
    return datetime.datetime(1970, 1, 1)


Time = column_types.Time.with_variant(_SqliteTime(), "sqlite")


class Json(mysql.JSON, sqlite.JSON):
    """A JSON column whose values have the type of ``empty``: an object or an array.

    A value is read with one call, where SQLAlchemy's own type needs three, which slows down pages of many rows.
    ``column`` is TABLE.COLUMN for the log, for example ``containers.mounts``. The class inherits from the types of
    both dialects, because SQLAlchemy would otherwise replace it by them.
    """

    cache_ok = True

    def __init__(self, column: str, empty: dict[str, Any] | list[Any]) -> None:
        super().__init__(none_as_null=True)
        self.column = column
        self._empty = empty
        self.kind = type(empty)

    def adapt(self, cls: Any, **kw: Any) -> Any:
        """Return this type where SQLAlchemy would use SQLite's own JSON type."""
        return type(self)(self.column, self._empty) if issubclass(cls, sqlite.JSON) else super().adapt(cls, **kw)

    def result_processor(self, dialect: sa.Dialect, coltype: object) -> Callable[[Any], Any]:
        return self.read

    def read(self, value: Any) -> Any:
        """Return the value of a JSON text, or a copy of ``empty`` for a malformed text or JSON of another kind.

        A value that somebody wrote by hand must not hide the other rows. Only SQLite stores text that is no JSON.
        """
        if value is None:
            return None
        try:
            found = orjson.loads(value)
        except orjson.JSONDecodeError:
            found = value
        return found if isinstance(found, self.kind) else self.unreadable(found)

    def passing_on(self, dialect: sa.Dialect) -> Callable[[Any], Any]:
        """Return a function that passes a stored text into an answer unparsed, and a malformed text as ``read`` does.

        One malformed text would make the whole answer malformed. Servers store only JSON, so the function then checks
        only the first character.
        """
        begin = "{" if self.kind is dict else "["

        def begins_well(text: str) -> Any:
            return orjson.Fragment(text) if text.startswith(begin) else self.read(text)

        return self._if_whole if dialect.name == "sqlite" else begins_well

    def _if_whole(self, text: Any) -> Any:
        try:
            found = orjson.loads(text)
        except orjson.JSONDecodeError:
            found = text
        return orjson.Fragment(text) if isinstance(found, self.kind) else self.unreadable(found)

    def unreadable(self, value: Any) -> Any:
        """Log ``value``, which is not of this kind, and return a copy of ``empty``."""
        _tell(self.column, "object" if self.kind is dict else "array", str(value))
        return copy.deepcopy(self._empty)


class _ReadJson(sa.types.TypeDecorator[Any]):
    """A ``Json`` column for PostgreSQL, whose driver parses the values."""

    impl = sa.JSON
    cache_ok = True

    def __init__(self, column: str, empty: dict[str, Any] | list[Any], nullable: bool) -> None:
        super().__init__(none_as_null=True)
        self.column = column
        self.nullable = nullable
        self._json = Json(column, empty)

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> Any:
        if isinstance(value, self._json.kind) or (value is None and self.nullable):
            return value
        return self._json.unreadable(value)


@functools.lru_cache(maxsize=100)
def _tell(column: str, kind: str, text: str) -> None:
    """Log each malformed value once. The message leaves out the value, which may be a secret."""
    table, _, name = column.partition(".")
    LOG.error(
        "A value of %s in the database is no JSON %s and counts as empty. Find its row, and write it anew, or delete "
        "what it is of: SELECT * FROM %s WHERE %s (PostgreSQL: WHERE json_typeof(%s) <> '%s')",
        column,
        kind,
        table,
        f"NOT json_valid({name}) OR json_type({name}) <> '{kind}'",
        name,
        kind,
    )


@contextlib.contextmanager
def readable(column: sa.Column[Any], ident: str, remedy: str, *, key: str = "uuid") -> Iterator[None]:
    """Turn errors of the block, which reads a value of ``column``, into RowUnreadable for the row ``key`` = ``ident``.

    Such a value was written by hand. ``remedy`` is a sentence that tells the operator what to do.
    """
    try:
        yield
    except MALFORMED as exc:
        place = {"table": column.table.name, "column": column.name, "key": key, "ident": ident}
        raise exceptions.RowUnreadable(**place, reason=repr(exc), remedy=remedy) from exc


class _AsText(sa.types.TypeDecorator[str]):
    """A column that the database casts to text, so that the driver does not parse its values."""

    impl = sa.Text
    cache_ok = True

    def column_expression(self, column: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
        return sa.cast(column, sa.Text)


_JSON_TEXT = sa.Text().with_variant(_AsText(), "postgresql")
_TIME_TEXT = sa.Text().with_variant(_AsText(), "postgresql", "mysql", "mariadb")
_SECONDS, _MICROSECONDS = len("2026-01-31 12:00:00"), len("2026-01-31 12:00:00.000000")


def unread(column: sa.Column[Any]) -> sa.ColumnElement[Any]:
    """Return an expression that selects the values of ``column`` without converting each of them.

    JSON and times (see ``time_as_text``) are then text, and True may be 1.
    """
    kind: sa.types.TypeEngine[Any] = sa.types.NullType()
    if isinstance(column.type, sa.JSON):
        kind = _JSON_TEXT
    elif isinstance(column.type, sa.DateTime):
        kind = _TIME_TEXT
    return sa.type_coerce(column, kind).label(column.name)


def time_as_text(written: str) -> str:
    """Return an ``unread`` time in the form of ``str``: with six digits after the second, or none.

    PostgreSQL leaves out zeros at the end: ``12:00:00.25`` becomes ``12:00:00.250000``.
    """
    return (written if len(written) == _SECONDS else written.ljust(_MICROSECONDS, "0")).removesuffix(".000000")


_SCALARS: Mapping[Any, sa.types.TypeEngine[Any]] = {
    int: sa.Integer(),
    float: sa.Double(),
    bool: sa.Boolean(),
    datetime.datetime: Time,
}
_MARKED: Mapping[nouns.Mark, sa.types.TypeEngine[Any]] = {
    nouns.KEY: Id,
    nouns.UUID: text(36),
    nouns.PROSE: Prose,
    nouns.SECRET: sa.Text(),
    nouns.BIG: sa.BigInteger(),
}


def _table(name: str, noun: type, *more: sa.schema.SchemaItem) -> sa.Table:
    """Return the table of a noun, with further columns, indexes and constraints."""
    stored = [each for each in nouns.members(noun) if each.is_stored]
    return sa.Table(name, metadata, *(_column(name, each) for each in stored), *more)


def _column(table: str, member: nouns.Member) -> sa.Column[Any]:
    if member.base in _SCALARS or member.base is str:
        return _scalar(member)
    instead, readable = member.mark(nouns.Instead), member.mark(nouns.Readable)
    empty = instead.value if instead else {} if issubclass(member.base, Mapping) else []
    info = {"read": readable.read, "characters": readable.characters} if readable else None
    return _json(f"{table}.{member.name}", empty, nullable=_is_nullable(member), info=info)


def _scalar(member: nouns.Member) -> sa.Column[Any]:
    marked = [_MARKED[mark] for mark in member.marks if isinstance(mark, nouns.Mark) and mark in _MARKED]
    marked += [text(mark.characters) for mark in member.marks if isinstance(mark, nouns.Text)]
    allowed = member.mark(nouns.Range)
    options: dict[str, Any] = {} if member.default is ... else {"default": member.default}
    if nouns.SERVER_DEFAULT in member.marks:
        options["server_default"] = sa.false() if member.default is False else str(member.default)
    if allowed is not None:
        options["info"] = {"range": allowed.read}
    return sa.Column(
        member.name,
        marked[0] if marked else _SCALARS[member.base],
        primary_key=member.name == "id",
        unique=nouns.UNIQUE in member.marks or None,
        nullable=_is_nullable(member),
        **options,
    )


def _is_nullable(member: nouns.Member) -> bool:
    return member.nullable and nouns.WRITTEN not in member.marks


def _json(
    column: str, empty: dict[str, Any] | list[Any], *, nullable: bool, info: dict[str, Any] | None = None
) -> sa.Column[Any]:
    """Return the JSON column TABLE.COLUMN of values of the type of ``empty``, which replaces malformed ones."""
    kind = Json(column, empty).with_variant(_ReadJson(column, empty, nullable), "postgresql")
    return sa.Column(column.partition(".")[2], kind, nullable=nullable, info=info)


_RANDOM_BITS = 48  # leaves room to grow in 64 bits, and in the 53 of a JSON number

containers = _table(
    "containers",
    Container,
    # Sums of members that statements add up, so that they read no JSON.
    sa.Column("port_count", sa.Integer, nullable=False, default=0, server_default="0"),  # of exposed_ports
    sa.Column("withheld_cpu", sa.Integer, nullable=False, default=0, server_default="0"),  # CPUs kept idle by the claim
    sa.Column("device_count", sa.Integer, nullable=False, default=0, server_default="0"),  # of placement
    sa.Column("set_index", sa.Integer),  # the number of a member in its set, from 0
    # Grows with each UPDATE of the row, whichever function sends it. Together with the id it is of one content only: it
    # begins at random, as SQLite gives the id of a deleted row to the next one.
    sa.Column(
        "revision",
        sa.BigInteger,
        nullable=False,
        default=lambda: secrets.randbits(_RANDOM_BITS),
        onupdate=sa.text("revision + 1"),
        server_default="0",
    ),
    sa.Index("ix_containers_project_id_name", "project_id", "name"),
    # covers the pages in the order of ids and the sums of quotas, so that no row is read
    sa.Index(
        "ix_containers_project_id_id",
        *("project_id", "id", "kind", "cpu", "memory", "disk", "volume_disk", "withheld_cpu", "port_count"),
    ),
    sa.Index("ix_containers_project_id_created_at", "project_id", "created_at"),
    sa.Index("ix_containers_project_id_device_count", "project_id", "device_count"),
    sa.Index("ix_containers_host", "host"),
    sa.Index("ix_containers_group_uuid", "group_uuid"),
    sa.Index("ix_containers_capsule_uuid", "capsule_uuid"),
    sa.Index("ix_containers_status", "status"),
    sa.Index("ix_containers_set_uuid", "set_uuid", "set_index"),
)

container_sets = _table("container_sets", ContainerSet, sa.Index("ix_container_sets_project_id", "project_id", "name"))

container_groups = _table("container_groups", Group, sa.UniqueConstraint("project_id", "name"))

volumes = _table(
    "volumes",
    Volume,
    sa.UniqueConstraint("project_id", "name"),
    sa.Index("ix_volumes_host", "host"),
)

aggregates = _table("aggregates", Aggregate)

# A table of its own, because explanations are large and rarely read.
explanations = sa.Table(
    "explanations",
    metadata,
    sa.Column("container_uuid", text(36), primary_key=True),
    sa.Column("created_at", Time, nullable=False),
    _json("explanations.record", {}, nullable=False),
)

# What containers on their way to another host have written into their own file systems: a tar, in base64.
layers = sa.Table(
    "layers",
    metadata,
    sa.Column("container_uuid", text(36), sa.ForeignKey("containers.uuid", ondelete="CASCADE"), primary_key=True),
    sa.Column("data", sa.Text().with_variant(mysql.LONGTEXT(charset="ascii"), "mysql", "mariadb"), nullable=False),
)

compute_nodes = _table("compute_nodes", Host)

services = _table(
    "services",
    Service,
    sa.UniqueConstraint("host", "binary"),
)


def _limits(name: str, owner: str) -> sa.Table:
    """Return a table of the limits that each ``owner`` has, one row a resource."""
    return sa.Table(
        name,
        metadata,
        sa.Column("id", Id, primary_key=True),
        sa.Column(owner, text(255), nullable=False),
        sa.Column("resource", text(271), nullable=False),
        sa.Column("hard_limit", sa.Integer, nullable=False),  # -1: no limit
        sa.Column("created_at", Time, nullable=False),
        sa.Column("updated_at", Time),
        sa.UniqueConstraint(owner, "resource"),
    )


quotas = _limits("quotas", "project_id")

quota_classes = _limits("quota_classes", "class_name")

# Keys that services share. Hosts behind a conductor do not read them. See zun.db.permits.
service_keys = sa.Table(
    "service_keys",
    metadata,
    sa.Column("name", text(32), primary_key=True),
    sa.Column("value", text(64), nullable=False),
)

# A transaction that adds to the usage of a project locks the project's row here first. The usage is at most the value
# of the row; null is unknown. See zun.db.quotas.
quota_locks = sa.Table(
    "quota_locks",
    metadata,
    sa.Column("project_id", text(255), primary_key=True),
    sa.Column("containers", sa.BigInteger),
    sa.Column("memory", sa.BigInteger),
    sa.Column("cpu", sa.Double),
    sa.Column("disk", sa.BigInteger),
    *(
        sa.Column(name, sa.BigInteger)
        for name in ("ports", "images", "groups", "networks", "volumes", "registries", "terminals")
    ),
)

container_actions = _table(
    "container_actions",
    Action,
    sa.ForeignKeyConstraint(["container_uuid"], ["containers.uuid"], ondelete="CASCADE"),
    sa.Index("ix_container_actions_container_uuid", "container_uuid"),
)

container_action_events = _table(
    "container_action_events",
    Event,
    sa.ForeignKeyConstraint(["action_id"], ["container_actions.id"], ondelete="CASCADE"),
    sa.Index("ix_container_action_events_action_id", "action_id"),
)

registries = _table(
    "registries",
    Registry,
    sa.Index("ix_registries_project_id", "project_id"),
)

images = _table(
    "images",
    Image,
    sa.Index("ix_images_project_id", "project_id"),
)

# Projects whose credentials have opened an image at its registry. An image without any row is for all projects.
image_grants = sa.Table(
    "image_grants",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("host", text(255), nullable=False),
    sa.Column("image", text(450), nullable=False),  # ORIGIN@DIGEST
    sa.Column("project_id", text(255), nullable=False),
    sa.Column("updated_at", Time, nullable=False),  # when the project showed its credentials last
    sa.Index("ix_image_grants_image", "image", "host"),
    sa.Index("ix_image_grants_host", "host"),
)

# Permission to open one terminal once, until it expires. Only a digest of the token is kept. The row of a used token
# stays while its session runs; the websocket proxy moves ``expires_at`` on.
console_tokens = sa.Table(
    "console_tokens",
    metadata,
    sa.Column("token_hash", text(64), primary_key=True),
    sa.Column("container_uuid", text(36), nullable=False),
    sa.Column("exec_id", text(64)),
    sa.Column("expires_at", Time, nullable=False),
    sa.Column("user_id", text(255)),
    sa.Column("used_at", Time),
    sa.Index("ix_console_tokens_expires_at", "expires_at"),
)

# Networks are visible to other projects only if shared. Subnets of different networks never overlap, because any host
# may have both networks.
networks = _table(
    "networks",
    Network,
    sa.Index("ix_networks_project_id", "project_id"),
)

# A container's place in a network, and its addresses there, from its creation or attachment until it leaves.
network_ports = _table(
    "network_ports",
    NetworkPort,
    sa.ForeignKeyConstraint(["network_uuid"], ["networks.uuid"]),
    sa.ForeignKeyConstraint(["container_uuid"], ["containers.uuid"], ondelete="CASCADE"),
    sa.UniqueConstraint("container_uuid", "network_uuid"),
    sa.UniqueConstraint("ipv4", "network_uuid"),
    sa.UniqueConstraint("ipv6", "network_uuid"),
    sa.Index("ix_network_ports_network_uuid", "network_uuid"),
)
