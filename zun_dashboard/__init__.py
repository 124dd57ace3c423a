# SPDX-License-Identifier: Apache-2.0
"""Panels for Horizon: the custom elements of zun/ui in Horizon's pages, with the session's token.

The package imports nothing of zun: Horizon's environment need not have the libraries of the service.
"""
