# SPDX-License-Identifier: Apache-2.0
"""gunicorn behind nginx: gunicorn --config /etc/zun/gunicorn.conf.py zun.wsgi.api:application.

gunicorn keeps a thread busy for each client that sends its header, so slow clients would block the API. nginx.conf
beside this file passes on complete requests only.
"""

import os
import shutil
import tempfile

bind = "127.0.0.1:9517"
worker_class = "gthread"
workers = 4
threads = 16
timeout = 120  # longer than [api] rpc_timeout
limit_request_line = 0  # nginx limits the request line, which may hold the command of execute

# Each worker serves the metrics of all on [metrics] api_port. They add them up in files of a folder of their own.
FOLDER = "PROMETHEUS_MULTIPROC_DIR"
made = []


def on_starting(server):
    if FOLDER not in os.environ:
        made.append(tempfile.mkdtemp(prefix="zun-api-metrics-"))
        os.environ[FOLDER] = made[0]


def on_exit(server):
    if not server.reexec_pid:  # else the next gunicorn goes on with the folder
        for folder in made:
            shutil.rmtree(folder, ignore_errors=True)
