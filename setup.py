# SPDX-License-Identifier: Apache-2.0

import setuptools

DATA = {
    "zun.api": ["*.conf"],
    "zun.db": ["migrations/*", "migrations/versions/*.py"],
    "zun.topology.search": ["*.rst"],
    "zun.ui": ["static/*", "static/vendor/*"],
    "zun_dashboard": ["static/zun_dashboard/*", "templates/zun_dashboard/*"],
}


class WithoutTests(setuptools.Distribution):
    """A wheel without the tests, which need the checkout and libraries of their own.

    pbr adds every package of the tree, and every file that git knows as data.
    """

    def finalize_options(self):
        super().finalize_options()
        self.packages = [name for name in self.packages or () if name.split(".")[:2] != ["zun", "tests"]]
        self.include_package_data, self.package_data = False, DATA


setuptools.setup(setup_requires=["pbr>=6.1"], pbr=True, distclass=WithoutTests)
