# SPDX-License-Identifier: Apache-2.0
"""Connect volumes to this host with os-brick, which knows the protocols of storage."""

import importlib
import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from oslo_config import cfg
from oslo_utils import netutils

from zun.common import exceptions

T = TypeVar("T")
Info = Mapping[str, Any]

_SECRET = re.compile("password|secret|keyring|token", re.IGNORECASE)
SCAN_ATTEMPTS = 5


class Connector(Protocol):
    """Connects volumes to this host. ``info`` is Cinder's connection_info. Methods raise VolumeError."""

    def properties(self) -> dict[str, Any]:
        """Return how this host reaches storage, for Cinder's backend."""
        ...

    def connect(self, info: Info) -> dict[str, Any]:
        """Connect a volume and return the device: ``path`` names it. May be repeated."""
        ...

    def disconnect(self, info: Info, device: Info | None) -> None:
        """Disconnect a volume. Without ``device`` it may be connected in part, or not at all."""
        ...


class Brick:
    """os-brick, in this process: the agent is root already. os-brick is imported only where volumes are connected."""

    def __init__(self, conf: cfg.ConfigOpts, host: str, nfs_folder: str) -> None:
        """``host`` is the name of this host at Cinder. Raises Misconfigured."""
        options = conf.cinder
        self._host, self._nfs_folder = host, nfs_folder
        self._ip = options.my_ip or netutils.get_my_ipv4()
        self._multipath: bool = options.use_multipath
        try:
            os_brick = importlib.import_module("os_brick")
            self._connector: Any = importlib.import_module("os_brick.initiator.connector")
            privileged = importlib.import_module("os_brick.privileged")
            lockutils = importlib.import_module("oslo_concurrency.lockutils")
        except ImportError as exc:
            raise exceptions.Misconfigured(
                f"[cinder] enabled needs os-brick: {exc}. Install it with 'pip install zun[cinder]'."
            ) from exc
        # os-brick reads oslo.config's global object, and would start a helper process with sudo.
        lockutils.set_defaults(lock_path=f"{conf.state_path}/locks")
        os_brick.setup(cfg.CONF)
        privileged.default.set_client_mode(False)

    def properties(self) -> dict[str, Any]:
        multipath = self._multipath
        found = self._call({}, lambda: self._connector.get_connector_properties(
            "sudo", self._ip, multipath, multipath, host=self._host
        ))  # fmt: skip
        return dict(found)

    def connect(self, info: Info) -> dict[str, Any]:
        return dict(self._call(info, lambda: self._of(info).connect_volume(dict(info))))

    def disconnect(self, info: Info, device: Info | None) -> None:
        partly = device is None
        self._call(
            info,
            lambda: self._of(info).disconnect_volume(
                dict(info), None if device is None else dict(device), force=partly, ignore_errors=partly
            ),
        )

    def _of(self, info: Info) -> Any:
        return self._connector.InitiatorConnector.factory(
            info["driver_volume_type"].upper(),
            "sudo",
            use_multipath=self._multipath,
            device_scan_attempts=SCAN_ATTEMPTS,
            do_local_attach=True,  # Ceph: a device of the kernel
            nfs_mount_point_base=self._nfs_folder,
        )

    @staticmethod
    def _call(info: Info, what: Callable[[], T]) -> T:
        try:
            return what()
        except Exception as exc:  # os-brick lets through whatever its many drivers raise
            told = getattr(exc, "stderr", None) or str(exc) or type(exc).__name__
            raise exceptions.VolumeError(f"os-brick: {masked(exceptions.first_line(Exception(told)), info)}") from None


def masked(text: str, info: Info) -> str:
    """Return ``text`` without the secrets of a connection."""
    for name, value in info.items():
        if isinstance(value, Mapping):
            text = masked(text, value)
        elif isinstance(value, str) and value and _SECRET.search(name):
            text = text.replace(value, "***")
    return text
