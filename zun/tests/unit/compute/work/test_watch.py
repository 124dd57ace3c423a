# SPDX-License-Identifier: Apache-2.0
"""Following the events of the runtime."""

import threading

from zun.compute.work import watch
from zun.compute.work.watch import follow
from zun.container.driver.events import RESYNC, RuntimeEvent


def test_following():
    told = [RuntimeEvent("", RESYNC), RuntimeEvent("a", "die"), RuntimeEvent("", RESYNC), RuntimeEvent("b", "oom")]
    stop, seen = threading.Event(), []

    class Source:
        def events(self, stop):
            yield from told
            stop.set()
            yield RuntimeEvent("c", "die")

    follow(Source(), stop, one=seen.append, every=lambda: seen.append("every"))
    assert seen == ["every", "a", "every", "b"]


def test_a_defect_does_not_end_it(monkeypatch):
    monkeypatch.setattr(watch, "ANEW_SECONDS", 0)
    stop, seen, streams = threading.Event(), [], []

    class Source:
        def events(self, stop):
            streams.append(1)
            yield RuntimeEvent("", RESYNC)
            if len(streams) < 3:
                raise AttributeError("a defect of the stream")
            yield RuntimeEvent("a", "die")
            stop.set()

    follow(Source(), stop, one=seen.append, every=lambda: seen.append("every"))
    assert seen == ["every", "every", "every", "a"]
