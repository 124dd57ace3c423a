# SPDX-License-Identifier: Apache-2.0
"""``/v1/containers``: the containers of a project and what can be done with them.

A handler checks in the order clients rely on: form (400), existence (404), policy (403), status (409). Only
then does it act, by writing the row and sending a message. It waits for a host only where the host's answer
is the response.
"""

import contextlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oslo_utils import timeutils, uuidutils

from zun.api import archives, committed, creation, hints, microversion, nets, paging
from zun.api import placement as placement_rules
from zun.api.controllers.v1 import alive, requested
from zun.api.controllers.v1.parts import Parts
from zun.api.microversion import Version, v1
from zun.api.policy import Access
from zun.api.request import Call
from zun.api.routes import ACCEPTED, NO_CONTENT, NOTHING, Answer, Route
from zun.api.schemas import Field, Schema
from zun.api.schemas import containers as schemas
from zun.api.views import containers as views
from zun.api.views import placement as placement_views
from zun.common import exceptions, states
from zun.common.context import admin_context
from zun.common.states import Status, TaskState
from zun.db import container_actions as db_actions
from zun.db import containers as db
from zun.db import explanations
from zun.db import images as db_images
from zun.db import network_ports as db_ports
from zun.db import quotas as db_quotas
from zun.db import registries as db_registries
from zun.objects import Container
from zun.objects.image import COMMITTED

NOUN = views.NOUN
STOP_BEFORE_DELETE_SECONDS = 10

_FILTERS = ("name", "image", "project_id", "user_id", "memory", "host", "task_state", "status", "auto_remove")
_LIST = paging.parameters(
    **{**dict.fromkeys(_FILTERS, paging.TEXT), "memory": Field({"type": "integer"}), "auto_remove": paging.FLAG},
    all_projects=paging.FLAG,
)
_NO_BODY = Schema({})
_ALL_PROJECTS = Schema({"all_projects": paging.FLAG})

Given = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Action:
    """A sub-action of a container: its name is also that of its policy and of its row in the table of
    statuses.

    ``perform`` gets the container, the checked arguments and the call, and answers with a body of the type ``returns``
    and with ``status``. With a ``body`` the ``schema`` is that of the query alone. ``waits`` is for those whose
    response is the answer of the container's host: when that is known to be down nobody waits for it. ``recorded`` are
    listed among the container's actions.
    """

    verb: str
    name: str
    schema: Schema
    perform: Callable[[Container, Given, Call], Answer]
    returns: Any = None
    status: int = 202
    waits: bool = False
    recorded: bool = False
    streams: bool = False
    any_status: bool = False
    body: Schema | None = None
    since: Version = microversion.MIN
    until: Version = microversion.MAX


class Containers:
    def __init__(self, parts: Parts) -> None:
        self._scheduler = parts.scheduler_api
        self._compute = parts.compute_api
        self._settings = parts.settings
        self._create_schemas = schemas.create(parts.settings)
        self._update_schema = schemas.update(parts.settings)
        self._random = random.Random()

    def routes(self) -> Sequence[Route]:
        item = "containers/{ident}"
        return (
            Route("GET", "containers", self.index, query=_LIST, returns=views.Containers),
            Route(
                "POST",
                "containers",
                self.create,
                json_only=True,
                query=schemas.CREATE_QUERY,
                body=self._create_schemas,
                returns=views.Container,
                status=202,
            ),
            Route("GET", item, self.show, query=_ALL_PROJECTS, returns=views.Container),
            Route("PATCH", item, self.update, arguments=self._update_schema, returns=views.Container),
            Route("DELETE", item, self.delete, query=schemas.DELETE_QUERY, returns=NOTHING, status=204),
            *(
                Route(
                    action.verb,
                    f"{item}/{action.name}",
                    self._handler(action),
                    action.since,
                    action.until,
                    streams=action.streams,
                    query=None if action.body is None else action.schema,
                    body=action.body,
                    arguments=action.schema if action.body is None else None,
                    returns=action.returns,
                    status=action.status,
                )
                for action in self._actions()
            ),
        )

    def _actions(self) -> Sequence[Action]:
        return (
            Action("POST", "start", schemas.NONE, self._start, recorded=True),
            Action("POST", "stop", schemas.TIMEOUT, self._stop, recorded=True),
            Action("POST", "reboot", schemas.TIMEOUT, self._reboot, recorded=True),
            Action("POST", "rebuild", schemas.REBUILD, self._rebuild, recorded=True),
            Action("POST", "pause", schemas.NONE, self._pause, recorded=True),
            Action("POST", "unpause", schemas.NONE, self._unpause, recorded=True),
            Action("POST", "kill", schemas.KILL, self._kill, recorded=True),
            Action("POST", "rename", schemas.RENAME, self._rename, views.Container, 200, any_status=True, until=v1(13)),
            Action(
                "POST", "resize_container", self._update_schema, self._resize_container, views.Container, since=v1(19)
            ),
            Action("POST", "execute", schemas.EXECUTE, self._execute, views.Executed, 200, waits=True),
            Action("POST", "execute_resize", schemas.EXECUTE_RESIZE, self._resize_terminal, status=200, waits=True),
            Action("POST", "resize", schemas.RESIZE, self._resize_terminal, status=200, waits=True),
            Action("GET", "attach", schemas.NONE, self._attach, str, 200, waits=True),
            Action("GET", "logs", schemas.LOGS, self._logs, str, 200, waits=True),
            Action("GET", "top", schemas.TOP, self._top, views.Processes, 200, waits=True),
            Action("GET", "stats", schemas.NONE, self._stats, views.Stats, 200, waits=True),
            Action("GET", "get_archive", schemas.GET_ARCHIVE, self._get_archive, views.Archive, 200, waits=True),
            Action(
                "POST",
                "put_archive",
                schemas.PUT_ARCHIVE,
                self._put_archive,
                None,
                200,
                waits=True,
                streams=True,
                body=schemas.PUT_ARCHIVE_BODY,
            ),
            Action(
                "POST",
                "commit",
                schemas.COMMIT,
                self._commit,
                views.Committed,
                waits=True,
                recorded=True,
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
                since=v1(13),
            ),
            Action("POST", "add_security_group", schemas.SECURITY_GROUP, self._security_group, until=v1(14)),
            Action("POST", "remove_security_group", schemas.SECURITY_GROUP, self._security_group, until=v1(14)),
            Action(
                "GET",
                "explain",
                schemas.NONE,
                self._explain,
                placement_views.Explanation,
                200,
                any_status=True,
                since=microversion.QUESTIONS,
            ),
        )

    # The collection.

    def index(self, call: Call) -> Answer:
        query = call.query
        paging.check_names(query, _LIST.names)
        call.access.require("container:get_all")
        all_projects = paging.boolean("all_projects", query.get("all_projects"))
        if all_projects:
            call.access.require("container:get_all_all_projects")
        if "host" in query or query.get("sort_key") == "host":  # in their order one sees which are together
            call.access.require("container:get_one:host")
        page = paging.Page.read(query, default_key="id", max_limit=self._settings.max_limit)
        given = {name: query[name] for name in _FILTERS if name in query}
        visible = self._visible(call.access)
        uuids: list[str] = []

        def shown() -> Iterator[list[views.Container]]:
            for found in db.page(
                call.context,
                (*views.COLUMNS, *sorted(visible)),
                filters=_typed(given),
                limit=page.limit,
                marker=page.marker,
                sort_key=page.sort_key,
                sort_dir=page.sort_dir,
                all_projects=all_projects,
                unread=views.PASSED_ON,
            ):
                uuids.extend(found["uuid"])
                yield views.page(found, call.version, now=timeutils.utcnow(), visible=visible)

        carried = {**({"all_projects": "true"} if all_projects else {}), **given}
        return Answer(
            paging.written("containers", shown(), lambda: page.next_link(call.base_url, NOUN, uuids, carried))
        )

    def create(self, call: Call) -> Answer:
        run = schemas.CREATE_QUERY(call.query).get("run", False)
        given = self._create_schemas[call.version](call.body)
        call.access.require("container:create")
        creation.check_gates(given, call.version)
        hints.check_gates(given.get("hints") or {}, call.version)
        requested.check_policies(call.access, given)
        fields = creation.container_fields(given, run=run, version=call.version, settings=self._settings)
        if given.get("registry"):
            fields["registry_id"] = db_registries.find(call.context, given["registry"])["uuid"]
        fields.setdefault("name", creation.generated_name(self._random))
        fields["request"] |= requested.host_of(given)
        fields["request"] |= requested.host_of_volumes(call.context, fields)
        asked = hints.resolved(call.context, given.get("hints") or {})
        fields["request"] |= {"hints": asked}
        fields["request"] |= committed.wanted(
            call.context.project_id, given["image"], registry=given.get("registry"), host=fields["request"]["host"]
        )
        fields["group_uuid"] = asked.get(hints.GROUP)
        container = Container(call.context, project_id=call.context.project_id, user_id=call.context.user_id, **fields)
        wanted = nets.wanted(container.project_id, given.get("nets"))
        try:
            self._insert(container, wanted, may_rename=not given.get("name"))
        except exceptions.GroupNotFound:  # deleted since it was looked up
            raise hints.no_group(fields["group_uuid"]) from None
        with self._recorded(call, container, "create"):
            self._schedule(call, container)
        shown = self._shown(container, call, fresh=True)
        return Answer(shown, 202, {"Location": f"{call.base_url}/v1/containers/{container.uuid}"})

    def _insert(self, container: Container, wanted: Sequence[Mapping[str, Any]], *, may_rename: bool) -> None:
        """Write the row. ``may_rename``: its name is ours, and there are few such names."""
        unique = self._settings.unique_names
        try:
            container.create(self._settings.quota, wanted, unique)
        except exceptions.ContainerAlreadyExists:
            if not may_rename:
                raise
            container.name = f"{container.name}-{uuidutils.generate_uuid()}"
            container.create(self._settings.quota, wanted, unique)

    def _schedule(self, call: Call, container: Container) -> None:
        """Hand the container to the scheduler. When that fails its row says so, as a client may look for it
        by name.
        """
        try:
            self._scheduler.create(call.context, container)
        except Exception:
            db.update_if(
                container.uuid,
                {"status": Status.CREATING, "host": None},
                {
                    "status": Status.ERROR,
                    "status_reason": "The scheduler could not be reached. Delete it and try again.",
                },
            )
            raise

    # One container.

    def show(self, call: Call) -> Answer:
        context = call.context
        if paging.boolean("all_projects", call.query.get("all_projects")):
            call.access.require("container:get_one_all_projects")
            context = admin_context(context.request_id)
        row = db.find(context, call.parameters["ident"])
        call.access.require("container:get_one", row)
        return Answer(self._shown(row, call))

    def update(self, call: Call) -> Answer:
        given = self._update_schema(call.arguments)
        container = self._found(call)
        call.access.require("container:update", container)
        states.check_action("update", container)
        size = self._new_size(container, given, call)
        if size:
            self._require_host_up(container)
            container = self._compute.update(call.context, container, **size, quota=self._settings.quota)
        self._describe(container, given)
        return Answer(self._shown(container, call))

    def delete(self, call: Call) -> Answer:
        given = schemas.DELETE_QUERY(call.query)
        force, stop = given.get("force", False), given.get("stop", False)
        context = call.context
        if paging.boolean("all_projects", call.query.get("all_projects")):
            call.access.require("container:delete_all_projects")
            context = admin_context(context.request_id)
        container = Container.get_by_ident(context, call.parameters["ident"])
        call.access.require("container:delete", container)
        self._check_delete_gates(call, container, force=force, stop=stop)
        allowed = "delete_after_stop" if stop else "delete_force" if force else "delete"
        states.check_action(allowed, container)
        if container.host is None and db.destroy_unplaced(container.uuid):
            return NO_CONTENT
        if container.host is None:  # a host took it a moment ago, or somebody else removed it
            container = Container.get_by_ident(context, container.uuid)
        # Also where nothing runs: it may be started before its host gets to this.
        stops = stop and call.access.allows("container:stop", container)
        timeout = STOP_BEFORE_DELETE_SECONDS if stops else None
        with self._recorded(call, container, "delete"):
            # Saved before the message is sent: a lost one is found by its status and repeated.
            self._save_status(container, Status.DELETING, "delete", allowed)
            self._compute.delete(call.context, container, force=force, stop_timeout=timeout)
        return NO_CONTENT

    def _check_delete_gates(self, call: Call, container: Container, *, force: bool, stop: bool) -> None:
        """Each of the two is asked for, also when both are given: the reference lets ``stop`` hide ``force``."""
        for name, wanted, since in (("stop", stop, v1(12)), ("force", force, v1(7))):
            if wanted and call.version < since:
                raise exceptions.InvalidParamInVersion(param=name, req_version=call.version, min_version=since)
        if stop and container.status == Status.RUNNING:
            call.access.require("container:stop", container)
        if force:
            call.access.require("container:delete_force", container)

    # Its sub-actions.

    def _handler(self, action: Action) -> Callable[[Call], Answer]:
        def handler(call: Call) -> Answer:
            given = action.schema(call.arguments)
            container = self._found(call)
            call.access.require(f"container:{action.name}", container)
            if not action.any_status:
                states.check_action(action.name, container)
                self._require_host(container)
            if action.waits:
                self._require_host_up(container)
            if not action.recorded:
                return action.perform(container, given, call)
            with self._recorded(call, container, action.name):
                return action.perform(container, given, call)

        return handler

    def _start(self, container: Container, given: Given, call: Call) -> Answer:
        self._compute.start(call.context, container)
        return ACCEPTED

    def _stop(self, container: Container, given: Given, call: Call) -> Answer:
        self._compute.stop(call.context, container, timeout=given.get("timeout"))
        return ACCEPTED

    def _reboot(self, container: Container, given: Given, call: Call) -> Answer:
        # By this the host knows that it is not the runtime which restarts it.
        container.task_state = TaskState.REBOOTING
        self._save_status(container, Status.RESTARTING, "reboot")
        self._compute.reboot(call.context, container, timeout=given.get("timeout"))
        return ACCEPTED

    def _rebuild(self, container: Container, given: Given, call: Call) -> Answer:
        driver = given.get("image_driver")
        if driver and driver not in self._settings.image_drivers:
            raise exceptions.ValidationError(
                detail=f"image_driver: '{driver[:64]}' is none of {', '.join(self._settings.image_drivers)}."
            )
        request = {**container.request, "run": container.status == Status.RUNNING}
        if given.get("image"):
            container.image = given["image"]
            request.pop(COMMITTED, None)
            request |= committed.wanted(
                container.project_id, container.image, registry=container.registry_id, host=container.host
            )
        container.image_driver = driver or container.image_driver
        # Written, so that a rebuild that is taken up after a restart knows it too.
        container.request = request
        self._save_status(container, Status.REBUILDING, "rebuild")
        self._compute.rebuild(call.context, container)
        return ACCEPTED

    def _pause(self, container: Container, given: Given, call: Call) -> Answer:
        self._compute.pause(call.context, container)
        return ACCEPTED

    def _unpause(self, container: Container, given: Given, call: Call) -> Answer:
        self._compute.unpause(call.context, container)
        return ACCEPTED

    def _kill(self, container: Container, given: Given, call: Call) -> Answer:
        self._compute.kill(call.context, container, signal=given.get("signal"))
        return ACCEPTED

    def _rename(self, container: Container, given: Given, call: Call) -> Answer:
        name = given["name"]
        if name is None:
            raise exceptions.SchemaValidationError(detail="name: it is null; give the new name.")
        if name == container.name:
            raise exceptions.Conflict(f"Container {container.uuid} already has the name {name}.")
        self._describe(container, given)
        return Answer(self._shown(container, call))

    def _resize_container(self, container: Container, given: Given, call: Call) -> Answer:
        size = self._new_size(container, given, call)
        self._describe(container, given)
        shown = self._shown(container, call)
        if size:
            self._compute.resize(call.context, container, **size, quota=self._settings.quota)
        return Answer(shown, 202)

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
            raise exceptions.NoInteractiveFlag(container=container.uuid)
        return Answer(self._compute.attach(call.context, container))

    def _resize_terminal(self, container: Container, given: Given, call: Call) -> Answer:
        """Of the container, or of the command ``exec_id`` in it."""
        self._compute.resize_terminal(
            call.context, container, width=given["w"], height=given["h"], exec_id=given.get("exec_id")
        )
        return Answer(None)

    def _logs(self, container: Container, given: Given, call: Call) -> Answer:
        text = self._compute.logs(
            call.context,
            container,
            stdout=given.get("stdout", True),
            stderr=given.get("stderr", True),
            timestamps=given.get("timestamps", False),
            tail=given.get("tail", "all"),
            since=given.get("since"),
        )
        return Answer(text)

    def _top(self, container: Container, given: Given, call: Call) -> Answer:
        return Answer(self._compute.top(call.context, container, ps_args=given.get("ps_args")))

    def _stats(self, container: Container, given: Given, call: Call) -> Answer:
        return Answer(self._compute.stats(call.context, container))

    def _commit(self, container: Container, given: Given, call: Call) -> Answer:
        reference = committed.reference(given["repository"], given.get("tag"))
        if call.body:
            raise exceptions.SchemaValidationError(detail="repository and tag belong in the query, not in the body.")
        row = db_images.insert_committed(
            {
                "project_id": container.project_id,
                "host": container.host,
                "repo": reference.repo,
                "tag": reference.version,
            }
        )
        try:
            self._compute.commit(call.context, container, row["uuid"])
        except Exception:
            db_images.destroy(row["uuid"])
            raise
        return Answer({"uuid": row["uuid"]}, 202)

    def _explain(self, container: Container, given: Given, call: Call) -> Answer:
        row = explanations.get(container.uuid)
        return Answer(placement_views.explanation(row, hosts=call.access.allows("container:explain:host", container)))

    def _network_attach(self, container: Container, given: Given, call: Call) -> Answer:
        wanted = nets.wanted_more(container.project_id, given)
        self._require_host(container)
        port = db_ports.attach(container.uuid, wanted)["uuid"]
        try:
            with self._recorded(call, container, "network_attach"):
                self._compute.network_attach(call.context, container, port)
        except Exception:
            db_ports.destroy(port)
            raise
        return Answer()

    def _network_detach(self, container: Container, given: Given, call: Call) -> Answer:
        self._require_host(container)
        port = nets.port_to_leave(container, given)
        try:
            with self._recorded(call, container, "network_detach"):
                self._compute.network_detach(call.context, container, port)
        except Exception:
            db_ports.set_leaving(port, False)
            raise
        return ACCEPTED

    def _network_list(self, container: Container, given: Given, call: Call) -> Answer:
        return Answer({"networks": views.networks(container.addresses or {}, call.version)})

    def _security_group(self, container: Container, given: Given, call: Call) -> Answer:
        raise nets.no_security_groups("name")

    def _get_archive(self, container: Container, given: Given, call: Call) -> Answer:
        path = archives.check_path(given["path"])
        stat, pieces = self._compute.get_archive(call.context, container, path)
        return Answer(archives.answer(stat, pieces, encoded=call.version >= v1(25)))

    def _put_archive(self, container: Container, given: Given, call: Call) -> Answer:
        body = archives.Body(call.stream or ())
        members = {**given, **body.members}
        if members.keys() != {"path"} or given.keys() & body.members.keys():
            raise exceptions.SchemaValidationError(
                detail="path: give it once, in the query or in the body before 'data', and nothing else besides."
            )
        if not body.has_data:
            raise exceptions.SchemaValidationError(detail="data: it is missing. It is the archive.")
        path = archives.check_path(members["path"])
        pieces = archives.archive(body.data(), encoded=call.version >= v1(25))
        self._compute.put_archive(call.context, container, path, pieces)
        return Answer()

    # What several of them need.

    @staticmethod
    @contextlib.contextmanager
    def _recorded(call: Call, container: Container, action: str) -> Iterator[None]:
        """Note that the action was asked for, before the message whose work is noted under it, and its failure here."""
        context = call.context
        db_actions.start(
            container.uuid,
            action,
            request_id=context.request_id,
            user_id=context.user_id,
            project_id=context.project_id,
        )
        try:
            yield
        except Exception:
            db_actions.fail(container.uuid, context.request_id, action)
            raise

    def _found(self, call: Call) -> Container:
        return Container.get_by_ident(call.context, call.parameters["ident"])

    def _visible(self, access: Access, row: Mapping[str, Any] | None = None) -> frozenset[str]:
        return frozenset(name for name in views.RESTRICTED if access.allows(f"container:get_one:{name}", row))

    def _shown(self, row: Mapping[str, Any], call: Call, *, fresh: bool = False) -> views.Container:
        return views.show(
            row,
            call.version,
            now=timeutils.utcnow(),
            visible=self._visible(call.access, row),
            base_url=call.base_url,
            fresh=fresh,
        )

    def _new_size(self, container: Container, given: Given, call: Call) -> dict[str, Any]:
        """What of ``cpu``, ``memory`` (MiB) and ``cpu_policy`` to change, and which CPUs stay (``keep_cpus``).

        Null in the request is nothing asked.
        """
        names = ("cpu", "memory", "cpu_policy", "keep_cpus")
        size = {name: given[name] for name in names if given.get(name) is not None}
        for name, since in schemas.UPDATE_SINCE.items():
            if name in size and call.version < since:
                raise exceptions.InvalidParamInVersion(param=name, req_version=call.version, min_version=since)
        if size:
            placement_rules.resized(container, **size)
            self._require_host(container)
            # The host checks again when it writes: this spares it the work, and tells those who do not wait for it.
            growth = {name: float(size[name] - container[name]) for name in size.keys() & {"cpu", "memory"}}
            db_quotas.check(container.project_id, growth, self._settings.quota)
        return size

    def _describe(self, container: Container, given: Given) -> None:
        """Save what is written in the row and nowhere else."""
        name = given.get("name")
        if name is not None and name != container.name:
            container.rename(name, self._settings.unique_names)
        if given.get("auto_heal") is not None:
            container.auto_heal = given["auto_heal"]
        container.save()

    def _save_status(self, container: Container, status: Status, action: str, allowed: str | None = None) -> None:
        """Save a status that the action brings. Somebody may have been quicker since the row was read: 409.

        ``allowed`` is the action's row in the table of statuses, where that has another name.
        """
        container.status = status
        try:
            container.save(only_from=states.ALLOWED[allowed or action])
        except exceptions.IllegalTransition:
            now = db.get(container.uuid)["status"]
            raise exceptions.InvalidStateException(action=action, uuid=container.uuid, status=now) from None

    def _require_host(self, container: Container) -> str:
        """The container's host. Conflict when it was never placed: there is nobody to send a message to."""
        if container.host is None:
            raise exceptions.Conflict(
                f"Container {container.uuid} was never placed on a host, its status is {container.status}. Delete "
                "it and create it again."
            )
        return container.host

    def _require_host_up(self, container: Container) -> None:
        """Raise HostUnavailable when the container's host is known to be down, instead of waiting for it."""
        alive.require(self._require_host(container), self._settings.service_down_time)


def _typed(given: Mapping[str, str]) -> dict[str, Any]:
    """Filters as the columns have them."""
    typed: dict[str, Any] = dict(given)
    if "memory" in given:
        text = given["memory"]
        if not (text.isascii() and text.isdigit() and len(text) < 16):
            raise exceptions.InvalidValue(f"memory: '{text[:64]}' is not a whole number of MiB.")
        typed["memory"] = int(text)
    if "auto_remove" in given:
        typed["auto_remove"] = paging.boolean("auto_remove", given["auto_remove"])
    return typed
