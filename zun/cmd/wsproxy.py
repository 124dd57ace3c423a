# SPDX-License-Identifier: Apache-2.0
"""zun-wsproxy: terminals of this host's containers for clients. One beside each zun-compute."""

import logging
import ssl

from oslo_config import cfg

from zun.cmd import compute, program
from zun.console.proxy import Proxy
from zun.container.driver import Terminals

LOG = logging.getLogger(__name__)


def build(conf: cfg.ConfigOpts, driver: Terminals) -> Proxy:
    """The proxy, listening already. SystemExit with the reason when it cannot."""
    group = conf.websocket_proxy
    try:
        return Proxy(
            driver,
            group.wsproxy_host,
            group.wsproxy_port,
            base_url=group.base_url,
            allowed_origins=group.allowed_origins,
            context=_tls(conf),
        )
    except OSError as exc:
        raise SystemExit(
            f"Cannot listen on {group.wsproxy_host}:{group.wsproxy_port}: {exc}. See [websocket_proxy] wsproxy_host, "
            "wsproxy_port, cert and key."
        ) from exc


def _tls(conf: cfg.ConfigOpts) -> ssl.SSLContext | None:
    group = conf.websocket_proxy
    if not group.cert:
        if group.ssl_only:
            raise SystemExit("[websocket_proxy] ssl_only is set, but cert is not.")
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(group.cert, group.key)
    return context


@program.without_traceback
def main() -> None:
    conf = program.configure("zun-wsproxy")
    program.connect_database(conf)
    proxy = build(conf, compute.load_driver(conf))
    proxy.start()
    LOG.info("zun-wsproxy is ready on port %s, reached as %s", proxy.port, conf.websocket_proxy.base_url)
    program.wait_for_signal()
    proxy.stop()


if __name__ == "__main__":
    main()
