# SPDX-License-Identifier: Apache-2.0
"""CPU time of the API for requests with sizes at each of its limits and beyond.

    python benchmarks/costs.py [--json FILE] [--step N] [--worst N] [--limit SECONDS]

Sends the requests of ``zun/tests/functional/sizes.py``, drawn from the OpenAPI document of two microversions, to the
API of a cloud in memory, and counts the CPU time of the thread that answers (``time.thread_time``). Prints the most
expensive ones. Fails if one takes more than the limit (0.5 s), and for an answer with status 500.

What a connection costs before a thread has the request, ``zun/cmd/framing.py``, is counted as well: heads and bodies in
chunks of the largest sizes.
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from zun.api import app as api_app
from zun.api import errors, limits
from zun.cmd import framing
from zun.db import models, session
from zun.tests.functional import costly
from zun.tests.functional.cloud import Cloud, machine

Row = dict[str, Any]


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.thread_time()
    result = work()
    return time.thread_time() - start, result


def of_requests(step: int) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        session.configure(f"sqlite:///{folder}/zun.sqlite")
        models.metadata.create_all(session.engine())
        cloud = Cloud({"one": machine(), "two": machine()}, **costly.OPTIONS)
        application = api_app.build(cloud.conf, scheduler_api=cloud.scheduler_api, compute_api=cloud.compute_api)
        for version in costly.VERSIONS:
            for request in itertools.islice(costly.requests(application, version), 0, None, step):
                spent, reply = seconds(lambda: costly.sent(application, version, request))  # noqa: B023
                what = f"{version} {request.method} {request.path[:60]}: {request.told}"
                yield {"what": what, "status": reply.status, "seconds": spent}
        cloud.stop()
        session.dispose()


def of_connections() -> Iterator[Row]:
    first = b"POST / HTTP/1.1\r\n"
    heads = {
        "a head of short headers": first + b"a:b\r\n" * ((limits.HEAD_BYTES - 100) // 5) + b"\r\n",
        "a head of one header": first + b"a:" + b"b" * (limits.HEAD_BYTES - 100) + b"\r\n\r\n",
        "a head without colons": first + b"a" * (limits.HEAD_BYTES - 100) + b"\r\n\r\n",
    }
    for what, head in heads.items():

        def frame(head: bytes = head) -> int:
            try:
                framing.framing(head)
            except errors.RoutingError as exc:
                return exc.code
            return 200

        spent, status = seconds(frame)
        yield {"what": what, "status": status, "seconds": spent}
    for size in (1, 16, limits.CHUNK_BYTES, 4096):
        body = bytearray((b"%x\r\n" % size + b" " * size + b"\r\n") * (limits.BODY_BYTES // (size + 5)))
        spent, _ = seconds(lambda: framing.Chunks(0).arrived(body, limits.BODY_BYTES))  # noqa: B023
        yield {"what": f"a body in chunks of {size}", "status": 0, "seconds": spent}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE", help="also write the figures there")
    parser.add_argument("--step", type=int, default=1, help="send each N-th request")
    parser.add_argument("--worst", type=int, default=15, help="how many to print")
    parser.add_argument("--limit", type=float, default=0.5, help="seconds of CPU that one request may take")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    rows = [*of_connections(), *of_requests(options.step)]
    rows.sort(key=lambda row: -row["seconds"])
    for row in rows[: options.worst]:
        print(f"{row['seconds']:7.3f} s  {row['status']:3}  {row['what']}")
    statuses = {status: sum(row["status"] == status for row in rows) for status in {row["status"] for row in rows}}
    print(f"{len(rows)} requests, {sum(row['seconds'] for row in rows):.0f} s of CPU, by status {statuses}")
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    over = sum(row["seconds"] > options.limit for row in rows)
    print(f"Goal: none over {options.limit} s and none 500: {'missed' if over or 500 in statuses else 'met'}")
    sys.exit(bool(over or 500 in statuses))


if __name__ == "__main__":
    main()
