# SPDX-License-Identifier: Apache-2.0
"""zun-wsproxy: gives clients the terminals of this host's containers. One runs beside each zun-compute."""

import ssl

from oslo_config import cfg

from zun.cmd import compute, program
from zun.common import metrics
from zun.common.context import admin_context
from zun.common.periodic import Periodic
from zun.common.tls import ServerContext
from zun.console.proxy import Limits, Proxy
from zun.container.driver.terminals import Terminals
from zun.messaging import cadf, conductor_api, rpc
from zun.objects import ZunService
from zun.objects.service import INTERNAL_ZONE, PROXY_BINARY


def build(conf: cfg.ConfigOpts, driver: Terminals) -> Proxy:
    """Return the proxy, which listens already. SystemExit with the reason if it cannot listen."""
    group, sessions = conf.websocket_proxy, cadf.Sessions(conf)
    try:
        made = Proxy(
            driver,
            group.wsproxy_host,
            group.wsproxy_port,
            base_url=group.base_url,
            allowed_origins=group.allowed_origins,
            context=_tls(conf),
            limits=Limits(group.sessions_per_user, group.max_sessions, group.idle_timeout),
            opened=sessions.opened,
            closed=sessions.closed,
        )
    except OSError as exc:
        raise SystemExit(
            f"Cannot listen on {group.wsproxy_host}:{group.wsproxy_port}: {exc}. See [websocket_proxy] wsproxy_host, "
            "wsproxy_port, cert and key."
        ) from exc
    metrics.SESSIONS.labels(made.port).set_function(made.running)
    return made


def heartbeats(conf: cfg.ConfigOpts) -> Periodic:
    """Return the task that shows this proxy in the list of services. It is not started yet."""

    def heartbeat() -> None:
        ZunService.heartbeat(admin_context(), conf.host, PROXY_BINARY, INTERNAL_ZONE)

    return Periodic([(heartbeat, conf.compute.heartbeat_interval)])


def _tls(conf: cfg.ConfigOpts) -> ssl.SSLContext | None:
    group = conf.websocket_proxy
    if not group.cert:
        if group.ssl_only:
            raise SystemExit("[websocket_proxy] ssl_only is set, but cert is not.")
        return None
    return ServerContext.of(group.cert, group.key)


@program.without_traceback
def main() -> None:
    conf = program.configure("zun-wsproxy")
    if conf.compute.database == "conductor":
        compute.name_queues(conf, PROXY_BINARY)
        conductor_api.reach_database(conf, rpc.get_transport(conf), program.connect_database)
    else:
        program.connect_database(conf)
    metrics.serve(conf, conf.metrics.wsproxy_port)
    proxy = build(conf, compute.load_driver(conf))
    proxy.start()
    signs = heartbeats(conf)
    signs.start()
    program.wait_for_signal("zun-wsproxy is ready on port %s, reached as %s", proxy.port, conf.websocket_proxy.base_url)
    signs.stop()
    proxy.stop()


if __name__ == "__main__":
    main()
