# SPDX-License-Identifier: Apache-2.0
"""Build the client plugin alone, from the same files as the server: ``pip install ./client`` in a checkout.

The commands are those of the entry-point group ``openstack.extension`` in the server's setup.cfg.
"""

import configparser
import os
import pathlib

import setuptools
from pbr import packaging

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
GROUP = "openstack.extension"


def read() -> configparser.ConfigParser:
    found = configparser.ConfigParser(interpolation=None)
    found.read(ROOT / "setup.cfg")
    return found


def packages() -> list[str]:
    """Return the plugin and what it imports.

    ``zun.topology`` is pure and draws the map of a host; ``zun.nouns`` says since which version create has a field.
    """
    parts = ("osc", "osc.*", "nouns", "nouns.*", "topology", "topology.*")
    return ["zun", *(f"zun.{name}" for name in setuptools.find_packages(str(ROOT / "zun"), include=parts))]


def version() -> str:
    os.chdir(ROOT)  # where pbr asks git
    try:
        return str(packaging.get_version("zun", read()["metadata"]["version"]))
    finally:
        os.chdir(HERE)


setup = read()
setuptools.setup(
    name="zun-osc",
    version=version(),
    description="NUMA placement and repairs for python-zunclient's openstack appcontainer commands",
    license="Apache-2.0",
    python_requires=setup["metadata"]["python_requires"],
    packages=packages(),
    package_dir={"zun": "../zun"},
    install_requires=["python-openstackclient>=7.0", "python-zunclient>=5.0", "PyYAML>=6.0"],
    entry_points={GROUP: setup["entry_points"][GROUP].strip().splitlines()},
)
