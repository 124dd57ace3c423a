# SPDX-License-Identifier: Apache-2.0
"""Join what an image of the image service asks of its host with what the request asks, by Nova's rules.

The image may ask where the request is silent. Where both speak and differ, the request is refused, except that an
unspecific request (the thread policy ``prefer``, the page sizes ``any`` and ``large``) takes what the image says, and
that dedicated CPUs also serve an image which asks for shared ones.
"""

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from zun.api.schemas import Schema, numa
from zun.api.schemas.scalars import one_of
from zun.common import exceptions, hints
from zun.image.driver import ServiceImage
from zun.topology import CPUPolicy, CpuSet

#: Property of an image -> field of the request.
_FIELDS: Mapping[str, str] = {
    "hw_cpu_policy": "cpu_policy",
    "hw_cpu_thread_policy": "cpu_thread_policy",
    "hw_numa_nodes": "numa_nodes",
    "hw_numa_mempolicy": "numa_mempolicy",
    "hw_mem_page_size": "mem_page_size",
}
_LISTS: Mapping[str, str] = {"hw_numa_cpus": "numa_cpus", "hw_numa_mem": "numa_mem"}
_SCHEMA = Schema(
    {
        **{prop: numa.FIELDS[field] for prop, field in _FIELDS.items() if field != "cpu_policy"},
        **{f"{prefix}.N": numa.FIELDS[field] for prefix, field in _LISTS.items()},
        "hw_cpu_policy": one_of(*CPUPolicy),
    }
)
#: Property of an image -> hint of the request.
_HINTS: Mapping[str, str] = {
    "architecture": f"{hints.IMAGE}architecture",
    "hw_architecture": f"{hints.IMAGE}architecture",
    "os_type": f"{hints.IMAGE}os_type",
}
_TRAIT = "trait:"
_PAGES = re.compile(r"([0-9]{1,12})(?:([kKmMgG])(?:i?[bB])?)?")
_KIB = {"k": 1, "m": 1024, "g": 1024 * 1024}


def joined(given: Mapping[str, Any], image: ServiceImage) -> dict[str, Any]:
    """Return the request ``given`` with what the image asks. Raises InvalidValue, naming the property and the field."""
    asked, sources = asks(image)
    fields = {**given}
    for field, value in asked.items():
        fields[field] = _agreed(field, given.get(field), sources[field], value)
    wanted = dict(given.get("hints") or {})
    for prop, hint, value in _hints(image):
        if str(wanted.setdefault(hint, value)) != value:
            raise _contradiction(f"hints.{hint}", wanted[hint], prop, value)
    return {**fields, "hints": wanted} if wanted else fields


@contextlib.contextmanager
def blamed(image: ServiceImage | None) -> Iterator[None]:
    """Say in an InvalidValue of the block what the image asked, because the user did not."""
    try:
        yield
    except exceptions.InvalidValue as exc:
        asked = {} if image is None else asks(image)[0]
        if not asked:
            raise
        said = ", ".join(f"{field} {value}" for field, value in asked.items())
        raise exceptions.InvalidValue(f"{exc} The properties of the image ask for {said}.") from exc


def check_rebuilt(row: Mapping[str, Any], image: ServiceImage) -> None:
    """Raise InvalidValue if the image asks what the container, which keeps what it holds, does not have."""
    asked, sources = asks(image)
    has = {**(row["placement"] or {}), "cpu_policy": row["cpu_policy"]}
    for field, value in asked.items():
        kept = has.get(field)
        if kept is None or (kept != value and (field not in _RULES or _RULES[field](kept, value) != kept)):
            raise _contradiction(field, kept, sources[field], value, "of the container ")


def asks(image: ServiceImage) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the fields that the image asks for, and the property from which each comes. Raises InvalidValue."""
    found: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for prop, field in _FIELDS.items():
        if prop in image.properties:
            found[field], sources[field] = _value(prop, field, image.properties[prop]), prop
    for prefix, field in _LISTS.items():
        if (entries := _entries(image, prefix)) is not None:
            found[field], sources[field] = _checked(f"{prefix}.N", entries), f"{prefix}.N"
    return found, sources


def _value(prop: str, field: str, text: str) -> Any:
    value: Any = text
    if field == "numa_nodes":
        value = _number(prop, text)
    elif field == "mem_page_size" and (size := _PAGES.fullmatch(text)):
        value = int(size[1]) * _KIB[(size[2] or "k").lower()]
    return _checked(prop, value)


def _entries(image: ServiceImage, prefix: str) -> list[int] | None:
    """Return the values of ``prefix.0``, ``prefix.1``, ... None without any.

    ``hw_numa_cpus.N`` lists CPUs of the guest, as in Nova. A container has no CPU numbers of its own, so their number
    counts.
    """
    named = {name: text for name, text in image.properties.items() if name.startswith(f"{prefix}.")}
    if not named:
        return None
    missing = [name for index in range(len(named)) if (name := f"{prefix}.{index}") not in named]
    if missing:
        raise _malformed(missing[0], "missing", f"give {prefix}.0 to {prefix}.{len(named) - 1}, one for each cell")
    texts = [(f"{prefix}.{index}", named[f"{prefix}.{index}"]) for index in range(len(named))]
    if prefix == "hw_numa_mem":
        return [_number(name, text) for name, text in texts]
    cells = [_cpus(name, text) for name, text in texts]
    if sum(map(len, cells)) != len(set().union(*cells)):
        raise _malformed(prefix + ".N", "lists with a CPU in common", "give each CPU to one cell")
    return [len(cell) for cell in cells]


def _cpus(name: str, text: str) -> CpuSet:
    try:
        return CpuSet(text)
    except ValueError:
        raise _malformed(name, repr(text[:64]), "give a list of CPUs, for example '0-1'") from None


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 12):
        raise _malformed(name, repr(text[:64]), "give a whole number")
    return int(text)


def _checked(prop: str, value: Any) -> Any:
    try:
        return _SCHEMA({prop: value})[prop]
    except exceptions.SchemaValidationError as exc:
        raise exceptions.InvalidValue(f"image: its property {exc}. Correct it, or use another image.") from exc


def _hints(image: ServiceImage) -> list[tuple[str, str, str]]:
    """Return (property, hint, value) of what ImagePropertiesFilter and the traits of hosts are compared with."""
    found = [(prop, hint, image.properties[prop]) for prop, hint in _HINTS.items() if image.properties.get(prop)]
    return found + [
        (name, f"{hints.IMAGE}{name}", text)
        for name, text in sorted(image.properties.items())
        if name.startswith(_TRAIT)
    ]


def _page_size(request: Any, image: Any) -> Any:
    return image if request == "any" or (request == "large" and image not in ("small", "any")) else None


#: Field -> what it becomes if the request and the image differ, None for a contradiction.
_RULES: Mapping[str, Callable[[Any, Any], Any]] = {
    "cpu_policy": lambda request, image: request if request == CPUPolicy.DEDICATED else None,
    "cpu_thread_policy": lambda request, image: image if request == "prefer" else None,
    "mem_page_size": _page_size,
}


def _agreed(field: str, request: Any, prop: str, image: Any) -> Any:
    if request is None or request == image:
        return image
    agreed = _RULES[field](request, image) if field in _RULES else None
    if agreed is None:
        raise _contradiction(field, request, prop, image)
    return agreed


def _contradiction(field: str, request: Any, prop: str, image: Any, whose: str = "") -> exceptions.InvalidValue:
    return exceptions.InvalidValue(
        f"{field}: {request} {whose}contradicts the image, whose property {prop} asks for {image}. Leave {field} out, "
        "or use another image."
    )


def _malformed(prop: str, value: str, advice: str) -> exceptions.InvalidValue:
    return exceptions.InvalidValue(f"image: its property {prop} is {value}; {advice}.")
