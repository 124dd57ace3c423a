# SPDX-License-Identifier: Apache-2.0

project = "zun"
copyright = "Zun maintainers"

extensions = [
    "openstackdocstheme",
    "cliff.sphinxext",
    "oslo_config.sphinxext",
    "oslo_policy.sphinxext",
]
exclude_patterns = []
master_doc = "index"

openstackdocs_repo_name = "openstack/zun"
openstackdocs_auto_name = False
openstackdocs_auto_version = False
version = release = ""

html_theme = "openstackdocs"
pygments_style = "native"
