# SPDX-License-Identifier: Apache-2.0
"""The exact search behind ``zun.topology.plan``; the README beside this file teaches the method."""
