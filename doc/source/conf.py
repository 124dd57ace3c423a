# SPDX-License-Identifier: Apache-2.0

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "ext"))

project = "zun"
copyright = "Zun maintainers"

extensions = [
    "api_operations",
    "openstackdocstheme",
    "cliff.sphinxext",
    "oslo_config.sphinxext",
    "oslo_policy.sphinxext",
    "programs",
]
autoprogram_cliff_application = "openstack"
autoprogram_cliff_ignored = [  # of every command that lists or shows; doc/source/cli/openstack.rst names them
    "--help",
    "--format",
    "--column",
    "--quote",
    "--noindent",
    "--max-width",
    "--fit-width",
    "--print-empty",
    "--prefix",
    "--sort-column",
    "--sort-ascending",
    "--sort-descending",
]
exclude_patterns = []
master_doc = "index"

openstackdocs_repo_name = "openstack/zun"
openstackdocs_auto_name = False
openstackdocs_auto_version = False
version = release = ""

html_theme = "openstackdocs"
pygments_style = "native"
