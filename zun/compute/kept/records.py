# SPDX-License-Identifier: Apache-2.0
"""Files in which a host keeps the rows of its containers, in case the database is lost. ``recovery`` reads them.

One file a container, for example ``records/host-1/6a0c...-...json``, with the row and its ports and networks. Nothing
else reads the files: the agent starts, places and repairs without them. They have what users put into environments, so
only the agent's own user may read them.
"""

import logging
import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import orjson
from oslo_utils import uuidutils

from zun.common.context import RequestContext
from zun.common.states import Kind
from zun.common.whole_files import place_of, write_whole
from zun.objects import Container, NetworkPort

LOG = logging.getLogger(__name__)

FORM = 1
"""Number of the form of a file. A file of another form is left alone and counts as missing."""


@dataclass(frozen=True, slots=True)
class Record:
    """The content of one file: the columns of a container's row, and the rows of its ports and of their networks."""

    container: Mapping[str, Any]
    ports: Sequence[Mapping[str, Any]] = ()
    networks: Sequence[Mapping[str, Any]] = ()


class Records:
    """The files of one host in ``folder``. Thread-safe, because a file is replaced as a whole."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        self._written: dict[str, int] = {}
        """Uuid -> hash of what this run wrote last, so that an unchanged file is not written again."""

    @classmethod
    def of_host(cls, state_path: str, hostname: str) -> Self:
        return cls(place_of(state_path, "records", hostname))

    def keep_whole(self, context: RequestContext, container: Container) -> None:
        """Write the file of ``container`` with its ports and networks, which are read from the database."""
        if container.kind != Kind.LEFTOVER:
            joined = any(map(uuidutils.is_uuid_like, container.addresses or ()))  # others are the runtime's own
            self.keep(container, *(NetworkPort.recorded(context, container.uuid) if joined else ()))

    def keep(
        self,
        container: Container,
        ports: Sequence[Mapping[str, Any]] = (),
        networks: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Write the file of a changed ``container``. A failure is logged: it must not stop any operation."""
        columns = container.columns()
        columns.pop("id", None)
        try:
            text = orjson.dumps({"form": FORM, "container": columns, "ports": [*ports], "networks": [*networks]})
            if self._written.get(container.uuid) == hash(text):
                return
            self._write(container.uuid, text)
        except (OSError, TypeError) as exc:  # TypeError: a number in the row that is too long for the library
            LOG.warning(
                "The record of container %s was not written: %s. If the database is lost before it is, "
                "'zun-db-manage recover' cannot bring the container back as it is now.",
                container.uuid,
                exc,
            )
            return
        self._written[container.uuid] = hash(text)

    def _write(self, uuid: str, text: bytes) -> None:
        if not (self._written and self._folder.is_dir()):  # an earlier run may have made it with another mode
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._folder.chmod(0o700)
        write_whole(self._file(uuid), text)

    def drop(self, uuid: str) -> None:
        """Remove the file, if there is one."""
        self._written.pop(uuid, None)
        try:
            self._file(uuid).unlink(missing_ok=True)
        except OSError as exc:
            LOG.warning("The record of container %s stays: %s", uuid, exc)

    def uuids(self) -> set[str]:
        """Return the uuids of all containers with a file, readable or not."""
        return {each.stem for each in self._folder.glob("*.json") if uuidutils.is_uuid_like(each.stem)}

    def read(self, uuid: str) -> Record | None:
        """Return the content of the file; None for a missing file or another form."""
        try:
            found = orjson.loads(self._file(uuid).read_bytes())
            if found["form"] != FORM or found["container"]["uuid"] != uuid:
                return None
            return Record(found["container"], found["ports"], found["networks"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, LookupError) as exc:
            LOG.warning("The record of container %s cannot be read: %s", uuid, exc)
            return None

    def _file(self, uuid: str) -> pathlib.Path:
        return self._folder / f"{uuid}.json"
