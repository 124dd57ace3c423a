# SPDX-License-Identifier: Apache-2.0
"""A RabbitMQ of a test's own, with users, permissions and certificates of the test."""

import os
import pathlib
import shlex
import subprocess
import tempfile

from zun.tests.fixtures import wait_for
from zun.tests.integration.programs import free_port

BIN = pathlib.Path(os.environ.get("RABBIT_BIN", "/usr/lib/rabbitmq/bin"))


class OwnRabbit:
    """A node that is not part of any cluster. ``lines`` are further ones of rabbitmq.conf, with ``{tls}`` a port."""

    def __init__(self, folder, *lines):
        self._folder = folder
        self.port, self.tls_port, distribution, epmd = (free_port() for _ in range(4))
        settings = [
            f"listeners.tcp.1 = 127.0.0.1:{self.port}", "default_user = admin", "default_pass = admin",
            "disk_free_limit.absolute = 50MB", "vm_memory_high_watermark.absolute = 512MB", "log.console = true",
            "log.file = false", *(each.format(tls=self.tls_port) for each in lines),
        ]  # fmt: skip
        (folder / "rabbitmq.conf").write_text("\n".join(settings) + "\n")
        (folder / "enabled_plugins").write_text("[].\n")
        (folder / "env.conf").write_text("")
        (folder / "home").mkdir()
        self._environment = {
            **os.environ,
            "HOME": f"{folder}/home",
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": f"{epmd}",
            "RABBITMQ_CONF_ENV_FILE": f"{folder}/env.conf",
            "RABBITMQ_CONFIG_FILE": f"{folder}/rabbitmq.conf",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/enabled_plugins",
            "RABBITMQ_MNESIA_BASE": f"{folder}/mnesia",
            "RABBITMQ_LOG_BASE": f"{folder}",
            "RABBITMQ_PID_FILE": f"{folder}/pid",
            "RABBITMQ_GENERATED_CONFIG_DIR": f"{folder}/config",
            "RABBITMQ_NODENAME": f"test{self.port}@localhost",
            "RABBITMQ_DIST_PORT": f"{distribution}",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} +sbwt none "
            "+sbwtdcpu none +sbwtdio none",
        }
        self._processes = []
        # A program that takes the words of rabbitmqctl, for whoever is given the name of one.
        assignments = (f"{name}={shlex.quote(self._environment[name])}" for name in self._environment if "_" in name)
        self.rabbitmqctl = folder / "rabbitmqctl"
        self.rabbitmqctl.write_text(
            f"#!/bin/sh\nHOME={folder}/home exec env {' '.join(assignments)} {BIN}/rabbitmqctl \"$@\"\n"
        )
        self.rabbitmqctl.chmod(0o755)
        self._launch("epmd", "-address", "127.0.0.1", "-port", f"{epmd}")
        self._launch(f"{BIN}/rabbitmq-server")
        wait_for(self._is_ready, 120)

    def _launch(self, *command):
        with (self._folder / "log").open("ab") as log:
            self._processes.append(
                subprocess.Popen(command, env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            )

    def _is_ready(self):
        said = (self._folder / "log").read_text()
        assert self._processes[-1].poll() is None, said[-3000:]
        return "Server startup complete" in said

    def control(self, *words):
        """Run rabbitmqctl and return what it said."""
        done = subprocess.run(
            [self.rabbitmqctl, "-q", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def rows(self, *words):
        """Run rabbitmqctl and return the cells of its table without the heading."""
        return [line.split("\t") for line in self.control("--no-table-headers", *words).splitlines()]

    def stop(self):
        for each in reversed(self._processes):
            each.terminate()
            each.wait(60)


def folder_of_own():
    """Return a folder below /tmp. Erlang's user must be able to walk there, and its path must be short."""
    return tempfile.TemporaryDirectory(prefix="zun-rabbit.")
