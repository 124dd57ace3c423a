# SPDX-License-Identifier: Apache-2.0
import threading
from concurrent.futures import ThreadPoolExecutor

from zun.messaging.outbox import Outbox


def test_everything_is_sent_once_and_each_thread_keeps_its_order():
    sent = []
    outbox = Outbox(lambda items: sent.append(list(items)), 0.001)

    def work(thread):
        for number in range(200):
            outbox.put((thread, number))
            if number % 50 == 0:
                outbox.flush()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    outbox.close()
    items = [item for batch in sent for item in batch]
    for thread in range(4):
        assert [number for sender, number in items if sender == thread] == list(range(200))
    assert all(sent)


def test_what_comes_together_is_sent_together():
    sent = []
    outbox = Outbox(sent.append, 3600)
    for number in range(5):
        outbox.put(number)
    outbox.close()
    assert sent == [[0, 1, 2, 3, 4]]


def test_what_cannot_be_sent_is_no_failure(caplog):
    arrived = threading.Event()

    def send(items):
        if items == ["lost"]:
            raise RuntimeError("the broker is away")
        arrived.set()

    outbox = Outbox(send, 0)
    outbox.put("lost")
    outbox.flush()
    outbox.put("news")
    assert arrived.wait(60)
    outbox.close()
    assert caplog.text.count("could not be sent: the broker is away") == 1


def test_without_news_there_is_no_thread():
    before = threading.active_count()
    outbox = Outbox(print, 0)
    outbox.flush()
    assert threading.active_count() == before
    outbox.close()
