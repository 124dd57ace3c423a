# SPDX-License-Identifier: Apache-2.0
"""The stock client for shell scripts: ``openstack.py STARTER WORDS`` asks the program of ``stock_client``.

``STARTER`` is the id of the process that called ``stock_client.start``.
"""

import os
import sys

from zun.tests.integration import stock_client

sys.exit(stock_client.call(int(sys.argv[1]), sys.argv[2:], os.environ, (1, 2)))
