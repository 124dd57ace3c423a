# SPDX-License-Identifier: Apache-2.0
"""What services send each other: the objects' fields and methods, and the endpoints' messages, with their versions.

``python -m zun.tests.unit.messaging.wire`` writes ``wire.json`` anew after the versions were raised.
"""

import inspect
import json
import pathlib
import typing
from typing import Any

from oslo_utils import versionutils

from zun import objects
from zun.compute.endpoint import ComputeEndpoint
from zun.conductor.endpoint import ConductorEndpoint
from zun.messaging import notifications
from zun.objects import base
from zun.scheduler.endpoint import SchedulerEndpoint

RECORD = pathlib.Path(__file__).with_name("wire.json")
NO_DEFAULT = "default=<class 'oslo_versionedobjects.fields.UnspecifiedDefault'>,"
ENDPOINTS = {each.__name__: each for each in (ComputeEndpoint, SchedulerEndpoint, ConductorEndpoint)}


def described() -> dict[str, dict[str, Any]]:
    """Return the versions, fields and methods of all objects and endpoints of the code, by name."""
    classes = (getattr(objects, name) for name in objects.__all__)
    found = {each.__name__: _of_object(each) for each in classes if issubclass(each, base.ZunObject)}
    found |= {name: _of_endpoint(each) for name, each in ENDPOINTS.items()}
    members = dict.fromkeys(notifications.container_payload(objects.Container(None)), "")
    return found | {"notifications": {"version": notifications.VERSION, "fields": members}}


def recorded() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(RECORD.read_text())
    return found


def complaint(name: str, old: dict[str, Any] | None, new: dict[str, Any] | None) -> str | None:
    """Return what to do about the change of ``name`` from the recorded to the present form, None if it is the same."""
    if old == new:
        return None
    unversioned = _unversioned(old or {}, new or {})
    if unversioned:
        return (
            f"{name}: the noun must have Sent(VERSION) at {', '.join(unversioned)}, else services of the release "
            "before get fields that their release does not have. A field keeps its version for as long as the major "
            "number stays."
        )
    if old is None or new is None or old["version"] != new["version"]:
        return f"{name}: record the change: python -m zun.tests.unit.messaging.wire"
    changed = sorted(key for part in ("fields", "methods") for key in _differing(old.get(part, {}), new.get(part, {})))
    if name == "notifications":
        return (
            f"{name}: {', '.join(changed)} changed. Raise VERSION in zun/messaging/notifications.py, write the samples "
            "anew (test_notifications.py says how), and run: python -m zun.tests.unit.messaging.wire"
        )
    noun = "target of the endpoint" if name in ENDPOINTS else "VERSION of the object"
    return (
        f"{name}: {', '.join(changed)} changed, and the version is still {old['version']}. Services of two releases "
        f"work side by side, so raise the {noun}: the minor number for something new that older services can leave "
        "out, else the major number. Give a new field a default or make it nullable, and Sent(VERSION) in its noun; "
        "give a new message its version= in zun/messaging. Then put the version into the last entry of RELEASES in "
        "zun/messaging/releases.py, and run: python -m zun.tests.unit.messaging.wire"
    )


def _unversioned(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return the new fields without a version in ``added``, and the old ones whose version there changed."""
    if "added" not in old or "added" not in new:  # no object, or none before
        return []
    before, after = (versionutils.convert_version_to_tuple(each["version"]) for each in (old, new))
    if before[0] != after[0]:
        return []

    def is_wrong(field: str) -> bool:
        if field in old["fields"]:
            return bool(old["added"].get(field) != new["added"].get(field))
        version = versionutils.convert_version_to_tuple(new["added"].get(field, old["version"]))
        return bool(before < after and not before < version <= after)

    return sorted(filter(is_wrong, new["fields"]))


def _differing(old: dict[str, str], new: dict[str, str]) -> set[str]:
    return {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}


def _of_object(cls: Any) -> dict[str, Any]:
    fields = {name: repr(field).replace(NO_DEFAULT, "") for name, field in sorted(cls.fields.items())}
    methods = {}
    for name, method in inspect.getmembers(cls):
        original = getattr(method, "original_fn", None)
        if original is not None:
            methods[name] = _arguments(original)
    return {"version": cls.VERSION, "fields": fields, "added": dict(cls.ADDED), "methods": methods}


def _of_endpoint(cls: Any) -> dict[str, Any]:
    methods = {
        name: _arguments(method)
        for name, method in inspect.getmembers(cls, inspect.isfunction)
        if not name.startswith("_") and "context" in inspect.signature(method).parameters
    }
    return {"version": cls.target.version, "methods": methods}


def _arguments(method: Any) -> str:
    """Return the arguments of ``method`` without types; those of a TypedDict by their names."""
    plain = []
    for each in inspect.signature(method).parameters.values():
        if each.name in ("self", "cls", "context"):
            continue
        if each.kind is inspect.Parameter.VAR_KEYWORD:
            typed = typing.get_args(each.annotation)[0]
            plain += [f"{name}?" for name in typed.__annotations__]
        else:
            plain.append(str(each.replace(annotation=inspect.Parameter.empty)))
    return ", ".join(plain)


def main() -> None:
    old, new = recorded() if RECORD.exists() else {}, described()
    for name in new:
        said = complaint(name, old.get(name), new[name])
        if said and "record the change" not in said:
            raise SystemExit(said)
    RECORD.write_text(json.dumps(new, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
