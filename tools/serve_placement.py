# SPDX-License-Identifier: Apache-2.0
"""Serve Placement on a port of 127.0.0.1 with threads of one process.

Run by the Python that has openstack-placement; OS_PLACEMENT_CONFIG_DIR names the folder of placement.conf.
"""

import sys

from cheroot import wsgi
from placement.wsgi.api import application

wsgi.Server(("127.0.0.1", int(sys.argv[1])), application, numthreads=4).safe_start()
