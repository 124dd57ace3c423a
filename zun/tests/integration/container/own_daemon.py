# SPDX-License-Identifier: Apache-2.0
"""A second Docker daemon that a test may stop and start, beside the one that everybody uses."""

import contextlib
import glob
import os
import pathlib
import shlex
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import docker
import pytest
import requests.exceptions

from zun.tests.fixtures import wait_for
from zun.tests.integration.container.daemon import IMAGE, root_of_busybox

SECONDS = 120


class OwnDaemon:
    """A Docker daemon with all its files in ``folder``. It has no network, because the first daemon owns the bridge.

    ``options`` are more of dockerd. With ``--host=fd://`` it also serves ``listener``, since it cannot listen for
    programs outside of its network by itself. With ``bridge``, the daemon is in the network of the test, and this
    bridge, which must exist, is its default network. ``sees`` are files of this machine, and those that the daemon sees
    in their places. ``program`` may be the dockerd of another release: one folder may be given to one after the other.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        *options: str,
        listener: socket.socket | None = None,
        bridge: str | None = None,
        sees: Mapping[str, pathlib.Path] | None = None,
        program: str = "dockerd",
    ) -> None:
        self.data = folder / "data"
        self.url = f"unix://{folder}/docker.sock"
        self._folder = folder
        longest = f"{folder}/exec/containerd/containerd.sock.ttrpc"
        assert len(longest) < 108, f"Linux opens no socket with so long a path: {longest}. Use the fixture short_path."
        self._command = [
            *(("unshare", "--net") if bridge is None else ()), program,
            f"--data-root={self.data}", f"--exec-root={folder}/exec", f"--pidfile={folder}/docker.pid",
            f"--host={self.url}", "--storage-driver=vfs", f"--bridge={bridge or 'none'}", "--iptables=false",
            "--ip-forward=false", "--shutdown-timeout=1", *options,
        ]  # fmt: skip
        if sees:
            mounts = "".join(f"mount --bind {shlex.quote(str(what))} {place} && " for place, what in sees.items())
            apart = ("unshare", "--mount", "--propagation=slave", "bash", "-c", f'{mounts}exec "$@"', "dockerd")
            self._command = [*apart, *self._command]
        self._listener = listener
        if listener is not None:  # as systemd hands it over
            number = listener.fileno()
            take = f"exec 3<&{number}" + (f" {number}<&-" if number != 3 else "")
            serve = f'{take}; LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"'
            self._command = ["bash", "-c", serve, "dockerd", *self._command]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *, wait: bool = True) -> None:
        """Start the daemon and return when it answers, or at once without ``wait``."""
        with (self._folder / "dockerd.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=() if self._listener is None else (self._listener.fileno(),),
            )
        if wait:
            wait_for(self._answers, SECONDS)

    def stop(self) -> None:
        """Stop the daemon like an operator. The daemon ends its containers first."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the daemon. Its containers run on until the next start, which ends them."""
        self._end(signal.SIGKILL)
        # Its containerd went with it. Where nobody reaps orphans its pid still is one, and would be waited for.
        (self._folder / "exec" / "containerd" / "containerd.pid").unlink(missing_ok=True)

    def lose_power(self) -> None:
        """Kill the daemon with its containers, and remove what a reboot removes: its part of /run and its mounts."""
        if self._process is not None:
            self.kill()
        self._end_shims()
        self._unmount(self._mounts(self._folder))
        shutil.rmtree(self._folder / "exec")
        for name in ("docker.pid", "docker.sock"):
            (self._folder / name).unlink(missing_ok=True)

    def clean(self) -> None:
        """End it and everything it left running or mounted: its folder can be removed then."""
        if self._process is not None:
            self.stop()
        self._end_shims()
        # A daemon that is killed leaves its folder mounted on itself, once for each time. Networks of containers stay
        # mounted if a later daemon on this folder did not know these.
        self._unmount(each for each in self._mounts(self._folder) if each != str(self._folder))

    def namespaces(self) -> list[str]:
        """The network namespaces of its containers."""
        return [pathlib.Path(each).name for each in self._mounts(self._folder / "exec" / "netns")]

    @staticmethod
    def _unmount(places: Iterable[str]) -> None:
        for each in reversed([*places]):
            subprocess.run(["umount", each], check=True)

    @staticmethod
    def _mounts(folder: pathlib.Path) -> list[str]:
        """What is mounted at ``folder`` and below, oldest first."""
        listed = [line.split()[1] for line in pathlib.Path("/proc/self/mounts").read_text().splitlines()]
        return [each for each in listed if each == str(folder) or each.startswith(f"{folder}/")]

    def _end_shims(self) -> None:
        for shim in self._shims():
            children = [pathlib.Path(each).read_text() for each in glob.glob(f"/proc/{shim}/task/*/children")]
            for pid in (*" ".join(children).split(), shim):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)

    def _shims(self) -> list[int]:
        """The processes that hold its containers: each names the socket of its containerd."""
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if f"{self._folder}/exec/containerd".encode() in path.read_bytes():
                    found.append(int(path.parent.name))
        return found

    def _end(self, how: signal.Signals) -> None:
        assert self._process is not None
        process, self._process = self._process, None
        process.send_signal(how)
        process.wait(SECONDS)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "dockerd.log").read_text()[-3000:]
        try:
            client = docker.APIClient(self.url, version="auto")
        except (docker.errors.DockerException, requests.exceptions.RequestException):
            return False
        if not client.images(IMAGE):
            client.import_image_from_data(root_of_busybox(), IMAGE, "latest", changes=["ENV PATH=/bin"])
        client.close()
        return True


def need_own_daemon() -> None:
    """Skip a test, or fail it with ZUN_REQUIRE_DOCKER=1, where no daemon of its own can run."""
    missing = [each for each in ("dockerd", "unshare") if shutil.which(each) is None]
    if missing or os.geteuid() != 0:
        reason = f"a daemon of the test's own needs root and the programs {missing or ''}"
        if os.environ.get("ZUN_REQUIRE_DOCKER") == "1":
            pytest.fail(reason)
        pytest.skip(reason)


@contextlib.contextmanager
def running(folder: pathlib.Path, *options: str, **more: Any) -> Iterator[OwnDaemon]:
    """Give a daemon that runs, and end it with everything that it left. The arguments are those of ``OwnDaemon``."""
    need_own_daemon()
    daemon = OwnDaemon(folder, *options, **more)
    try:
        daemon.start()
        yield daemon
    finally:
        daemon.clean()


@pytest.fixture
def own_daemon(docker_url, short_path):
    """Running. ``docker_url`` says whether tests with Docker are wanted at all."""
    with running(short_path) as daemon:
        yield daemon
