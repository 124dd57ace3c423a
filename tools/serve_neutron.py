# SPDX-License-Identifier: Apache-2.0
"""Serve Neutron's API on a port of 127.0.0.1 with threads of one process.

Run by the Python that has neutron: ``serve_neutron.py PORT``. OS_NEUTRON_CONFIG_FILES names the configuration. The API
is not in keystone's catalogue: a test that needs it there adds it.
"""

import sys

from cheroot import wsgi

port = int(sys.argv[1])
del sys.argv[1:]  # neutron reads what is left of the arguments

from neutron import policy  # noqa: E402
from neutron.wsgi.api import application  # noqa: E402

# Neutron reads its rules with the first request. Until it has them, it refuses each other request with 403.
policy.init()
wsgi.Server(("127.0.0.1", port), application, numthreads=8).safe_start()
