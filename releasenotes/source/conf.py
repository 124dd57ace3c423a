# SPDX-License-Identifier: Apache-2.0

from reno import scanner

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

# What a merge changes comes from dulwich as a list with an entry for each parent. Where a note was added and changed on
# one side only, reno ends with an error: it expects neither the None for a parent that has the note as it is after the
# merge, nor an addition beside a change.
_changes_in_subdir = scanner._changes_in_subdir


def _without_sides(*arguments):
    for change in _changes_in_subdir(*arguments):
        if isinstance(change, list):
            sides = [side for side in change if side is not None]
            change = [side for side in sides if side.type == "modify"] or sides
        yield change


scanner._changes_in_subdir = _without_sides
