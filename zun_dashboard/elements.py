# SPDX-License-Identifier: Apache-2.0
"""Where the custom elements are, in the form of an XStatic package.

Horizon adds ``BASE_DIR`` to its static files below ``horizon/lib/NAME`` for the enabled file with ADD_XSTATIC_MODULES.
"""

import pathlib

NAME = "zun"
BASE_DIR = str(pathlib.Path(__file__).resolve().parents[1] / "zun/ui/static")
