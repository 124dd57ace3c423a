# SPDX-License-Identifier: Apache-2.0
"""The websocket proxy: terminals of this host's containers, for clients with a token."""
