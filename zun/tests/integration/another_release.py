# SPDX-License-Identifier: Apache-2.0
"""Another release of the project, installed in a folder of its own: a commit, or a simulated next release.

Its programs run with the same interpreter and libraries; ``PYTHONPATH`` decides which release they are.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import zun

ROOT = pathlib.Path(zun.__file__).parents[1]
PARTS = ("zun", "setup.py", "setup.cfg", "pyproject.toml", "README.rst", "LICENSE", "requirements.txt", "MANIFEST.in")


def missing(commit: str) -> str | None:
    """Return None if the history of this repository has the commit, else what the reader can do about it."""
    if _git("cat-file", "-e", f"{commit}^{{commit}}").returncode == 0:
        return None
    return f"the history lacks {commit}, the release before: git fetch --unshallow, or set ZUN_TEST_RELEASE_BEFORE"


def is_shallow() -> bool:
    """Return whether this clone lacks a part of the history, or is no clone."""
    return _git("rev-parse", "--is-shallow-repository").stdout.strip() != b"false"


def _git(*words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", "-C", ROOT, *words], capture_output=True)


def of_commit(commit: str, folder: pathlib.Path) -> dict[str, str]:
    """Install the commit of this repository below ``folder``, and return the environment of its programs."""
    tree = folder / "tree"
    tree.mkdir(parents=True)
    archive = _git("archive", commit, "--", *PARTS)
    archive.check_returncode()
    subprocess.run(["tar", "-x", "-C", tree], input=archive.stdout, check=True)
    shutil.rmtree(tree / "zun" / "tests")
    return _installed(tree, folder)


def next_release(folder: pathlib.Path) -> dict[str, str]:
    """Install a release that follows this one, and return the environment of its programs.

    It has a column and a field ``colour`` of containers (the next minor version of the object), and a message of the
    next RPC version that the API sends for ``top``.
    """
    tree = folder / "tree"
    for name in PARTS:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        tree.mkdir(parents=True, exist_ok=True)
        copy(ROOT / name, tree / name)
    shutil.rmtree(tree / "zun" / "tests")
    _add_field(tree / "zun")
    _add_message(tree / "zun")
    return _installed(tree, folder)


def _add_field(zun_folder: pathlib.Path) -> None:
    before = max(path.name[:4] for path in (zun_folder / "db/migrations/versions").glob("0*.py"))
    name = f"{int(before) + 1:04}"
    (zun_folder / f"db/migrations/versions/{name}_colour.py").write_text(
        '"""Colours"""\nimport sqlalchemy as sa\nfrom alembic import op\n'
        f'revision = "{name}"\ndown_revision = "{before}"\n\n\n'
        'def upgrade():\n    op.add_column("containers", sa.Column("colour", sa.String(20)))\n'
    )
    container = zun_folder / "objects/container.py"
    found = re.search(r'    VERSION = "(\d+)\.(\d+)".*\n', container.read_text())
    assert found
    version = f"{found[1]}.{int(found[2]) + 1}"
    _edit(container, found[0], f'    VERSION = "{version}"\n')
    before_it = '    exit_code: Annotated[int | None, "How its command ended."]\n'
    colour = f'    colour: Annotated[str | None, "A colour.", Text(20), Sent("{version}")] = "blue"\n'
    _edit(zun_folder / "nouns/container.py", before_it, before_it + colour)


def _add_message(zun_folder: pathlib.Path) -> None:
    endpoint, client = zun_folder / "compute/endpoint.py", zun_folder / "messaging/compute_api.py"
    found = re.search(r'    target = oslo_messaging.Target\(version="(\d+)\.(\d+)"\)\n', endpoint.read_text())
    assert found
    version = f"{found[1]}.{int(found[2]) + 1}"
    _edit(endpoint, found[0], f'    target = oslo_messaging.Target(version="{version}")\n')
    _edit(endpoint, "    @rpc.expected\n    def stats(", _PROCESSES + "    @rpc.expected\n    def stats(")
    call = 'self._call(context, container, "top", ps_args=ps_args)'
    _edit(client, call, f'self._call(context, container, "processes", version="{version}", ps_args=ps_args)')


_PROCESSES = """\
    @rpc.expected
    def processes(self, context, *, container, ps_args):
        LOG.warning("The colour is %s", container.colour)
        return self.top(context, container=container, ps_args=ps_args)

"""


def _edit(path: pathlib.Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1, f"{path}: {old!r} is there {text.count(old)} times"
    path.write_text(text.replace(old, new))


def _installed(tree: pathlib.Path, folder: pathlib.Path) -> dict[str, str]:
    target = folder / "installed"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*pip, "--target", target, tree],
        env={**os.environ, "PBR_VERSION": "99.0.0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.returncode == 0, done.stdout.decode()
    return {**os.environ, "PYTHONPATH": str(target), "PYTHONSAFEPATH": "1"}
