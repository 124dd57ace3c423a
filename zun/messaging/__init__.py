# SPDX-License-Identifier: Apache-2.0
"""Messages between the programs: transports, RPC clients and servers, and what waits to be sent."""
