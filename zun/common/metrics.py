# SPDX-License-Identifier: Apache-2.0
"""The metrics of all programs, for Prometheus. Times are in seconds.

A program counts its own events here. ``serve`` shows them over HTTP. The state of a host is read when somebody asks
(``zun.compute.host.host_metrics``).
"""

import contextlib
import logging
import os
import pathlib
import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from wsgiref import simple_server

import prometheus_client
from oslo_config import cfg
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, multiprocess

from zun.common import exceptions

LOG = logging.getLogger(__name__)

FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""Names the folder in which processes add up their metrics. prometheus_client reads it when it is imported."""

API_REQUESTS = Histogram(
    "zun_api_request_seconds",
    "Time of a request to the API, by method, collection (the first part of the path) and status.",
    ["method", "collection", "status"],
)
API_UNDER_WAY = Gauge(
    "zun_api_requests_under_way",
    "Requests to the API that a thread works on and whose answer has not begun.",
    multiprocess_mode="livesum",
)
API_WAITING = Gauge(
    "zun_api_requests_waiting",
    "Requests that have arrived at the own server of zun-api, on this port, and wait for a thread.",
    ["port"],  # without a label a worker of another server would show 0
)
MESSAGES = Gauge(
    "zun_rpc_messages",
    "Messages that a service has read and not dealt with, waiting or under way, by topic.",
    ["topic"],
)
DECISIONS = Counter(
    "zun_scheduler_decisions",
    "Decisions of the scheduler. Outcome: placed, refused, handed_over to another scheduler, or rearranged: containers "
    "of a host are moved, and then the request is decided again.",
    ["outcome"],
)
DECISION_SECONDS = Histogram(
    "zun_scheduler_decision_seconds",
    "Time to choose and book a host.",
    buckets=(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1),
)
REJECTED_HOSTS = Counter(
    "zun_scheduler_rejected_hosts",
    "Hosts that a filter rejected for requests that no host could take.",
    ["filter"],
)
RETRIES = Counter("zun_scheduler_retries", "Claims that a host refused, so that another host had to be found.")
CLAIM_SECONDS = Histogram(
    "zun_compute_claim_seconds",
    "Time from the begin of a claim until it is in the database, or refused. Outcome: kept or refused.",
    ["outcome"],
)
CREATE_SECONDS = Histogram(
    "zun_compute_create_seconds",
    "Time from the begin of a claim until the container runs, was created, or failed.",
    ["status"],
    buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300),
)
CONDUCTOR_CALLS = Counter("zun_conductor_calls", "Calls of hosts that the rules allow, by host.", ["host"])
CONDUCTOR_CALL_SECONDS = Histogram(
    "zun_conductor_call_seconds", "Time of a call of a host at the conductor, with the rules that allow or refuse it."
)
REFUSED_CALLS = Counter(
    "zun_conductor_refused_calls",
    "Calls of hosts that the conductor refused, by host and method. A method without a rule is called other.",
    ["host", "method"],
)
SERVICE_SECONDS = Histogram(
    "zun_service_request_seconds",
    "Time of a request to Cinder or Neutron. Outcome: answered, refused (4xx), failed (5xx), or unavailable.",
    ["service", "outcome"],
)
VOLUME_SECONDS = Histogram(
    "zun_compute_volume_seconds",
    "Time to attach a volume of Cinder to a container, or to detach it. Outcome: done or failed.",
    ["step", "outcome"],
    buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300),
)
PORT_SECONDS = Histogram(
    "zun_compute_port_seconds",
    "Time to bind a port of Neutron to the host, or to plug it until it is active. Outcome: done or failed.",
    ["step", "outcome"],
    buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300),
)
SESSIONS = Gauge("zun_wsproxy_sessions", "Terminals that are open at the proxy on this port.", ["port"])
POOL_MOVES = Counter("zun_compute_pool_moves", "Shared containers that were moved off CPUs, or back.")
MOVE_SECONDS = Histogram(
    "zun_compute_move_seconds",
    "Time to move a dedicated container to other CPUs and memory nodes of its host, its memory included.",
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
DEPARTURE_SECONDS = Histogram(
    "zun_scheduler_departure_seconds",
    "Time from a container's leave of its host until it was at another host (moved), or had to come back (back).",
    ["outcome"],
    buckets=(0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800),
)
MOVED_MIB = Counter("zun_compute_moved_mib", "MiB promised to moved containers on nodes that they left.")


@contextlib.contextmanager
def timed(histogram: Histogram, step: str) -> Iterator[None]:
    """Observe the seconds of the block, with the outcome ``failed`` if it raises and else ``done``."""
    began, outcome = time.monotonic(), "failed"
    try:
        yield
        outcome = "done"
    finally:
        histogram.labels(step, outcome).observe(time.monotonic() - began)


def serve(conf: cfg.ConfigOpts, port: int | None) -> None:
    """Serve the metrics on ``port`` in a thread of its own, until the program ends. Without a port do nothing.

    Raise Misconfigured if the address cannot be used.
    """
    if port is None:
        return
    with _told_where(conf, port):
        prometheus_client.start_http_server(port, conf.metrics.host_ip)


def serve_sum(conf: cfg.ConfigOpts, port: int | None) -> None:
    """Serve the sum of the metrics of all workers of a WSGI server. Each worker calls this function.

    All listen on ``port`` at the same time, and the kernel gives a request to one of them. So no server needs to know
    of the metrics, and the port answers while workers are replaced. Raise Misconfigured as ``serve`` does.
    """
    if port is None:
        return
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder is None:
        LOG.warning("[metrics] api_port has no effect: %s is not set, which names an empty folder", FOLDER_VARIABLE)
        return
    for file in pathlib.Path(folder).glob("gauge_live*.db"):
        pid = int(file.stem.rpartition("_")[2])
        if not pathlib.Path(f"/proc/{pid}").exists():
            multiprocess.mark_process_dead(pid)  # type: ignore[no-untyped-call]
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    with _told_where(conf, port):
        server = _Sharing.on(conf.metrics.host_ip, port)
    server.set_app(prometheus_client.make_wsgi_app(registry))
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()


class _Sharing(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    """A server on a port that other processes of the same user serve too."""

    allow_reuse_port = True
    daemon_threads = True

    @classmethod
    def on(cls, host: str, port: int) -> "_Sharing":
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = type(cls.__name__, (cls,), {"address_family": family})
        return made(address[:2], _Silent)  # type: ignore[no-any-return]


class _Silent(simple_server.WSGIRequestHandler):
    def log_message(self, *_arguments: object) -> None:
        """Log no requests for metrics."""


@contextlib.contextmanager
def _told_where(conf: cfg.ConfigOpts, port: int) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise exceptions.Misconfigured(
            f"Metrics cannot be served on [metrics] host_ip = {conf.metrics.host_ip}, port {port}: {exc.strerror}. "
            "Choose another port for this program."
        ) from exc
