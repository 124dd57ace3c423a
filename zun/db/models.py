# SPDX-License-Identifier: Apache-2.0
"""The tables. Times are UTC without a zone; JSON columns hold what nothing ever searches by."""

import contextlib
import copy
import functools
import logging
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.dialects import mysql, sqlite

from zun.common import exceptions
from zun.common.kinds import Kind

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
    """Text that is compared letter by letter; MariaDB's default would take upper and lower case for the same."""
    exact = mysql.VARCHAR(length, collation="utf8mb4_bin")
    return sa.String(length).with_variant(exact, "mysql", "mariadb")


# What somebody else wrote. A database that was made without a character set of its own takes no emoji otherwise, and
# a failure whose reason has one could not be written down.
Prose = sa.Text().with_variant(mysql.MEDIUMTEXT(charset="utf8mb4"), "mysql", "mariadb")

# MySQL's plain DATETIME drops fractions of a second.
Time = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


class Json(mysql.JSON, sqlite.JSON):
    """JSON of one kind, that of ``empty``, read with one call each; SQLAlchemy's own way makes three, which a page
    feels. ``column`` (TABLE.COLUMN) is for the log.

    It descends from both dialects' types because SQLAlchemy would otherwise use those instead.
    """

    cache_ok = True

    def __init__(self, column: str, empty: dict[str, Any] | list[Any]) -> None:
        super().__init__(none_as_null=True)
        self.column = column
        self._empty = empty
        self.kind = type(empty)

    def adapt(self, cls: Any, **kw: Any) -> Any:
        """SQLAlchemy asks this for the dialect's own type: SQLite's is no ancestor of ours, and would be used."""
        return type(self)(self.column, self._empty) if issubclass(cls, sqlite.JSON) else super().adapt(cls, **kw)

    def result_processor(self, dialect: sa.Dialect, coltype: object) -> Callable[[Any], Any]:
        return self.read

    def read(self, value: Any) -> Any:
        """The value of a text. What somebody wrote by hand must not hide the other rows: where it is no JSON, which
        SQLite alone takes, or JSON of another kind, it counts as empty, and not as nothing.
        """
        if value is None:
            return None
        try:
            found = orjson.loads(value)
        except orjson.JSONDecodeError:
            found = value
        return found if isinstance(found, self.kind) else self.unreadable(found)

    def passing_on(self, dialect: sa.Dialect) -> Callable[[Any], Any]:
        """What gives a text as it is, to be written to an answer; where it is not what it should be, as ``read``.

        One text that is no JSON would make the whole answer none. Servers have none such, so that a look at how it
        begins is enough.
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
        """What ``value`` counts as, which is none of this kind."""
        _tell(self.column, "object" if self.kind is dict else "array", str(value))
        return copy.deepcopy(self._empty)


class _ReadJson(sa.types.TypeDecorator[Any]):
    """``Json`` where the driver has read it."""

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
    """Of each value once. It may be a secret."""
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
    """For who looks into a value of ``column``, of the row whose ``key`` is ``ident``. Raises RowUnreadable for what
    somebody wrote there by hand; ``remedy`` is a sentence.
    """
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError) as exc:
        place = {"table": column.table.name, "column": column.name, "key": key, "ident": ident}
        raise exceptions.RowUnreadable(**place, reason=repr(exc), remedy=remedy) from exc


class _AsText(sa.types.TypeDecorator[str]):
    """What a driver would read comes as text if its database makes it text."""

    impl = sa.Text
    cache_ok = True

    def column_expression(self, column: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
        return sa.cast(column, sa.Text)


_JSON_TEXT = sa.Text().with_variant(_AsText(), "postgresql")
_TIME_TEXT = sa.Text().with_variant(_AsText(), "postgresql", "mysql", "mariadb")
_SECONDS, _MICROSECONDS = len("2026-01-31 12:00:00"), len("2026-01-31 12:00:00.000000")


def unread(column: sa.Column[Any]) -> sa.ColumnElement[Any]:
    """What to select of a column instead of its values, which are not made of what a driver gives one by one: JSON and
    times (see ``time_as_text``) are text, and what is true may be 1.
    """
    kind: sa.types.TypeEngine[Any] = sa.types.NullType()
    if isinstance(column.type, sa.JSON):
        kind = _JSON_TEXT
    elif isinstance(column.type, sa.DateTime):
        kind = _TIME_TEXT
    return sa.type_coerce(column, kind).label(column.name)


def time_as_text(written: str) -> str:
    """A time as ``str`` has it, of one that is ``unread``: with six digits of a second or none. PostgreSQL leaves out
    zeros at the end.
    """
    return (written if len(written) == _SECONDS else written.ljust(_MICROSECONDS, "0")).removesuffix(".000000")


def _json(column: str, empty: dict[str, Any] | list[Any] | None = None, *, nullable: bool = True) -> sa.Column[Any]:
    """A column of objects, or of what ``empty`` is one of: what a value counts as that is none."""
    empty = {} if empty is None else empty
    kind = Json(column, empty).with_variant(_ReadJson(column, empty, nullable), "postgresql")
    return sa.Column(column.partition(".")[2], kind, nullable=nullable)


Id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")  # SQLite counts up only INTEGER keys

containers = sa.Table(
    "containers",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("uuid", text(36), nullable=False, unique=True),
    sa.Column("kind", text(16), nullable=False, default=str(Kind.CONTAINER), server_default=str(Kind.CONTAINER)),
    sa.Column("capsule_uuid", text(36)),  # of the capsule that it is a part of
    sa.Column("name", text(255), nullable=False),
    sa.Column("project_id", text(255), nullable=False),
    sa.Column("user_id", text(255)),
    sa.Column("created_at", Time, nullable=False),
    sa.Column("updated_at", Time),
    # what was asked
    sa.Column("image", text(255), nullable=False),
    sa.Column("image_driver", text(255)),
    sa.Column("image_pull_policy", text(32)),
    sa.Column("registry_id", text(36)),
    sa.Column("cpu", sa.Double, nullable=False),
    sa.Column("cpu_policy", text(32), nullable=False),
    sa.Column("memory", sa.BigInteger, nullable=False),  # MiB
    sa.Column("disk", sa.Integer, nullable=False, default=0),  # GiB
    sa.Column("volume_disk", sa.Integer, nullable=False, default=0, server_default="0"),  # GiB, of local mounts
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
    _json("containers.healthcheck"),
    sa.Column("runtime", text(255)),
    _json("containers.security_groups", []),
    _json("containers.exposed_ports"),
    _json("containers.addresses"),
    _json("containers.ports", []),
    _json("containers.mounts", [{}]),  # a mount that is none: nothing is made without what it mounted
    # what became of it
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
    _json("containers.cpuset"),
    sa.Index("ix_containers_project_id_name", "project_id", "name"),
    # a page in the order of ids, and all that quotas add up, without looking at a row
    sa.Index("ix_containers_project_id_id", "project_id", "id", "kind", "cpu", "memory", "disk", "volume_disk"),
    sa.Index("ix_containers_project_id_created_at", "project_id", "created_at"),
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

# Volumes that a project named in ``mounts``. One is on the host of the first container that claimed with it.
volumes = sa.Table(
    "volumes",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("project_id", text(255), nullable=False),
    sa.Column("name", text(255), nullable=False),
    sa.Column("host", text(255), nullable=False),
    sa.Column("created_at", Time, nullable=False),
    sa.UniqueConstraint("project_id", "name"),
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

# Beside the containers and not in their rows: it is large, and only who asks for it reads it.
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
    sa.Column("generation", sa.BigInteger, nullable=False, default=0),
    _json("compute_nodes.topology", nullable=False),
    sa.Column("cpus", sa.Integer, nullable=False),
    sa.Column("mem_total", sa.BigInteger, nullable=False),  # MiB
    sa.Column("disk_total", sa.Integer, nullable=False),  # GiB
    sa.Column("disk_quota_supported", sa.Boolean, nullable=False),
    sa.Column("disk_allocation_ratio", sa.Double, nullable=False),
    sa.Column("enable_cpu_pinning", sa.Boolean, nullable=False),
    sa.Column("availability_zone", text(255)),
    _json("compute_nodes.labels", nullable=False),
    _json("compute_nodes.runtimes", [], nullable=False),
    sa.Column("architecture", text(32)),
    sa.Column("os_type", text(32)),
    sa.Column("os", text(255)),
    sa.Column("kernel_version", text(128)),
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
    sa.Column("resource", text(32), nullable=False),
    sa.Column("hard_limit", sa.Integer, nullable=False),  # -1: none
    sa.Column("created_at", Time, nullable=False),
    sa.Column("updated_at", Time),
    sa.UniqueConstraint("project_id", "resource"),
)

quota_classes = sa.Table(
    "quota_classes",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("class_name", text(255), nullable=False),
    sa.Column("resource", text(32), nullable=False),
    sa.Column("hard_limit", sa.Integer, nullable=False),
    sa.Column("created_at", Time, nullable=False),
    sa.Column("updated_at", Time),
    sa.UniqueConstraint("class_name", "resource"),
)

# Whoever adds to what a project uses locks its row here first. What it uses is at most what the row says; null is
# unknown. See zun.db.quotas.
quota_locks = sa.Table(
    "quota_locks",
    metadata,
    sa.Column("project_id", text(255), primary_key=True),
    sa.Column("containers", sa.BigInteger),
    sa.Column("memory", sa.BigInteger),
    sa.Column("cpu", sa.Double),
    sa.Column("disk", sa.BigInteger),
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
    # A digest of host, repo and tag, which a pulled image has for itself. None for one made of a container.
    sa.Column("pulled", text(64), unique=True),
    # What the runtime of its host, and nobody else, knows an image by that was made of a container; else empty.
    sa.Column("local_name", text(64), nullable=False, default="", server_default=""),
    sa.Column("image_id", text(255)),
    sa.Column("size", text(32)),  # bytes
    sa.Column("status", text(16), nullable=False),  # an ImageStatus
    sa.Column("status_detail", text(255)),  # how far the pull is, or why it failed
    sa.Column("created_at", Time, nullable=False),
    sa.Column("updated_at", Time),
    sa.Index("ix_images_project_id", "project_id"),
)

# A project that has shown a registry credentials which get it an image that its host pulled with such. One without any
# row is for all projects.
image_grants = sa.Table(
    "image_grants",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("host", text(255), nullable=False),
    sa.Column("image", text(450), nullable=False),  # ORIGIN@DIGEST
    sa.Column("project_id", text(255), nullable=False),
    sa.Column("updated_at", Time, nullable=False),  # when it was shown last
    sa.Index("ix_image_grants_image", "image", "host"),
    sa.Index("ix_image_grants_host", "host"),
)

# Permission to open one terminal, until it expires. Only a digest of the token is kept.
console_tokens = sa.Table(
    "console_tokens",
    metadata,
    sa.Column("token_hash", text(64), primary_key=True),
    sa.Column("container_uuid", text(36), nullable=False),
    sa.Column("exec_id", text(64)),
    sa.Column("expires_at", Time, nullable=False),
    sa.Index("ix_console_tokens_expires_at", "expires_at"),
)

# Not visible to other projects unless shared. Subnets of different networks never overlap: any host may have both.
networks = sa.Table(
    "networks",
    metadata,
    sa.Column("id", Id, primary_key=True),
    sa.Column("uuid", text(36), nullable=False, unique=True),
    sa.Column("neutron_net_id", text(255)),  # another id that its creator gave it
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
    sa.Column("created_at", Time, nullable=False),
    sa.UniqueConstraint("container_uuid", "network_uuid"),
    sa.UniqueConstraint("ipv4", "network_uuid"),
    sa.UniqueConstraint("ipv6", "network_uuid"),
    sa.Index("ix_network_ports_network_uuid", "network_uuid"),
)
