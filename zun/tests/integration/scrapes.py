# SPDX-License-Identifier: Apache-2.0
"""The metrics of a program, and of the workers of a server that answer for each other."""

import os
import signal

import requests
from prometheus_client.parser import text_string_to_metric_families


def scrape(port):
    """Every sample on the port, by its name and the values of its labels in the order of the labels' names."""
    text = requests.get(f"http://127.0.0.1:{port}/metrics", timeout=60).text
    samples = [each for family in text_string_to_metric_families(text) for each in family.samples]
    return {(each.name, *(each.labels[name] for name in sorted(each.labels))): each.value for each in samples}


def ask_each(workers, url):
    """Send as many requests as there are workers, which are two, so that each of them serves one."""
    for frozen in workers:
        os.kill(frozen, signal.SIGSTOP)
        try:
            answer = requests.get(url, timeout=60)
        finally:
            os.kill(frozen, signal.SIGCONT)
        assert answer.status_code == 200
