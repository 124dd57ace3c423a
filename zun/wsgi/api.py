# SPDX-License-Identifier: Apache-2.0
"""The WSGI ``application`` for uWSGI or gunicorn.

ZUN_CONFIG_FILES lists configuration files, separated by colons: ``/etc/zun/zun.conf:/etc/zun/secrets.conf``.
The server must import this module after it forked (uWSGI: ``lazy-apps``): a message transport does not survive a fork.

With ``[metrics] api_port`` each worker serves the sum of the metrics of all workers. PROMETHEUS_MULTIPROC_DIR names the
folder in which they add them up. It must be empty when the server starts.
"""

import os

from zun.cmd import api, program
from zun.common import metrics
from zun.messaging import rpc

_files = [name for name in os.environ.get("ZUN_CONFIG_FILES", "").split(":") if name]
_conf = program.configure("zun-api", [part for name in _files for part in ("--config-file", name)])
program.connect_database(_conf)
metrics.serve_sum(_conf, _conf.metrics.api_port)
application = api.build(_conf, rpc.get_transport(_conf))
