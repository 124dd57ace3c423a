# SPDX-License-Identifier: Apache-2.0
"""Heat's engine with one stack, driven by lines of JSON. It runs in a virtual environment that has Heat.

    python heat_stack.py FOLDER ENDPOINTS ROLE

``ENDPOINTS`` is a JSON object of service types and URLs, which stands for keystone's catalogue. Heat's database is a
file in ``FOLDER``. Each line of the input is a list: the name of a method of ``Stack`` and its arguments. Each line of
the output is the answer, or ``{"error": ...}``.
"""

import json
import pathlib
import sys

from oslo_service import backend

backend.init_backend(backend.BackendType.THREADING)  # as heat-engine does, before anything of Heat is imported

from heat.common import context, messaging  # noqa: E402
from heat.db import api as db  # noqa: E402
from heat.db import models  # noqa: E402
from heat.engine import resources, template  # noqa: E402
from heat.engine import stack as stacks  # noqa: E402
from keystoneauth1 import plugin  # noqa: E402
from oslo_config import cfg  # noqa: E402

WHO = {"user_id": "alice", "tenant_id": "demo", "tenant": "demo", "roles": ["member"]}


class Catalogue(plugin.BaseAuthPlugin):
    """A login without keystone."""

    def __init__(self, endpoints, role):
        super().__init__()
        self._endpoints, self._role = endpoints, role

    def get_headers(self, session):
        return {"X-User-Id": "alice", "X-Project-Id": "demo", "X-Roles": self._role}

    def get_endpoint(self, session, service_type=None, **how):
        return self._endpoints.get(service_type)


class Stack:
    """A stack, which each step reads from the database as the engine does for each request.

    An action returns the stack's state, the reason, and the id of each resource.
    """

    def __init__(self, endpoints, role):
        self._login, self._id = Catalogue(endpoints, role), None

    def create(self, given):
        made = self._planned(given)
        self._id = made.store()
        made.create()
        return self._told(made)

    def update(self, given):
        wanted, made = self._planned(given), self._loaded()
        made.update(wanted)
        return self._told(made)

    def act(self, action):
        """``suspend``, ``resume``, ``check`` or ``delete`` the stack."""
        made = self._loaded()
        getattr(made, action)()
        return self._told(made)

    def attributes(self, resource, *names):
        made = self._loaded()
        return {name: made.resources[resource].FnGetAtt(name) for name in names}

    def outputs(self):
        made = self._loaded()
        made._update_all_resource_data(for_resources=False, for_outputs=True)  # as for "stack output show"
        return {name: each.get_value() for name, each in made.outputs.items()}

    def retries(self, limit):
        """Have the engine repeat a failed create, or a delete that was refused with 409, so often."""
        cfg.CONF.set_override("action_retry_limit", limit)

    def types(self, start):
        return [each for each in resources.global_env().get_types() if each.startswith(start)]

    def _planned(self, given):
        made = stacks.Stack(self._context(), "web", template.Template(given), timeout_mins=1)
        made.validate()
        return made

    def _loaded(self):
        return stacks.Stack.load(self._context(), self._id)

    def _context(self):
        return context.RequestContext.from_dict(WHO, auth_plugin=self._login, is_admin=False)

    def _told(self, made):
        made.persist_state_and_release_lock("no-engine")
        ids = {name: each.resource_id for name, each in made.resources.items()}
        return {"state": "_".join(made.state), "reason": made.status_reason, "ids": ids}


def main(folder, endpoints, role):
    cfg.CONF([], project="heat", default_config_files=[])
    cfg.CONF.set_override("connection", f"sqlite:///{pathlib.Path(folder, 'heat.sqlite')}", "database")
    cfg.CONF.set_override("max_cinder_api_microversion", "3.0")  # else Cinder is asked for its versions
    cfg.CONF.set_override("deferred_auth_method", "password")  # the other needs keystone's trusts
    cfg.CONF.set_override("error_wait_time", None)  # a stack fails at once when one of its resources failed
    messaging.setup("fake://", optional=True)
    models.BASE.metadata.create_all(db.get_engine())
    resources.initialise()
    stack = Stack(json.loads(endpoints), role)
    for line in sys.stdin:
        step, *arguments = json.loads(line)
        try:
            answer = getattr(stack, step)(*arguments)
        except Exception as exc:
            answer = {"error": f"{type(exc).__name__}: {exc}"}
        print(json.dumps(answer), flush=True)


main(*sys.argv[1:])
