# SPDX-License-Identifier: Apache-2.0

import sys

import setuptools

# Where zun.topology.plan spends most of its time on the questions that take longest.
COMPILED = ("allocator", "cores", "cover", "groups", "lowest", "matching", "question", "sets", "threads")


def extensions() -> list[setuptools.Extension]:
    """These modules as machine code, for a wheel only: in a checkout that is edited, edits would have no effect.

    Where nothing can compile they stay Python.
    """
    if "bdist_wheel" not in sys.argv:
        return []
    try:
        from mypyc.build import mypycify
    except ImportError:
        print("mypyc (package mypy) is not there: the wheel is not compiled", file=sys.stderr)
        return []
    # The settings of [tool.mypy] are for checking: here each thing that they name would end the build.
    sources = [f"zun/topology/{name}.py" for name in COMPILED]
    found = mypycify(["--config-file=", *sources], opt_level="3", debug_level="0")
    for each in found:
        each.optional = True
    return found


setuptools.setup(setup_requires=["pbr>=6.1"], pbr=True, ext_modules=extensions())
