# SPDX-License-Identifier: Apache-2.0
import zun.common  # noqa: F401  before oslo.messaging
