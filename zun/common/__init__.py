# SPDX-License-Identifier: Apache-2.0
"""Code that every service shares. Importing it selects oslo.service's threading backend.

The backend must be selected before anything imports oslo.messaging or oslo.versionedobjects: the first importer
decides, and the default is eventlet. Packages that use messages therefore import this one in their ``__init__``.
"""

import sys

# oslo.service still requires eventlet, and futurist imports whatever is installed: seconds, megabytes and a warning for
# something this project never uses.
sys.modules.setdefault("eventlet", None)  # type: ignore[arg-type]

from oslo_service import backend  # noqa: E402

backend.init_backend(backend.BackendType.THREADING)
