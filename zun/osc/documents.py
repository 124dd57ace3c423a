# SPDX-License-Identifier: Apache-2.0
"""Read templates, manifests and compose files: the documents of a YAML or JSON file, as values of JSON.

kubectl and docker compose read YAML with Go libraries. PyYAML differs where it hurts: for it ``22:22`` is the number
1342, ``2024-01-02`` is a date, and a key that is given twice silently has its last value. Here they are texts, and an
error.
"""

from __future__ import annotations

import http.client
import json
import pathlib
import re
from typing import Any
from urllib import parse, request

import yaml

_TEXTS = ("tag:yaml.org,2002:timestamp",)
_BOOLEAN, _MERGE = "tag:yaml.org,2002:bool", "tag:yaml.org,2002:merge"


class Kubernetes(yaml.SafeLoader):
    """YAML as kubectl reads it. ``yes`` and ``on`` are true."""

    def compose_mapping_node(self, anchor: str | None) -> yaml.MappingNode:
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            name = (key.tag, key.value)
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE and name in seen:
                raise yaml.MarkedYAMLError(problem=f"{key.value} is given twice", problem_mark=key.start_mark)
            if isinstance(key, yaml.ScalarNode):
                seen.add(name)
        return node


class Compose(Kubernetes):
    """YAML as docker compose reads it. ``yes`` and ``on`` are texts."""


def _without_base_60(pattern: re.Pattern[str]) -> re.Pattern[str]:
    return re.compile(f"(?!.*:)(?:{pattern.pattern})", re.VERBOSE)


def _resolvers(boolean: re.Pattern[str] | None) -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    """Return what plain texts of YAML mean, by their first letter. ``boolean`` takes the place of PyYAML's pattern."""
    return {
        first: [
            (tag, boolean if boolean and tag == _BOOLEAN else _without_base_60(pattern))
            for tag, pattern in known
            if tag not in _TEXTS
        ]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


Kubernetes.yaml_implicit_resolvers = _resolvers(None)
Compose.yaml_implicit_resolvers = _resolvers(re.compile("true|True|TRUE|false|False|FALSE"))


def read(path: str, loader: type[Kubernetes] = Kubernetes) -> list[Any]:
    """Return the documents of a file that are not empty. Raise ValueError, with the reason, for a file that has none.

    ``path`` may be the address of a file, as for the stock client.
    """
    try:
        if parse.urlparse(path).scheme in ("http", "https", "file"):
            with request.urlopen(path) as answer:
                content = answer.read()
        else:
            content = pathlib.Path(path).read_bytes()
        text = content.decode("utf-8-sig")
    except (OSError, http.client.HTTPException) as exc:
        raise ValueError(f"it cannot be read: {getattr(exc, 'strerror', None) or exc}") from None
    except UnicodeDecodeError as exc:
        raise ValueError(f"it is not UTF-8: byte {exc.start} is 0x{exc.object[exc.start]:02x}") from None
    if not (found := [each for each in _parsed(text, loader) if each is not None]):
        raise ValueError("it is empty")
    return found


def one(found: list[Any]) -> Any:
    """Return the only document. Raise ValueError if there are others."""
    if len(found) > 1:
        raise ValueError(f"it has {len(found)} documents. Give each a file of its own")
    return found[0]


def _parsed(text: str, loader: type[Kubernetes]) -> list[Any]:
    try:
        return [json.loads(text)]
    except ValueError:  # YAML, which has nearly all of JSON: but no tabs, which is why JSON comes first
        pass
    try:
        made = list(yaml.load_all(text, loader))
        return json.loads(json.dumps(made, allow_nan=False))  # type: ignore[no-any-return]
    except yaml.MarkedYAMLError as exc:
        at = exc.problem_mark or exc.context_mark
        where = f"line {at.line + 1}, column {at.column + 1}: " if at else ""
        raise ValueError(f"{where}{exc.problem or exc.context}") from None
    except (yaml.YAMLError, TypeError, ValueError, RecursionError) as exc:
        raise ValueError(f"it is neither YAML nor JSON: {exc}") from None
