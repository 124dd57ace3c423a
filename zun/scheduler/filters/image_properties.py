# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping
from typing import Any

from zun.scheduler.columns import Bools, Columns
from zun.scheduler.filters import HostFilter
from zun.scheduler.host_state import HostState
from zun.scheduler.request_spec import RequestSpec

# Names of image registries for an architecture -> the kernel's name, which hosts report.
_KERNEL_NAMES = {
    "amd64": "x86_64",
    "x86-64": "x86_64",
    "arm64": "aarch64",
    "arm64/v8": "aarch64",
    "386": "i686",
    "i386": "i686",
    "arm": "armv7l",
    "arm/v7": "armv7l",
}


class ImagePropertiesFilter(HostFilter):
    """Drop hosts with another architecture or operating system than the image, or without its runtime.

    The hints ``image:architecture``, ``image:os_type`` and ``image:runtime`` name the properties of the image. A host
    that does not report its architecture or operating system passes, because it may be able to run the image.
    """

    def reject(self, host: HostState, spec: RequestSpec) -> str | None:
        wanted = spec.image_properties
        architecture = wanted.get("architecture")
        if architecture and host.architecture and _kernel_name(architecture) != _kernel_name(host.architecture):
            return f"the image is for {architecture}, which it is not"
        os_type = wanted.get("os_type")
        if os_type and host.os_type and os_type.lower() != host.os_type.lower():
            return f"the image is for {os_type}, which it does not run"
        runtime = wanted.get("runtime")
        if runtime and runtime not in host.runtimes:
            return f"it has no runtime {runtime}, which the image needs"
        return None

    def found(self, host: HostState, spec: RequestSpec) -> Mapping[str, Any]:
        has = {"architecture": host.architecture, "os_type": host.os_type, "runtime": sorted(host.runtimes)}
        return {name: has[name] for name in spec.image_properties if name in has}

    def admit(self, table: Columns, spec: RequestSpec) -> Bools:
        if not spec.image_properties:
            return table.everything
        wanted = tuple(sorted(spec.image_properties.items()))
        facts = ("architecture", "os_type", "runtimes")
        return table.matching(facts, wanted, lambda host: self.reject(host, spec) is None)


def _kernel_name(architecture: str) -> str:
    name = architecture.lower()
    return _KERNEL_NAMES.get(name, name)
