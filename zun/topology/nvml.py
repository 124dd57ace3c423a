# SPDX-License-Identifier: Apache-2.0
"""Print what NVIDIA's library NVML tells of the GPUs of this machine: a program of the agent.

The facts are which GPUs NVLink joins, and the profile and the UUID of each MIG instance.

The optional package ``nvidia-ml-py`` loads the library, which is a part of NVIDIA's driver. The program imports nothing
of the project, so that it starts fast.

Sources: NVIDIA's NVML API reference ("NvLink Methods", "Multi Instance GPU Management"), and NCCL, which takes a remote
device that this virtual machine does not see for an NVSwitch.
"""

import importlib
import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

_MOST_LINKS = 36
"""At least as many as any GPU has. NVML refuses the number of a link that a GPU does not have."""
_SWITCH, _UNKNOWN = 2, 255
"""Kinds of the device at the other end (``nvmlIntNvLinkDeviceType_t``)."""


def facts(nvml: Any) -> dict[str, Any]:
    """Return the links and the MIG instances. ``nvml`` is the module ``pynvml``.

    NVML is started once: a driver that is not kept loaded needs seconds for each GPU. Raise ``nvml.NVMLError`` if NVML
    cannot start.
    """
    nvml.nvmlInit()
    try:
        joined = {address: sorted(others) for address, others in links(nvml).items()}
        return {"links": joined, "mig": mig_instances(nvml)}
    finally:
        nvml.nvmlShutdown()


def links(nvml: Any) -> dict[str, set[str]]:
    """Return the GPUs that NVLink joins directly to each GPU. ``nvml`` is the module ``pynvml``, which was started.

    A link to an NVSwitch joins the GPU to every other GPU with such a link. Only links in use count. A GPU or link that
    NVML does not describe is left out.
    """
    handles = dict(_gpus(nvml))
    ends = [(address, end) for address, handle in handles.items() for end in _ends(nvml, handle, handles)]
    switched = {address for address, end in ends if end is None}
    found: dict[str, set[str]] = {address: switched - {address} for address in switched}
    for address, end in ends:
        if end in handles and end != address:
            found.setdefault(address, set()).add(end)
            found.setdefault(end, set()).add(address)
    return found


def _gpus(nvml: Any) -> Iterator[tuple[str, Any]]:
    """Yield the address and the handle of each GPU that NVML can describe."""
    for number in range(nvml.nvmlDeviceGetCount()):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(number)
            address = _address(nvml.nvmlDeviceGetPciInfo(handle))
        except nvml.NVMLError:  # for example, the GPU has fallen off the bus
            continue
        if address is not None:
            yield address, handle


def _ends(nvml: Any, handle: Any, gpus: Collection[str]) -> Iterator[str | None]:
    """Yield the other end of each link in use: the address of a device, or None for an NVSwitch."""
    for link in range(_MOST_LINKS):
        try:
            if not nvml.nvmlDeviceGetNvLinkState(handle, link):
                continue
        except nvml.NVMLError:
            continue
        kind = _told(nvml, "nvmlDeviceGetNvLinkRemoteDeviceType", handle, link)
        if kind == _SWITCH:
            yield None
            continue
        info = _told(nvml, "nvmlDeviceGetNvLinkRemotePciInfo", handle, link)
        address = None if info is None else _address(info)
        if kind == _UNKNOWN and address not in gpus:  # a virtual machine does not see its NVSwitches
            yield None
        elif address is not None:  # which is no GPU's for the CPU of a POWER9
            yield address


def mig_instances(nvml: Any) -> list[dict[str, Any]]:
    """Return the MIG instances of all GPUs: the ids and the address that name each, its profile and its UUID.

    Example of a profile: ``1g.10gb``. NVML tells it as the end of the name, ``NVIDIA H100 80GB HBM3 MIG 1g.10gb``. None
    for a name of another form. A GPU that has no instances, or does not describe them, is left out.
    """
    return [each for gpu, handle in _gpus(nvml) for each in _instances(nvml, gpu, handle)]


def _instances(nvml: Any, gpu: str, handle: Any) -> Iterator[dict[str, Any]]:
    try:
        most = nvml.nvmlDeviceGetMaxMigDeviceCount(handle)
    except (nvml.NVMLError, AttributeError):  # a GPU, a library or a package without MIG
        return
    for number in range(most):
        try:
            instance = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)
            name = re.search(r"\bMIG (\S+)$", _text(nvml.nvmlDeviceGetName(instance)))
            yield {
                "gpu": gpu,
                "gpu_instance": nvml.nvmlDeviceGetGpuInstanceId(instance),
                "compute_instance": nvml.nvmlDeviceGetComputeInstanceId(instance),
                "profile": None if name is None else name[1].lower(),
                "uuid": _text(nvml.nvmlDeviceGetUUID(instance)),
            }
        except nvml.NVMLError:  # no instance has this number, or it has just been destroyed
            continue


def _told(nvml: Any, name: str, handle: Any, link: int) -> Any:
    """Return what NVML tells of a link, or None if the link, the library or the package lacks it."""
    try:
        return getattr(nvml, name)(handle, link)
    except (nvml.NVMLError, AttributeError):
        return None


def _address(info: Any) -> str | None:
    """Return the kernel's form of a PCI address: NVML's ``00000000:0A:00.0`` is ``0000:0a:00.0``.

    Of the address of a remote device the function may be missing: ``0000:0A:00`` is the same.
    """
    for text in (info.busId, getattr(info, "busIdLegacy", "")):
        if match := re.fullmatch(r"([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.([0-7]))?", _text(text)):
            return f"{int(match[1], 16):04x}:{match[2]}:{match[3]}.{match[4] or 0}".lower()
    return None


def _text(value: str | bytes) -> str:
    """Return a text of NVML. Some releases of the package give bytes."""
    return value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)


def main() -> None:
    """Print the facts as JSON, or the reason why there are none."""
    try:
        answer: Mapping[str, Any] = facts(importlib.import_module("pynvml"))
    except ModuleNotFoundError:
        answer = {"error": "the package nvidia-ml-py is not installed"}
    except Exception as exc:
        answer = {"error": str(exc) or type(exc).__name__}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
