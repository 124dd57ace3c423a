# SPDX-License-Identifier: Apache-2.0

project = "zun release notes"
copyright = "Zun maintainers"

extensions = ["openstackdocstheme", "reno.sphinxext"]
master_doc = "index"

openstackdocs_repo_name = "openstack/zun"
openstackdocs_auto_name = False
openstackdocs_auto_version = False
version = release = ""

html_theme = "openstackdocs"
pygments_style = "native"
