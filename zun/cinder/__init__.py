# SPDX-License-Identifier: Apache-2.0
"""OpenStack Cinder: its HTTP API, as far as this service uses it."""
