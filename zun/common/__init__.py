# SPDX-License-Identifier: Apache-2.0
"""What every service shares. Importing it selects oslo.service's threading backend.

That must come before anything imports oslo.messaging (oslo.versionedobjects does too): whoever is first decides, and
the default is eventlet. So the packages that use messages import this one in their ``__init__``, which Python runs
before any of their modules.
"""

import sys

# oslo.service still requires eventlet, and futurist imports whatever is installed: seconds, megabytes and a warning for
# something this project never uses.
sys.modules.setdefault("eventlet", None)  # type: ignore[arg-type]

from oslo_service import backend  # noqa: E402

backend.init_backend(backend.BackendType.THREADING)
