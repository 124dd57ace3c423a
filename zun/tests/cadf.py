# SPDX-License-Identifier: Apache-2.0
"""Makes samples of CADF notifications, and compares them with those of the page."""

import json
import pathlib
import re

import zun

SAMPLES = pathlib.Path(zun.__file__).parents[1] / "doc/source/admin/cadf"
MIDDLEWARE = "audit_middleware_notifications"


def sample(payload, uuid, exec_id):
    """Return a payload with fixed ids and times; ``uuid`` is the container's."""
    text = json.dumps(payload).replace(exec_id, "COMMAND").replace(uuid, "CONTAINER")
    text = re.sub(r'"req-[^"]+"', '"req-6f0c1f3e-9d52-4c2e-a6f1-3f6f6d1c2b7a"', text)
    text = re.sub(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}(?![0-9a-f])(?<!3f6f6d1c2b7a)", "EVENT", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+\+0000", "2026-03-04T12:00:00.000000+0000", text)
    text = text.replace("COMMAND", "f00d" * 16).replace("CONTAINER", "6f2f36d6-0e5c-4a25-9d3b-6f5a1c2d3e4f")
    return json.loads(text.replace("EVENT", "2b3c4d5e-6f70-4182-93a4-b5c6d7e8f901"))


def compare(name, payload, uuid, exec_id="COMMAND"):
    """Compare a payload with the sample of the page, or write the sample anew if the file was removed."""
    file, told = SAMPLES / f"{name}.json", sample(payload, uuid, exec_id)
    if not file.exists():
        file.write_text(json.dumps(told, indent=2) + "\n")
    assert told == json.loads(file.read_text()), f"remove {file.name}, run this test and look at the new sample"
