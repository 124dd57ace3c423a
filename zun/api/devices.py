# SPDX-License-Identifier: Apache-2.0
"""Read the devices that a request asks for.

``zun.api.schemas.devices`` has checked each field's form. An alias is replaced by its conditions here, so that
scheduler and agent need not know the aliases, and a later change of them leaves existing containers as they are.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from zun.api.device_aliases import LEGACY, Alias, Aliases, no_legacy
from zun.api.schemas.devices import MOST_KINDS, MOST_OF_A_KIND
from zun.common import exceptions, hints
from zun.topology.device_request import DeviceMatch, DevicePolicy, DeviceRequest, DeviceSame


def asked(given: Mapping[str, Any], aliases: Aliases) -> dict[str, Any]:
    """Return the fields about devices as they are stored on a container; nothing if it asks for no device.

    ``given`` is the checked body of a create request, with its hints. Raises InvalidValue, whose text begins with the
    name of the field.
    """
    wanted = given.get("hints") or {}
    of_image = _of_image(wanted, aliases)
    policy = _policy(given.get("device_numa_policy"), wanted)
    entries = given.get("devices") or []
    entries = [*entries, *_missing(entries, of_image)]
    if not entries:
        for name in ("device_numa_policy", "device_same"):
            if given.get(name) is not None:
                raise exceptions.InvalidValue(f"{name}: it is about devices: ask for devices with it, or leave it out.")
        return {}
    if len(entries) > MOST_KINDS:
        raise exceptions.InvalidValue(f"devices: {len(entries)} kinds of device are too many; {MOST_KINDS} may be.")
    requests = [_request(entry, policy, aliases) for entry in entries]
    found: dict[str, Any] = {"devices": [request.to_dict() for request in requests]}
    if given.get("device_numa_policy") is not None:
        found["device_numa_policy"] = given["device_numa_policy"]
    same = given.get("device_same")
    if same not in (None, DeviceSame.NONE):
        found["device_same"] = same
    return found


def with_functions(placement: Mapping[str, Any], requests: Iterable[DeviceRequest | None]) -> dict[str, Any]:
    """Return the column ``placement`` with the virtual functions that ports need. Raises InvalidValue.

    The policy of the whole container counts for them too, unless their port has a stricter one.
    """
    functions = [request for request in requests if request is not None]
    if not functions:
        return {**placement}
    usual = placement.get("device_numa_policy") or DevicePolicy.PREFERRED
    found = [*placement.get("devices", ())]
    for each in functions:
        own = each.numa_policy != DevicePolicy.PREFERRED
        found.append((each if own else replace(each, numa_policy=usual)).to_dict())
    if len(found) > MOST_KINDS:
        raise exceptions.InvalidValue(
            f"nets: {len(found)} kinds of device, with those that its ports need, are too many; {MOST_KINDS} may be."
        )
    return {**placement, "devices": found}


def _request(entry: Mapping[str, Any], policy: str | None, aliases: Aliases) -> DeviceRequest:
    """Return the request of one entry. ``policy`` is that of the whole container, for entries without their own."""
    own = entry.get("numa_policy") or policy
    if "resource_class" in entry:
        name = entry["resource_class"]
        alias = Alias((DeviceMatch(resource_class=name),))
    else:
        name = entry["alias"]
        if name not in aliases:
            known = f"This cloud has {', '.join(sorted(aliases))}" if aliases else "This cloud has none"
            raise exceptions.InvalidValue(f"devices: there is no alias '{name}'. {known}.")
        alias = aliases[name]
    return DeviceRequest(
        name=name,
        count=entry["count"],
        matches=alias.matches,
        traits=tuple(entry.get("traits", ())),
        numa_policy=own or alias.numa_policy or DevicePolicy.PREFERRED,
    )


# What hints say about the image


def is_hint(name: str) -> bool:
    """Return whether the hint of this name asks for devices."""
    return name in (_ALIASES_OF_IMAGE, *_POLICIES_OF_IMAGE)


_ALIASES_OF_IMAGE = f"{hints.IMAGE}pci_passthrough:alias"
_POLICIES_OF_IMAGE = (f"{hints.IMAGE}hw_pci_numa_affinity_policy", f"{hints.IMAGE}pci_numa_affinity_policy")


def _of_image(wanted: Mapping[str, Any], aliases: Aliases) -> dict[str, int]:
    """Return the number of devices that the image needs of each alias. Example of the hint's value: ``gpu:2,nic:1``."""
    found: dict[str, int] = {}
    text = wanted.get(_ALIASES_OF_IMAGE)
    for part in [] if text is None else str(text).split(","):
        name, _, count = part.strip().partition(":")
        if name not in aliases:
            raise exceptions.InvalidValue(
                f"hints.{_ALIASES_OF_IMAGE}: there is no alias '{name[:64]}'. Write aliases of this cloud with their "
                "numbers, for example gpu:2,nic:1."
            )
        number = int(count) if count.isascii() and count.isdigit() and len(count) < 4 else 0
        if not 1 <= number <= MOST_OF_A_KIND:
            raise exceptions.InvalidValue(
                f"hints.{_ALIASES_OF_IMAGE}: '{part.strip()[:64]}' has no number from 1 to {MOST_OF_A_KIND} behind a "
                "colon, for example gpu:2."
            )
        found[name] = found.get(name, 0) + number
    return found


def _missing(entries: Iterable[Mapping[str, Any]], of_image: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """Yield entries for what the image needs of each alias beyond what ``entries`` ask for."""
    for name, number in of_image.items():
        more = number - sum(entry["count"] for entry in entries if entry.get("alias") == name)
        if more > 0:
            yield {"alias": name, "count": more}


def _policy(asked: str | None, wanted: Mapping[str, Any]) -> str | None:
    """Return the policy of the whole container: of the request and of the image, which must not contradict."""
    found = asked
    for hint in _POLICIES_OF_IMAGE:
        value = wanted.get(hint)
        if value is None:
            continue
        if value == LEGACY:
            raise exceptions.InvalidValue(f"hints.{hint}: {no_legacy('the policy')}.")
        if value not in [*DevicePolicy]:
            raise exceptions.InvalidValue(
                f"hints.{hint}: it must be one of {', '.join(DevicePolicy)}, got {str(value)[:64]!r}."
            )
        if found not in (None, value):
            raise exceptions.InvalidValue(
                f"hints.{hint}: the image needs {value}, and the request says {found}; leave out one of the two."
            )
        found = value
    return found
