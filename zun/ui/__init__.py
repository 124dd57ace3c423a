# SPDX-License-Identifier: Apache-2.0
"""The machine in the browser: ``static`` has the page and its elements, and ``files`` reads them."""
