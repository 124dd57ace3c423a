# SPDX-License-Identifier: Apache-2.0
"""zun-allinone: API, scheduler, one compute service and its websocket proxy in one process, for one machine.

The defaults are an SQLite database under ``state_path``, messages inside the process, and no authentication on the
loopback address. The operator can configure each of them.
"""

import contextlib

from zun.cmd import api, compute, program, wsproxy
from zun.common import metrics, secrets
from zun.compute.service import ComputeService
from zun.db import migration
from zun.messaging import rpc
from zun.scheduler.service import SchedulerService


@program.without_traceback
def main() -> None:
    conf = program.configure(
        "zun-allinone",
        transport_url="inproc:///",
        api__auth_strategy="noauth",
        auth_encryption_key_file="$state_path/encryption-keys",
    )
    api.check_noauth(conf)
    try:
        program.make_state_folder(conf.state_path)
        secrets.make_key_file(conf.auth_encryption_key_file)
    except OSError as exc:
        raise SystemExit(
            f"{exc}. Set [DEFAULT] state_path, and auth_encryption_key_file if it is elsewhere, to what this user may "
            "write."
        ) from exc
    metrics.serve(conf, conf.metrics.api_port)
    program.open_database(conf)
    if migration.is_behind():
        migration.upgrade()
    transport = rpc.get_transport(conf)
    with contextlib.ExitStack() as running:  # on failure, stop what was started: it would keep the process alive
        running.callback(transport.cleanup)
        # The host starts first, so that the scheduler knows it when it continues the work of an earlier run.
        driver = compute.load_driver(conf)
        agent = ComputeService(conf, driver, compute.load_network_driver(conf), kernel=compute.kernel_of(conf))
        agent.start(transport)
        running.callback(agent.stop)
        scheduler = SchedulerService(conf, alone=True)
        scheduler.start(transport)
        running.callback(scheduler.stop)
        proxy = wsproxy.build(conf, driver)
        proxy.start()
        running.callback(proxy.stop)
        signs = wsproxy.heartbeats(conf)
        signs.start()
        running.callback(signs.stop)
        server = api.Server(conf, api.build(conf, transport))
        server.start()
        running.callback(server.stop)
        program.wait_for_signal("zun-allinone is ready on %s", api.url(conf))


if __name__ == "__main__":
    main()
