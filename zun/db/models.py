# SPDX-License-Identifier: Apache-2.0
"""The tables of the database. Times are UTC without a zone. No query searches inside JSON columns."""

import contextlib
import copy
import datetime
import functools
import logging
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.dialects import mysql, sqlite

from zun.common import exceptions
from zun.common.states import Kind
from zun.topology import HostTopology, Plan
from zun.topology.ranges import AMOUNT, CPUS, GENERATION, MALFORMED, NAME, RATIO, Listed, Real, Text, Whole

LOG = logging.getLogger(__name__)

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
    }
)


def text(length: int) -> sa.types.TypeEngine[str]:
    """Return a type of text that compares upper and lower case as different, unlike MariaDB's default."""
    exact = mysql.VARCHAR(length, collation="utf8mb4_bin")
    return sa.String(length).with_variant(exact, "mysql", "mariadb")


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


# MySQL's plain DATETIME drops fractions of a second.
Time = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb").with_variant(_SqliteTime(), "sqlite")


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


def _json(
    column: str,
    empty: dict[str, Any] | list[Any] | None = None,
    *,
    nullable: bool = True,
    info: dict[str, Any] | None = None,
) -> sa.Column[Any]:
    """Return a JSON column of objects, or of the type of ``empty``, which replaces malformed values.

    ``info`` as of ``within`` and ``read_by``.
    """
    empty = {} if empty is None else empty
    kind = Json(column, empty).with_variant(_ReadJson(column, empty, nullable), "postgresql")
    return sa.Column(column.partition(".")[2], kind, nullable=nullable, info=info)


# What a host may write into a column is declared beside the column, and looked at by zun.db.bounds. A column without a
# declaration takes what its type takes.


def within(range_: Whole | Real | Text) -> dict[str, Any]:
    """Return the declaration that the values of a column are in ``range_``."""
    return {"range": range_}


def read_by(read: Callable[[Any], object], characters: int = 2**20) -> dict[str, Any]:
    """Return the declaration that ``read`` must be able to read the values of a JSON column, and their largest size."""
    return {"read": read, "characters": characters}


_CPUS = Whole("cpus", 8192)
_MEMORY = Whole("memory in MiB", AMOUNT.most)
_DISK = Whole("disk in GiB", 2**31 - 1)
_LABELS, _LABEL = Listed("labels", 1000), Text("a label", 4096)
_RUNTIMES, _TRAITS = Listed("runtimes", 100), Listed("traits", 2000)
_REASON = Text("a reason", 4096)


def _read_labels(value: dict[str, Any]) -> None:
    for name in _LABELS(list(value)):
        NAME(name), _LABEL(value[name])


def _read_runtimes(value: list[Any]) -> None:
    for name in _RUNTIMES(value):
        NAME(name)


def _read_traits(value: list[Any]) -> None:
    for name in _TRAITS(value):
        NAME(name)


def _read_engine(value: dict[str, Any]) -> None:
    if value["away"] is not None:
        _REASON(value["away"])
    for each in (value["name"], value["version"], value["api_version"], value["runtime"]):
        NAME(each)


_RANDOM_BITS = 48  # leaves room to grow in 64 bits, and in the 53 of a JSON number

Id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")  # SQLite generates only INTEGER keys

containers = sa.Table(
    "containers",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("uuid", text(36), nullable=False, unique=True),
    sa.Column("kind", text(16), nullable=False, default=str(Kind.CONTAINER), server_default=str(Kind.CONTAINER)),
    sa.Column("capsule_uuid", text(36)),  # of a member: its capsule
    sa.Column("name", text(255), nullable=False),
    sa.Column("project_id", text(255), nullable=False),
    sa.Column("user_id", text(255)),
    sa.Column("created_at", Time, nullable=False),
    sa.Column("updated_at", Time),
    # the request
    sa.Column("image", text(255), nullable=False),
    sa.Column("image_driver", text(255)),
    sa.Column("image_pull_policy", text(32)),
    sa.Column("registry_id", text(36)),
    sa.Column("cpu", sa.Double, nullable=False, info=within(CPUS)),
    sa.Column("cpu_policy", text(32), nullable=False),
    sa.Column("memory", sa.BigInteger, nullable=False, info=within(_MEMORY)),  # MiB
    sa.Column("disk", sa.Integer, nullable=False, default=0, info=within(_DISK)),  # GiB
    # GiB, of local mounts
    sa.Column("volume_disk", sa.Integer, nullable=False, default=0, server_default="0", info=within(_DISK)),
    _json("containers.placement", nullable=False),  # the NUMA fields of the request
    _json("containers.request", nullable=False),  # how to schedule it: run, hints, availability_zone, host
    sa.Column("group_uuid", text(36)),
    _json("containers.command", []),
    _json("containers.entrypoint", []),
    sa.Column("workdir", text(255)),
    _json("containers.environment"),
    _json("containers.labels"),
    _json("containers.annotations"),
    sa.Column("hostname", text(255)),
    _json("containers.restart_policy"),
    sa.Column("interactive", sa.Boolean, nullable=False, default=False),
    sa.Column("tty", sa.Boolean, nullable=False, default=False),
    sa.Column("auto_remove", sa.Boolean, nullable=False, default=False),
    sa.Column("auto_heal", sa.Boolean, nullable=False, default=False),
    sa.Column("privileged", sa.Boolean, nullable=False, default=False),
    _json("containers.capabilities", []),
    _json("containers.healthcheck"),
    sa.Column("runtime", text(255)),
    _json("containers.security_groups", []),
    _json("containers.exposed_ports"),
    sa.Column("port_count", sa.Integer, nullable=False, default=0, server_default="0"),  # of exposed_ports
    _json("containers.addresses"),
    _json("containers.ports", []),
    _json("containers.mounts", [{}]),  # malformed: an invalid mount, so that the creation fails
    # the state
    sa.Column("status", text(20), nullable=False),
    sa.Column("status_reason", Prose),
    sa.Column("status_detail", text(255)),
    sa.Column("task_state", text(32)),
    sa.Column("container_id", text(64)),
    sa.Column("started_at", Time),
    sa.Column("finished_at", Time),
    sa.Column("exit_code", sa.Integer),
    # the claim: a container holds resources of `host` while `cpuset` is set
    sa.Column("host", text(255)),
    _json("containers.cpuset", info=read_by(Plan.from_dict)),
    sa.Column("withheld_cpu", sa.Integer, nullable=False, default=0, server_default="0"),  # CPUs kept idle by the claim
    sa.Column("device_count", sa.Integer, nullable=False, default=0, server_default="0"),  # of placement
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
)

container_groups = sa.Table(
    "container_groups",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("uuid", text(36), nullable=False, unique=True),
    sa.Column("name", text(255), nullable=False),
    sa.Column("project_id", text(255), nullable=False),
    sa.Column("user_id", text(255)),
    sa.Column("created_at", Time, nullable=False),
    sa.Column("updated_at", Time),
    sa.Column("policy", text(32), nullable=False),
    _json("container_groups.rules", nullable=False),  # max_per_host
    sa.UniqueConstraint("project_id", "name"),
)

# Volumes that a project named in ``mounts``. A volume is on the host of the first container that claimed with it.
volumes = sa.Table(
    "volumes",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("uuid", text(36), nullable=False, unique=True),
    sa.Column("project_id", text(255), nullable=False),
    sa.Column("name", text(255), nullable=False),
    sa.Column("host", text(255), nullable=False),
    sa.Column("deleting", sa.Boolean, nullable=False, default=False),  # until its host has removed it
    sa.Column("created_at", Time, nullable=False),
    sa.UniqueConstraint("project_id", "name"),
    sa.Index("ix_volumes_host", "host"),
)

aggregates = sa.Table(
    "aggregates",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("uuid", text(36), nullable=False, unique=True),
    sa.Column("name", text(255), nullable=False, unique=True),
    sa.Column("created_at", Time, nullable=False),
    sa.Column("updated_at", Time),
    _json("aggregates.metadata", nullable=False),  # texts by name; availability_zone among them
    _json("aggregates.hosts", [], nullable=False),  # names, sorted
)

# A table of its own, because explanations are large and rarely read.
explanations = sa.Table(
    "explanations",
    metadata,
    sa.Column("container_uuid", text(36), primary_key=True),
    sa.Column("created_at", Time, nullable=False),
    _json("explanations.record", nullable=False),
)

compute_nodes = sa.Table(
    "compute_nodes",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("uuid", text(36), nullable=False, unique=True),
    sa.Column("hostname", text(255), nullable=False, unique=True),
    sa.Column("created_at", Time, nullable=False),
    sa.Column("updated_at", Time),
    sa.Column("generation", sa.BigInteger, nullable=False, default=0, info=within(GENERATION)),
    _json("compute_nodes.topology", nullable=False, info=read_by(HostTopology.from_dict, 4 * 2**20)),
    sa.Column("cpus", sa.Integer, nullable=False, info=within(_CPUS)),
    sa.Column("mem_total", sa.BigInteger, nullable=False, info=within(_MEMORY)),  # MiB
    sa.Column("disk_total", sa.Integer, nullable=False, info=within(_DISK)),  # GiB
    sa.Column("disk_quota_supported", sa.Boolean, nullable=False),
    sa.Column("disk_allocation_ratio", sa.Double, nullable=False, info=within(RATIO)),
    sa.Column("enable_cpu_pinning", sa.Boolean, nullable=False),
    sa.Column("availability_zone", text(255)),
    _json("compute_nodes.labels", nullable=False, info=read_by(_read_labels)),
    _json("compute_nodes.runtimes", [], nullable=False, info=read_by(_read_runtimes)),
    sa.Column("architecture", text(32)),
    sa.Column("os_type", text(32)),
    sa.Column("os", text(255)),
    sa.Column("kernel_version", text(128)),
    _json("compute_nodes.traits", [], info=read_by(_read_traits)),  # as its agent found them
    _json("compute_nodes.added_traits", []),  # by administrators
    _json("compute_nodes.engine", info=read_by(_read_engine, 8192)),  # EngineFacts, and why it is away
)

services = sa.Table(
    "services",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("host", text(255), nullable=False),
    sa.Column("binary", text(255), nullable=False),
    sa.Column("created_at", Time, nullable=False),
    sa.Column("updated_at", Time),
    sa.Column("disabled", sa.Boolean, nullable=False, default=False),
    sa.Column("disabled_reason", text(255)),
    sa.Column("forced_down", sa.Boolean, nullable=False, default=False),
    sa.Column("last_seen_up", Time),
    sa.Column("report_count", sa.Integer, nullable=False, default=0),
    sa.Column("availability_zone", text(255)),
    sa.UniqueConstraint("host", "binary"),
)

quotas = sa.Table(
    "quotas",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("project_id", text(255), nullable=False),
    sa.Column("resource", text(271), nullable=False),
    sa.Column("hard_limit", sa.Integer, nullable=False),  # -1: no limit
    sa.Column("created_at", Time, nullable=False),
    sa.Column("updated_at", Time),
    sa.UniqueConstraint("project_id", "resource"),
)

quota_classes = sa.Table(
    "quota_classes",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("class_name", text(255), nullable=False),
    sa.Column("resource", text(271), nullable=False),
    sa.Column("hard_limit", sa.Integer, nullable=False),
    sa.Column("created_at", Time, nullable=False),
    sa.Column("updated_at", Time),
    sa.UniqueConstraint("class_name", "resource"),
)

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

container_actions = sa.Table(
    "container_actions",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("container_uuid", text(36), sa.ForeignKey("containers.uuid", ondelete="CASCADE"), nullable=False),
    sa.Column("action", text(255), nullable=False),
    sa.Column("request_id", text(255), nullable=False),
    sa.Column("user_id", text(255)),
    sa.Column("project_id", text(255), nullable=False),
    sa.Column("client_address", text(64)),  # where the request came from; null: a service, or a unix socket
    _json("container_actions.arguments"),  # of an action that its host takes from here; null: not taken from here
    sa.Column("start_time", Time, nullable=False),
    sa.Column("finish_time", Time),
    sa.Column("message", text(255)),
    sa.Index("ix_container_actions_container_uuid", "container_uuid"),
)

container_action_events = sa.Table(
    "container_action_events",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("action_id", Id, sa.ForeignKey("container_actions.id", ondelete="CASCADE"), nullable=False),
    sa.Column("event", text(255), nullable=False),
    sa.Column("start_time", Time, nullable=False),
    sa.Column("finish_time", Time),
    sa.Column("result", text(32)),
    sa.Column("traceback", Prose),
    sa.Index("ix_container_action_events_action_id", "action_id"),
)

registries = sa.Table(
    "registries",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("uuid", text(36), nullable=False, unique=True),
    sa.Column("project_id", text(255), nullable=False),
    sa.Column("user_id", text(255)),
    sa.Column("name", text(255)),
    sa.Column("domain", text(255), nullable=False),
    sa.Column("username", text(255)),
    sa.Column("password", sa.Text),  # encrypted
    sa.Column("created_at", Time, nullable=False),
    sa.Column("updated_at", Time),
    sa.Index("ix_registries_project_id", "project_id"),
)

images = sa.Table(
    "images",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("uuid", text(36), nullable=False, unique=True),
    sa.Column("project_id", text(255), nullable=False),
    sa.Column("host", text(255), nullable=False),
    sa.Column("repo", text(255), nullable=False),
    sa.Column("tag", text(255), nullable=False),  # or a digest
    # A digest of host, repo and tag, unique among pulled images. None for an image made from a container.
    sa.Column("pulled", text(64), unique=True),
    # The name of an image made from a container at the runtime of its host; empty for a pulled image.
    sa.Column("local_name", text(64), nullable=False, default="", server_default=""),
    sa.Column("image_id", text(255)),
    sa.Column("size", text(32)),  # bytes
    sa.Column("status", text(16), nullable=False),  # an ImageStatus
    sa.Column("status_detail", text(255)),  # how far the pull is, or why it failed
    sa.Column("created_at", Time, nullable=False),
    sa.Column("updated_at", Time),
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
networks = sa.Table(
    "networks",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("uuid", text(36), nullable=False, unique=True),
    sa.Column("neutron_net_id", text(255)),  # a second id that the creator gave the network
    sa.Column("project_id", text(255), nullable=False),
    sa.Column("user_id", text(255)),
    sa.Column("name", text(255)),
    sa.Column("shared", sa.Boolean, nullable=False, default=False),
    _json("networks.subnets", [], nullable=False),  # uuid, cidr, gateway of each
    sa.Column("created_at", Time, nullable=False),
    sa.Column("updated_at", Time),
    sa.Index("ix_networks_project_id", "project_id"),
)

# A container's place in a network, and its addresses there, from its creation or attachment until it leaves.
network_ports = sa.Table(
    "network_ports",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("uuid", text(36), nullable=False, unique=True),
    sa.Column("network_uuid", text(36), sa.ForeignKey("networks.uuid"), nullable=False),
    sa.Column("container_uuid", text(36), sa.ForeignKey("containers.uuid", ondelete="CASCADE"), nullable=False),
    sa.Column("ipv4", text(15)),
    sa.Column("ipv6", text(45)),
    sa.Column("leaving", sa.Boolean, nullable=False, default=False),  # until its host has unplugged it
    # A port of Neutron has its addresses here, and none in the columns above. Its uuid is Neutron's.
    _json("network_ports.fixed_ips", []),
    sa.Column("preserve", sa.Boolean, nullable=False, default=False, server_default=sa.false()),  # its user made it
    sa.Column("created_at", Time, nullable=False),
    sa.UniqueConstraint("container_uuid", "network_uuid"),
    sa.UniqueConstraint("ipv4", "network_uuid"),
    sa.UniqueConstraint("ipv6", "network_uuid"),
    sa.Index("ix_network_ports_network_uuid", "network_uuid"),
)
