# SPDX-License-Identifier: Apache-2.0
"""``/v1/containers/{ident}/...``: the actions on a container."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zun.api import archives, creation, image_properties, images, microversion, networks, transfers
from zun.api.controllers.v1 import drains, one_container
from zun.api.controllers.v1.dependencies import Dependencies
from zun.api.controllers.v1.one_container import Given
from zun.api.microversion import Version, v1
from zun.api.request import Call
from zun.api.routes import Answer, Route
from zun.api.schemas import Schema
from zun.api.schemas import containers as schemas
from zun.api.views import containers as views
from zun.api.views import placement as placement_views
from zun.common import exceptions, states
from zun.common.exceptions import on_failure
from zun.common.image_reference import LOCAL, OF_SERVICE
from zun.common.naming import named
from zun.common.probes import grace_of
from zun.common.states import Status, TaskState
from zun.db import compute_nodes, departures, explanations, models
from zun.db import container_actions as db_actions
from zun.db import images as db_images
from zun.db import network_ports as db_ports
from zun.image.driver import GLANCE
from zun.messaging import compute_api
from zun.objects import Container
from zun.objects.image import COMMITTED, OF_GLANCE, REBUILD

_NO_BODY = Schema({})


@dataclass(frozen=True, slots=True)
class Action:
    """An action on a container. Its name is also its policy rule and its key in the table of statuses.

    ``perform`` gets the container, the checked arguments and the call; it returns a body of the type ``returns``.
    ``status`` is the HTTP status of success. With a ``body`` the ``schema`` is for the query alone. ``waits``: the
    response is the host's answer, so a host that is down is answered 503 at once. ``members``: the containers of
    capsules have it too, by their uuids. The accesses of
    ``zun.db.container_actions.ACCESSES`` are recorded; what is wanted of the host ``perform`` accepts.
    """

    verb: str
    name: str
    schema: Schema
    perform: Callable[[Container, Given, Call], Answer]
    returns: Any = None
    status: int = 202
    waits: bool = False
    streams: bool = False
    any_status: bool = False
    members: bool = False
    body: Schema | None = None
    since: Version = microversion.MIN
    until: Version = microversion.MAX


class SubActions:
    def __init__(self, dependencies: Dependencies) -> None:
        self._compute = dependencies.compute_api
        self._scheduler = dependencies.scheduler_api
        self._settings = dependencies.settings
        self._images = dependencies.images
        self._networks = dependencies.networks
        self._update_schema = schemas.update(dependencies.settings)
        self._transfers = transfers.archives(dependencies.settings.archive_transfers)

    def routes(self) -> Sequence[Route]:
        return [
            Route(
                action.verb,
                f"containers/{{ident}}/{action.name}",
                self._handler(action),
                action.since,
                action.until,
                streams=action.streams,
                waits=action.waits,
                query=None if action.body is None else action.schema,
                body=action.body,
                arguments=action.schema if action.body is None else None,
                returns=action.returns,
                status=action.status,
            )
            for action in self._actions()
        ]

    def _actions(self) -> Sequence[Action]:
        return (
            Action("POST", "start", schemas.NONE, self._plain("start"), members=True),
            Action("POST", "stop", schemas.TIMEOUT, self._stop, members=True),
            Action("POST", "reboot", schemas.TIMEOUT, self._reboot, members=True),
            Action("POST", "rebuild", schemas.REBUILD, self._rebuild),
            Action("POST", "pause", schemas.NONE, self._plain("pause"), members=True),
            Action("POST", "unpause", schemas.NONE, self._plain("unpause"), members=True),
            Action("POST", "kill", schemas.KILL, self._plain("kill", "signal"), members=True),
            Action("POST", "move", schemas.MOVE, self._move, waits=True, since=microversion.MOVES),
            Action("POST", "rename", schemas.RENAME, self._rename, views.Container, 200, any_status=True, until=v1(13)),
            Action(
                "POST",
                "resize_container",
                self._update_schema,
                self._resize_container,
                views.Container,
                members=True,
                since=v1(19),
            ),
            Action("POST", "execute", schemas.EXECUTE, self._execute, views.Executed, 200, waits=True, members=True),
            Action(
                "POST",
                "execute_resize",
                schemas.EXECUTE_RESIZE,
                self._resize_terminal,
                status=200,
                waits=True,
                members=True,
            ),
            Action("POST", "resize", schemas.RESIZE, self._resize_terminal, status=200, waits=True, members=True),
            Action("GET", "attach", schemas.NONE, self._attach, str, 200, waits=True, members=True),
            Action("GET", "logs", schemas.LOGS, self._logs, str, 200, waits=True, members=True),
            Action("GET", "top", schemas.TOP, self._top, views.Processes, 200, waits=True, members=True),
            Action("GET", "stats", schemas.NONE, self._stats, views.Stats, 200, waits=True, members=True),
            Action(
                "GET",
                "get_archive",
                schemas.GET_ARCHIVE,
                self._get_archive,
                views.Archive,
                200,
                waits=True,
                members=True,
            ),
            Action(
                "POST",
                "put_archive",
                schemas.PUT_ARCHIVE,
                self._put_archive,
                None,
                200,
                waits=True,
                streams=True,
                members=True,
                body=schemas.PUT_ARCHIVE_BODY,
            ),
            Action(
                "POST",
                "commit",
                schemas.COMMIT,
                self._commit,
                views.Committed,
                waits=True,
                members=True,
                body=_NO_BODY,
            ),
            Action(
                "POST", "network_attach", schemas.ATTACH, self._network_attach, None, 200, any_status=True, since=v1(8)
            ),
            Action("POST", "network_detach", schemas.DETACH, self._network_detach, any_status=True, since=v1(6)),
            Action(
                "GET",
                "network_list",
                schemas.NONE,
                self._network_list,
                views.Networks,
                200,
                any_status=True,
                members=True,
                since=v1(13),
            ),
            Action("POST", "add_security_group", schemas.SECURITY_GROUP, self._add_security_group, until=v1(14)),
            Action("POST", "remove_security_group", schemas.SECURITY_GROUP, self._remove_security_group, until=v1(14)),
            Action(
                "GET",
                "explain",
                schemas.NONE,
                self._explain,
                placement_views.Explanation,
                200,
                any_status=True,
                members=True,
                since=microversion.QUESTIONS,
            ),
        )

    def _handler(self, action: Action) -> Callable[[Call], Answer]:
        def handler(call: Call) -> Answer:
            given = action.schema(call.arguments)
            container = one_container.found(call)
            call.access.require(f"container:{action.name}", container)
            one_container.check_member(container, action.name, allowed=action.members, compute=self._compute)
            if not action.any_status:
                states.check_action(action.name, container)
                one_container.require_host(container)
            if action.waits:
                one_container.require_host_up(container, self._settings)
            with self._noted(action, container, call):
                return action.perform(container, given, call)

        return handler

    @staticmethod
    def _noted(action: Action, container: Container, call: Call) -> contextlib.AbstractContextManager[None]:
        if action.name in db_actions.ACCESSES:
            return one_container.accessed(call, container, action.name)
        return contextlib.nullcontext()

    def _plain(self, action: str, *names: str) -> Callable[[Container, Given, Call], Answer]:
        """Return how an action is accepted that changes nothing until its host does it. ``names`` are its arguments."""

        def perform(container: Container, given: Given, call: Call) -> Answer:
            self._want(call, container, action, {name: given.get(name) for name in names})
            return Answer()

        return perform

    def _want(self, call: Call, container: Container, action: str, arguments: Mapping[str, Any], **values: Any) -> None:
        """Accept the action, if the status still allows it, and tell the host."""
        one_container.accept(call, container, action, arguments, rule=action, **values)
        one_container.tell(self._compute, call, container, action, arguments)

    def _stop(self, container: Container, given: Given, call: Call) -> Answer:
        self._want(call, container, "stop", {"timeout": _timeout(container, given)})
        return Answer()

    def _reboot(self, container: Container, given: Given, call: Call) -> Answer:
        # By this the host knows that it is not the runtime which restarts it.
        reboots = {"status": Status.RESTARTING, "task_state": TaskState.REBOOTING}
        self._want(call, container, "reboot", {"timeout": _timeout(container, given)}, **reboots)
        return Answer()

    def _rebuild(self, container: Container, given: Given, call: Call) -> Answer:
        driver = given.get("image_driver")
        effective = driver or container.image_driver
        if effective and effective not in self._settings.image_drivers:
            # Also of a container of an earlier release, which accepted drivers that did not exist.
            raise exceptions.ValidationError(
                detail=f"image_driver: '{effective[:64]}' is none of {', '.join(self._settings.image_drivers)}. Name "
                "one in the request."
            )
        request = {**container.request, "run": container.status == Status.RUNNING}
        request.pop(REBUILD, None)
        if given.get("image") or driver or effective == GLANCE:
            request[REBUILD] = self._rebuilt_of(call, container, given.get("image"), effective)
        self._want(call, container, "rebuild", {}, status=Status.REBUILDING, request=request)
        return Answer()

    def _rebuilt_of(self, call: Call, container: Container, image: str | None, driver: str | None) -> dict[str, Any]:
        """Return the image to rebuild from. The row keeps the old image until the rebuild is done."""
        asked = {"image": image or container.image, "image_driver": driver}
        # The same image of Glance may have another name by now, and the user other rights.
        before = container.request.get(OF_GLANCE) if not image and container.image_driver == GLANCE else None
        found = images.of_service(self._images, call.context, driver, before or image or container.image)
        if found is not None:
            image_properties.check_rebuilt(container, found)
            return {**asked, OF_GLANCE: found.uuid}
        if image:
            host, registry = container.host, container.registry_id
            return {**asked, **images.committed_request(container.project_id, image, registry=registry, host=host)}
        same = container.request.get(COMMITTED)
        return asked if same is None else {**asked, COMMITTED: same}

    def _move(self, container: Container, given: Given, call: Call) -> Answer:
        """Have the container moved to another host, ``host`` if given, which must have room for it now."""
        states.check_action("leave", container)
        if not self._compute.can_act("leave"):
            raise exceptions.Conflict(drains.UNMOVED)
        reason = departures.obstacle(container.columns())
        if reason is not None:
            raise exceptions.Conflict(f"Container {named(container)} cannot move to another host: {reason}.")
        host = one_container.require_host(container)
        to = compute_nodes.find(given["host"])["hostname"] if given.get("host") else None
        if to == host:
            raise exceptions.Conflict(f"Container {named(container)} is on host {host} already. Name another host.")
        drains.check_place(self._scheduler, call, container.uuid, host, to)
        running = container.status in states.RUNS
        self._want(
            call,
            container,
            "leave",
            {"host": to, "discard_layer": bool(given.get("discard_layer")), "run": running},
        )
        return Answer()

    def _rename(self, container: Container, given: Given, call: Call) -> Answer:
        name = given["name"]
        if name is None:
            raise exceptions.SchemaValidationError(detail="name: it is null; give the new name.")
        if name == container.name:
            raise exceptions.Conflict(f"Container {named(container)} has this name already. Give another one.")
        one_container.describe(container, given, self._settings)
        return Answer(one_container.shown(container, call))

    def _resize_container(self, container: Container, given: Given, call: Call) -> Answer:
        size = one_container.new_size(container, given, call, self._settings)
        one_container.describe(container, given, self._settings)
        shown = one_container.shown(container, call)
        if size:
            whole = compute_api.whole(size | {"quota": self._settings.quota})
            self._want(call, container, "resize_container", whole)
        return Answer(shown)

    def _execute(self, container: Container, given: Given, call: Call) -> Answer:
        command = creation.split(given["command"], "command")
        if not command:
            raise exceptions.InvalidValue("command: it is empty.")
        if given.get("run", True):
            output, exit_code = self._compute.execute(call.context, container, command=command)
            return Answer({"output": output, "exit_code": exit_code, "exec_id": None, "proxy_url": None})
        exec_id, url = self._compute.prepare_exec(
            call.context, container, command, interactive=given.get("interactive", False)
        )
        return Answer({"output": None, "exit_code": None, "exec_id": exec_id, "proxy_url": url})

    def _attach(self, container: Container, given: Given, call: Call) -> Answer:
        if not container.interactive:
            raise exceptions.NoInteractiveFlag(container=named(container))
        return Answer(self._compute.attach(call.context, container))

    def _resize_terminal(self, container: Container, given: Given, call: Call) -> Answer:
        """Resize the terminal of the container, or of the command ``exec_id`` in it."""
        self._compute.resize_terminal(
            call.context, container, width=given["w"], height=given["h"], exec_id=given.get("exec_id")
        )
        return Answer()

    def _logs(self, container: Container, given: Given, call: Call) -> Answer:
        return Answer(self._compute.logs(call.context, container, **given))

    def _top(self, container: Container, given: Given, call: Call) -> Answer:
        return Answer(self._compute.top(call.context, container, ps_args=given.get("ps_args")))

    def _stats(self, container: Container, given: Given, call: Call) -> Answer:
        answer = self._compute.stats(call.context, container)
        if call.version < microversion.QUIET:
            answer.pop("last_minute", None)
        else:
            answer.setdefault("last_minute", None)  # a host of an older release does not tell
        return Answer(answer)

    def _commit(self, container: Container, given: Given, call: Call) -> Answer:
        reference = images.committed_name(given["repository"], given.get("tag"))
        if call.body:
            raise exceptions.SchemaValidationError(detail="repository and tag belong in the query, not in the body.")
        row = db_images.insert_committed(
            {
                "project_id": container.project_id,
                "host": container.host,
                "repo": reference.repo,
                "tag": reference.version,
            },
            self._settings.quota,
            keeper=LOCAL if self._images is None else OF_SERVICE,
        )
        with contextlib.ExitStack() as undo:
            undo.enter_context(on_failure(db_images.destroy, row["uuid"]))
            if self._images is not None:
                self._images.create(call.context, row["uuid"], reference.repo, reference.version)
                undo.enter_context(on_failure(self._images.delete, row["uuid"]))
            one_container.accept(call, container, "commit", {"image": row["uuid"]}, rule="commit")
        one_container.tell(self._compute, call, container, "commit", {"image": row["uuid"]})
        return Answer({"uuid": row["uuid"]})

    def _explain(self, container: Container, given: Given, call: Call) -> Answer:
        row = explanations.get(container.capsule_uuid or container.uuid)
        hosts = call.access.allows("container:explain:host", container)
        useless = "Delete that row: only this answer is made of it."
        with models.readable(models.explanations.c.record, container.uuid, useless, key="container_uuid"):
            return Answer(placement_views.explanation(row, hosts=hosts))

    def _network_attach(self, container: Container, given: Given, call: Call) -> Answer:
        with self._networks.port_to_join(call.context, container, given) as wanted:
            one_container.require_host(container)
            port = db_ports.attach(container.uuid, wanted)["uuid"]
            with on_failure(db_ports.destroy, port):
                one_container.accept(call, container, "network_attach", {"port": port}, rule=None)
        one_container.tell(self._compute, call, container, "network_attach", {"port": port})
        return Answer()

    def _network_detach(self, container: Container, given: Given, call: Call) -> Answer:
        one_container.require_host(container)
        port = networks.port_to_leave(self._networks, call.context, container, given)
        with on_failure(db_ports.set_leaving, port, False):
            one_container.accept(call, container, "network_detach", {"port": port}, rule=None)
        one_container.tell(self._compute, call, container, "network_detach", {"port": port})
        return Answer()

    def _network_list(self, container: Container, given: Given, call: Call) -> Answer:
        if container.capsule_uuid is not None:
            container = Container.get_by_uuid(call.context, container.capsule_uuid)
        emptied = f"UPDATE containers SET addresses = '{{}}' WHERE uuid = '{container.uuid}'"
        anew = f"With {emptied} its host writes them anew."
        with models.readable(models.containers.c.addresses, container.uuid, anew):
            return Answer({"networks": views.networks(container.addresses or {}, call.version)})

    def _add_security_group(self, container: Container, given: Given, call: Call) -> Answer:
        self._networks.change_group(call.context, container, given["name"], add=True)
        return Answer()

    def _remove_security_group(self, container: Container, given: Given, call: Call) -> Answer:
        self._networks.change_group(call.context, container, given["name"], add=False)
        return Answer()

    def _get_archive(self, container: Container, given: Given, call: Call) -> Answer:
        path = archives.check_path(given["path"])

        def answer() -> Iterator[bytes]:
            stat, pieces = self._compute.get_archive(call.context, container, path)
            return archives.answer(stat, pieces, encoded=call.version >= v1(25))

        return Answer(self._transfers.counted(container.project_id, answer))

    def _put_archive(self, container: Container, given: Given, call: Call) -> Answer:
        with self._transfers.one(container.project_id):  # from before the body: its client may be slow
            body = archives.Body(call.stream or (), ("path",))
            members = {**given, **body.members}
            if "path" not in members or given.keys() & body.members.keys():
                raise exceptions.SchemaValidationError(
                    detail="path: give it once, in the query or in the body before 'data'."
                )
            if not body.has_data:
                raise exceptions.SchemaValidationError(detail="data: it is missing. It is the archive.")
            path = archives.check_path(members["path"])
            pieces = archives.archive(body.data(), encoded=call.version >= v1(25))
            self._compute.put_archive(call.context, container, path, pieces)
        return Answer()


def _timeout(container: Container, given: Given) -> int | None:
    """Return the seconds that its processes have to end: as asked, else as the template of its capsule says."""
    asked: int | None = given.get("timeout")
    return grace_of(container) if asked is None and container.capsule_uuid is not None else asked
