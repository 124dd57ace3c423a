# SPDX-License-Identifier: Apache-2.0
"""Serve Cinder's API on a port of 127.0.0.1 with threads of one process.

Run by the Python that has cinder: ``serve_cinder.py PORT --config-file FILE``. The API is not in keystone's catalogue:
a test that needs it there adds it.
"""

import sys

from cheroot import wsgi

port = int(sys.argv.pop(1))  # cinder reads the other arguments

from cinder.wsgi.api import application  # noqa: E402

wsgi.Server(("127.0.0.1", port), application, numthreads=8).safe_start()
