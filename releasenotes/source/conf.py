# SPDX-License-Identifier: Apache-2.0

import configparser
import pathlib

from docutils import nodes
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


def _title_the_first_release(app, doctree):
    """Put the version of setup.cfg for 0.0.0, which is what reno calls notes that are older than the first tag."""
    project_setup = configparser.ConfigParser()
    project_setup.read(pathlib.Path(__file__).parents[2] / "setup.cfg")
    for title in doctree.findall(nodes.title):
        if title.astext() == "0.0.0":
            title.children = [nodes.Text(project_setup["metadata"]["version"])]


def setup(app):
    # Before Sphinx collects the titles for its tables of contents.
    app.connect("doctree-read", _title_the_first_release, priority=100)
