#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Try the installed package of the environment that this program runs in: tools/packages.py calls it for each step.

Only the installed package is used; the checkout is not imported.
"""

import importlib
import importlib.metadata
import json
import os
import pathlib
import pkgutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import warnings

BIN = pathlib.Path(sys.executable).parent
START_SECONDS = 120


def run(*words: object) -> str:
    done = subprocess.run(
        [str(word) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, timeout=300, cwd=tempfile.gettempdir(),
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))} ended with {done.returncode}:\n{done.stdout[-2000:]}")
    return done.stdout


def programs() -> str:
    """Every program answers ``--help`` and ``--version``."""
    distribution = importlib.metadata.distribution("zun")
    names = sorted(each.name for each in distribution.entry_points if each.group == "console_scripts")
    for name in names:
        run(BIN / name, "--help")
        said = run(BIN / name, "--version").strip()
        if distribution.version not in said:
            raise SystemExit(f"{name} --version says '{said}', not {distribution.version}")
    return f"{len(names)} programs"


def modules() -> str:
    """Every module can be imported, and none of the service does what its Python or a library will give up."""
    from oslo_service import backend

    import zun

    backend.init_backend(backend.BackendType.THREADING)
    ours: list[str] = []
    others: set[str] = set()
    root = str(pathlib.Path(zun.__file__).parent)

    def told(message, category, filename, lineno, file=None, line=None):
        if issubclass(category, DeprecationWarning | PendingDeprecationWarning | SyntaxWarning):
            ours.append(f"{filename}:{lineno}: {message}") if filename.startswith(root) else others.add(filename)

    warnings.simplefilter("always")
    warnings.showwarning = told
    names = [each.name for each in pkgutil.walk_packages(zun.__path__, "zun.")]
    # The application of a web server opens the database that is configured.
    names = [name for name in names if not name.startswith(("zun.tests", "zun.wsgi."))]
    for name in names:
        importlib.import_module(name)
    if ours:
        raise SystemExit("\n".join(ours))
    for point in importlib.metadata.distribution("zun").entry_points:
        point.load()
    return f"{len(names)} modules; deprecations in {len(others)} files of others"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def service() -> str:
    """An empty database is brought to the newest schema, and zun-allinone with containers in memory serves its API."""
    with tempfile.TemporaryDirectory() as name:
        folder, port = pathlib.Path(name), free_port()
        settings = f"""\
[DEFAULT]
state_path = {folder}
[database]
connection = sqlite:///{folder}/zun.sqlite
[compute]
container_driver = fake
[network]
driver = fake
[api]
port = {port}
[websocket_proxy]
wsproxy_port = {free_port()}
"""
        conf = folder / "zun.conf"
        conf.write_text(settings)
        run(BIN / "zun-db-manage", "--config-file", conf, "upgrade")
        revision = run(BIN / "zun-db-manage", "--config-file", conf, "version").split()[-1]
        with (folder / "log").open("wb") as log:
            words = [str(BIN / "zun-allinone"), "--config-file", str(conf)]
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder)
        try:
            answer = first_answer(f"http://127.0.0.1:{port}/", process, folder / "log")
            newest = answer["default_version"]["max_version"]
        finally:
            process.terminate()
            code = process.wait(60)
        if code:
            raise SystemExit(f"zun-allinone ended with {code}:\n{(folder / 'log').read_text()[-2000:]}")
        return f"schema {revision}, API {newest}"


def first_answer(url: str, process: subprocess.Popen[bytes], log: pathlib.Path) -> dict:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(url) as answer:
                return json.load(answer)
        except urllib.error.URLError:
            time.sleep(0.2)
    raise SystemExit(f"zun-allinone does not answer:\n{log.read_text()[-2000:]}")


def main() -> None:
    os.environ.pop("PYTHONPATH", None)
    print({"programs": programs, "modules": modules, "service": service}[sys.argv[1]]())


if __name__ == "__main__":
    main()
