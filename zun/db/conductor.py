# SPDX-License-Identifier: Apache-2.0
"""Queries of the conductor's rules: to which host a row belongs."""

from dataclasses import dataclass, replace

import sqlalchemy as sa

from zun.common import states
from zun.db import models, session

_containers, _capsules = models.containers, models.containers.alias("capsules")
_PULLING = (states.Status.CREATING, states.Status.REBUILDING)  # task states are the host's word alone

_WHERE = sa.select(
    sa.func.coalesce(_containers.c.host, _capsules.c.host).label("host"),
    sa.func.coalesce(_capsules.c.status, _containers.c.status).label("status"),
).select_from(_containers.outerjoin(_capsules, _capsules.c.uuid == _containers.c.capsule_uuid))
_OF_CONTAINER = _WHERE.where(_containers.c.uuid == sa.bindparam("key"))
_OF_PORT = _WHERE.join(models.network_ports, models.network_ports.c.container_uuid == _containers.c.uuid).where(
    models.network_ports.c.uuid == sa.bindparam("key")
)
_OF_TOKEN = _WHERE.join(models.console_tokens, models.console_tokens.c.container_uuid == _containers.c.uuid).where(
    models.console_tokens.c.token_hash == sa.bindparam("key")
)
_OF_EVENT = (
    _WHERE.add_columns(models.container_actions.c.request_id)
    .join(models.container_actions, models.container_actions.c.container_uuid == _containers.c.uuid)
    .join(models.container_action_events, models.container_action_events.c.action_id == models.container_actions.c.id)
    .where(models.container_action_events.c.id == sa.bindparam("key"))
)
_ASKED = sa.select(models.container_actions.c.id).where(
    models.container_actions.c.container_uuid == sa.bindparam("key"),
    models.container_actions.c.request_id == sa.bindparam("this_request"),
    models.container_actions.c.action == sa.bindparam("this_action"),
)
_LEAVING = (
    sa.select(models.container_actions.c.container_uuid)
    .join(models.container_action_events, models.container_action_events.c.action_id == models.container_actions.c.id)
    .where(models.container_action_events.c.id == sa.bindparam("key"))
    .where(models.container_actions.c.action == "leave", models.container_actions.c.finish_time.is_(None))
)
_IMAGE = sa.select(models.images.c.host).where(models.images.c.uuid == sa.bindparam("key"))
_VOLUME = sa.select(models.volumes.c.host).where(models.volumes.c.uuid == sa.bindparam("key"))
_ON_HOST = sa.func.coalesce(_containers.c.host, _capsules.c.host) == sa.bindparam("this_host")
_PULLS = _WHERE.where(
    _ON_HOST,
    _containers.c.registry_id == sa.bindparam("key"),
    sa.or_(_containers.c.status.in_(_PULLING), _capsules.c.status.in_(_PULLING)),
).limit(1)
_HAS_PROJECT = _WHERE.where(_ON_HOST, _containers.c.project_id == sa.bindparam("key")).limit(1)


@dataclass(frozen=True, slots=True)
class Owner:
    """Where a container is: its ``host``, for a member of a capsule without a host that of its capsule."""

    host: str | None
    waiting: bool = False
    """It was accepted and waits for a host."""
    request_id: str | None = None
    """Of a step: the request of its action."""


def owner(row: session.Row) -> Owner:
    """Return the owner of a ``row`` with ``host`` and ``status``."""
    return Owner(row["host"], waiting=row["host"] is None and row["status"] == states.Status.CREATING)


def owner_of_container(uuid: str) -> Owner | None:
    """Return the owner of the container, of a member that of its capsule, or None."""
    return _owner(_OF_CONTAINER, uuid)


def owner_of_port(uuid: str) -> Owner | None:
    """Return the owner of the container that has the port, or None."""
    return _owner(_OF_PORT, uuid)


def owner_of_token(token_hash: str) -> Owner | None:
    """Return the owner of the container that the token is for, or None."""
    return _owner(_OF_TOKEN, token_hash)


def owner_of_event(event_id: int) -> Owner | None:
    """Return the owner of the step's container, with the request of its action, or None."""
    row = _first(_OF_EVENT, key=event_id)
    return None if row is None else replace(owner(row), request_id=row["request_id"])


def host_of_image(uuid: str) -> str | None:
    """Return the host of the image, or None if the image does not exist."""
    found = _first(_IMAGE, key=uuid)
    return None if found is None else str(found["host"])


def host_of_volume(uuid: str) -> str | None:
    """Return the host of the volume, or None if the volume does not exist."""
    found = _first(_VOLUME, key=uuid)
    return None if found is None else str(found["host"])


def pulls_with(host: str, registry: str) -> bool:
    """Return whether a container is made on ``host`` of an image of the registry."""
    return _first(_PULLS, key=registry, this_host=host) is not None


def has_project(host: str, project_id: str) -> bool:
    """Return whether the project has a container on ``host``."""
    return _first(_HAS_PROJECT, key=project_id, this_host=host) is not None


def asked(uuid: str, request_id: str, action: str) -> bool:
    """Return whether the request asked for ``action`` of the container."""
    return _first(_ASKED, key=uuid, this_request=request_id, this_action=action) is not None


def leaving(event_id: int) -> str | None:
    """Return the uuid of the container that is wanted to leave its host by the action of this step, or None."""
    found = _first(_LEAVING, key=event_id)
    return None if found is None else str(found["container_uuid"])


def _owner(statement: sa.Select[tuple[object, ...]], key: str) -> Owner | None:
    row = _first(statement, key=key)
    return None if row is None else owner(row)


def _first(statement: sa.Select[tuple[object, ...]], **parameters: object) -> session.Row | None:
    with session.reader() as connection:
        return session.first(connection, statement, parameters)
