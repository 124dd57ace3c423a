# SPDX-License-Identifier: Apache-2.0
"""Images of an image service: the service behind a Protocol, and the archives in which it keeps images."""
