# SPDX-License-Identifier: Apache-2.0
"""zun-broker-manage: give each kind of service and each host a user of RabbitMQ with few permissions.

It prints the commands of rabbitmqctl as a shell script, or runs them (``--run``) on a machine of the broker.
"""

import argparse
import base64
import hashlib
import json
import os
import pathlib
import re
import secrets
import shlex
import subprocess
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zun import version
from zun.messaging import senders
from zun.objects.service import COMPUTE_BINARY, PROXY_BINARY

HASH = "rabbit_password_hashing_sha256"
PROGRAMS = {
    senders.API: (senders.API, "zun-db-manage"),
    senders.SCHEDULER: (senders.SCHEDULER,),
    senders.CONDUCTOR: (senders.CONDUCTOR,),
}
"""User -> the programs that use it. All other users are of hosts."""

_OPTION = re.compile(r"^\s*(\w+)\s*=", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Step:
    """A command of rabbitmqctl, and its standard input. ``may_fail``: a failure says that nothing was to be done."""

    words: tuple[str, ...]
    text: str | None = None
    may_fail: bool = False


def hashed(password: str, salt: bytes) -> str:
    """Return ``password`` as RabbitMQ keeps it. ``salt`` has four bytes."""
    return base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest()).decode()


def users(passwords: Mapping[str, str]) -> dict[str, Any]:
    """Return the definitions of the users of ``passwords``, with hashes instead of passwords."""
    return {
        "users": [
            {
                "name": user,
                "password_hash": hashed(password, secrets.token_bytes(4)),
                "hashing_algorithm": HASH,
                "tags": "",
                "limits": {},
            }
            for user, password in passwords.items()
        ]
    }


def definitions(passwords: Mapping[str, str], vhost: str, exchange: str) -> dict[str, Any]:
    """Return the definitions of the vhost, its exchanges, and the users of ``passwords`` with their permissions."""
    made = {user: senders.permissions(user, exchange) for user in passwords}
    exchanges = (exchange, exchange + senders.HOSTS_SUFFIX, senders.REPLIES)
    return {
        "vhosts": [{"name": vhost}],
        **users(passwords),
        "permissions": [
            {"user": user, "vhost": vhost, "configure": each.configure, "write": each.write, "read": each.read}
            for user, each in made.items()
        ],
        "topic_permissions": [
            {"user": user, "vhost": vhost, "exchange": name, "write": write, "read": read}
            for user, each in made.items()
            for name, (write, read) in each.topics.items()
        ],
        "exchanges": [
            {
                "name": name,
                "vhost": vhost,
                "type": "topic",
                "durable": True,
                "auto_delete": False,
                "internal": False,
                "arguments": {},
            }
            for name in exchanges
        ],
    }


def imported(what: Mapping[str, Any]) -> Step:
    """Return the step that has RabbitMQ take over definitions. It changes nothing of which they do not speak."""
    return Step(("import_definitions",), json.dumps(what, indent=1))


def rotate(user: str, password: str) -> list[Step]:
    """Return the steps that give ``user`` another password and end its connections."""
    return [imported(users({user: password})), Step(("close_all_user_connections", user, "new password"))]


def remove_host(host: str, vhost: str) -> list[Step]:
    """Return the steps that end the connections of ``host`` and remove its user and its queues."""
    user = senders.user_of_host(host)
    queue = f"{senders.COMPUTE_TOPIC}.{host}"
    return [
        Step(("clear_permissions", "-p", vhost, user), may_fail=True),
        Step(("close_all_user_connections", user, "removed"), may_fail=True),
        Step(("delete_user", user), may_fail=True),
        Step(("delete_queue", "-p", vhost, queue), may_fail=True),
        Step(("delete_queue", "-p", vhost, f"{queue}.agent"), may_fail=True),
    ]


def shell(steps: Iterable[Step], program: str) -> Iterator[str]:
    """Yield ``steps`` as lines of a shell script."""
    for step in steps:
        line = shlex.join([program, "-q", *step.words])
        if step.text is not None:
            line += f" <<'END'\n{step.text}\nEND"
        yield f"{line} || true" if step.may_fail else line


def run(steps: Iterable[Step], program: str) -> None:
    """Run ``steps``. SystemExit with the reason at the first that fails."""
    for step in steps:
        done = subprocess.run([program, "-q", *step.words], input=step.text or "", text=True, capture_output=True)
        if done.returncode and not step.may_fail:
            said = (done.stderr or done.stdout).strip()
            raise SystemExit(f"rabbitmqctl {step.words[0]} failed: {said}. Nothing after it was done; run it again.")


def transport_url(user: str, password: str, broker: str, vhost: str) -> str:
    """Return the line of zun.conf for ``user``."""
    quoted = urllib.parse.quote(vhost, safe="")
    return f"transport_url = rabbit://{user}:{password}@{broker}/{quoted}"


def check_files(folder: pathlib.Path, users: Iterable[str]) -> None:
    """SystemExit if a file to write has options that ``write`` does not put there: they would be lost."""
    for path in (folder / f"{program}.conf" for user in users for program in _programs(user)):
        try:
            text = path.read_text()
        except FileNotFoundError:
            continue
        except (OSError, UnicodeError) as exc:
            raise SystemExit(f"{path} cannot be read: {exc}. Nothing was changed.") from exc
        if others := sorted({*_OPTION.findall(text)} - {"transport_url"}):
            raise SystemExit(
                f"{path} also has {', '.join(others)}, and would be overwritten. Nothing was changed. Name another "
                "folder with --files, or move these options to another file."
            )


def _programs(user: str) -> Sequence[str]:
    return PROGRAMS.get(user, (COMPUTE_BINARY, PROXY_BINARY))


def write(folder: pathlib.Path, user: str, line: str) -> None:
    """Write ``line`` to the file ``PROGRAM.conf`` of each program of ``user``. A file keeps its owner and mode."""
    for program in _programs(user):
        path = folder / f"{program}.conf"
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o640), "w") as file:
            file.write(f"[DEFAULT]\n{line}\n")


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="zun-broker-manage", description="Users and permissions of RabbitMQ.")
    made.add_argument("--version", action="version", version=version.release())
    made.add_argument("--vhost", default="zun", help="the vhost of all services. Default: zun")
    made.add_argument("--exchange", default="zun", help="[DEFAULT] control_exchange of all services. Default: zun")
    made.add_argument("--broker", default="CONTROLLER:5672", help="address in the printed transport_url")
    made.add_argument(
        "--files",
        type=pathlib.Path,
        metavar="FOLDER",
        help="write each transport_url to PROGRAM.conf in FOLDER instead of printing it. Programs read that file in "
        "/etc/zun",
    )
    made.add_argument("--run", action="store_true", help="run the commands instead of printing them")
    made.add_argument("--rabbitmqctl", default="rabbitmqctl", metavar="PROGRAM", help="the program to run")
    commands = made.add_subparsers(dest="command", required=True)
    commands.add_parser("setup", help="make the vhost and the users of the services on controllers")
    for name, told in (
        ("add-host", "make the user of a host, or set its permissions anew"),
        ("remove-host", "remove the user and the queues of a host"),
        ("rotate", "give the user of a host, or of a service such as zun-api, another password"),
    ):
        host = "the host" if name != "rotate" else "the host, or the service"
        commands.add_parser(name, help=told).add_argument("name", metavar="HOST", help=host)
    return made


def main(argv: Sequence[str] | None = None) -> None:
    options = parser().parse_args(argv)
    if options.files and not options.files.is_dir():
        raise SystemExit(f"--files must be an existing folder, got {options.files}")
    passwords: dict[str, str] = {}
    try:
        if options.command == "remove-host":
            steps = remove_host(options.name, options.vhost)
        else:
            names: tuple[str, ...] = senders.SERVICES
            if options.command != "setup":
                is_service = options.command == "rotate" and options.name in senders.SERVICES
                names = (options.name if is_service else senders.user_of_host(options.name),)
            passwords = {name: secrets.token_urlsafe(24) for name in names}
            if options.command == "rotate":
                steps = rotate(names[0], passwords[names[0]])
            else:
                steps = [imported(definitions(passwords, options.vhost, options.exchange))]
    except ValueError as exc:
        raise SystemExit(str(exc)) from exc
    if options.files:
        check_files(options.files, passwords)
    if options.run:
        run(steps, options.rabbitmqctl)
    else:
        print("set -e")
        for line in shell(steps, options.rabbitmqctl):
            print(line)
    for name, password in passwords.items():
        line = transport_url(name, password, options.broker, options.vhost)
        if options.files:
            write(options.files, name, line)
        else:
            print(f"{'' if options.run else '# '}{name}: {line}")


if __name__ == "__main__":
    main()
