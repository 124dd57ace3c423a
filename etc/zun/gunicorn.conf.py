# SPDX-License-Identifier: Apache-2.0
"""gunicorn behind nginx: gunicorn --config /etc/zun/gunicorn.conf.py zun.wsgi.api:application.

gunicorn keeps a thread busy for each client that sends its header, so slow clients would block the API. nginx.conf
beside this file passes on complete requests only.
"""

bind = "127.0.0.1:9517"
worker_class = "gthread"
workers = 4
threads = 16
timeout = 120  # longer than [api] rpc_timeout
limit_request_line = 0  # nginx limits the request line, which may hold the command of execute
