# SPDX-License-Identifier: Apache-2.0
"""The metrics of a program, and of the workers of a server that answer for each other."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor, wait

import requests
from prometheus_client.parser import text_string_to_metric_families


def scrape(port):
    """Every sample on the port, by its name and the values of its labels in the order of the labels' names."""
    text = requests.get(f"http://127.0.0.1:{port}/metrics", timeout=60).text
    samples = [each for family in text_string_to_metric_families(text) for each in family.samples]
    return {(each.name, *(each.labels[name] for name in sorted(each.labels))): each.value for each in samples}


def ask_each(workers, url):
    """Let each of two workers answer a request while the other one is stopped. Return how many requests were sent.

    A worker that was stopped may hold a lock of the database. Then it goes on, and one more request is sent.
    """
    sent = 0
    with ThreadPoolExecutor(1) as pool:
        for frozen in workers:
            answered = False
            while not answered:
                os.kill(frozen, signal.SIGSTOP)
                try:
                    asked = pool.submit(requests.get, url, timeout=60)
                    answered = bool(wait([asked], timeout=5).done)
                finally:
                    os.kill(frozen, signal.SIGCONT)
                assert asked.result().status_code == 200
                sent += 1
    return sent
