# SPDX-License-Identifier: Apache-2.0
from oslo_config import cfg

from zun.conf import bounded

GROUP = "api"

OPTS = [
    cfg.HostAddressOpt("host_ip", default="127.0.0.1", help="Address that zun-api listens on."),
    cfg.PortOpt("port", default=9517, help="Port that zun-api listens on."),
    cfg.BoolOpt(
        "enable_ssl_api",
        default=False,
        help="Serve https instead of http from zun-api's own server, with the certificate of group ssl. A WSGI server "
        "or a proxy in front of it has settings of its own for TLS.",
    ),
    bounded.IntOpt(
        "workers",
        min=1,
        max=bounded.MOST_THREADS,
        default=16,
        help="Number of threads that answer requests in zun-api's own server.",
    ),
    bounded.IntOpt("max_limit", min=1, default=1000, help="Largest number of items in one page of a list."),
    cfg.StrOpt(
        "auth_strategy",
        default="keystone",
        choices=[
            ("keystone", "Keystone checks the token of each request (group keystone_authtoken)."),
            (
                "http_basic",
                "Names and passwords are checked with http_basic_user_file: for installations without keystone.",
            ),
            ("noauth", "Nothing is checked: every client that reaches the port can act as an administrator."),
        ],
        help="Method by which clients authenticate.",
    ),
    cfg.StrOpt(
        "http_basic_user_file",
        default="/etc/zun/htpasswd",
        help="With auth_strategy http_basic, the file with a line NAME:HASH for each user. 'htpasswd -B' writes such "
        "lines; only bcrypt hashes are accepted. A change takes effect with the next request.",
    ),
    cfg.StrOpt(
        "http_basic_project_file",
        help="With auth_strategy http_basic, the file with a line NAME:PROJECT:ROLE[,ROLE] for each user. A user "
        "without a line is a member of the project that has the user's name. Roles are reader, member, admin and "
        "every role that the policy file names. A change takes effect with the next request.",
    ),
    cfg.BoolOpt(
        "allow_noauth_on_any_address",
        default=False,
        help="With auth_strategy noauth, serve clients that are not on loopback. Everybody who reaches the address "
        "then controls every container and, through the containers, the hosts. If false, zun-api refuses to listen on "
        "an address other than loopback; behind uWSGI or gunicorn it refuses requests from other addresses.",
    ),
    cfg.BoolOpt(
        "access_log",
        default=True,
        help="Write one line for each request to the log, from logger zun.access at level INFO: client, user, project, "
        "method, path without its query, status, bytes, seconds, request id. Set it to false if the server in front "
        "of the API writes an access log and the log does not need user names.",
    ),
    cfg.ListOpt(
        "host_names",
        default=[],
        help="With auth_strategy noauth, host names by which clients reach the API, besides localhost and host_ip. A "
        "request with another Host header is refused. This stops web pages that point their own host name to this "
        "machine (DNS rebinding).",
    ),
    bounded.IntOpt(
        "connections_per_address",
        min=0,
        default=100,
        help="Largest number of connections of one client address to zun-api's own server. A further connection "
        "closes the oldest one that still waits for its request; if none waits, the further connection is refused. 0: "
        "no limit. Use 0 behind a reverse proxy, which is one address for all clients, and limit clients there.",
    ),
    bounded.IntOpt(
        "archive_transfers",
        min=-1,
        default=8,
        help="Largest number of archives (get_archive, put_archive) that one zun-api process transfers at the same "
        "time for one project. A further request is answered with 403. -1: no limit.",
    ),
    bounded.IntOpt(
        "waiting_requests",
        min=-1,
        default=8,
        help="Largest number of requests of one project that wait at the same time, in one zun-api process, for the "
        "answer of a host or of a scheduler, or for the bytes of an archive; and of logins at the page that wait for "
        "keystone, of all people together. A further request is answered with 429. "
        "Each holds a thread: keep it below workers, or below the threads of the WSGI server, so that one project "
        "leaves threads to the others. -1: no limit.",
    ),
    bounded.IntOpt(
        "rpc_timeout",
        min=1,
        default=75,
        help="Seconds that the API waits for the answer of a compute host (logs, exec, top, stats). Keep it longer "
        "than [docker] default_timeout, so that a hanging Docker is not reported as a host that is down.",
    ),
]
