#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Build the sdist and the wheel of the last commit, and try them on several Pythons with old and new libraries.

    tools/packages.py build FOLDER
    tools/packages.py try python3.11 python3.13 sid=python3.14

``build`` gives the same bytes for the same commit. ``try`` builds twice and compares. Then each Python builds the wheel
from the sdist, and installs the wheel twice: with the lowest versions that our requirements and extras allow and that
have a wheel for this Python, and with the newest ones. Each installation runs every program, imports every module,
migrates a database, serves the API of zun-allinone and runs some unit tests. The end is a table.

``sid=python3.14`` is a Python of Debian's suite sid, in a folder that tools/suite.sh makes, which needs root. Nothing
is installed into this machine. A Python takes about five minutes. Each row is printed as soon as it is known.
"""

import argparse
import gzip
import hashlib
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parents[1]
SUITE = ROOT / "tools/suite.sh"
WORK = pathlib.Path("/tmp")  # a suite sees it, too
BUILDERS = {"lowest": ("setuptools==78.1.1", "pbr==6.1"), "newest": ("setuptools", "pbr")}
"""What builds the wheel: the lower bounds of pyproject.toml, and the newest."""
RESOLUTIONS = {"lowest": "lowest-direct", "newest": "highest"}
TESTS = ("topology", "api", "osc", "db/test_migration.py")
"""Unit tests of each installation unless others are named, below zun/tests/unit."""
NEED_THE_CHECKOUT = ("api/test_openapi.py",)
OF_THE_TESTS = ("hypothesis", "openapi-spec-validator", "pexpect", "pytest", "pytest-timeout")


class Failed(Exception):
    """A command ended with an error. The text has its end."""


def run(*words: object, cwd: pathlib.Path = ROOT, **environment: str) -> str:
    # Dozens of processes import the project, and each would compile it anew.
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [str(word) for word in words], cwd=cwd, env={**inherited, **environment}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    if done.returncode:
        raise Failed(f"{' '.join(map(str, words))} ended with {done.returncode}:\n{done.stdout[-3000:]}")
    return done.stdout


def say(text: str) -> None:
    print(f"==> {text}", file=sys.stderr, flush=True)


# Building


def normal(archive: pathlib.Path, seconds: int) -> None:
    """Rewrite an sdist without what differs from build to build: times, owners, the order, and modes of the umask."""
    with tarfile.open(archive) as old:
        members = [(each, old.extractfile(each)) for each in sorted(old.getmembers(), key=lambda each: each.name)]
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as new:
            for member, content in members:
                member.mtime, member.uid, member.gid, member.uname, member.gname = seconds, 0, 0, "root", "root"
                member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
                member.pax_headers = {}
                new.addfile(member, content)
    archive.write_bytes(gzip.compress(made.getvalue(), mtime=seconds))


def build(commit: str, into: pathlib.Path, python: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """Build the sdist of a commit, and the wheel from the sdist; return both. ``python`` has pip and build."""
    seconds = run("git", "log", "-1", "--format=%ct", commit).strip()
    with tempfile.TemporaryDirectory() as name:
        before = os.umask(0o022)  # the wheel has the modes of the files
        try:
            run("git", "clone", "-q", "--no-checkout", "--no-hardlinks", ROOT, f"{name}/tree")
            run("git", "checkout", "-q", "--detach", commit, cwd=pathlib.Path(name, "tree"))
            run(python, "-m", "build", "--sdist", "-o", name, f"{name}/tree", SOURCE_DATE_EPOCH=seconds)
            (sdist,) = pathlib.Path(name).glob("*.tar.gz")
            normal(sdist, int(seconds))
            run(
                python, "-m", "pip", "wheel", "-q", "--no-deps", "-w", f"{name}/wheel", sdist, SOURCE_DATE_EPOCH=seconds
            )  # fmt: skip
        finally:
            os.umask(before)
        (wheel,) = pathlib.Path(name, "wheel").glob("*.whl")
        into.mkdir(parents=True, exist_ok=True)
        return pathlib.Path(shutil.copy(sdist, into)), pathlib.Path(shutil.copy(wheel, into))


def contents(wheel: pathlib.Path) -> dict[str, str]:
    """Return a hash of each file, without the files that name the builder."""
    with zipfile.ZipFile(wheel) as archive:
        names = [each for each in archive.namelist() if not each.endswith((".dist-info/WHEEL", ".dist-info/RECORD"))]
        return {name: hashlib.sha256(archive.read(name)).hexdigest() for name in names}


def requirements(wheel: pathlib.Path) -> list[str]:
    """Return what the wheel and its extras need, without markers of extras. The extra of the tests is left out."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [each for each in archive.namelist() if each.endswith(".dist-info/METADATA")]
        text = archive.read(name).decode()
    lines = re.findall(r"^Requires-Dist: (.*)$", text, re.MULTILINE)
    return [re.sub(r"; *extra == .*", "", line) for line in lines if 'extra == "test"' not in line]


# Trying


@dataclass(frozen=True, slots=True)
class Ground:
    """A Python of this machine, or of a Debian suite."""

    python: str
    suite: str = ""

    def run(self, *words: object) -> str:
        return run(*((SUITE, self.suite) if self.suite else ()), *words, cwd=WORK)


def suite(name: str, python: str) -> Ground:
    """Return a Python of a Debian suite. The suite is unpacked once."""
    run(SUITE, "make", name, f"{python}-venv")
    return Ground(python, name)


@dataclass(slots=True)
class Row:
    """What a Python with one set of libraries does."""

    python: str
    libraries: str
    cells: dict[str, str]

    def step(self, name: str, what: Callable[[], str]) -> bool:
        """Do a step and keep its outcome. Returns whether it worked."""
        say(f"Python {self.python}, {self.libraries}: {name}")
        try:
            self.cells[name] = what()
        except (Failed, OSError) as exc:
            print(exc, file=sys.stderr, flush=True)
            self.cells[name] = "FAILED"
        return self.cells[name] != "FAILED"


def try_on(ground: Ground, sdist: pathlib.Path, wheel: pathlib.Path, tests: Sequence[str]) -> Iterator[Row]:
    """Yield a row for the lowest and one for the newest libraries."""
    version = ground.run(ground.python, "-c", "import platform; print(platform.python_version())").strip()
    for libraries, resolution in RESOLUTIONS.items():
        row = Row(version, libraries, {})
        with tempfile.TemporaryDirectory(prefix="zun-packages.", dir=WORK) as name:
            at = pathlib.Path(name)
            for file in (sdist, wheel, ROOT / "tools/try_package.py"):
                shutil.copy(file, at)
            (at / "requirements.txt").write_text("\n".join(requirements(wheel)) + "\n")
            uv = at / "tools/bin/uv"

            def installer(at=at, uv=uv) -> str:
                ground.run(ground.python, "-m", "venv", at / "tools")
                ground.run(at / "tools/bin/pip", "install", "-q", "uv")
                return ground.run(uv, "--version").split()[1]

            def from_sdist(at=at, uv=uv, libraries=libraries) -> str:
                ground.run(uv, "venv", "-q", "-p", ground.python, at / "builders")
                builder = at / "builders/bin/python"
                ground.run(uv, "pip", "install", "-q", "-p", builder, "pip", "wheel", *BUILDERS[libraries])
                ground.run(
                    builder, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", at / "made",
                    at / sdist.name,
                )  # fmt: skip
                (made,) = (at / "made").glob("*.whl")
                if contents(made) != contents(wheel):
                    odd = contents(made).items() ^ contents(wheel).items()
                    raise Failed(f"the wheel from the sdist differs in {sorted({name for name, _ in odd})}")
                return "same wheel"

            def install(at=at, uv=uv, resolution=resolution) -> str:
                ground.run(uv, "venv", "-q", "-p", ground.python, at / "venv")
                ground.run(
                    uv, "pip", "compile", "-q", "--no-build", "--resolution", resolution, "-p", at / "venv/bin/python",
                    "-o", at / "versions.txt", at / "requirements.txt",
                )  # fmt: skip
                python = at / "venv/bin/python"
                ground.run(uv, "pip", "install", "-q", "-p", python, "-r", at / "versions.txt", at / wheel.name)
                ground.run(uv, "pip", "check", "-p", python)
                return f"{ground.run(uv, 'pip', 'freeze', '-p', python).count('==')} packages"

            def unit_tests(at=at, uv=uv) -> str:
                ground.run(
                    uv, "pip", "install", "-q", "-p", at / "venv/bin/python", "-c", at / "versions.txt", *OF_THE_TESTS
                )  # fmt: skip
                (package,) = (at / "venv/lib").glob("python*/site-packages/zun")
                shutil.copytree(ROOT / "zun/tests", package / "tests")
                shutil.copy(ROOT / "pyproject.toml", package.parent)
                unit = package / "tests/unit"
                left = [f"--ignore={unit / each}" for each in NEED_THE_CHECKOUT]
                said = ground.run(
                    at / "venv/bin/python", "-m", "pytest", "-p", "no:cacheprovider", "-q", "--timeout", "600", *left,
                    *(unit / each for each in tests),
                )  # fmt: skip
                return re.sub(r" in .*", "", said.strip().splitlines()[-1])

            if not row.step("uv", installer):
                yield row
                continue
            row.step("sdist", from_sdist)
            if row.step("install", install):
                command = (at / "venv/bin/python", at / "try_package.py")
                for name in ("programs", "modules", "service"):
                    row.step(name, lambda name=name, command=command: ground.run(*command, name).splitlines()[-1])
                if tests:
                    row.step("unit tests", unit_tests)
        yield row


def table(rows: Sequence[Row]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row.cells))
    lines = [["Python", "libraries", *names]]
    lines += [[row.python, row.libraries, *(row.cells.get(name, "-") for name in names)] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    builds = commands.add_parser("build", help="build both into FOLDER")
    builds.add_argument("folder", type=pathlib.Path, metavar="FOLDER")
    tries = commands.add_parser("try", help="try both")
    tries.add_argument("python", nargs="+", metavar="PYTHON", help="a program, or SUITE=PROGRAM of a Debian suite")
    tries.add_argument("--tests", nargs="*", default=TESTS, metavar="PATH", help="unit tests, below zun/tests/unit")
    given = parser.parse_args()
    commit = run("git", "rev-parse", "HEAD").strip()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        run(sys.executable, "-m", "venv", folder / "build")
        python = folder / "build/bin/python"
        run(python, "-m", "pip", "install", "-q", "build")
        if given.command == "build":
            print(*build(commit, given.folder, python), sep="\n")
            return
        first, second = (build(commit, folder / each, python) for each in ("first", "second"))
        if [each.read_bytes() for each in first] != [each.read_bytes() for each in second]:
            raise SystemExit("two builds of the same commit differ")
        rows = []
        for each in given.python:
            named, _, program = each.rpartition("=")
            try:
                ground = suite(named, program) if named else Ground(program)
                for row in try_on(ground, *first, tests=given.tests):
                    rows.append(row)
                    say(f"\n{table([row])}")
            except Failed as exc:
                print(exc, file=sys.stderr, flush=True)
                rows.append(Row(each, "-", {"python": "FAILED"}))
        print(table(rows))
        if any("FAILED" in row.cells.values() for row in rows):
            raise SystemExit("some steps failed")


if __name__ == "__main__":
    main()
