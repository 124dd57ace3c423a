#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run the commands of doc/source/install/distributed.rst word for word on an empty machine.

The machine is a fresh Debian 12 with systemd in a network namespace of its own (debootstrap, systemd-nspawn). It is
controller and host. What the page takes for granted is made first: a keystone, an image called busybox, the checkout of
the last commit. The machine reaches no registry, so its sandboxes are of this image too. Packages are installed over
the network of the outside; everything else sees the loopback only.

Needs root, debootstrap, systemd-container, iproute2, and Python with pexpect (.run/venv/bin/python). About ten minutes.
"""

import argparse
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pexpect

ROOT = pathlib.Path(__file__).parents[1]
PAGE = ROOT / "doc/source/install/distributed.rst"
SECTIONS = (
    "Programs",
    "Database and queue",
    "Keystone",
    "Configuration",
    "Start",
    "First container, capsule and terminal",
)
ADDRESS = "192.0.2.10"
KEYSTONE_PASSWORD = "admin-secret"
WORDS = {
    "ADDRESS": ADDRESS,
    "CONTROLLER": "controller",
    "DB_PASSWORD": "database-secret",
    "HOST": "host-1",
    "KEY": "0123456789abcdef" * 4,
    "RELEASE": "1.0",
    "SERVICE_PASSWORD": "service-secret",
}
"""Word in capitals on the page -> its value on the machine."""
CLIENT = {
    "OS_AUTH_URL": "http://controller:5000/v3",
    "OS_USERNAME": "admin",
    "OS_PASSWORD": KEYSTONE_PASSWORD,
    "OS_PROJECT_NAME": "admin",
    "OS_USER_DOMAIN_ID": "default",
    "OS_PROJECT_DOMAIN_ID": "default",
}
CHECKOUT = "/root/zun"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
BASE = "systemd,systemd-sysv,dbus,ca-certificates"
READY_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Command:
    """A line of a console block. ``user`` is True if its prompt is a user's and not root's."""

    text: str
    user: bool


@dataclass(frozen=True, slots=True)
class File:
    """A block whose caption is a path."""

    path: str
    text: str


def steps(page: str, titles: Iterable[str] = SECTIONS) -> Iterator[Command | File]:
    """Yield the commands and files of a page, the installation page unless given, in the order of its sections."""
    for title in titles:
        section = re.search(rf"^{re.escape(title)}\n=+\n(.*?)(?=^[^\n]+\n=+\n|\Z)", page, re.DOTALL | re.MULTILINE)
        if section is None:
            raise SystemExit(f"the page has no section '{title}'")
        block = r"^\.\. code-block:: (\w+)\n((?:   :.*\n)*)\n((?:   .*\n|\n)+)"
        for kind, options, body in re.findall(block, section[1], re.MULTILINE):
            text = re.sub(r"^   ", "", body, flags=re.MULTILINE).strip("\n") + "\n"
            caption = re.search(r":caption: (.*)", options)
            if kind == "console":
                for prompt, command in re.findall(r"^([#$]) (.*)", text.replace("\\\n", ""), re.MULTILINE):
                    yield Command(command, prompt == "$")
            elif caption:
                yield File(caption[1], text)


def filled(text: str) -> str:
    """Put real values in the place of the words in capitals."""
    return re.sub(r"\b[A-Z]+(?:_[A-Z]+)*\b", lambda word: WORDS.get(word[0], word[0]), text)


def say(text: str) -> None:
    print(f"==> {text}", file=sys.stderr, flush=True)


class Machine:
    """A folder that boots, in a network namespace with one address on its loopback."""

    def __init__(self, folder: pathlib.Path, log: pathlib.Path) -> None:
        self._root, self._log = folder, log
        self._namespace = f"install-{os.getpid()}"
        self._booted: subprocess.Popen[bytes] | None = None

    @property
    def booted(self) -> bool:
        return self._booted is not None

    def make(self, release: str, mirror: str | None, copies: list[str]) -> None:
        say(f"Making a {release} in {self._root}")
        command = ["debootstrap", "--variant=minbase", f"--include={BASE}", release, str(self._root)]
        subprocess.run([*command, mirror] if mirror else command, check=True, stdout=subprocess.DEVNULL)
        for path in ["/etc/resolv.conf", *copies]:
            place = self._root / path.lstrip("/")
            place.unlink(missing_ok=True)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, place)
        (self._root / "etc/hostname").write_text("controller\n")
        (self._root / "etc/hosts").write_text(f"127.0.0.1 localhost\n{ADDRESS} controller\n")
        (self._root / "etc/apt/apt.conf.d/90yes").write_text('APT::Get::Assume-Yes "true";\n')
        checkout = ["git", "clone", "-q", "--no-hardlinks", str(ROOT), f"{self._root}{CHECKOUT}"]
        subprocess.run(checkout, check=True)

    def boot(self) -> None:
        subprocess.run(["ip", "netns", "add", self._namespace], check=True)
        for words in ("link set lo up", f"addr add {ADDRESS}/32 dev lo"):
            subprocess.run(["ip", "-n", self._namespace, *words.split()], check=True)
        # Docker inside needs system calls, sysctls and control groups of its own, and the agent loop devices.
        environment = {**os.environ, "SYSTEMD_SECCOMP": "0", "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "yes"}
        loops = [f"--bind={path}" for path in sorted(pathlib.Path("/dev").glob("loop*"))]
        with self._log.open("wb") as log:
            self._booted = subprocess.Popen(
                [
                    *("systemd-nspawn", "--quiet", "--boot", "--register=no", "--keep-unit", "--capability=all"),
                    *("--machine=controller", "--resolv-conf=off", f"--directory={self._root}"),
                    *(f"--network-namespace-path=/run/netns/{self._namespace}", *loops),
                ],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._until(lambda: self.run("systemctl is-system-running", check=False).strip() in ("running", "degraded"))
        self.run("for one in /sys/fs/cgroup/*/; do mount -o remount,rw,bind $one || true; done")

    def _until(self, done) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while not done():
            if time.monotonic() > deadline:
                raise SystemExit(f"the machine was not ready in {READY_SECONDS} s:\n{self._log.read_text()[-3000:]}")
            time.sleep(0.5)

    def words(self, command: str, outside: bool = False, user: bool = False) -> list[str]:
        """Return the argument list that runs ``command`` in the machine, or with ``outside`` in the outer network."""
        assert self._booted is not None
        children = pathlib.Path(f"/proc/{self._booted.pid}/task/{self._booted.pid}/children")
        found = children.read_text().split()
        if not found:  # not up yet
            return ["false"]
        environment = {
            "HOME": "/root",
            "PATH": f"{CHECKOUT}/osc/bin:{PATH}" if user else PATH,
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "DEBIAN_FRONTEND": "noninteractive",
            **(CLIENT if user else {}),
        }
        joined = [f"{name}={value}" for name, value in environment.items()]
        inside = ["nsenter", "-t", found[0], "-m", "-p", "-u", "-i", *([] if outside else ["-n"])]
        shell = f"cd {CHECKOUT} && {command}"
        return [*inside, "env", "-i", *joined, "bash", "-e", "-c", shell]

    def run(self, command: str, *, outside: bool = False, user: bool = False, check: bool = True) -> str:
        done = subprocess.run(
            self.words(command, outside, user),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd="/",
        )
        if check and done.returncode:
            raise SystemExit(f"{command}\n{done.stdout}\nended with {done.returncode}")
        return done.stdout

    def write(self, file: File) -> None:
        place = self._root / (file.path.lstrip("/") if file.path.startswith("/") else f"{CHECKOUT}/{file.path}"[1:])
        place.write_text(file.text)

    def halt(self) -> None:
        assert self._booted is not None
        self._booted.terminate()  # systemd-nspawn powers it off
        try:
            self._booted.wait(60)
        except subprocess.TimeoutExpired:
            self._booted.kill()
        subprocess.run(["ip", "netns", "del", self._namespace], check=False)


KEYSTONE = """\
python3 -m venv /opt/keystone
/opt/keystone/bin/pip install -q -c upper-constraints.txt keystone cheroot
"""
SERVE = """\
import sys
from cheroot import wsgi
sys.argv[1:] = []
from keystone.wsgi.api import application
wsgi.Server(("0.0.0.0", 5000), application, numthreads=4).safe_start()
"""
UNIT = """\
[Service]
Environment=OS_KEYSTONE_CONFIG_FILES=/etc/keystone.conf
ExecStart=/opt/keystone/bin/python /opt/keystone/serve.py
"""
CONFIGURATION = """\
[database]
connection = sqlite:////opt/keystone/keystone.sqlite
[fernet_tokens]
key_repository = /opt/keystone/fernet
[fernet_receipts]
key_repository = /opt/keystone/fernet
"""
BOOTSTRAP = f"""\
cd /opt/keystone && mkdir -m 700 fernet && manage="bin/keystone-manage --config-file /etc/keystone.conf"
$manage db_sync && $manage fernet_setup --keystone-user root --keystone-group root
url=http://controller:5000/v3
$manage bootstrap --bootstrap-password {KEYSTONE_PASSWORD} --bootstrap-region-id RegionOne \
  --bootstrap-public-url $url --bootstrap-internal-url $url --bootstrap-admin-url $url
systemctl start keystone
"""
SANDBOX = """\
[capsule]
sandbox_image = busybox
sandbox_command = sleep,infinity
"""
IMAGE = """\
mkdir -p /tmp/image/bin && cp /bin/busybox /tmp/image/bin
for one in sh sleep echo; do ln -sf busybox /tmp/image/bin/$one; done
tar -C /tmp/image -c . | docker import --change 'ENV PATH=/bin' --change 'CMD ["sh"]' - busybox
"""


def take_for_granted(machine: Machine) -> None:
    """Install the prerequisite that the page takes for granted: a keystone with an administrator."""
    say("Making a keystone")
    machine.run("apt-get update && apt-get install python3-venv busybox-static git", outside=True)
    machine.run(KEYSTONE, outside=True)
    machine.write(File("/etc/keystone.conf", CONFIGURATION))
    machine.write(File("/opt/keystone/serve.py", SERVE))
    machine.write(File("/etc/systemd/system/keystone.service", UNIT))
    machine.run(f"({BOOTSTRAP})")


def run_command(machine: Machine, step: Command) -> None:
    command = filled(step.text)
    say(f"{'$' if step.user else '#'} {command}")
    if command.startswith("export PATH="):  # Machine.words does it for each of them
        return
    if "--interactive" in command:
        type_into(machine, command)
        return
    outside = re.search(r"apt-get|pip install", command) is not None
    print(said := machine.run(command, outside=outside, user=step.user)[-3000:])
    deadline = time.monotonic() + READY_SECONDS
    while "capsule show" in command and "Running" not in said:
        if "Error" in said or time.monotonic() > deadline:
            raise SystemExit("the capsule does not run")
        print(said := machine.run(command, user=True))
    if "enable --now" in command:
        wait_until_ready(machine, [word for word in shlex.split(command) if word.startswith("zun-")])
    if "docker.io" in command:
        machine.run(IMAGE)
        machine.write(File("/etc/zun/zun.conf.d/sandbox.conf", SANDBOX))


def type_into(machine: Machine, command: str) -> None:
    """Run a command with a keyboard, as the shell of a container."""
    first, *rest = machine.words(command, user=True)
    screen = pexpect.spawn(first, rest, timeout=60, cwd="/", encoding="utf-8", dimensions=(30, 100))
    screen.expect("connected to")
    while True:  # what is typed before the client has set up its terminal is thrown away
        screen.sendline("")
        if screen.expect(["# ", pexpect.TIMEOUT], timeout=1) == 0:
            break
    screen.sendline("echo $((6 * 7))")
    screen.expect(r"\D42\r\n")
    screen.sendline("exit")
    screen.expect(pexpect.EOF)
    print(screen.before)


def wait_until_ready(machine: Machine, units: list[str]) -> None:
    deadline = time.monotonic() + READY_SECONDS
    for unit in units:
        while "is ready" not in (said := machine.run(f"journalctl --no-pager -o cat -u {unit}")):
            if time.monotonic() > deadline:
                raise SystemExit(f"{unit} was not ready in {READY_SECONDS} s:\n{said}")
            time.sleep(0.5)
        print(machine.run(f"ps -o user:10,group:10,supgrp:20,args -p $(systemctl show -P MainPID {unit})"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--release", default="bookworm")
    parser.add_argument("--mirror", help="where debootstrap gets packages from, instead of its own default")
    parser.add_argument("--copy", action="append", default=[], metavar="PATH", help="a file to copy into the machine")
    parser.add_argument("--shell", action="store_true", help="give a shell in the machine before it is removed")
    given = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="zun-install."))
    machine = Machine(folder / "root", folder / "boot.log")
    try:
        machine.make(given.release, given.mirror, given.copy)
        machine.boot()
        take_for_granted(machine)
        for step in steps(PAGE.read_text()):
            if isinstance(step, File):
                say(f"writing {step.path}")
                machine.write(File(step.path, filled(step.text)))
            else:
                run_command(machine, step)
        say("The page works.")
    except BaseException:
        if machine.booted:
            print(machine.run("journalctl --no-pager -o cat -n 300 -u 'zun-*'", check=False))
        raise
    finally:
        if machine.booted:
            if given.shell:
                subprocess.run(machine.words("exec bash", user=True), check=False)
            machine.halt()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
