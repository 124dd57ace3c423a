# SPDX-License-Identifier: Apache-2.0
"""Nova's report client, driven by lines of JSON. It runs in a virtual environment that has nova and none of this tree.

    python nova_compute.py PLACEMENT_URL HOST UUID

Each line of the input is a list: the name of a method of ``Host`` and its arguments. Each line of the output is the
answer, or ``{"error": ...}``. The steps are those of nova-compute (``update``), of the conductor and the scheduler
(``claim``, ``resize``, ``delete``), and of the API of host aggregates.
"""

import json
import pathlib
import sys
import tempfile

import nova.conf
from nova import context, exception
from nova.scheduler.client import report

SETTINGS = """
[placement]
auth_type = admin_token
endpoint = {url}
token = admin
valid_interfaces = public
"""
ATTEMPTS = 10
CLAIM_VERSION = "1.36"  # of the candidates that Nova's scheduler claims


class Host:
    """One host of Nova. ``uuid`` is that of its root provider."""

    def __init__(self, name, uuid):
        self._name = name
        self._uuid = uuid
        self._context = context.get_admin_context()
        self._client = report.SchedulerReportClient()

    def restart(self):
        """Forget what was read, as a new process would."""
        self._client = report.SchedulerReportClient()
        return True

    def update(self, inventory, own_traits, traits, children):
        """Report the inventory of the root and of child providers (by name), as the resource tracker does.

        Of ``own_traits`` the root has ``traits``. Traits that others set stay.
        """
        tree = self._client.get_provider_subtree_and_ensure_root(self._context, self._uuid, name=self._name)
        tree.update_inventory(self._name, inventory)
        tree.update_traits(self._name, tree.data(self._name).traits - set(own_traits) | set(traits))
        for child, resources in children.items():
            if not tree.exists(child):
                tree.new_child(child, self._name)
            tree.update_inventory(child, resources)
        for uuid in tree.get_provider_uuids(self._name)[1:]:
            if (child := tree.data(uuid).name) not in children:
                tree.remove(child)
        self._client.update_from_provider_tree(self._context, tree)
        return True

    def claim(self, consumer, resources, project, user):
        """Claim for a new server; False if Placement has too little."""
        wanted = {"allocations": {self._uuid: {"resources": resources}}}
        return self._client.claim_resources(self._context, consumer, wanted, project, user, CLAIM_VERSION)

    def resize(self, consumer, resources):
        """Give a server other resources; False if Placement has too little."""
        body = self._client.get_allocs_for_consumer(self._context, consumer)
        body["allocations"] = {self._uuid: {"resources": resources}}
        return self._client.put_allocations(self._context, consumer, body)

    def delete(self, consumer):
        return self._client.delete_allocation_for_instance(self._context, consumer)

    def join(self, aggregate):
        self._client.aggregate_add_host(self._context, aggregate, host_name=self._name)
        return True

    def leave(self, aggregate):
        self._client.aggregate_remove_host(self._context, aggregate, self._name)
        return True


def main(url, name, uuid):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "nova.conf")
        path.write_text(SETTINGS.format(url=url))
        nova.conf.CONF([], project="nova", default_config_files=[str(path)])
    host = Host(name, uuid)
    for line in sys.stdin:
        step, *arguments = json.loads(line)
        try:
            answer = repeated(getattr(host, step), arguments)
        except Exception as exc:
            answer = {"error": f"{type(exc).__name__}: {exc}"}
        print(json.dumps(answer), flush=True)


def repeated(step, arguments):
    """Do a step again after a conflict, as each caller in Nova does, and after a locked database.

    Nova's client answers None if a connection broke.
    """
    failed = RuntimeError("Placement does not answer")
    for _ in range(ATTEMPTS):
        try:
            answer = step(*arguments)
        except exception.NovaException as exc:
            failed = exc
            continue
        if answer is not None:
            return answer
    raise failed


main(*sys.argv[1:])
