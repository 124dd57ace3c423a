# SPDX-License-Identifier: Apache-2.0
"""Network drivers, which attach the containers of a host to networks, and the host's firewall rules."""
