# SPDX-License-Identifier: Apache-2.0
"""A backend of Cinder for tests: each volume is a file, which a loop device of this machine connects.

The kernels of build machines have neither device mapper nor iSCSI. cinder-volume imports this module by
``volume_driver = cinder_loop.LoopDriver``; ``loop_directory`` has the files.
"""

import contextlib
import os
import pathlib
import subprocess

from cinder import interface
from cinder.volume import configuration, driver
from oslo_config import cfg

OPTS = [cfg.StrOpt("loop_directory", help="Folder of the volumes' files.")]
cfg.CONF.register_opts(OPTS, group=configuration.SHARED_CONF_GROUP)


@interface.volumedriver
class LoopDriver(driver.VolumeDriver):
    VERSION = "1.0.0"
    CI_WIKI_NAME = "none"

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.configuration.append_config_values(OPTS)

    def do_setup(self, context):
        pathlib.Path(self.configuration.loop_directory).mkdir(parents=True, exist_ok=True)

    def check_for_setup_error(self):
        pass

    def get_volume_stats(self, refresh=False):
        return {
            "volume_backend_name": "loop", "vendor_name": "none", "driver_version": self.VERSION,
            "storage_protocol": "local", "total_capacity_gb": 100, "free_capacity_gb": 100,
            "reserved_percentage": 0, "multiattach": True, "QoS_support": False,
        }  # fmt: skip

    def _file(self, volume):
        return os.path.join(self.configuration.loop_directory, volume["id"])

    def create_volume(self, volume):
        with open(self._file(volume), "wb") as file:
            file.truncate(volume["size"] << 30)

    def delete_volume(self, volume):
        self._detach(self._file(volume))
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._file(volume))

    def create_export(self, context, volume, connector):
        pass

    def ensure_export(self, context, volume):
        pass

    def remove_export(self, context, volume):
        pass

    def initialize_connection(self, volume, connector):
        file = self._file(volume)
        found = _devices(file) or [_run("losetup", "--find", "--show", file)]
        # This value opens nothing. A test checks that no log shows it.
        return {
            "driver_volume_type": "local",
            "data": {"device_path": found[0], "auth_username": "zun", "auth_password": f"secret-{volume['id']}"},
        }

    def terminate_connection(self, volume, connector, **kwargs):
        """Return whether another attachment of the same host needs the device."""
        hosts = [(each.connector or {}).get("host") for each in volume.volume_attachment]
        if connector and hosts.count(connector["host"]) > 1:
            return True
        self._detach(self._file(volume))
        return False

    @staticmethod
    def _detach(file):
        for device in _devices(file):
            _run("losetup", "-d", device)


def _devices(file):
    return [line.partition(":")[0] for line in _run("losetup", "-j", file).splitlines()]


def _run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
